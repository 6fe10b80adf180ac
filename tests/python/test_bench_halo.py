# SPDX-License-Identifier: BSD-3-Clause
"""`bench halo`: every contender has a row and moves the right elements."""

import pytest
from figures import bench

from datamover.bench import halo
from datamover.errors import InvalidArgument

OURS = {"datamover:auto:library", "datamover:auto:user"}
LOOPS = {f"loop:{w}" for w in ("faces_pull", "faces_push", "sides_pull", "rows_pull", "sweep_pull")}
MESSAGES = {f"persistent:{w}" for w in ("faces", "datatypes", "merged", "merged_datatypes")}
PETSC = {"petsc", "petsc:local", "petsc:global"}
#: With so many processes, these cases: all widths that loops know, and one that they do not.
RUNS = [(1, ("5-1", "4-3", "4-4", "8x3-2")), (2, ("5-1", "4-3", "4-4", "8x3-2")), (4, ("8x4-3",))]


@pytest.mark.parametrize(("processes", "names"), RUNS)
def test_every_contender_moves_what_it_should(tmp_path, processes, names):
    chosen = [word for name in names for word in ("--case", name)]
    document = bench(
        "halo", tmp_path / "figures.json", "-n", processes, "--seconds", 0, "--rounds", 1, *chosen
    )
    contenders = {}
    for row in document["rows"]:
        contenders.setdefault(row["case"], {})[row["contender"]] = row
    assert set(contenders) == set(names)
    for case, rows in contenders.items():
        expected = OURS | LOOPS | MESSAGES | {"loops", "persistent:best", "phases"}
        assert rows.keys() - PETSC == expected, document["left_out"]
        assert rows["loops"]["best_is"] in LOOPS
        assert rows["persistent:best"]["best_is"] in MESSAGES
        edge, width, along = halo.parse(case).words
        stored, inner = (edge + 2 * width) ** 3, edge**3
        payload = 8 * processes * along**3 * (stored - inner)
        assert {row["bytes"] for row in rows.values()} == {payload}
    # Nobody moved wrong data; PETSc plays, or the reason is there.
    left_out = {note["contender"] for note in document["left_out"]}
    assert left_out <= {"petsc"}
    assert all("petsc" in rows for rows in contenders.values()) or left_out == {"petsc"}


def test_the_listed_cases_are_named_after_their_sizes():
    assert len({case.name for case in halo.CASES}) == len(halo.CASES) == 12
    assert [halo.parse(case.name) for case in halo.CASES] == list(halo.CASES)
    assert {"64-1", "256-3", "64x64-2", "4096x8-1"} <= {case.name for case in halo.CASES}


@pytest.mark.parametrize("name", ["", "64", "64-", "-1", "9x5-1", "0x5-1", "5-0", "5-6", "0-0"])
def test_what_is_no_halo_is_refused(name):
    with pytest.raises(InvalidArgument, match=r"not a halo|cube|wide"):
        halo.parse(name)
