# SPDX-License-Identifier: BSD-3-Clause
"""What happens when one process alone brings something wrong?"""

import numpy as np
import pytest

import datamover as dm


@pytest.fixture
def plan(comm):
    n = 2 * comm.size
    return dm.redistribute(
        dm.BlockCyclic((n, n), "(block, *)", comm.size),
        dm.BlockCyclic((n, n), "(*, block)", comm.size),
    )


def wrong_on_last(comm, wrong, right):
    return wrong if comm.rank == comm.size - 1 else right


WRONG_OPTIONS = {
    "op": (5, dm.WrongType),
    "transport": (None, dm.WrongType),
    "alpha": ("two", dm.WrongType),
    "beta": ([1, 2], dm.WrongType),
    "max_bytes": ("1M", dm.WrongType),
}


@pytest.mark.parametrize("name", WRONG_OPTIONS)
def test_an_option_that_makes_no_sense(comm, plan, name):
    wrong, error = WRONG_OPTIONS[name]
    right = {"op": None, "transport": "auto", "alpha": 1, "beta": 1, "max_bytes": None}[name]
    a, b = dm.XArray(comm, plan.source), dm.XArray(comm, plan.destination)
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
        return
    values = {
        "op": (None, "add"),
        "transport": ("auto", "p2p"),
        "alpha": (1, 2),
        "beta": (1, 2),
        "conjugate": (False, True),
    }[name]
    a, b = dm.XArray(comm, plan.source), dm.XArray(comm, plan.destination)
    with pytest.raises(dm.Mismatch, match="process"):
        dm.Mover(plan, a, b, **{name: wrong_on_last(comm, *values[::-1])})


def test_plans_that_differ_are_always_refused(comm):
    if comm.size == 1:
        return
    n = 4 * comm.size
    word = wrong_on_last(comm, "cyclic", "block")
    plan = dm.redistribute(
        dm.BlockCyclic((n, n), "(block, *)", comm.size),
        dm.BlockCyclic((n, n), f"(*, {word})", comm.size),
    )
    a, b = np.zeros((4, n)), np.ones((n, 4))
    with pytest.raises(dm.Mismatch, match=f"process {comm.size - 1} .*destination layout"):
        dm.Mover(plan, a, b, comm=comm)
    assert (b == 1).all()


def test_arrays_that_are_none(comm, plan):
    a, b = dm.XArray(comm, plan.source), dm.XArray(comm, plan.destination)
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
        dm.XArray(comm, plan.source, **wrong_on_last(comm, wrong, {}))
    assert len(set(comm.allgather(str(caught.value)))) == 1
    dm.XArray(comm, plan.source)


def test_an_interrupt_goes_on_where_it_happened(comm, plan):
    class Interrupting:
        def __index__(self):
            raise KeyboardInterrupt

    a, b = dm.XArray(comm, plan.source), dm.XArray(comm, plan.destination)
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
        with pytest.raises(dm.InvalidArgument):
            dm.Mover(plan, a, b, comm=wrong)
