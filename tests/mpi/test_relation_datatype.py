# SPDX-License-Identifier: BSD-3-Clause
"""Relations as MPI datatypes: contain the same elements as the relation."""

import numpy as np
import pytest

import datamover as dm

ENCODINGS = ["pairs", "blocks", "runs", "dictionary", "product", "offsets"]


def packed(MPI, relation, side, array, element=None):
    """What MPI sends of an array as one side of a relation."""
    kind = relation.datatype(side, element)
    elem_bytes = relation.source_elem_bytes if side == "source" else relation.destination_elem_bytes
    assert kind.Get_size() == len(relation) * elem_bytes
    message = np.zeros(len(relation) * elem_bytes, "u1")
    MPI.COMM_SELF.Sendrecv([array, 1, kind], 0, recvbuf=message)
    kind.Free()
    return message


def test_names_the_elements_in_order(comm, rng):
    from mpi4py import MPI

    for _ in range(6):
        n = int(rng.integers(0, 60))
        source, destination = rng.integers(0, 80, n), rng.permutation(80)[:n]
        if rng.random() < 0.5:
            source = np.sort(source)
        a = rng.random(80)
        relation = dm.advanced.AddressRelation.from_pairs(source, destination)
        for encoding in ENCODINGS:
            encoded = relation.encode(encoding)
            for element in (None, MPI.DOUBLE):
                message = packed(MPI, encoded, "source", a, element)
                assert message.tobytes() == a[source].tobytes()
                assert packed(MPI, encoded, "destination", a).tobytes() == a[destination].tobytes()


def test_steps_in_any_direction(comm, rng, cases):
    """Nested steps of a few bytes, forwards and backwards; elements may overlap, being read."""
    from mpi4py import MPI

    memory = rng.integers(0, 256, 4096).astype("u1")
    middle = 2048
    for _ in range(300 * cases):
        elem_bytes = int(rng.choice([1, 1, 2, 3, 8]))
        addresses = np.zeros(1, "i8")
        for _ in range(int(rng.integers(1, 4))):
            step = int(rng.choice([-1, 1, -2, 2, 3, 5, -7])) * int(rng.choice([1, elem_bytes]))
            addresses = np.add.outer(step * np.arange(rng.integers(1, 6)), addresses).ravel()
        relation = dm.advanced.AddressRelation.from_byte_pairs(
            addresses, elem_bytes * np.arange(len(addresses)), elem_bytes
        )
        expected = memory[middle + addresses[:, None] + np.arange(elem_bytes)]
        for encoding in ENCODINGS:
            kind = relation.encode(encoding).datatype("source")
            at = MPI.Datatype.Create_struct([1], [MPI.Get_address(memory) + middle], [kind])
            at.Commit()
            message = np.zeros(expected.size, "u1")
            MPI.COMM_SELF.Sendrecv([MPI.BOTTOM, 1, at], 0, recvbuf=message)
            at.Free()
            kind.Free()
            np.testing.assert_array_equal(message, expected.ravel())


def test_carries_a_redistribution(comm, rng):
    """Both sides of every pair by datatypes alone, on both sides at once."""
    words = ["*", "block", "cyclic", "cyclic(2)", "cyclic(3)", "cyclic(5)"]
    for _ in range(6):
        shape = tuple(int(x) for x in rng.integers(1, 30, 2))
        source, destination = (
            dm.BlockCyclic(shape, f"({rng.choice(words)}, {rng.choice(words)})", comm.size)
            for _ in range(2)
        )
        plan = dm.redistribute(source, destination)
        whole = np.arange(np.prod(shape), dtype="f8").reshape(shape)
        mine = np.ascontiguousarray(whole[np.ix_(*source.global_indices(comm.rank))])
        out = np.full(destination.local_shape(comm.rank), -1.0)
        kinds, requests = [], []
        for peer in range(comm.size):
            incoming = plan.relation(peer, comm.rank)
            if len(incoming):
                kinds.append(incoming.datatype("destination"))
                requests.append(comm.Irecv([out, 1, kinds[-1]], peer))
        for peer in range(comm.size):
            outgoing = plan.relation(comm.rank, peer)
            if len(outgoing):
                kinds.append(outgoing.datatype("source"))
                requests.append(comm.Isend([mine, 1, kinds[-1]], peer))
        requests[0].Waitall(requests) if requests else None
        for kind in kinds:
            kind.Free()
        np.testing.assert_array_equal(out, whole[np.ix_(*destination.global_indices(comm.rank))])


def test_size_does_not_follow_the_array(comm):
    """A datatype of 2^40 elements is made at once."""
    n = 1 << 22
    rows = dm.BlockCyclic((n, n), "(cyclic(3), *)", nprocs=4)
    columns = dm.BlockCyclic((n, n), "(*, cyclic(5))", nprocs=4)
    relation = dm.redistribute(rows, columns).relation(1, 2)
    for side in ("source", "destination"):
        kind = relation.datatype(side)
        assert kind.Get_size() == 8 * len(relation)
        kind.Free()


def test_wrong_arguments_are_refused(comm):
    from mpi4py import MPI

    relation = dm.advanced.AddressRelation.from_pairs([0, 3], [1, 0])
    with pytest.raises(dm.errors.InvalidArgument):
        relation.datatype("middle")
    with pytest.raises(dm.errors.WrongType):
        relation.datatype("source", MPI.FLOAT)
