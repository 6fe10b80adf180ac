# SPDX-License-Identifier: BSD-3-Clause
"""`bench doors`: every contender has a row and moves the right elements."""

import importlib.util

import pytest
from figures import bench

from datamover.bench import doors
from datamover.errors import InvalidArgument

CASES = {"slabs-7x5": 8 * 35, "slabs-5x4x3": 8 * 60, "ghosts-2-9x3": 8 * 4 * 3}
LIBRARIES = {"pylops-mpi", "mpi4py-fft", "heat"}
SCATTERED = {"mesh-2-9x5": 8 * 4 * 5, "shuffled-101": 8 * 101}


@pytest.mark.parametrize("processes", [1, 2])
def test_every_contender_moves_what_it_should(tmp_path, processes):
    chosen = [word for name in CASES for word in ("--case", name)]
    document = bench("doors", tmp_path / "figures.json", "-n", processes, "--seconds", 0, *chosen)
    installed = {n for n in LIBRARIES if importlib.util.find_spec(n.replace("-", "_"))}
    for case, moved in CASES.items():
        rows = {row["contender"]: row for row in document["rows"] if row["case"] == case}
        expected = {"datamover", "datamover:new", *installed}
        if "ghosts" in case:
            expected.discard("mpi4py-fft")
            moved *= processes - 1
        assert rows.keys() == expected, document["left_out"]
        assert {row["bytes"] for row in rows.values()} == {moved}
    left_out = {note["contender"] for note in document["left_out"]}
    assert left_out - {"petsc"} == LIBRARIES - installed


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_single_elements_are_moved_too(tmp_path, processes):
    chosen = [word for name in SCATTERED for word in ("--case", name)]
    document = bench("doors", tmp_path / "figures.json", "-n", processes, "--seconds", 0, *chosen)
    without_petsc = "petsc" in {note["contender"] for note in document["left_out"]}
    for case, moved in SCATTERED.items():
        rows = {row["contender"]: row for row in document["rows"] if row["case"] == case}
        ours = {"datamover", "datamover:library"}
        assert rows.keys() == (ours if without_petsc else ours | {"petsc"}), document["left_out"]
        if "mesh" in case:
            moved *= processes - 1
        assert {row["bytes"] for row in rows.values()} == {moved}


@pytest.mark.parametrize(
    "name",
    ["", "slabs", "slabs-7", "slabs-7x0", "ghosts-7x5", "ghosts-0-7x5", "mesh-1-7", "shuffled-7x5"],
)
def test_what_is_not_a_case_is_refused(name):
    with pytest.raises(InvalidArgument, match="not a case"):
        doors.parse(name)
