# SPDX-License-Identifier: BSD-3-Clause
"""Names and arguments before 0.1: each works and warns."""

import contextlib

import numpy as np
import pytest
from mpi4py import MPI

import datamover as dm

COMM = MPI.COMM_SELF
ROWS = dm.BlockCyclic((2, 3), "(block, *)", nprocs=1)
TURN = dm.redistribute(ROWS, dm.BlockCyclic((3, 2), "(block, *)", nprocs=1), axes=(1, 0))
BLOCKS = dm.FloorPlan.uniform((8, 8), (2, 2), nprocs=1)
KINDS = ("InvalidArgument", "InvalidState", "NoMemory", "OutOfRange", "Unsupported", "WrongType")


@contextlib.contextmanager
def warns(words):
    """Expect a warning that names this file, where the old name is used."""
    with pytest.warns(DeprecationWarning, match=words) as caught:
        yield
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("name", dm.advanced.__all__)
def test_expert_names_of_the_package(name):
    with warns(f"datamover.{name} is deprecated: use datamover.advanced.{name}"):
        assert getattr(dm, name) is getattr(dm.advanced, name)


@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_errors_of_the_package(name):
    with warns(f"datamover.errors.{name}"):
        assert getattr(dm, name) is getattr(dm.errors, name)


@pytest.mark.parametrize("old, new", [("IoError", "IoFailed"), ("MpiError", "MpiFailed")])
def test_errors_of_another_name(old, new):
    for module in (dm, dm.errors):
        with warns(f"datamover.errors.{new}"):
            assert getattr(module, old) is getattr(dm.errors, new)


def test_arrays():
    with warns("XArray"):
        array = dm.XArray(COMM, ROWS, "f4", "F", 1)
    assert type(array) is dm.Array and array.dtype == "f4" and array.local.shape == (4, 5)
    assert array.local.flags.f_contiguous
    with warns("XArray"):
        assert isinstance(array, dm.XArray)
    with warns("XArray"):
        assert not isinstance(ROWS, dm.XArray | None)
    with warns("Array.free"):
        array.free()
    with pytest.raises(dm.errors.InvalidState):
        _ = array.local


def test_movers():
    a, b, c = np.arange(6.0).reshape(2, 3), np.zeros((3, 2)), np.zeros((2, 3))
    with warns("MoverSet"):
        mover = dm.MoverSet([(TURN, a, b), (dm.redistribute(ROWS, ROWS), a, c)], comm=COMM)
    mover()
    assert np.array_equal(b, a.T) and np.array_equal(c, a)
    b[...] = c[...] = 0
    with warns("Phases"):
        mover = dm.Phases([(TURN, a, b), (TURN.reversed(), b, c)], comm=COMM)
    mover()
    assert np.array_equal(c, a)
    with warns("Mover.free"):
        mover.free()
    with pytest.raises(dm.errors.InvalidState):
        mover()


def test_migrations():
    with warns("Distribution"):
        migration = dm.Distribution(COMM, [0, -1, 0], method="partition")
    assert migration.move(np.arange(3)).tolist() == [0, 2]
    with warns("distribute"):
        assert dm.distribute(COMM, np.arange(3), [-1, 0, 0]).tolist() == [1, 2]


def test_sections():
    plan, same = dm.MotionPlan(BLOCKS, BLOCKS), dm.MotionPlan(BLOCKS, BLOCKS)
    left, right = dm.Region((0, 0), (4, 4)), dm.Region((0, 4), (4, 8))
    with warns("MotionPlan.copy"):
        plan.copy(0, left, 1, right)
    same.add_section(0, (slice(0, 4), slice(0, 4)), 1, (slice(0, 4), slice(4, 8)))
    assert plan == same and plan.outgoing(0) == {0: 16}


def test_halos():
    pipe = dm.halo(BLOCKS, 1, (True, False))
    with warns("halo with wraps"):
        assert dm.halo(BLOCKS, 1, periodic=True, wraps=(True, False)) == pipe
    with warns("halo with wraps"):
        assert dm.halo(BLOCKS, 1, dm.Region((0, 0), (8, 8)), (True, False)) == pipe
    with warns("halo with colour, colours"):
        black = dm.halo(BLOCKS, 1, colours=2, colour=1)
    assert black == dm.halo(BLOCKS, 1, colors=2, color=1)
    with warns("HaloExchange.colours"):
        assert black[0].colours == 2
    with warns("HaloExchange.colour"):
        assert black[0].colour == 1
    with warns("halo with wraps"):
        wide = dm.halo(BLOCKS, 1, dm.Region((0, 0), (8, 9)), (True, True))
    assert wide == dm.halo(BLOCKS, 1, dm.Region((0, 0), (8, 9)))
    for name, given in (
        ("axis_halo", (BLOCKS, 1, 0)),
        ("prolongation", (BLOCKS, BLOCKS, 2, 1)),
        ("restriction", (BLOCKS, BLOCKS, 2, 1)),
    ):
        build = getattr(dm.advanced, name)
        with warns(f"{name} with wraps"):
            try:
                old = build(*given, True, (True, False))
            except dm.Error as error:
                old = str(error)
        try:
            new = build(*given, (True, False))
        except dm.Error as error:
            new = str(error)
        assert old == new
    with pytest.raises(dm.errors.InvalidArgument), warns("wraps"):
        dm.halo(BLOCKS, 1, wraps=(True, False))


def test_communicators_by_place(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3.0))
    with warns("comm="):
        dm.move(None, tmp_path / "a.npy", tmp_path / "b.npy")
    assert np.load(tmp_path / "b.npy").tolist() == [0, 1, 2]
    with warns("comm="):
        (line,) = dm.advanced.index_lists(COMM, 3, [2, 0, 1])
    assert line.indices_of(0).tolist() == [2, 0, 1]
    with warns("comm="):
        assert dm.fft.Plan(COMM, 4, "f8").output_shape == (3,)
    with warns("comm="):
        assert dm.layout_of(ROWS, COMM) is ROWS
    with warns("comm="):
        stream = dm.Stream(None, "tcp://127.0.0.1:0")
    stream.close()
    with warns("comm="), pytest.raises(dm.Error):
        dm.stream.connect(stream.address, None, timeout=0.1)
    with warns("comm="):
        dm.stream.Manager(None).close()


def test_names_that_never_were():
    for module in (dm, dm.advanced, dm.errors, dm.files):
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = module.nothing
