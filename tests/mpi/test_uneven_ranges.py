# SPDX-License-Identifier: BSD-3-Clause
"""Plans with ranges of the flattened array that coincide with rows only after very many rows."""

import drawn
import numpy as np
import pytest

import datamover as dm

TRANSPORTS = drawn.transports("self")


def tiles(shape, nprocs):
    words = "(cyclic(3), block, cyclic(2))"
    return dm.BlockCyclic(shape, words, nprocs, grid=[nprocs, 1, 1])


def filled(comm, layout, whole):
    array = dm.Array(layout, whole.dtype, comm=comm)
    for block, index in drawn.indices_of_blocks(layout, comm.rank):
        array[block][...] = whole[index]
    return array


def assert_holds(comm, array, whole):
    for block, index in drawn.indices_of_blocks(array.layout, comm.rank):
        np.testing.assert_array_equal(array[block], whole[index])


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("op", [None, "add"])
def test_many_rows_there_and_back(comm, rng, transport, op):
    shape = (211, 101, 13)
    whole = drawn.numbered(shape, "i8")
    flat = dm.FlatCyclic(shape, int(rng.choice([97, 499, 1009])), comm.size)
    plan = dm.redistribute(tiles(shape, comm.size), flat)
    if drawn.impossible(plan, transport):
        return
    source, there = filled(comm, plan.source, whole), filled(comm, flat, whole * 0 + 5)
    options = {"transport": transport, "op": op, "comm": comm}
    options["max_bytes"] = (1 << 16) + 1024 * comm.size
    move = dm.Mover(plan, source, there, check=True, **options)
    move()
    after = whole + 5 if op == "add" else whole
    assert_holds(comm, there, after)
    assert move.counters()["extra_bytes"] <= options["max_bytes"]
    move.close()
    back = filled(comm, plan.source, whole * 0)
    dm.Mover(plan.reversed(), there, back, **options)()
    assert_holds(comm, back, after)


def test_the_adjoint_sums_what_replicas_received(comm):
    shape = (19, 23, 7)
    whole = drawn.numbered(shape, "i8")
    flat = dm.FlatCyclic(shape, 29, comm.size)
    copies = dm.BlockCyclic(shape, "(*, cyclic, *)", comm.size, grid=[1, 1, 1], replicas=comm.size)
    plan = dm.redistribute(flat, copies)
    source, sums = filled(comm, flat, whole), filled(comm, flat, whole * 0)
    there = dm.Array(copies, "i8", comm=comm)
    dm.Mover(plan, source, there, comm=comm, check=True)()
    assert_holds(comm, there, whole)
    dm.Mover(plan.adjoint(), there, sums, op="add", comm=comm)()
    assert_holds(comm, sums, whole * comm.size)


def test_saved_plans_are_bound_like_the_ones_they_were(comm):
    shape = (23, 17, 5)
    whole = drawn.numbered(shape, "f4")
    flat = dm.FlatCyclic(shape, 37, comm.size)
    plan = dm.MotionPlan.from_bytes(dm.redistribute(flat, tiles(shape, comm.size)).to_bytes())
    there = dm.Array(plan.destination, "f4", comm=comm)
    dm.Mover(plan, filled(comm, flat, whole), there, comm=comm)()
    assert_holds(comm, there, whole)


def test_a_floor_plan_with_a_hole_is_refused_everywhere(comm):
    shape = (19, 23, 7)
    boxes = [dm.Region((0, 0, 0), (19, 20, 7)), dm.Region((1, 20, 0), (19, 23, 7))]
    holes = dm.FloorPlan(boxes, [0, comm.size - 1], comm.size)
    flat = dm.FlatCyclic(shape, 29, comm.size)
    arrays = dm.Array(holes, "i4", comm=comm), dm.Array(flat, "i4", comm=comm)
    with pytest.raises(dm.Mismatch, match=r"index \(0, 2[0-2], [0-6]\)"):
        dm.Mover(dm.redistribute(holes, flat), *arrays, comm=comm)
    dm.Mover(dm.redistribute(holes, flat, partial=True), *arrays, comm=comm)()


@pytest.mark.parametrize("end", ["npy", "zarr", "h5"])
def test_what_is_saved_in_many_rounds_comes_back(comm, place, end):
    """No limit reaches for the array; the smallest not for a row of ranges."""
    shape = (97, 101, 13)
    whole = drawn.numbered(shape, "f8")
    flat = dm.FlatCyclic(shape, 499, comm.size)
    for max_bytes in (whole.nbytes // 3, 1 << 27):
        path = f"{place}/{max_bytes}.{end}"
        options = {"chunks": {"u": (7, 101, 13)}} if end == "zarr" else {}
        array = filled(comm, flat, whole)
        dm.save(path, {"u": array}, comm=comm, max_bytes=max_bytes, **options)
        if end == "npy":
            np.testing.assert_array_equal(np.load(path), whole)
        for layout in (flat, tiles(shape, comm.size)):
            state = dm.load(path, {"u": layout}, comm=comm, max_bytes=max_bytes)
            assert_holds(comm, state["u"], whole)
        comm.Barrier()


@pytest.mark.parametrize("max_bytes", [104, 3_000, 1 << 27])
def test_an_array_on_the_disk_of_ranges_that_never_repeat(comm, place, max_bytes):
    """Also with fewer bytes than a row has."""
    shape = (11, 7, 29)
    whole = drawn.numbered(shape, "f8")
    flat, dealt = dm.FlatCyclic(shape, 31, comm.size), tiles(shape, comm.size)
    name = f"{place}/a.npy"
    options = {"comm": comm, "max_bytes": max_bytes}
    with dm.files.open(name, flat, mode="w", dtype="f8", **options) as file:
        dm.Mover(dm.redistribute(dealt, flat), filled(comm, dealt, whole), file, comm=comm)()
    np.testing.assert_array_equal(np.load(name), whole)
    back = dm.Array(dealt, "f8", comm=comm)
    with dm.files.open(name, flat, mode="r", **options) as file:
        dm.Mover(dm.redistribute(flat, dealt), file, back, comm=comm)()
    assert_holds(comm, back, whole)
    comm.Barrier()
