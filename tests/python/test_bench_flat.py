# SPDX-License-Identifier: BSD-3-Clause
"""`bench flat`: writes the right data, to one file and to several, and plots the result."""

import pytest
from figures import bench

from datamover.bench.flat import CASES


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_every_contender_writes_the_array(tmp_path, processes):
    places = [tmp_path / "a", tmp_path / "b"]
    for place in places:
        place.mkdir()
    chosen = ["blocks-128", "blocks-65536", "pathways-1-64K", "pathways-2-1M", "pathways-4-4K"]
    document = bench(
        "flat",
        tmp_path / "figures.json",
        *("-n", processes, "--seconds", 0, "--megabytes", 2, "--png", tmp_path / "flat.png"),
        *(word for place in places for word in ("--directory", place)),
        *(word for case in chosen for word in ("--case", case)),
    )
    assert document["left_out"] == []
    found = {}
    for row in document["rows"]:
        found.setdefault(row["case"], {})[row["contender"]] = row
    assert set(found) == set(chosen)
    for case, rows in found.items():
        one_file = {"datamover", "pieces", "mpi-io", "write-only"}
        assert set(rows) == (one_file if rows["datamover"]["pathways"] == 1 else
                             {"datamover", "write-only"}), case  # fmt: skip
    assert 0 < document["flatness"] <= 1
    assert (tmp_path / "flat.png").read_bytes().startswith(b"\x89PNG")
    assert [list(place.iterdir()) for place in places] == [[], []]


def test_names_are_of_one_case_each():
    assert len({case.name for case in CASES}) == len(CASES)
