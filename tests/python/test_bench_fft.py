# SPDX-License-Identifier: BSD-3-Clause
"""`bench fft`: every contender has a row and transforms or moves the right elements."""

import importlib.util

import pytest
from figures import bench

from datamover.bench import fft
from datamover.errors import InvalidArgument

#: Numbers of modes.
CASES = {"c2c-slabs-7x5x4": 140, "r2c-pencils-6x7x5": 126, "r2c-slabs-4x6x8": 120}


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_every_contender_transforms_what_it_should(tmp_path, processes):
    pytest.importorskip("scipy")
    chosen = [word for name in CASES for word in ("--case", name)]
    document = bench("fft", tmp_path / "figures.json", "-n", processes, "--seconds", 0, *chosen)
    left_out = {note["contender"]: note["reason"] for note in document["left_out"]}
    assert "wrong data" not in left_out.values() and "datamover" not in left_out
    theirs = {"mpi4py-fft"} if importlib.util.find_spec("mpi4py_fft") else set()
    for case, modes in CASES.items():
        rows = [row for row in document["rows"] if row["case"] == case]
        by_phase = {}
        for row in rows:
            assert row["bytes"] == 16 * modes
            by_phase.setdefault(row["phase"], set()).add(row["contender"])
        others = {"dtfft", *({"fftw"} if "slabs" in case else set())} - left_out.keys()
        assert by_phase["forward"] == {"datamover", "datamover:user"} | theirs | others
        assert by_phase["exchange"] == {"datamover", "datamover:user"} | theirs


@pytest.mark.parametrize(
    "name", ["", "c2c-slabs-8", "c2c-slabs-8x8", "r2r-slabs-8x8x8", "c2c-slabs-8x8x3"]
)
def test_what_is_not_a_case_is_refused(name):
    with pytest.raises(InvalidArgument, match="not a transform"):
        fft.parse(name)
