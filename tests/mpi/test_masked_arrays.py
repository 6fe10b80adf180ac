# SPDX-License-Identifier: BSD-3-Clause
"""Masked arrays: rejected on all processes wherever the mask would be lost."""

import numpy as np
import pytest

import datamover as dm

MASKED = np.ma.masked_equal([1.0, 2.0, 3.0], 2.0)
PLAIN = np.zeros(3)


def calls_of(comm):
    """What each call does with the array that is given to it; all are collective."""
    line = dm.BlockCyclic(3 * comm.size, "block", nprocs=comm.size)
    same = dm.redistribute(line, line)
    ranks = np.full(3, comm.rank)

    def bound(source, destination):
        dm.Mover(same, source, destination, comm=comm)

    def moved(elements, **said):
        dm.Migration(ranks, comm=comm).move(elements, **said)

    def rebound(array):
        dm.Mover(same, PLAIN, np.zeros(3), comm=comm).rebind(PLAIN, array)

    def streamed(array):
        with dm.Stream("tcp://127.0.0.1:0", comm=comm) as out:
            out.send("u", array, layout=line)

    def indexed(array):
        dm.advanced.index_lists(
            3 * comm.size, (array + 3 * comm.rank).astype("i8") % comm.size, comm=comm
        )

    return {
        "source": lambda a: bound(a, np.zeros(3)),
        "destination": lambda a: bound(PLAIN, a),
        "block": lambda a: bound({comm.rank: a}, np.zeros(3)),
        "one of several": lambda a: bound([PLAIN, a], [np.zeros(3), np.zeros(3)]),
        "set": lambda a: dm.Mover([(same, a, np.zeros(3))], comm=comm),
        "rebind": rebound,
        "column": moved,
        "columns": lambda a: moved([PLAIN, a]),
        "column of a mapping": lambda a: moved({"x": a}),
        "out": lambda a: moved(PLAIN, out=a),
        "in place": lambda a: dm.Migration(ranks, comm=comm).move_in_place(a),
        "reverse": lambda a: dm.Migration(ranks, comm=comm).reverse(a),
        "elements": lambda a: dm.migrate(a, ranks, comm=comm),
        "targets": lambda a: dm.Migration((a * 0).astype("i4"), comm=comm),
        "keys": lambda a: dm.migrate(a, dm.targets.splitters([1.5] * (comm.size - 1)), comm=comm),
        "stream": streamed,
    }


@pytest.mark.parametrize("guilty", [0, -1])
@pytest.mark.parametrize("name", calls_of(type("Comm", (), {"size": 1, "rank": 0})))
def test_is_refused_on_all(comm, name, guilty):
    mine = comm.rank == guilty % comm.size
    call = calls_of(comm)[name]
    with pytest.raises(dm.errors.WrongType, match="masked"):
        call(MASKED.copy() if mine else PLAIN.copy())
    assert comm.allreduce(1) == comm.size


def test_is_refused_without_others():
    relation = dm.advanced.AddressRelation.from_pairs([0, 1, 2], [2, 1, 0])
    for call in (
        lambda: dm.advanced.UserArrays(MASKED, ghost=1),
        lambda: dm.advanced.copy(MASKED, np.zeros(3)),
        lambda: dm.advanced.copy(PLAIN, MASKED.copy()),
        lambda: dm.advanced.copy(MASKED, np.zeros(3), source_index=[0, 1, 2]),
        lambda: dm.advanced.copy(PLAIN, np.zeros(3), source_index=np.ma.masked_equal([0, 1, 2], 1)),
        lambda: relation.gather(MASKED),
        lambda: relation.scatter(MASKED, np.zeros(3)),
        lambda: relation.copy(MASKED, np.zeros(3)),
        lambda: dm.IndexList(3, [np.ma.masked_equal([0, 1, 2], 1)]),
    ):
        with pytest.raises(dm.errors.WrongType, match="masked"):
            call()
