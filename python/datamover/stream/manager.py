# SPDX-License-Identifier: BSD-3-Clause
"""Manager: many streams of a program share memory that is enough for a few of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from datamover._plan import Places
from datamover.arguments import options_of, seconds, text
from datamover.collective_calls import agreeing, leaving, refused_by
from datamover.deprecated import comm_by_place
from datamover.errors import InvalidArgument
from datamover.stream.group import Group
from datamover.stream.producer import Stream, _count, _text

if TYPE_CHECKING:
    from mpi4py import MPI


class Manager:
    """Share a few sets of buffers among many streams.

    A stream takes a place in the `send` that first has a consumer to send to. It keeps the place,
    and the memory of its messages, until another stream needs it. The `send` of that stream then
    waits, whatever the policies, for a stream whose consumers have received everything or have
    left. A stream whose consumer stalls keeps its place, and the others share the remaining ones;
    with `stall`, such a consumer is ended. A stream keeps its place until its step is complete.

    Creating a manager, opening a stream and closing are collective.

    Parameters
    ----------
    active : int
        Maximum number of streams that hold buffers at the same time.
    unit : {"step", "array"}
        The unit after which a stream yields to others that wait. With "array", consumers get each
        array as a step of its own. It matters if threads send, each on a communicator of its own:
        the streams of one thread take turns in the order of its calls.
    stall : float, optional
        Seconds after which a consumer that has received nothing, while another stream waits for
        the place of its stream, is ended with `Timeout`. By default never.
    comm : mpi4py.MPI.Comm or None
        The processes that send; None for this one alone, without MPI.

    Raises
    ------
    InvalidArgument
        A number or unit is not valid.

    Notes
    -----
    Source: Network I/O for a distributed-memory machine, section 5.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> line = dm.BlockCyclic(6, "block", nprocs=1)
    >>> with dm.stream.Manager(active=1) as manager:
    ...     for name in ("temperature", "pressure"):
    ...         manager.open(name, "tcp://127.0.0.1:0", policy="drop_oldest")
    ...     for out in manager.streams.values():
    ...         out.send("u", np.arange(6.0), layout=line)  # nobody listens
    ...     manager.counters()["active"]
    Stream('tcp://127.0.0.1:...', 0 arrays)
    Stream('tcp://127.0.0.1:...', 0 arrays)
    0
    """

    @comm_by_place(1)
    @refused_by(agreeing)
    def __init__(
        self,
        *,
        active: int = 1,
        unit: str = "step",
        stall: float | None = None,
        comm: MPI.Comm | None = None,
    ):
        self._comm, self._group, self._process = comm, Group(comm), os.getpid()
        self._streams: dict[str, Stream] = {}
        self._places = self._group.together(
            lambda: Places(_count(active, "active"), _text(unit, "unit"), seconds(stall, "stall"))
        )

    @refused_by(lambda given, _, error: given[0]._group.refuse(error))
    @options_of(Stream)
    def open(
        self, name: str, address: str, *, comm: MPI.Comm | None = None, **options: Any
    ) -> Stream:
        """Open a stream, under a name that no other open stream of this manager has. Collective.

        Parameters
        ----------
        name : str
        address : str
            Where process 0 listens; different for each stream.
        comm : mpi4py.MPI.Comm, optional
            The processes of this stream, if a thread of its own sends it. Its process 0 must be
            that of the manager. Use the stream in a `with` block, so that the other processes are
            notified of a failure. By default, the manager's communicator.
        **options
            Options of `datamover.Stream`.

        Returns
        -------
        Stream
        """
        group = self._group if comm is None else Group(comm)
        group.together(lambda: self._check_name(name))
        place = (self._places, name)
        comm = self._comm if comm is None else comm
        self._streams[name] = Stream(address, comm=comm, _place=place, **options)
        return self._streams[name]

    def _check_name(self, name: str) -> None:
        if not text(name, "name").isprintable() or not name:
            raise InvalidArgument(f"name is {name!r}; it must be printable text")

    @property
    def streams(self) -> Mapping[str, Stream]:
        """The streams that were opened, by name."""
        return MappingProxyType(self._streams)

    def counters(self) -> dict[str, int]:
        """Return the sums of `Stream.counters` over all streams. Local.

        On process 0, `active` is the number of streams that have a place now.
        """
        counts: dict[str, int] = {}
        for stream in self._streams.values():
            for what, count in stream.counters().items():
                counts[what] = counts.get(what, 0) + count
        return counts | ({"active": self._places.active} if self._group.rank == 0 else {})

    @refused_by(lambda given, _, error: given[0]._refuse_close(error))
    def close(self, timeout: float | None = 30.0) -> None:
        """Close all streams in the order of their opening; see `Stream.close`. Collective."""
        for stream in self._streams.values():
            stream.close(timeout)

    def _refuse_close(self, error: BaseException) -> NoReturn:
        """Raise on all processes that this one cannot close; see `Stream`. Collective."""
        for stream in self._streams.values():
            if not stream._end.is_closed:
                stream._refuse(error)
        raise error  # there is nothing left to close

    def __enter__(self) -> Manager:
        return self

    @refused_by(leaving)
    def __exit__(self, kind: type | None, error: BaseException | None, *_: object) -> None:
        """Close the streams; after an exception end them at once, and notify the others."""
        if os.getpid() != self._process:
            return
        if error is None:
            self.close()
            return
        streams = [stream for stream in self._streams.values() if not stream._end.is_closed]
        if streams and all(error is not stream._raised for stream in self._streams.values()):
            self._group.tell_failure(error, of_manager=True)
        for stream in streams:
            stream._stop()

    def __repr__(self) -> str:
        return f"Manager({', '.join(self._streams)})"
