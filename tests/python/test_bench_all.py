# SPDX-License-Identifier: BSD-3-Clause
"""`bench all` and `--compare`: the page and the tables hold what was measured."""

import json
import re

import pytest
from figures import bench
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from datamover.bench import chart, command, compare, report
from datamover.bench.benchmark import Benchmark, Player, measure
from datamover.bench.command import app
from datamover.bench.rows import rows_of
from datamover.errors import MpiFailed

pytest.importorskip("matplotlib.figure")


def row(case, contender, seconds, phase="move", mpi="MPICH 5.0.2", **more):
    names = {"case": case, "phase": phase, "contender": contender, "processes": 2, "mpi": mpi}
    return {**names, "bytes": 8, "samples": [seconds], **more}


LINES = [
    row("a|b", "datamover:auto", 1e-3),
    row("a|b", "by_hand", 2e-3),
    row("slow", "datamover:auto", 4e-3),
    row("slow", "by_hand", 1e-3),
    row("slow", "datamover:auto", 7e-3, phase="first"),
    row("slow", "by_hand", 9e-3, phase="first"),
    {"left_out": "theirs", "reason": "it is not installed"},
]


def benchmark_of(lines, name="b"):
    def play(cases, seconds):
        if isinstance(lines, Exception):
            raise lines
        return lines

    return Benchmark(
        name=name,
        cases=lambda run: [type("Case", (), {"name": "all"})()],
        players=lambda run: [Player(play)],
        references=("by_hand",),
    )


def document(lines):
    return measure(benchmark_of(lines), {"case": None})


def run_all(monkeypatch, place, *benchmarks, words=()):
    monkeypatch.setattr(command, "SESSIONS", [(b.name, b, {}) for b in benchmarks])
    return CliRunner().invoke(app, ["all", "--json", str(place), *words])


def test_the_page_holds_medians_worst_rows_first_calls_and_the_machine(tmp_path, monkeypatch):
    broken = benchmark_of(MpiFailed("no such\nprogram"), "broken")
    faulty = benchmark_of(KeyError("rate"), "faulty")
    done = run_all(monkeypatch, tmp_path / "new", faulty, benchmark_of(LINES), broken)
    assert done.exit_code == 0, done.output
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    page_name, chart = (n for n in names if n != "b.json")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-[a-z0-9-]+\.md", page_name)
    assert chart == page_name.replace(".md", ".svg")
    rows = json.loads((tmp_path / "new" / "b.json").read_text())["rows"]
    assert len(rows) == 6
    page = (tmp_path / "new" / page_name).read_text()
    assert f"]({chart})" in page
    # Speed-ups 2 and 0.25: in the median 1.125; the first call is not one of them.
    assert "| b | datamover:auto | by_hand | 2 | 1.12 | 0.25 | slow |" in page
    assert "| b | slow | move | datamover:auto | 4 ms | by_hand | 1 ms | 0.25 |" in page
    assert "| b | a\\|b | move | datamover:auto | 1 ms | by_hand | 2 ms | 2.00 |" in page
    first_calls = page.partition("## First calls")[2]
    assert "| b | slow | first | datamover:auto | 7 ms | by_hand | 9 ms | 1.29 |" in first_calls
    assert page.count("| first |") == 1
    assert "- `broken` failed: no such program" in page
    assert "- `faulty` failed: KeyError('rate')" in page
    assert "- `b`, theirs: it is not installed" in page
    for words in ("| Processor |", "| Instruction set |", "| MPI | MPICH 5.0.2 |", "| Date |"):
        assert words in page
    svg = (tmp_path / "new" / chart).read_text()
    assert "<svg" in svg and "b: datamover:auto / by_hand" in svg


def test_without_any_figures_there_is_no_page(tmp_path, monkeypatch):
    done = run_all(monkeypatch, tmp_path, benchmark_of(MpiFailed("no mpiexec"), "broken"))
    assert done.exit_code == 1
    assert "no benchmark was measured: broken: no mpiexec" in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_benchmark_that_would_begin_too_late_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "LAST_START_SECONDS", -1.0)
    both = benchmark_of(LINES), benchmark_of(LINES, "c")
    assert run_all(monkeypatch, tmp_path, *both).exit_code == 1
    assert run_all(monkeypatch, tmp_path, *both, words=["--full"]).exit_code == 0
    assert {"b.json", "c.json"} < {path.name for path in tmp_path.iterdir()}


def test_unknown_benchmarks_are_refused(tmp_path):
    done = CliRunner().invoke(app, ["all", "--json", str(tmp_path), "--only", "halos"])
    assert done.exit_code == 2
    assert "no benchmark halos" in done.stderr


def test_quick_options_are_options_and_cases_of_their_benchmarks():
    for name, b, more in command.SESSIONS:
        assert b.quick.keys() | more.keys() <= b.options.keys() | {"case"}, name


SECONDS = st.floats(min_value=1e-9, max_value=1e3)
PLACES = st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.sampled_from(["move", "load"]))


@settings(max_examples=40)
@given(st.dictionaries(PLACES, SECONDS, min_size=1), st.dictionaries(PLACES, SECONDS, min_size=1))
def test_a_comparison_has_a_ratio_for_each_row_of_both(before, after):
    old, new = (
        {"rows": rows_of(row(case, who, s, phase) for (case, who, phase), s in times.items())}
        for times in (before, after)
    )
    found = compare.compare(old, new)
    ratios = {(r["case"], r["contender"], r["phase"]): r["ratio"] for r in found["rows"]}
    assert ratios == {p: before[p] / after[p] for p in before.keys() & after.keys()}
    assert found["only_old"] == len(before.keys() - after.keys())
    assert found["only_new"] == len(after.keys() - before.keys())
    for family in found["families"]:
        of = [r for (_, who, phase), r in ratios.items()
              if (who, phase) == (family["contender"], family["phase"])]  # fmt: skip
        assert (family["cases"], family["worst"]) == (len(of), min(of))
    console = Console(record=True, width=120, file=open("/dev/null", "w"))  # noqa: SIM115
    compare.show(found, console)
    assert ("worst row: " in console.export_text()) == bool(ratios)


def test_rows_of_another_version_of_an_mpi_are_compared_and_the_change_is_named():
    old = document([row("a", "x", 3.0), row("a", "x", 9.0, mpi="Open MPI 4.1.4")])
    new = document([row("a", "x", 2.0, mpi="MPICH 5.1.0")])
    new["machine"]["processor"] = "another"
    found = compare.compare(old, new)
    assert [r["ratio"] for r in found["rows"]] == [1.5]
    assert (found["only_old"], found["only_new"]) == (1, 0)
    assert set(found["changed"]) == {"processor", "mpi"}


@pytest.mark.parametrize("module", [report, chart, compare])
def test_figures_are_written_before_anything_is_shown(tmp_path, monkeypatch, module):
    def fail(*_):
        raise KeyError(module.__name__)

    old, new, picture = (tmp_path / name for name in ("old.json", "new.json", "new.svg"))
    options = {"case": None, "compare": None, "json_file": old, "png_file": None}
    command.run_one(benchmark_of(LINES), options)
    monkeypatch.setattr(module, "draw" if module is chart else "show", fail)
    options |= {"compare": old, "json_file": new, "png_file": picture}
    with pytest.raises(KeyError, match=module.__name__):
        command.run_one(benchmark_of(LINES), options)
    assert command.read_document(new)["rows"] == command.read_document(old)["rows"]
    assert picture.exists() == (module is compare)


def test_a_run_is_compared_with_the_file_of_another(tmp_path):
    first = bench("plan", tmp_path / "first.json", "--seconds", 0)
    second = bench(
        "plan", tmp_path / "second.json", "--seconds", 0, "--compare", tmp_path / "first.json"
    )
    found = second["comparison"]
    assert len(found["rows"]) == len(first["rows"]) == len(second["rows"])
    assert (found["only_old"], found["only_new"], found["changed"]) == (0, 0, {})
    assert report.left_out(second["left_out"]) == []
