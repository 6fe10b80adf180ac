# SPDX-License-Identifier: BSD-3-Clause
"""One-sided transports: attach the memory that they need, and continue after a failure."""

import contextlib

import numpy as np
import pytest
from mpi4py import MPI

import datamover as dm

#: MPICH has no more.
MOST_COMMUNICATORS = 2048


def local(array):
    return array.local if isinstance(array, dm.Array) else array


@pytest.mark.parametrize("transport", ["get", "put"])
class TestOneSided:
    def plan(self, comm, elems):
        """Every process sends all it has to the next one."""
        n = comm.size
        pieces = dm.FloorPlan.uniform(dm.Region((0,), (n * elems,)), (n,), nprocs=n)
        plan = dm.MotionPlan(pieces, pieces)
        for i in range(n):
            to = (i + 1) % n
            plan.add_section(i, dm.Region((i * elems,), (i * elems + elems,)), to,
                      dm.Region((to * elems,), (to * elems + elems,)))  # fmt: skip
        return plan

    def ring(self, comm, elems, transport, library=True):
        plan = self.plan(comm, elems)
        a, b = (
            dm.Array(plan.source, "i8", comm=comm) if library else np.zeros(elems, "i8")
            for _ in range(2)
        )
        return dm.Mover(plan, a, b, transport=transport, comm=comm), local(a), local(b)

    def assert_moves(self, comm, moved):
        mover, a, b = moved
        a[...], b[...] = comm.rank + np.arange(a.size), -1
        mover()
        assert (b == (comm.rank - 1) % comm.size + np.arange(a.size)).all()

    @pytest.mark.parametrize("elems", [1, 1000, 400_000])
    def test_what_lies_as_in_the_message_needs_no_buffer(self, comm, transport, elems):
        moved = self.ring(comm, elems, transport)
        for _ in range(3):
            self.assert_moves(comm, moved)
        assert moved[0].counters()["extra_bytes"] == 0

    def test_many_movers_at_once_share_a_window(self, comm, transport):
        """More arrays in pages of their own than are attached, on several communicators."""
        comms = [comm, comm.Dup(), comm.Dup()]
        movers = [self.ring(comms[k % 3], 20_000, transport, k % 2 == 0) for k in range(40)]
        for moved in movers:
            self.assert_moves(comm, moved)
        for moved in movers[::2]:
            moved[0].close()
        for moved in movers[1::2]:
            self.assert_moves(comm, moved)

    def test_small_arrays_beside_each_other_are_attached_once(self, comm, transport):
        """Chunks that continue from one array of the library's into the next lie in one segment."""
        plan = self.plan(comm, 8)
        sources, destinations = (
            [dm.Array(plan.source, "i8", comm=comm) for _ in "abc"] for _ in "st"
        )
        mover = dm.Mover(plan, sources, destinations, transport=f"{transport}:64")
        for k, array in enumerate(sources):
            array.local[...] = 10 * comm.rank + k
        mover()
        for k, array in enumerate(destinations):
            assert (array.local == 10 * ((comm.rank - 1) % comm.size) + k).all()
        for library in (False, True):
            self.assert_moves(comm, self.ring(comm, 8, transport, library))

    def test_buffers_of_many_movers_share_no_pages(self, comm, transport, monkeypatch):
        """What is attached are pages, also where nothing of the library's is shared."""
        monkeypatch.setenv("DATAMOVER_SHARED_BYTES", "0")
        fresh = comm.Dup()
        movers = [self.ring(fresh, 8, transport, library=False) for _ in range(20)]
        for moved in movers:
            self.assert_moves(fresh, moved)

    def test_other_communicators_go_on_after_a_failure(self, comm, transport):
        kept, broken = self.ring(comm.Dup(), 10, transport), comm.Dup()
        self.assert_moves(comm, kept)
        mover, _, _ = self.ring(broken, 300_000, transport)
        comm.barrier()  # all have bound
        if comm.size == 1:
            pytest.skip("takes several processes")
        if comm.rank > 0:
            mover.start()  # process 0 never does
        comm.barrier()  # the others have, and give up
        del mover
        with pytest.raises(dm.PeerFailed):
            while True:
                self.ring(broken, 1, transport)
        self.assert_moves(comm, kept)
        self.assert_moves(comm, self.ring(comm.Dup(), 10, transport))

    def test_communicators_made_and_freed_again_and_again(self, comm, transport):
        """MPICH identifies a window by a number that communicators made later would have too."""
        for _ in range(4):
            for color in (comm.rank // 2, comm.rank % 2, 0):
                part = comm.Split(color)
                self.assert_moves(part, self.ring(part, 100, transport))
                part.Free()
                comm.barrier()


@pytest.mark.parametrize("transport", ["get", "put", "auto"])
def test_communicators_do_not_run_out(comm, rng, transport):
    """All but a few of MPI's are taken, and every step makes and frees some."""
    mover, kept = TestOneSided(), []
    mover.assert_moves(comm, mover.ring(comm, 10, transport))
    with contextlib.suppress(MPI.Exception):
        while len(kept) < MOST_COMMUNICATORS:
            kept.append(comm.Dup())
    for one in kept[-20:]:
        one.Free()
    for _ in range(40):
        part = comm.Split(int(rng.integers(2, size=comm.size)[comm.rank]))
        mover.assert_moves(part, mover.ring(part, 10, transport))
        part.Free()
    for one in kept[:-20]:
        one.Free()
