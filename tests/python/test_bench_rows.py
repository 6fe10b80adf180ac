# SPDX-License-Identifier: BSD-3-Clause
"""Rows, ratios and files of benchmarks: agree with the measurements of the programs."""

import json
import statistics
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from datamover.bench import benchmark, programs, report
from datamover.bench.benchmark import Benchmark, Case, Player
from datamover.bench.rows import best_of, notes_of, pairs_of, rows_of, summarize, worst_decile
from datamover.errors import InvalidArgument, IoFailed, Timeout

SECONDS = st.floats(min_value=1e-9, max_value=1e3)


def line(contender, samples, case="a", phase="move", **more):
    return {
        "case": case,
        "phase": phase,
        "contender": contender,
        "processes": 2,
        "bytes": 1000,
        "samples": samples,
        "mpi": "MPICH 5.0.2",
        **more,
    }


def document(lines, *references):
    return report.as_json(lines, references, ("datamover",))


def shown(lines, *references, width=120):
    console = Console(record=True, width=width, file=open("/dev/null", "w"))  # noqa: SIM115
    report.show(document(lines, *references), references, ("datamover",), console)
    return console.export_text()


@given(st.lists(st.lists(SECONDS, min_size=1), min_size=1, max_size=4))
def test_samples_of_all_rounds_make_one_row(rounds):
    row, *more = rows_of([line("x", samples) for samples in rounds])
    everything = [s for samples in rounds for s in samples]
    assert not more
    assert row["seconds"] == statistics.median(everything)
    assert row["runs"] == len(everything)
    assert "samples" not in row


def test_medians_of_a_program_keep_their_number_of_runs():
    given_median = {**line("x", None), "seconds": 2.0, "runs": 15}
    del given_median["samples"]
    row = rows_of([given_median, dict(given_median, seconds=4.0)])[0]
    assert (row["seconds"], row["runs"]) == (3.0, 30)


def test_rows_of_another_mpi_stay_apart():
    lines = [line("x", [1.0]), line("x", [3.0], mpi="Open MPI 4.1.4")]
    assert {row["mpi"]: row["seconds"] for row in rows_of(lines)} == {
        "MPICH 5.0.2": 1.0,
        "Open MPI 4.1.4": 3.0,
    }


@given(st.dictionaries(st.sampled_from("abcd"), SECONDS, min_size=1))
def test_the_best_of_several_ways_is_the_fastest_and_all_are_kept(ways):
    lines = [line(f"way:{w}", [s]) for w, s in ways.items()] + [line("other", [1e-12])]
    lines += best_of(lines, "best", ("way:",))
    rows = {row["contender"]: row for row in rows_of(lines)}
    assert rows["best"]["seconds"] == min(ways.values())
    assert rows[rows["best"]["best_is"]]["seconds"] == min(ways.values())
    assert set(rows) == {"best", "other", *(f"way:{w}" for w in ways)}


def test_ratios_only_where_both_took_part():
    lines = [line("x", [2.0]), line("ref", [6.0]), line("x", [1.0], case="b")]
    (pair,) = pairs_of(rows_of(lines), ["x", "ref"], ["ref"])
    assert (pair["case"], pair["phase"], pair["ratio"]) == ("a", "move", 3.0)


@given(st.lists(SECONDS, min_size=1))
def test_nine_of_ten_cases_reach_the_worst_decile(ratios):
    bound = worst_decile(ratios)
    assert sum(r >= bound for r in ratios) >= 0.9 * len(ratios)
    assert bound in ratios


def test_random_cases_are_summed_up_apart():
    lines = [line("datamover:x", [1.0]), line("ref", [2.0])]
    for i, seconds in enumerate((1.0, 4.0)):
        lines += [line("datamover:x", [seconds], case=f"random-{i}")]
        lines += [line("ref", [8.0], case=f"random-{i}")]
    sums = summarize(rows_of(lines), ("ref",))
    by_kind = {s["of"]: s for s in sums}
    assert by_kind["listed"]["median"] == 2.0
    assert (by_kind["random"]["worst"], by_kind["random"]["worst_case"]) == (2.0, "random-1")
    assert by_kind["random"]["cases"] == 2


def test_the_file_holds_one_object_with_all_that_is_promised(tmp_path):
    lines = [line("datamover:x", [1.0], nbytes=7), line("ref", [2.0])]
    lines += [{"left_out": "theirs", "reason": "it is not installed"}] * 2
    lines += [{"mpi": "MPICH 5.0.2", "compiler": "12.2.0"}]
    path = tmp_path / "figures.json"
    report.write(document(lines, "ref"), path)
    written = json.loads(path.read_text())
    assert {"machine", "versions", "command", "rows"} <= set(written)
    assert written["versions"]["mpi"] == ["MPICH 5.0.2"]
    assert written["versions"]["compiler"] == ["12.2.0"]
    assert written["rows"][0] == {
        "case": "a",
        "phase": "move",
        "contender": "datamover:x",
        "processes": 2,
        "seconds": 1.0,
        "runs": 1,
        "seconds_fastest": 1.0,
        "seconds_slowest": 1.0,
        "mpi": "MPICH 5.0.2",
        "bytes": 1000,
        "nbytes": 7,
    }
    assert written["left_out"] == [
        {"contender": "theirs", "reason": "it is not installed", "case": ""}
    ]


def test_the_terminal_shows_contenders_ratios_and_who_was_left_out():
    lines = [line("datamover:x", [1.0]), line("ref", [2.5])]
    lines += [{"left_out": "theirs", "case": "a", "reason": "it moved wrong data"}]
    text = shown(lines, "ref")
    assert "datamover:x" in text
    assert "2.50" in text
    assert "left out: theirs in a: it moved wrong data" in text
    assert "a, move, 2 processes, MPI: MPICH 5.0.2" in text.splitlines()  # wider than its table


def test_no_figure_is_cut_off_where_the_terminal_is_narrow():
    references = tuple(f"{kind}:contiguous" for kind in ("sockets", "shared", "files", "gather"))
    lines = [line(name, [10.0**k]) for k, name in enumerate(("datamover:tcp:into", *references))]
    text = shown(lines, *references, width=60)
    assert "\N{HORIZONTAL ELLIPSIS}" not in text and "contiguous " in text
    ratios = ["10.00", "100.00", "1000.00", "10000.00"]
    told = [word for row in text.splitlines() if "tcp:into  " in row for word in row.split()]
    assert [word for word in told if word in ratios][:4] == ratios


@pytest.mark.parametrize("width", range(50, 120))
def test_no_figure_is_lost_at_any_width_of_the_terminal(width):
    references = ("limit", "tensorstore", "zarrs", "zarr-python")
    names = ("datamover", "datamover:2", *references)
    lines = [line(n, [1.23 * 7**k], peak_bytes=(451 + k) << 20) for k, n in enumerate(names)]
    text = shown(lines, *references, width=width)
    peaks = [word for word in text.split() if word in {"451", "452", "453", "454", "455", "456"}]
    assert peaks == ["451", "452", "453", "454", "455", "456"]


@pytest.mark.parametrize("nbytes", [0, 1000])
def test_a_column_of_speeds_where_something_is_moved(nbytes):
    lines = [line("datamover", [1e-6], bytes=nbytes)]
    assert ("GB/s" in shown(lines)) == bool(nbytes)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("MPICH Version:      5.0.2\nMPICH Release date: today", "MPICH 5.0.2"),
        ("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", "Open MPI 4.1.4"),
        ("Intel(R) MPI Library 2021.10 for Linux* OS", "Intel(R) 2021.10"),
    ],
)
def test_names_of_mpis(said, name):
    assert programs.short_mpi_name(said) == name


def test_a_missing_program_is_named():
    with pytest.raises(IoFailed, match="no_such_program"):
        programs.program("no_such_program")


def test_a_program_s_lines_are_read_and_its_mpi_is_told(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "print('noise')\n"
        'print(\'{"mpi": "MPICH Version: 9.9", "compiler": "1"}\')\n'
        'print(\'{"case": "a", "contender": "x"}\')\n'
    )
    header, row = programs.run(None, 1, [sys.executable, str(script)], 1)
    assert header == {"mpi": "MPICH 9.9", "compiler": "1"}
    assert row == {"case": "a", "contender": "x", "mpi": "MPICH 9.9"}


def test_a_failing_program_is_an_error_that_quotes_it(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("raise SystemExit('the disk is on fire')\n")
    with pytest.raises(programs.MpiFailed, match="the disk is on fire"):
        programs.run(None, 1, [sys.executable, str(script)], 1)


def test_unknown_cases_are_refused():
    cases = [Case("one"), Case("two")]
    assert benchmark.choose(cases, ["tw"]) == cases[1:]
    assert benchmark.choose(cases, None) == cases
    with pytest.raises(InvalidArgument, match="one, two"):
        benchmark.choose(cases, ["three"])
    with pytest.raises(InvalidArgument, match="with three"):
        benchmark.choose(cases, ["one", "three"])
    assert benchmark.choose(cases, ["on", "o", "tw"]) == cases


def test_a_name_that_is_a_case_by_itself_is_no_beginning_of_others():
    def parse(name):
        if not name.isdigit():
            raise InvalidArgument(f"{name} is not a number")
        return Case(name)

    cases = [Case("10"), Case("105"), Case("words")]
    assert benchmark.choose(cases, ["10", "1", "10", "w"], parse) == [
        Case("10"), Case("1"), Case("words"),
    ]  # fmt: skip
    with pytest.raises(InvalidArgument, match="x is not a number"):
        benchmark.choose(cases, ["x"], parse)


def test_players_take_turns_and_each_round_begins_with_another_one():
    played = []

    def plays(name, cases):
        def play(chosen, seconds):
            played.append((name, [case.name for case in chosen], seconds))
            yield line(name, [1.0], case=chosen[0].name)

        return Player(play, lambda case: case.name in cases)

    b = Benchmark(
        name="b",
        cases=lambda run: [Case("one"), Case("two")],
        random_case=lambda draw, name, run: Case(name),
        players=lambda run: [
            plays("x", ("one", "two")),
            plays("y", ("two", "random-0", "random-1")),
        ],
    )
    options = {"seconds": 4.0, "rounds": 2, "case": None, "random": 2, "seed": 0}
    found = benchmark.measure(b, options)
    assert played == [
        *[("x", ["one"], 2.0)] * 2,
        ("x", ["two"], 2.0), ("y", ["two"], 2.0), ("y", ["two"], 2.0), ("x", ["two"], 2.0),
        *[("y", ["random-0", "random-1"], 1.0)] * 2,
    ]  # fmt: skip
    assert {(row["case"], row["contender"]): row["runs"] for row in found["rows"]} == {
        ("one", "x"): 2, ("two", "x"): 2, ("two", "y"): 2, ("random-0", "y"): 2,
    }  # fmt: skip


def test_what_a_program_printed_before_it_was_ended_is_kept():
    row = json.dumps(line("datamover:auto", [1.0], case="b"))
    lines = programs.cut_short(f"{row}\n{{'case", "", "it did not end in 5 s")
    assert [found["case"] for found in rows_of(lines)] == ["b"]
    (note,) = notes_of(lines)
    assert note["contender"] == "what comes after datamover:auto"
    assert note["reason"] == "it did not end in 5 s"


def test_a_program_that_prints_nothing_and_does_not_end_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "PATIENCE_SECONDS", 0.0)
    script = tmp_path / "program.py"
    script.write_text("import signal; signal.pause()")
    with pytest.raises(Timeout, match="did not end in 1 s"):
        programs.run(None, 1, [sys.executable, str(script)], 1)
