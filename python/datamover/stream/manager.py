# SPDX-License-Identifier: BSD-3-Clause
"""Manager: many streams of a program share memory that is enough for a few of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from datamover._plan import Places
from datamover.arguments import seconds, text
from datamover.collective_calls import agreeing, leaving, refused_by
from datamover.errors import InvalidArgument
from datamover.stream.group import Group
from datamover.stream.producer import Stream, _count, _text

if TYPE_CHECKING:
    from mpi4py import MPI


class Manager:
    """Give a few of many streams their buffers, while the others hold none.

    A stream takes a place in the call that sends, where somebody wants what is sent, and keeps it,
    with the memory of its messages, until another stream needs it. Then the `send` of that one
    waits, whatever the policies, for a stream whose consumers have taken all or have gone. A stream
    whose consumer stalls keeps its place; the others share those that are left, or `stall` says
    when the consumer is ended. As long as a step is not complete its stream keeps its place.

    Collective to make, to open a stream and to close.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm or None
        The processes that send; None for this one alone, without MPI.
    active : int
        Most streams that hold buffers at a time.
    unit : {"step", "array"}
        The unit after which a stream yields to others that wait. With "array", consumers get each
        array as a step of its own. It matters if threads send, each on a communicator of its own:
        the streams of one thread take turns in the order of its calls.
    stall : float, optional
        Ends consumers, with `Timeout`, that have taken nothing for so many seconds while another
        stream waits for their stream's place. Never without it.

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
    >>> with dm.stream.Manager(None, active=1) as manager:
    ...     for name in ("temperature", "pressure"):
    ...         manager.open(name, "tcp://127.0.0.1:0", policy="drop_oldest")
    ...     for out in manager.streams.values():
    ...         out.send("u", np.arange(6.0), layout=line)  # nobody listens
    ...     manager.counters()["active"]
    Stream('tcp://127.0.0.1:...', 0 arrays)
    Stream('tcp://127.0.0.1:...', 0 arrays)
    0
    """

    @refused_by(agreeing)
    def __init__(
        self,
        comm: MPI.Comm | None,
        *,
        active: int = 1,
        unit: str = "step",
        stall: float | None = None,
    ):
        self._comm, self._group, self._process = comm, Group(comm), os.getpid()
        self._streams: dict[str, Stream] = {}
        self._places = self._group.together(
            lambda: Places(_count(active, "active"), _text(unit, "unit"), seconds(stall, "stall"))
        )

    @refused_by(lambda given, _, error: given[0]._group.refuse(error))
    def open(
        self, name: str, address: str, *, comm: MPI.Comm | None = None, **options: Any
    ) -> Stream:
        """Open a stream, under a name that no other open one of these has. Collective.

        Parameters
        ----------
        name : str
        address : str
            Where process 0 listens, another one for each stream.
        comm : mpi4py.MPI.Comm, optional
            The processes of this stream, of which the first is the manager's, where a thread of
            its own sends it (`with` the stream, so that the others hear of its failure); the
            manager's without it.
        **options
            Those of `datamover.Stream`.

        Returns
        -------
        Stream
        """
        group = self._group if comm is None else Group(comm)
        group.together(lambda: self._check_name(name))
        place = (self._places, name)
        comm = self._comm if comm is None else comm
        self._streams[name] = Stream(comm, address, **options, _place=place)
        return self._streams[name]

    def _check_name(self, name: str) -> None:
        if not text(name, "name").isprintable() or not name:
            raise InvalidArgument(f"name is {name!r}; it must be printable text")

    @property
    def streams(self) -> Mapping[str, Stream]:
        """The streams that were opened, by name."""
        return MappingProxyType(self._streams)

    def counters(self) -> dict[str, int]:
        """Count for all streams what `Stream.counters` counts for one. Local.

        On process 0 `active` says how many hold a place now.
        """
        counts: dict[str, int] = {}
        for stream in self._streams.values():
            for what, count in stream.counters().items():
                counts[what] = counts.get(what, 0) + count
        return counts | ({"active": self._places.active} if self._group.rank == 0 else {})

    @refused_by(lambda given, _, error: given[0]._refuse_close(error))
    def close(self, timeout: float | None = 30.0) -> None:
        """Close all streams, in the order of their opening, as `Stream.close`. Collective."""
        for stream in self._streams.values():
            stream.close(timeout)

    def _refuse_close(self, error: BaseException) -> NoReturn:
        """Have it be an error of all that this process cannot close; see `Stream`. Collective."""
        for stream in self._streams.values():
            if not stream._end.is_closed:
                stream._refuse(error)
        raise error  # there is nothing left to close

    def __enter__(self) -> Manager:
        return self

    @refused_by(leaving)
    def __exit__(self, kind: type | None, error: BaseException | None, *_: object) -> None:
        """Close the streams; after an exception end them at once, and tell the other processes."""
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
