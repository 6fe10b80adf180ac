# SPDX-License-Identifier: BSD-3-Clause
"""`bench transports`: the cases are those of DDTBench, and every contender moves the right data."""

from math import prod

import pytest
from figures import bench

from datamover.bench import transports as cases
from datamover.bench.transports import judge, sum_up

#: With so many processes and such options, these cases.
RUNS = [
    (2, ("--also", "p2p:16K", "--also", "p2p:4032"),
     ("wrf-y-4", "lammps-atomic-114", "nas-mg-x-34", "fft2-256", "3-7", "halo-64-1")),
    (3, ("--node-size", "1", "--user-arrays"),
     ("specfem-oc-493", "specfem-mt-5600", "milc-8-8-8-8", "section", "transpose-rows")),
]  # fmt: skip
BY_HAND = {"manual", "datatypes", "mpi_pack", "reference"}


@pytest.mark.parametrize(("processes", "more", "names"), RUNS)
def test_every_contender_moves_what_it_should(tmp_path, processes, more, names):
    chosen = [word for name in names for word in ("--case", name)]
    document = bench(
        "transports",
        tmp_path / "figures.json",
        "-n",
        processes,
        "--seconds",
        0,
        "--size",
        64,
        *chosen,
        *more,
    )
    contenders = {}
    for row in document["rows"]:
        contenders.setdefault(row["case"], set()).add(row["contender"])
    assert set(contenders) == set(names)
    for case, present in contenders.items():
        everywhere = {"auto", "measure", "p2p", "datatype", "collective"}
        everywhere |= {name for name in more if name.startswith("p2p:")}
        assert present >= BY_HAND | {f"datamover:{name}" for name in everywhere}, case
        assert ("alltoallw" in present) == (
            not case.startswith(("wrf", "milc", "nas", "lam", "spec"))
        )
    # Who is left out cannot carry, and says so; nobody moved wrong data.
    on_node = {"datamover:shared", "datamover:read", "datamover:staged"}
    for note in document["left_out"]:
        assert note["contender"] in on_node
        assert "cannot carry" in note["reason"]
    assert len(document["choices"]) == len(contenders)


def test_one_process_has_nobody_to_send_to(tmp_path):
    with pytest.raises(AssertionError, match="at least 2 processes"):
        bench("transports", tmp_path / "figures.json", "-n", 1)


def test_names_are_different_and_lines_are_whole():
    known = cases.transport_cases(4, 512)
    assert len({case.name for case in known}) == len(known)
    for case in known:
        kind, name, *numbers = case.words
        assert name == case.name
        if kind == "boxes":
            for _, shape, begin, extent in sections(numbers):
                ends = [b + e for b, e in zip(begin, extent, strict=True)]
                assert all(0 <= e <= n for e, n in zip(ends, shape, strict=True))


def sections(numbers):
    """The sections of a case: bytes of an element, shape, begin and extent."""
    count, *rest = numbers
    for _ in range(count):
        dims = rest[1]
        yield rest[0], *(rest[2 + k * dims :][:dims] for k in range(3))
        del rest[: 2 + 3 * dims]
    assert not rest


def payload_of(case):
    """Bytes of a case by the words that the program reads."""
    kind, _, *numbers = case.words
    if kind == "boxes":
        return sum(elem_bytes * prod(extent) for elem_bytes, *_, extent in sections(numbers))
    assert kind == "lists" and len(numbers) == 1 + 4 * numbers[0]
    return sum(a * b for a, b in zip(numbers[1::4], numbers[3::4], strict=True))


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("milc-8-8-8-8", 4 * 2 * 8 * 3 * 64),
        ("nas-lu-y-12", 8 * 12 * 5),
        ("nas-mg-x-34", 8 * 16 * 16),
        ("nas-mg-z-514", 8 * 256 * 512),
        ("lammps-full-3062", 3062 * 8 * 8),
        ("specfem-mt-7600", 7600 * 3 * 4),
        ("specfem-cm-1957", (1957 + 245) * 12),
        # i 1..23, j 41..43: 4 arrays once, 3 and 2 on 65 levels
        ("wrf-y-0", 4 * 23 * 3 * (4 + 5 * 65)),
        ("wrf-x-1", 4 * 3 * 26 * (4 + 5 * 65)),
    ],
)
def test_payloads_are_ddtbench_s(name, payload):
    (case,) = (c for c in cases.ddtbench() if c.name == name)
    assert payload_of(case) == payload


def row(case, contender, seconds):
    return {"case": case, "contender": contender, "seconds": seconds}


def test_choices_are_judged_against_the_best_that_was_named():
    rows = [
        row("a", "datamover:shared", 10e-6),
        row("a", "datamover:p2p", 30e-6),
        row("a", "datamover:auto", 12e-6),
        row("a", "datamover:measure", 10.1e-6) | {"carried_by": "p2p"},
        row("a", "manual", 22.1e-6),
        row("a", "mpi_pack", 40e-6),
        row("a", "reference", 7.1e-6),
        row("b", "datamover:shared", 1e-6),
        row("b", "datamover:auto", 9e-6),
        row("c", "manual", 1.0),
    ]
    a, b = judge(rows)
    assert (a["best"], a["best_seconds"]) == ("datamover:shared", 10e-6)
    assert a["auto"] == pytest.approx(1.2)
    assert a["measure"] == pytest.approx(1.01)
    assert a["by_hand"] == pytest.approx(22.1 / 10.1)
    assert a["above_reference"] == pytest.approx(5)
    assert (a["measure_took"], a["chosen"]) == ("p2p", 3.0)
    assert a["same"] == pytest.approx(10.1 / 30)
    assert b == {"case": "b", "best": "datamover:shared", "best_seconds": 1e-6, "auto": 9.0}
    # The second is too short to count.
    total = sum_up([a, b])
    assert (total["cases"], total["measure_5"], total["auto_15"]) == (1, 1.0, 0.0)
    assert total["by_hand_worst"] == a["by_hand"]
    assert sum_up([b])["auto_15"] is None


def test_rows_of_the_same_transports_are_judged_as_one():
    carried = {
        "datamover:shared": "shared",
        "datamover:p2p": "p2p",
        "datamover:auto": "shared+p2p",
        "datamover:measure": "p2p",
    }
    rows = [row("a", c, 20e-6) | {"carried_by": by} for c, by in carried.items()]
    samples = {
        "datamover:shared": [22e-6, 23e-6, 21e-6],
        "datamover:p2p": [19e-6, 18e-6, 20e-6],
        "datamover:measure": [24e-6, 20e-6, 21e-6],
        "datamover:auto": [30e-6, 30e-6, 30e-6],
    }
    other = row("b", "datamover:p2p", 1e-6) | {"carried_by": "p2p", "samples": [1e-6]}
    a, _ = judge([*(r | {"samples": samples[r["contender"]]} for r in rows), other])
    # p2p and measure together: 18, 19, 20, 20, 21, 24
    assert a["measure_work"] == pytest.approx(1.0)
    assert a["auto_work"] == pytest.approx(30 / 20)
    total = sum_up([a])
    assert (total["measure_work_5"], total["auto_work_15"]) == (1.0, 0.0)
    assert total["same_median"] == pytest.approx(1.0)
    assert "measure_work" not in judge(rows)[0]
