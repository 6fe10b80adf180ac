# SPDX-License-Identifier: BSD-3-Clause
"""Arrays from zarr-python's own test strategies: moved, loaded and opened on disk unchanged.

They have any dtype, fill value, chunks, shards, names, attributes and shape.
"""

import os
import tempfile

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from mpi4py import MPI
from zarr.testing import strategies

import datamover as dm
from datamover.files import move

pytestmark = pytest.mark.filterwarnings("ignore")
COMM = MPI.COMM_SELF
PLACE = tempfile.TemporaryDirectory()  # removed at the end
#: A quarter of the cases of other laws: each writes and reads several arrays.
CASES = settings(
    max_examples=settings().max_examples // 4,
    suppress_health_check=[*HealthCheck],
)


@st.composite
def stored(draw):
    """An array in a directory, and what zarr-python reads from it."""
    place = tempfile.mkdtemp(dir=PLACE.name)
    array = draw(
        strategies.arrays(
            stores=st.just(f"{place}/a.zarr"),
            paths=st.sampled_from(["/", "in/it"]),
            array_names=st.sampled_from(["u", "v"]),
        )
    )
    return place, f"{place}/a.zarr/{array.path}", array, array[...]


def check_same(found, expected):
    assert found.shape == expected.shape
    assert np.asarray(found, expected.dtype).tobytes() == expected.tobytes()


def refused(e, array):
    """Tell whether an array is one that a move refuses, for a reason that its error states."""
    if 0 in (array.shards or array.chunks):
        return "has empty chunks of" in str(e)
    return isinstance(e, dm.errors.Unsupported) and (
        array.dtype.itemsize == 0 or array.dtype.kind in "mMU"
    )


def attempt(array, act):
    """Do something with an array; tell whether it was done, or refused for a reason."""
    try:
        act()
    except dm.Error as e:
        assert refused(e, array), e
        event(f"refused: {type(e).__name__}")
        return False
    return True


@CASES
@given(stored(), st.sampled_from([2, 3]), st.data())
def test_moves_keep_all_of_them(drawn, zarr_format, data):
    place, path, array, expected = drawn
    if attempt(array, lambda: move(path, f"{place}/b.zarr")):
        made = zarr.open_array(f"{place}/b.zarr", mode="r")
        check_same(made[...], expected)
        assert dict(made.attrs) == dict(array.attrs)
        assert (made.chunks, made.shards) == (array.chunks, array.shards)
        if array.metadata.zarr_format == 3:
            assert made.metadata.dimension_names == array.metadata.dimension_names
            assert np.array(made.fill_value).tobytes() == np.array(array.fill_value).tobytes()
    chunks = tuple(data.draw(st.integers(1, max(n, 1))) for n in array.shape)
    axes = tuple(data.draw(st.permutations(range(array.ndim))))
    said = {"chunks": chunks, "axes": axes, "zarr_format": zarr_format, "check": "crc32c"}
    if zarr_format == 3 and data.draw(st.booleans()) and array.shape:
        said["shards"] = tuple(n * data.draw(st.integers(1, 3)) for n in chunks)
    if attempt(array, lambda: move(path, f"{place}/c.zarr", **said)):
        made = zarr.open_array(f"{place}/c.zarr", mode="r")
        check_same(made[...], expected.transpose(axes))
        assert made.chunks == chunks
        move(f"{place}/c.zarr", f"{place}/d.npy", axes=np.argsort(axes).tolist())
        check_same(np.load(f"{place}/d.npy"), expected)


@CASES
@given(stored())
def test_groups_and_hdf5_keep_all_of_them(drawn):
    place, path, array, expected = drawn
    if attempt(array, lambda: move(f"{place}/a.zarr", f"{place}/b.zarr")):
        check_same(zarr.open_array(f"{place}/b.zarr/{array.path}", mode="r")[...], expected)
    if attempt(array, lambda: move(path, f"{place}/b.h5:/u")):
        with h5py.File(f"{place}/b.h5") as file:
            check_same(file["u"][...], expected)
        move(f"{place}/b.h5", f"{place}/c.zarr")
        check_same(zarr.open_array(f"{place}/c.zarr/u", mode="r")[...], expected)


@CASES
@given(stored())
def test_loads_and_arrays_on_disk_have_all_of_them(drawn):
    place, path, array, expected = drawn
    found = {}

    def load():
        found.update(dm.load(f"{place}/a.zarr", {array.path: None}, comm=COMM))

    if attempt(array, load):
        check_same(found[array.path], expected)
    if array.ndim == 0 or 0 in array.shape or array.dtype.kind not in "biufc":
        return
    layout = dm.BlockCyclic(array.shape, f"({', '.join('*' * array.ndim)})", nprocs=1)
    got = np.zeros(array.shape, expected.dtype)
    with dm.files.open(path, layout, comm=COMM) as file:
        dm.Mover(dm.redistribute(layout, layout), file, got)()
    check_same(got, expected)
    changed = np.ascontiguousarray(np.flip(expected))
    with dm.files.open(path, layout, comm=COMM, mode="r+") as file:
        dm.Mover(dm.redistribute(layout, layout), changed, file)()
    check_same(zarr.open_array(path, mode="r")[...], changed)
    assert not [name for name in os.listdir(path) if name.endswith(".partial")]
