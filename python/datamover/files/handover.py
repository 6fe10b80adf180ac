# SPDX-License-Identifier: BSD-3-Clause
"""Transfer of chunks from the processes that encode them to the one that writes them.

Some files can be written by one process only. The threads of all processes encode; each thread then
waits until its chunk has been taken, so that no more chunks are held than there are threads. The
thread that calls `run` communicates; other threads encode. The writing process takes one chunk
after the other, from any process that has one, and writes it while its own threads encode.
"""

from __future__ import annotations

import collections
import contextlib
import math
import struct
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover.errors import PeerFailed, Unsupported
from datamover.files.agreement import Alarm, is_agreed, together
from datamover.files.chunk_boxes import ChunkedArray
from datamover.files.formats import Shape
from datamover.files.pipeline import GivenUp
from datamover.mpi import comm_address, duplicated, gathered

if TYPE_CHECKING:
    from mpi4py import MPI

WRITER = 0
CHUNK, END = 1, 2  # tags
#: MPI counts the bytes of a message in an int.
MAX_CHUNK_BYTES = 1 << 30
#: Seconds between two polls while no message arrives or is sent.
IDLE_SECONDS = 1e-3
#: Seconds of a wait for a thread before it is checked again.
PATIENCE_SECONDS = 0.1


def needs_handover(output: Any, processes: int) -> bool:
    """Return whether this number of processes must pass their chunks to one."""
    return processes > 1 and isinstance(output, ChunkedArray) and output.has_one_writer


class Described(ChunkedArray):
    """An output that is handed over, in the form used before a file exists.

    Parameters
    ----------
    output : ChunkedArray
        With `encode` and `put`.

    Attributes
    ----------
    chunk_bytes : int
        Size of a chunk before it is encoded.

    Raises
    ------
    Unsupported
        A chunk is too large for a message.
    """

    def __init__(self, output: Any):
        self.spec, self.granule = output.spec, output.granule
        self.fill_bytes, self.is_encoded = output.fill_bytes, output.is_encoded
        self.chunk_bytes = math.prod(self.granule) * self.spec.dtype.itemsize
        self._output = output
        if self.chunk_bytes > MAX_CHUNK_BYTES:
            raise Unsupported(
                f"chunks of {self.chunk_bytes:,} bytes are too large to be written by several "
                f"processes; the limit is {MAX_CHUNK_BYTES:,}; omit -n, or make the chunks smaller"
            )

    @property
    def write_copies(self) -> int:
        """Number of copies: an encoded chunk, a message, and one received from another process."""
        return 3


class Handover(Described):
    """An output in chunks that several processes write, through one of them. Collective.

    Parameters
    ----------
    comm : MPI.Comm
    output : ChunkedArray
        With `encode` and `put`; on all processes but the first it only encodes.

    Attributes
    ----------
    alarm : Alarm
        Rings if this process will pass on no more chunks.
    """

    def __init__(self, comm: MPI.Comm, output: Any):
        super().__init__(output)
        self._is_writer = comm.rank == WRITER
        self._header = struct.Struct(f"<{len(self.granule)}q")
        self._changed = threading.Condition()
        self._waiting: collections.deque[_Parcel] = collections.deque()  # to be sent
        self._sent: list[tuple[Any, _Parcel]] = []
        # zlib's output for incompressible bytes is a little larger.
        most_bytes = self._header.size + self.chunk_bytes + self.chunk_bytes // 1000 + 64
        with together(comm):
            self._buffer = np.empty(most_bytes if self._is_writer else 0, np.uint8)
        self._address = comm_address(comm)
        self._comm = duplicated(comm)
        self.alarm = Alarm(comm)
        self._posted = 0  # messages, on this process
        self._taken = [0] * comm.size  # messages, of each process
        self._is_torn = False  # whether an error occurred between a message and its count
        self._gives_up = True
        self._is_done = True
        self._failure: BaseException | None = None

    def write_chunk(self, cell: Shape, chunk: np.ndarray) -> None:
        """Encode a chunk, contiguous in C order; return when its memory is no longer needed."""
        data = self._output.encode(chunk)
        if self._is_writer:
            if self._gives_up:
                raise GivenUp
            self._output.put(cell, data)
            return
        if data is None:  # nothing is to be written
            return
        parcel = _Parcel(b"".join((self._header.pack(*cell), data)))
        del data
        with self._changed:
            self._waiting.append(parcel)
            self._changed.notify_all()
            self._changed.wait_for(lambda: parcel.is_taken or self._gives_up)
            if not parcel.is_taken:
                raise GivenUp

    def gives_up(self) -> bool:
        """Return whether this or another process has failed. Local."""
        return self._gives_up

    def run(self, work: Callable[[], None]) -> None:
        """Run the work that writes chunks, on all processes, until all chunks are in the file.

        Collective, except for failures: if one process fails, the others give up and return, and
        get the reason in the next agreement.

        Parameters
        ----------
        work : callable
            Uses no MPI; called in another thread.
        """
        self._gives_up, self._is_done, self._failure = False, True, None
        try:
            self._start(work)
            self._carry()
        except BaseException as error:
            self._is_torn = self._is_torn or not isinstance(error, Exception)
            self._give_up()
            self.alarm.ring()
            self._wait()
            raise

    def _start(self, work: Callable[[], None]) -> None:
        try:
            self._is_done = False  # here: an interrupt at the line before is not caught
            threading.Thread(target=self._do, args=(work,)).start()
        except BaseException:
            self._is_done = True
            raise

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as e:
            self._failure = e
        with self._changed:
            self._is_done = True
            self._changed.notify_all()

    def _carry(self) -> None:
        """Send or receive chunks until all processes have done their work, or one has failed."""
        ends_missing = self._comm.size - 1 if self._is_writer else 0
        has_ended = self._is_writer
        while True:
            if self.alarm.rings():
                self._give_up()
                self._wait()
                return
            is_done = self._is_done
            if is_done and self._failure is not None:
                raise self._failure
            moved = self._send()
            if self._is_writer:
                found = self._take()
                ends_missing -= found == END
                moved = moved or found is not None
            if is_done and not has_ended and not self._waiting:
                has_ended = True  # after all chunks: messages do not overtake each other
                self._post(_Parcel(b""), END)
            if is_done and has_ended and not ends_missing and not self._sent:
                return
            if not moved:
                self._look_away()

    def _send(self) -> bool:
        """Post encoded chunks; let the threads continue whose chunks were received."""
        with self._changed:
            parcels, self._waiting = self._waiting, collections.deque()
        for parcel in parcels:
            self._post(parcel, CHUNK)
        taken: list[_Parcel] = []
        on_their_way = []
        for request, parcel in self._sent:
            if request.Test():
                taken.append(parcel)
            else:
                on_their_way.append((request, parcel))
        self._sent = on_their_way
        if taken:
            with self._changed:
                for parcel in taken:
                    parcel.is_taken = True
                self._changed.notify_all()
        return bool(parcels or taken)

    def _post(self, parcel: _Parcel, tag: int) -> None:
        self._posted += 1
        # Synchronous, even for small messages: otherwise they would accumulate at the receiver.
        self._sent.append((self._comm.Issend(parcel.data, WRITER, tag), parcel))

    def _take(self) -> int | None:
        """Receive a message if there is one, and write its chunk; return its tag."""
        from mpi4py import MPI

        status = MPI.Status()
        message = self._comm.Improbe(status=status)
        if message is None:
            return None
        data = self._buffer[: status.Get_count(MPI.BYTE)]
        message.Recv(data)
        self._taken[status.Get_source()] += 1
        if status.Get_tag() == CHUNK:
            size = self._header.size
            self._output.put(self._header.unpack(data[:size].tobytes()), data[size:])
        return status.Get_tag()

    def _look_away(self) -> None:
        with self._changed:
            if not self._waiting:
                self._changed.wait(IDLE_SECONDS)

    def _give_up(self) -> None:
        with self._changed:
            self._gives_up = True
            self._changed.notify_all()

    def _wait(self) -> None:
        """Wait until the work has ended.

        Not by `join`: if a signal interrupts it, Python 3.11 considers the thread ended.
        """
        with self._changed:
            while not self._is_done:
                self._changed.wait(PATIENCE_SECONDS)

    def __enter__(self) -> Handover:
        return self

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        """Receive messages to processes that had given up. Collective, unless one has left."""
        if not is_agreed(error):
            return
        with contextlib.suppress(PeerFailed):  # of one that has left
            self._settle()
            self.alarm.settle()

    def _settle(self) -> None:
        posted = [
            int(n[0]) for n in gathered(self._address, [-1 if self._is_torn else self._posted])
        ]
        if min(posted) < 0:
            return  # messages in flight are unknown: the communicator is kept for them
        if self._is_writer:
            for rank, count in enumerate(posted):
                for _ in range(count - self._taken[rank]):
                    self._drop(rank)
        # MPI's wait cannot be interrupted and has no timeout: receive all messages before.
        gathered(self._address, [])
        for request, _ in self._sent:
            request.Wait()
        self._comm.Free()

    def _drop(self, rank: int) -> None:
        from mpi4py import MPI

        status = MPI.Status()
        message = self._comm.Mprobe(rank, status=status)
        message.Recv(self._buffer[: status.Get_count(MPI.BYTE)])

    def sync(self) -> None:
        """Sync the file to the disk, on the process that writes it."""
        if self._is_writer:
            self._output.sync()

    def close(self) -> None:
        """Close the file."""
        if self._is_writer:
            self._output.close()


class _Parcel:
    """A chunk in transit."""

    def __init__(self, data: bytes):
        self.data = data
        self.is_taken = False
