# SPDX-License-Identifier: BSD-3-Clause
"""Striped files: a single file has as many writing processes as it has stripes.

No such file system is available in tests: its answers are mocked.
"""

import os
import struct

import numpy as np
import pytest

import datamover as dm
from datamover.files import file_arguments

V1, V3, COMPOSITE = 0x0BD10BD0, 0x0BD30BD0, 0x0BD60BD0


def description(magic, count):
    """Give what Lustre keeps with a file of so many stripes of 1 MiB."""
    head = struct.pack("<II", magic, 1) + struct.pack("<QQ", 7, 0)
    return head + struct.pack("<IHH", 1 << 20, count, 0xFFFF) + b"pool".ljust(16, b"\0")


@pytest.fixture
def lustre(monkeypatch):
    """Make a file system of the one that there is, with descriptions by path."""
    told = {}

    def getxattr(path, name, **more):
        assert name == "lustre.lov"
        if path not in told:
            raise OSError(61, "No data available")
        return told[path]

    monkeypatch.setattr(os, "getxattr", getxattr, raising=False)
    return told


@pytest.mark.parametrize(
    ("told", "count"),
    [
        (description(V1, 4), 4), (description(V3, 160), 160), (description(V3, 0xFFFF), None),
        (description(V1, 0), None), (description(COMPOSITE, 4), None), (b"", None),
        (description(V1, 4)[:31], None), (b"\xff" * 64, None),
    ],
)  # fmt: skip
def test_what_is_told_is_understood(tmp_path, lustre, told, count):
    lustre[str(tmp_path)] = told
    assert file_arguments.stripe_count(f"{tmp_path}/new.h5") == count
    (tmp_path / "old.h5").touch()
    assert file_arguments.stripe_count(f"{tmp_path}/old.h5") is None
    lustre[f"{tmp_path}/old.h5"] = description(V1, 3)
    assert file_arguments.stripe_count(f"{tmp_path}/old.h5") == 3


def test_a_file_that_is_replaced_says_nothing_of_the_new_one(tmp_path, lustre):
    (tmp_path / "a.h5").touch()
    lustre[f"{tmp_path}/a.h5"] = description(V1, 1)
    assert file_arguments.writers_of(f"{tmp_path}/a.h5", None, 8) is None
    lustre[str(tmp_path)] = description(V3, 4)
    assert file_arguments.writers_of(f"{tmp_path}/a.h5", None, 8) == 4


@pytest.mark.parametrize("name", ["a.npy", "a.h5", "a.zarr"])
@pytest.mark.parametrize("count", [1, 2, 1000])
def test_a_writer_per_stripe(comm, tmp_path_factory, monkeypatch, lustre, name, count):
    place = comm.bcast(str(tmp_path_factory.mktemp("stripes")) if comm.rank == 0 else None)
    lustre[place] = description(V3, count)
    asked = []

    def file_ranks(given, word, nprocs):
        asked.append(given)
        return file_arguments.file_ranks(given, word, nprocs)

    monkeypatch.setattr("datamover.files.state.file_ranks", file_ranks)
    rows = dm.BlockCyclic((4 * comm.size, 3), "(block, *)", comm.size)
    u = dm.Array(rows, comm=comm)
    u.local[...] = comm.rank
    dm.save(f"{place}/{name}", {"u": u}, comm=comm)
    dm.save(f"{place}/said-{name}", {"u": u}, comm=comm, writers=1)
    assert asked == [None if name == "a.zarr" else min(count, comm.size), 1]
    for saved in (name, f"said-{name}"):
        v = dm.Array(rows, comm=comm)
        dm.load(f"{place}/{saved}", {"u": v}, comm=comm)
        np.testing.assert_array_equal(v.local, comm.rank)
