# SPDX-License-Identifier: BSD-3-Clause
"""Invalid arguments on one process: an error on all processes."""

import contextlib
import ctypes
import errno
import functools
import gc
import os
import re

import drawn
import numpy as np
import pytest

import datamover as dm
from datamover.files import unfinished
from datamover.mpi import comm_address, core, tell_that_left


@pytest.fixture
def plan(comm):
    n = 2 * comm.size
    return dm.redistribute(
        dm.BlockCyclic((n, n), "(block, *)", comm.size),
        dm.BlockCyclic((n, n), "(*, block)", comm.size),
    )


def wrong_on_last(comm, wrong, right):
    return wrong if comm.rank == comm.size - 1 else right


WRONG_OPTIONS = [
    ("op", 5, dm.errors.WrongType),
    ("op", "\udc80", dm.errors.InvalidArgument),
    ("transport", None, dm.errors.WrongType),
    ("transport", "\udc80", dm.errors.InvalidArgument),
    ("alpha", "two", dm.errors.WrongType),
    ("beta", [1, 2], dm.errors.WrongType),
    (
        "beta",
        2,
        dm.errors.InvalidArgument,
    ),  # without op="add" nothing in place stays to be multiplied
    ("max_bytes", "1M", dm.errors.WrongType),
    ("max_bytes", 2**63, dm.errors.InvalidArgument),
]


@pytest.mark.parametrize(("name", "wrong", "error"), WRONG_OPTIONS)
def test_an_option_that_makes_no_sense(comm, plan, name, wrong, error):
    right = {"op": None, "transport": "auto", "alpha": 1, "beta": 1, "max_bytes": None}[name]
    a, b = dm.Array(plan.source, comm=comm), dm.Array(plan.destination, comm=comm)
    b.local[...] = 4
    with pytest.raises(error) as caught:
        dm.Mover(plan, a, b, **{name: wrong_on_last(comm, wrong, right)})
    assert len(set(comm.allgather(str(caught.value)))) == 1
    assert f"process {comm.size - 1}" in str(caught.value) or comm.size == 1
    assert (b.local == 4).all()
    dm.Mover(plan, a, b)()  # nobody is out of step


@pytest.mark.parametrize("name", ["op", "transport", "alpha", "beta", "conjugate"])
def test_options_that_differ_between_processes(comm, plan, name):
    if comm.size == 1:
        pytest.skip("takes several processes")
    values = {
        "op": (None, "add"),
        "transport": ("auto", "p2p"),
        "alpha": (1, 2),
        "beta": (1, 2),
        "conjugate": (False, True),
    }[name]
    a, b = dm.Array(plan.source, comm=comm), dm.Array(plan.destination, comm=comm)
    op = {"op": "add"} if name == "beta" else {}
    with pytest.raises(dm.Mismatch) as caught:
        dm.Mover(plan, a, b, **op, **{name: wrong_on_last(comm, *values[::-1])})
    first, other = {
        "op": ('"replace"', '"add"'),
        "transport": ('"auto"', '"p2p"'),
        "conjugate": ("false", "true"),
    }.get(name, (1, 2))
    last = comm.size - 1
    assert str(caught.value) == (
        f"processes 0 and {last} passed different options: {name}={first} on process 0, "
        f"{name}={other} on process {last}"
    )


def test_plans_that_differ_are_always_refused(comm):
    if comm.size == 1:
        pytest.skip("takes several processes")
    n = 4 * comm.size
    word = wrong_on_last(comm, "cyclic", "block")
    plan = dm.redistribute(
        dm.BlockCyclic((n, n), "(block, *)", comm.size),
        dm.BlockCyclic((n, n), f"(*, {word})", comm.size),
    )
    a, b = np.zeros((4, n)), np.ones((n, 4))
    with pytest.raises(dm.Mismatch, match=f"0 and {comm.size - 1} .*destination layouts"):
        dm.Mover(plan, a, b, comm=comm)
    assert (b == 1).all()


def test_arrays_that_are_none(comm, plan):
    a, b = dm.Array(plan.source, comm=comm), dm.Array(plan.destination, comm=comm)
    for arguments in (
        (wrong_on_last(comm, None, plan), a, b),
        (plan, wrong_on_last(comm, "text", a), b),
        (plan, wrong_on_last(comm, object(), a), b),
        (plan, a, wrong_on_last(comm, {0: [1, 2]}, b)),
    ):
        with pytest.raises(dm.Error):
            dm.Mover(*arguments, comm=comm)


@pytest.mark.parametrize(
    "wrong",
    [{"dtype": "no such type"}, {"ghost": [[1], [2, 3]]}, {"order": "X"}, {"ghost": -1}],
    ids=str,
)
def test_an_array_that_cannot_be_made(comm, plan, wrong):
    with pytest.raises(dm.Error) as caught:
        dm.Array(plan.source, comm=comm, **wrong_on_last(comm, wrong, {}))
    assert len(set(comm.allgather(str(caught.value)))) == 1
    dm.Array(plan.source, comm=comm)


class Unspeakable:
    def __repr__(self):
        raise ValueError("no words for this")


class Raising:
    def __iter__(self):
        raise RuntimeError("no elements in this")


@pytest.mark.parametrize("wrong", [5, [3], [(1, 2)], Unspeakable(), [Unspeakable()]])
@pytest.mark.parametrize("together", [True, False])
def test_moves_that_are_no_moves(comm, plan, together, wrong):
    a, b = dm.Array(plan.source, comm=comm), dm.Array(plan.destination, comm=comm)
    with pytest.raises(dm.errors.WrongType, match="sequence of"):
        dm.Mover(wrong_on_last(comm, wrong, [(plan, a, b)]), together=together, comm=comm)


def test_a_list_of_numbers_is_no_array(comm, plan):
    a, b = dm.Array(plan.source, comm=comm), dm.Array(plan.destination, comm=comm)
    for given, is_told in ((a.local.tolist(), True), ([a, a], False), ([{}, {}], False)):
        with pytest.raises(dm.Mismatch, match="2 sources and 1 destinations") as caught:
            dm.Mover(plan, given, b)
        assert ("convert its numbers with numpy.array" in str(caught.value)) is is_told


@pytest.mark.parametrize("together", [True, False])
def test_which_move_is_none_is_said(comm, plan, together):
    a, b = dm.Array(plan.source, comm=comm), dm.Array(plan.destination, comm=comm)
    whole = (plan, a, b)
    for moves, words in (
        ([whole, plan], "move 1 is a MotionPlan; it must be"),
        ([whole, (plan, a)], "move 1 is a tuple of 2; it must be"),
        (whole, "move 0 is a MotionPlan; it must be"),  # the list is forgotten
    ):
        with pytest.raises(dm.errors.WrongType, match=words):
            dm.Mover(moves, together=together, comm=comm)


def test_moves_that_cannot_be_listed(comm, plan):
    a, b = dm.Array(plan.source, comm=comm), dm.Array(plan.destination, comm=comm)
    error = RuntimeError if comm.rank == comm.size - 1 else dm.Error
    with pytest.raises(error, match="no elements"):
        dm.Mover(wrong_on_last(comm, Raising(), [(plan, a, b)]), comm=comm)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATAMOVER_TIMEOUT", "soon"),
        ("DATAMOVER_NODE_SIZE", "two"),
        ("DATAMOVER_SHARED_BYTES", "1G"),
        ("DATAMOVER_PEER_READS", "no"),
        ("DATAMOVER_SIMD", "fast"),
    ],
)
def test_an_environment_that_makes_no_sense(comm, plan, name, value):
    setenv = ctypes.CDLL(None).setenv
    before = os.environ.get(name)
    fresh = comm.Dup()
    if comm.rank == comm.size - 1:
        setenv(name.encode(), value.encode(), 1)
    try:
        with pytest.raises(dm.errors.InvalidArgument, match=f'{name} is "{value}"'):
            dm.Array(plan.source, comm=fresh)
    finally:
        if before is None:
            ctypes.CDLL(None).unsetenv(name.encode())
        else:
            setenv(name.encode(), before.encode(), 1)
    dm.Array(plan.source, comm=fresh)


def test_an_interrupt_goes_on_where_it_happened(comm, plan):
    class Interrupting:
        def __index__(self):
            raise KeyboardInterrupt

    a, b = dm.Array(plan.source, comm=comm), dm.Array(plan.destination, comm=comm)
    last = comm.rank == comm.size - 1
    with pytest.raises(KeyboardInterrupt if last else dm.PeerFailed):
        dm.Mover(plan, a, b, max_bytes=Interrupting() if last else None)
    dm.Mover(plan, a, b)()


def test_communicators_that_are_no_use(comm, plan):
    from mpi4py import MPI

    a, b = np.zeros(plan.source.local_shape(comm.rank)), np.zeros((2, 2))
    freed = comm.Dup()
    freed.Free()
    for wrong in (MPI.COMM_NULL, freed, "world", None):
        with pytest.raises(dm.errors.WrongType if wrong == "world" else dm.errors.InvalidArgument):
            dm.Mover(plan, a, b, comm=wrong)


def test_communicators_that_failed_are_given_back(comm, plan):
    """MPICH has 2,048; each of these has three."""
    if drawn.NODE_SIZE:
        pytest.skip("what is under way between nodes is not known")
    for k in range(1100):
        fresh = comm.Dup()
        if comm.rank == k % comm.size:
            tell_that_left(fresh, KeyboardInterrupt())
        else:
            core().together(comm_address(fresh))  # as all that is called first
        fresh.Free()
    a, b = dm.Array(plan.source, comm=comm), dm.Array(plan.destination, comm=comm)
    a.local[...] = 3
    dm.Mover(plan, a, b)()
    assert (b.local == 3).all()


def test_communicators_are_given_back(comm, plan):
    """MPICH has 2,048; each of these has three."""
    for _ in range(1100):
        fresh = comm.Dup()
        core().together(comm_address(fresh))
        fresh.Free()
    a, b = dm.Array(plan.source, comm=comm), dm.Array(plan.destination, comm=comm)
    a.local[...] = 3
    dm.Mover(plan, a, b)()
    assert (b.local == 3).all()


def test_a_late_failure_reaches_no_later_communicator(comm):
    """Process 0 gives up a move with process 1 when all others have freed the communicator."""
    n = comm.size
    partner = [1, 0, *range(2, n)] if n > 1 else [0]
    pieces = dm.FloorPlan.uniform(dm.Region((0,), (n,)), (n,), nprocs=n)
    plan = dm.MotionPlan(pieces, pieces)
    for i, to in enumerate(partner):
        plan.add_section(i, dm.Region((i,), (i + 1,)), to, dm.Region((to,), (to + 1,)))
    low = comm.Split(comm.rank >= 2, comm.rank)
    used = comm.Dup()
    mover = dm.Mover(plan, np.array([comm.rank]), np.array([-1]), comm=used)
    if comm.rank >= 2:
        mover()
        del mover
        gc.collect()
        used.Free()
    comm.barrier()
    if comm.rank == 0:
        mover.start()
        del mover
        gc.collect()
    comm.barrier()
    for _ in range(2):
        later = [low.Dup() for _ in range(8)]
        backwards = range(low.size)[::-1]
        rows = dm.BlockCyclic((low.size,), "(block)", low.size)
        turned = dm.BlockCyclic((low.size,), "(block)", low.size, ranks=backwards)
        for each in later:
            a, b = dm.Array(rows, comm=each), dm.Array(turned, comm=each)
            a.local[...] = low.rank
            dm.Mover(dm.redistribute(rows, turned), a, b)()
            assert (b.local == low.size - 1 - low.rank).all()
            del a, b
            each.Free()
    low.Free()
    if comm.rank == 1:
        with pytest.raises(dm.PeerFailed):
            mover()
    if comm.rank < 2:
        used.Free()


def test_what_was_made_with_a_communicator_outlives_it(comm, plan):
    fresh = comm.Dup()
    a, b = dm.Array(plan.source, comm=fresh), dm.Array(plan.destination, comm=fresh)
    mover, d = dm.Mover(plan, a, b), dm.Migration(np.arange(comm.size), comm=fresh)
    fresh.Free()
    a.local[...] = 3
    mover()
    assert (b.local == 3).all()
    np.testing.assert_array_equal(d.move(np.full(comm.size, comm.rank)), np.arange(comm.size))
    process = f"process {comm.rank} of {comm.size}"
    c = np.zeros(plan.destination.local_shape(comm.rank))
    mover.rebind(a, c)
    mover()
    assert (c == 3).all()
    with pytest.raises(dm.Error, match="object"):  # of one process alone, on all
        mover.rebind(a, wrong_on_last(comm, object(), c))
    assert process in repr(mover) and process in repr(d) and process in d._repr_html_()
    with pytest.raises(dm.errors.OutOfRange, match=f"is not on process {comm.rank}"):
        a[10**6]


def test_a_communicator_that_one_process_uses_late(comm, plan):
    """Its first use waits for all, up to the deadline, and can be tried again."""
    if comm.size == 1:
        pytest.skip("takes several processes")
    fresh = comm.Dup()
    if comm.rank > 0:
        dm.set_timeout(0.05)
        try:
            for _ in range(2):
                with pytest.raises(dm.Timeout):
                    dm.Array(plan.source, comm=fresh)
        finally:
            dm.set_timeout(None)
    comm.barrier()
    a, b = dm.Array(plan.source, comm=fresh), dm.Array(plan.destination, comm=fresh)
    a.local[...] = 3
    dm.Mover(plan, a, b)()
    assert (b.local == 3).all()


def test_a_communicator_that_one_process_gave_up(comm, plan):
    """Those that come after it hear of that at their deadline; all can try again."""
    if comm.size == 1:
        pytest.skip("takes several processes")
    fresh = comm.Dup()
    for early in (True, False):
        if early == (comm.rank == 0):
            dm.set_timeout(0.05)
            try:
                for _ in range(2):
                    with pytest.raises(dm.Timeout, match="to use the communicator"):
                        dm.Array(plan.source, comm=fresh)
            finally:
                dm.set_timeout(None)
        comm.barrier()
    a, b = dm.Array(plan.source, comm=fresh), dm.Array(plan.destination, comm=fresh)
    a.local[...] = 3
    dm.Mover(plan, a, b)()
    assert (b.local == 3).all()


def test_a_timeout_of_a_collective_call_names_those_that_are_missing(comm, plan):
    if comm.size == 1:
        pytest.skip("takes several processes")
    fresh = comm.Dup()
    a, b = dm.Array(plan.source, comm=fresh), dm.Array(plan.destination, comm=fresh)
    if comm.rank > 0:
        dm.set_timeout(0.05)
        try:
            with pytest.raises(dm.Error, match=r"waited .* s") as caught:
                dm.Mover(plan, a, b)
        finally:
            dm.set_timeout(None)
        if not drawn.NODE_SIZE:  # on one node; the error is that of the first to give up
            assert re.search(r" s for process(es)? 0", str(caught.value))
    comm.barrier()
    if comm.rank == 0:
        with pytest.raises(dm.errors.PeerFailed):
            dm.Mover(plan, a, b)


def test_all_movers_of_a_progress_thread_fail_with_one_process(comm, plan, cases):
    """They fail in that thread and in `wait` at the same time."""
    if comm.size == 1:
        pytest.skip("takes several processes")
    for _ in range(10 * cases):
        fresh = comm.Dup()
        movers = [
            dm.Mover(
                plan, dm.Array(plan.source, comm=fresh), dm.Array(plan.destination, comm=fresh)
            )
            for _ in range(48)
        ]
        comm.barrier()
        if comm.rank == comm.size - 1:
            movers[0].start()
            comm.barrier()
            movers[0] = None  # gives it up
        else:
            with dm.progress_thread():
                for mover in movers[1:]:
                    mover.start()
                comm.barrier()
                for mover in movers[1:]:
                    with pytest.raises(dm.PeerFailed):
                        mover.wait(timeout=60)
        movers.clear()
        comm.barrier()


@pytest.mark.parametrize("timeout", [0, -1, np.nan, np.inf])
def test_times_that_cannot_be_waited(comm, plan, timeout):
    mover = dm.Mover(plan, dm.Array(plan.source, comm=comm), dm.Array(plan.destination, comm=comm))
    mover.start()
    with pytest.raises(dm.errors.InvalidArgument, match="above 0"):
        mover.wait(timeout)
    with pytest.raises(dm.errors.WrongType):
        mover.wait("long")
    mover.wait()


def test_a_forked_child_leaves_movers_alone(comm, plan):
    a, b = dm.Array(plan.source, comm=comm), dm.Array(plan.destination, comm=comm)
    bound, flying = dm.Mover(plan, a, b), dm.Mover(plan, a, b)
    a.local[...] = 5
    comm.barrier()
    flying.start()
    if comm.rank == 0:
        child = os.fork()
        if child == 0:
            refused = 0
            try:
                for call in (
                    bound,
                    bound.tune,
                    flying.wait,
                    flying.test,
                    functools.partial(dm.Array, comm, plan.source),
                ):
                    try:
                        call()
                    except dm.errors.MpiFailed:
                        refused += 1
                del bound, flying, a, b, call
                gc.collect()
            finally:
                os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    flying.wait()
    bound()
    assert (b.local == 5).all()


@pytest.mark.parametrize("call", ["save", "wait", "close", "move"])
def test_a_lock_whose_file_cannot_be_closed_harms_nobody(comm, plan, place, monkeypatch, call):
    path = f"{place}/a.npy"
    a = dm.Array(plan.source, comm=comm)
    a.local[...] = 4
    dm.save(f"{place}/in.npy", {"a": a})
    run = {
        "save": lambda: dm.save(path, {"a": a}),
        "wait": lambda: dm.save(path, {"a": a}, wait=False).wait(),
        "close": lambda: dm.files.open(path, plan.source, comm=comm, mode="w", dtype="f8").close(),
        "move": lambda: dm.files.move(f"{place}/in.npy", path, comm=comm),
    }[call]
    locks = set()

    def hold(path, hold=unfinished.hold):
        fd = hold(path)
        locks.add(fd)
        return fd

    def close(fd, close=os.close):
        close(fd)
        if fd in locks:
            locks.clear()
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    if comm.rank == comm.size - 1:
        monkeypatch.setattr(unfinished, "hold", hold)
        monkeypatch.setattr(os, "close", close)
    run()
    monkeypatch.undo()
    comm.Barrier()
    assert not locks and sorted(os.listdir(place)) == ["a.npy", "in.npy"]
    comm.Barrier()


def unknown_on_last(comm):
    """A keyword that there is not, on one process."""
    return {"bogus": 1} if comm.rank == comm.size - 1 else {}


def test_what_is_given_by_name_is_said(comm, plan):
    a, b = dm.Array(plan.source, comm=comm), dm.Array(plan.destination, comm=comm)
    with pytest.raises(dm.errors.WrongType, match=r"by name are given together=, .*, comm="):
        dm.Mover(plan, a, b, comm)


def test_a_start_that_python_refuses(comm):
    """The others hear of it where they wait; then all go on."""
    own = np.array([comm.rank])
    moves = dm.Migration(own, comm=comm)
    said = unknown_on_last(comm)
    with pytest.raises(TypeError, match="bogus") if said else contextlib.nullcontext():
        moves.start(own, **said)
    with pytest.raises(dm.errors.WrongType, match="bogus"):
        moves.wait()
    moves.start(own)
    assert moves.wait() == [comm.rank]


def test_a_call_that_nobody_hears_of_is_pythons_own_error(comm):
    with pytest.raises(TypeError, match="bogus"):
        dm.Mover(None, None, None, bogus=1)
