# SPDX-License-Identifier: BSD-3-Clause
"""`bench overlap`: every contender has a row, and its elements arrive."""

import pytest
from figures import bench

from datamover.bench.overlap import hidden_in_cases

CONTENDERS = {"arithmetic", "move", "in_turn", "overlap", "overlap:thread"}


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_every_contender_moves_what_it_should(tmp_path, processes):
    document = bench(
        "overlap",
        tmp_path / "figures.json",
        *("-n", processes, "--seconds", 0, "--case", 40, "--case", 7),
    )
    assert document["left_out"] == []
    found = {}
    for row in document["rows"]:
        found.setdefault((row["case"], row["bytes"]), set()).add(row["contender"])
    assert found == {("40", 8 * 40 * 40): CONTENDERS, ("7", 8 * 7 * 7): CONTENDERS}
    assert document["hidden"] == hidden_in_cases(document["rows"])


def test_what_is_hidden_is_a_part_of_the_move():
    seconds = {"arithmetic": 3, "move": 2, "in_turn": 5, "overlap": 5.5, "overlap:thread": 3.5}
    rows = [{"case": "8", "contender": c, "seconds": s} for c, s in seconds.items()]
    assert hidden_in_cases(rows) == {"8": {"overlap": -0.25, "overlap:thread": 0.75}}
