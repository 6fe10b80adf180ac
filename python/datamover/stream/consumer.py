# SPDX-License-Identifier: BSD-3-Clause
"""How does a program get, step by step, the arrays that another one sends?"""

from __future__ import annotations

import dataclasses
import queue
import threading
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover.arguments import seconds, text
from datamover.arrays import XArray
from datamover.errors import (
    Error,
    InvalidArgument,
    InvalidState,
    IoError,
    Mismatch,
    PeerFailed,
    Timeout,
    WrongType,
    class_of,
)
from datamover.layouts import Layout
from datamover.mpi import error_of
from datamover.stream import endpoint, wire
from datamover.stream.audience import MAX_CREDITS, MAX_WORDS
from datamover.stream.control import FrameWriter
from datamover.stream.data_link import DataLink
from datamover.stream.group import Group
from datamover.stream.message_parts import LocalMemory, Unpacker, new_arrays, plan_between

if TYPE_CHECKING:
    from mpi4py import MPI

#: Pathways share a message at multiples of this.
SHARE_BYTES = 1 << 16
MAX_PRODUCERS = wire.MAX_PROCESSES
#: How often a wait looks whether it was interrupted or has ended.
LOOK_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class ArrayInfo:
    """What an array of a stream is.

    Attributes
    ----------
    name : str
    dtype : dtype
    layout : BlockCyclic, FloorPlan, IndexList or FlatCyclic
        Of the sending processes.
    """

    name: str
    dtype: np.dtype
    layout: Layout

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the whole array."""
        return tuple(self.layout.domain.shape)


class _Wanted:
    """An array that this process gets its part of, in every step."""

    def __init__(self, target: Layout | XArray, rank: int):
        self.target, self._rank = target, rank
        self.layout = target.layout if isinstance(target, XArray) else target
        self.number = -1
        self.dtype: np.dtype | None = None
        self.unpacker: Unpacker | None = None

    def begin(self, info: ArrayInfo, number: int) -> None:
        """Plan what comes from whom, before the first step."""
        if isinstance(self.target, XArray) and self.target.dtype != info.dtype:
            raise WrongType(
                f"array {info.name!r} has dtype {info.dtype}, the XArray {self.target.dtype}"
            )
        self.number, self.dtype = number, info.dtype
        self.unpacker = Unpacker(plan_between(info.layout, self.layout), self._rank, info.dtype)

    def unpack(self, messages: dict[int, np.ndarray]) -> Any:
        """Put messages where their elements belong; give what the user gets."""
        if isinstance(self.target, XArray):
            self.unpacker.unpack(messages, LocalMemory(*self.target.memory()))
            return self.target
        local, arrays = new_arrays(self.layout, self._rank, self.dtype)
        self.unpacker.unpack(messages, local)
        return arrays


@dataclasses.dataclass
class _Arrived:
    """A step whose messages are all here."""

    sequence: int
    number: int
    messages: dict[str, dict[int, np.ndarray]]


def connect(
    address: str,
    comm: MPI.Comm | None = None,
    *,
    token: str | None = None,
    timeout: float | None = 30.0,
    ahead: int = 2,
) -> Consumer:
    """Connect to a stream that another program sends. Collective.

    Parameters
    ----------
    address : str
        Where the stream's process 0 listens, "tcp://host:port".
    comm : mpi4py.MPI.Comm, optional
        The processes that receive; this one alone without it, and then without MPI.
    token : str, optional
        What the stream demands; from the environment variable DATAMOVER_STREAM_TOKEN without it.
    timeout : float, optional
        Seconds to wait for somebody to listen there; None: for ever.
    ahead : int
        Steps that each process takes memory for, beyond the one that is looked at; 1 to 64. It is
        the credit that the stream is granted: nothing else comes.

    Returns
    -------
    Consumer

    Raises
    ------
    Timeout
        Nobody listens there.
    IoError
        Somebody else listens there.
    InvalidState
        The stream has ended, or wants another token.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> line = dm.BlockCyclic(6, "block", nprocs=1)
    >>> with dm.Stream(None, "tcp://127.0.0.1:0", consumers=1) as out:
    ...     with dm.stream.connect(out.address) as source:
    ...         steps = source.steps({"u": line})
    ...         out.send("u", np.arange(6.0), layout=line, step=4)
    ...         step, arrays = next(steps)
    ...         step, arrays["u"].tolist()
    (4, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    """
    return Consumer(address, comm, token=token, timeout=timeout, ahead=ahead)


class Consumer:
    """The receiving end of a stream; made by `connect`.

    Attributes
    ----------
    dropped : int
        Steps that the stream's policy has dropped for this consumer so far.
    """

    def __init__(
        self,
        address: str,
        comm: MPI.Comm | None,
        *,
        token: str | None,
        timeout: float | None,
        ahead: int,
    ):
        self._group = Group(comm)
        self._links: dict[int, list[DataLink]] = {}
        self._infos: dict[int, ArrayInfo] = {}
        self._wanted: dict[str, _Wanted] = {}
        self._steps: queue.SimpleQueue = queue.SimpleQueue()
        self._ready: queue.SimpleQueue = queue.SimpleQueue()
        self._arrays_known = threading.Event()
        self._error: BaseException | None = None
        self._lock = threading.Lock()  # of the links, and of whether they are closed
        self._is_iterating = self._closed = False
        self.dropped = 0
        self._token = endpoint.known_token(token)

        def first() -> dict[str, Any] | None:
            wire.crc32c(b"")
            self._address = wire.parse_address(address)
            self._limit = seconds(timeout)
            if type(ahead) is not int or not 1 <= ahead <= MAX_CREDITS:
                raise InvalidArgument(f"ahead is {ahead!r}, it must be 1 to {MAX_CREDITS}")
            return self._introduce() if self._group.rank == 0 else None

        welcome = self._group.told_by_first(self._group.together(first))
        self._ahead = ahead
        self._key = welcome["key"]
        self._pathways, self._producers = welcome["pathways"], welcome["producers"]
        self._group.together(self._join)
        self._control = FrameWriter(self._socket)
        threading.Thread(target=self._listen, name="datamover-stream", daemon=True).start()

    def _introduce(self) -> dict[str, Any]:
        """Connect as the first process; give what the stream says of itself, checked."""
        words = {"role": "control", "nprocs": self._group.size}
        self._socket = endpoint.dial(*self._address, self._token, words, self._limit)
        said = wire.read_frame(
            self._socket, wire.MAX_FRAME_BYTES, endpoint.after(endpoint.GREETING_SECONDS)
        )
        if said.get("type") == "end":
            raise InvalidState("the stream has ended")
        if said.get("type") == "failed":
            raise _told_error(said)
        producers = wire.items(said, "producers", MAX_PRODUCERS)
        for item in producers:
            if not isinstance(item, list) or len(item) != 2:
                raise IoError("an address of a sending process is a host and a port")
            named = {"host": item[0], "port": item[1]}
            wire.text(named, "host")
            wire.number(named, "port", 1, 65535)
        return {
            "key": wire.text(said, "key"),
            "pathways": wire.number(said, "pathways", 1, 16),
            # The first one was reached; where a tunnel leads there, it knows itself otherwise.
            "producers": [list(self._address), *producers[1:]],
        }

    def _join(self) -> None:
        if self._group.rank > 0:
            words = {"role": "control", "key": self._key, "rank": self._group.rank}
            self._socket = endpoint.dial(*self._address, self._token, words, self._limit)

    def arrays(self, timeout: float | None = None) -> dict[str, ArrayInfo]:
        """Ask which arrays the stream has sent so far, at least one. Collective.

        Waits until the first step has been sent; where that waits for this consumer, until its
        first array is known.

        Raises
        ------
        Timeout
            Nothing was sent in time.
        """

        def ask() -> list[dict[str, Any]]:
            limit = seconds(timeout)
            if self._group.rank > 0:
                return []
            self._control.say({"type": "arrays"})
            until = None if limit is None else endpoint.after(limit)
            while not self._arrays_known.wait(LOOK_SECONDS):
                self._raise_error()
                if until is not None and endpoint.after(0) > until:
                    raise Timeout(f"the stream has sent nothing in {limit} s")
            return [{"number": n, **_words(info)} for n, info in self._infos.items()]

        known = self._group.told_by_first(self._group.together(ask))
        return {one["name"]: _info(one) for one in known}

    def names(self) -> set[str]:
        """Give the names of the arrays that the stream has told of so far. Local, on process 0."""
        return {info.name for info in self._infos.values()}

    def steps(
        self, targets: Mapping[str, Layout | XArray], timeout: float | None = None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Say what is wanted, and iterate over the steps that begin from now on. Collective.

        The saying is collective; each process then gets the same steps in the same order, without
        waiting for the others. Steps end when the stream is closed.

        Parameters
        ----------
        targets : mapping of name to layout or XArray
            For each array that is wanted, how it is to lie on the processes of `comm`. An `XArray`
            is written in every step; with a layout there are new arrays in each.
        timeout : float, optional
            Seconds to wait for a step; for ever without it.

        Yields
        ------
        step : int
            The number that the sending program gave it.
        arrays : dict
            This process's part of each array that was sent in the step: an ndarray; a mapping of
            block to ndarray where it holds several blocks; the `XArray` that was given.

        Raises
        ------
        Mismatch
            Shapes that differ from what is sent, elements that nobody sends, or processes that want
            different things.
        WrongType
            An `XArray` of another dtype.
        PeerFailed
            A process of either program failed or left.
        Timeout
            No step came in time.
        IoError
            A message arrived damaged again and again.
        """
        limit = self._group.together(lambda: self._want(targets, timeout))
        said = zlib.crc32(repr(sorted(self._words_of_wanted())).encode())
        everyone = self._group.told_by_all(said)
        if any(other != said for other in everyone):
            self._fail(Mismatch("the processes of the consumer want different arrays or layouts"))
            self._raise_error()
        if self._group.rank == 0:
            self._control.say({"type": "subscribe", "arrays": self._words_of_wanted()})
        self._control.say({"type": "credit", "steps": self._ahead})
        threading.Thread(target=self._fetch_steps, name="datamover-stream", daemon=True).start()
        return self._iterate(limit)

    def _want(self, targets: Any, timeout: Any) -> float | None:
        if self._closed or self._is_iterating:
            raise InvalidState("the connection is closed, or its steps are iterated over already")
        if not isinstance(targets, Mapping) or not targets:
            raise WrongType("targets must be a mapping of at least one name to its layout")
        limit = seconds(timeout)
        all_wanted: dict[str, _Wanted] = {}
        for name, target in targets.items():
            text(name, "name of an array")
            if not isinstance(target, Layout | XArray):
                raise WrongType(
                    f"the target of {name!r} is a {type(target).__name__}, it must be a layout or"
                    " an XArray"
                )
            wanted = _Wanted(target, self._group.rank)
            if wanted.layout.nprocs != self._group.size:
                raise Mismatch(
                    f"the layout of {name!r} is for {wanted.layout.nprocs} processes, "
                    f"{self._group.size} receive"
                )
            wire.text_of_layout(wanted.layout)  # one that cannot be told is an error here, on all
            all_wanted[name] = wanted
        self._wanted = all_wanted
        self._is_iterating = True
        return limit

    def _words_of_wanted(self) -> list[list[str]]:
        return [[name, wire.text_of_layout(w.layout)] for name, w in self._wanted.items()]

    def _iterate(self, limit: float | None) -> Iterator[tuple[int, dict[str, Any]]]:
        while True:
            arrived = self._next(limit)
            if arrived is None:
                return
            try:
                arrays = {
                    name: self._wanted[name].unpack(messages)
                    for name, messages in arrived.messages.items()
                }
            except BaseException as error:
                self._fail(error)
                raise
            self._control.say({"type": "done", "seq": arrived.sequence})
            number, arrived = arrived.number, None
            yield number, arrays

    def _next(self, limit: float | None) -> _Arrived | None:
        until = None if limit is None else endpoint.after(limit)
        while True:
            self._raise_error()
            if self._closed:
                raise InvalidState("the connection is closed")
            try:
                arrived = self._ready.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                if until is not None and endpoint.after(0) > until:
                    raise Timeout(f"no step came in {limit} s") from None
                continue
            if arrived is None:
                self._raise_error()
            return arrived

    # What runs in threads.

    def _listen(self) -> None:
        """Read what the stream says, until it ends."""
        try:
            while self._hear(wire.read_frame(self._socket)):
                pass
        except BaseException as error:
            self._fail(error)

    def _hear(self, said: dict[str, Any]) -> bool:
        kind = said.get("type")
        if kind == "array":
            if len(self._infos) >= wire.MAX_ARRAYS:
                raise IoError(f"more than {wire.MAX_ARRAYS} arrays")
            self._infos[wire.number(said, "number", 0, wire.MAX_ARRAYS)] = _info(said)
        elif kind == "arrays":
            self._arrays_known.set()
        elif kind == "step":
            self.dropped = wire.number(said, "dropped")
            arrays = [
                wire.number({"array": a}, "array", 0, wire.MAX_ARRAYS)
                for a in wire.items(said, "arrays")
            ]
            self._steps.put((wire.number(said, "seq"), wire.number(said, "step"), arrays))
        elif kind == "end":
            self.dropped = wire.number(said, "dropped")
            self._arrays_known.set()
            self._steps.put(None)
            return False
        elif kind == "failed":
            raise _told_error(said)
        else:
            raise IoError(f"the stream sent a frame of type {str(kind)[:40]!r}")
        return True

    def _fetch_steps(self) -> None:
        """Fetch step after step; what has arrived waits for `steps`, bounded by the credits."""
        try:
            while (step := self._steps.get()) is not None:
                sequence, number, arrays = step
                self._ready.put(_Arrived(sequence, number, self._fetch(sequence, arrays)))
            self._ready.put(None)
        except BaseException as error:
            self._fail(error)

    def _fetch(self, sequence: int, arrays: list[int]) -> dict[str, dict[int, np.ndarray]]:
        found: dict[str, dict[int, np.ndarray]] = {}
        jobs = []
        for number in arrays:
            info = self._infos.get(number)
            if info is None or info.name not in self._wanted or info.name in found:
                raise IoError(f"the stream sends array {number}, which was not asked for")
            wanted = self._wanted[info.name]
            if wanted.unpacker is None:
                wanted.begin(info, number)
            messages = {p: np.empty(n, np.uint8) for p, n in wanted.unpacker.sizes.items()}
            found[info.name] = messages
            for producer, message in messages.items():
                jobs += self._fetch_message(producer, number, sequence, memoryview(message))
        for done in jobs:
            done.result()
        for number in arrays:
            for producer in found[self._infos[number].name]:
                self._links[producer][0].release(number, sequence)
        return found

    def _fetch_message(
        self, producer: int, number: int, sequence: int, message: memoryview
    ) -> list[Any]:
        links = self._links_to(producer)
        share = -(-message.nbytes // len(links) // SHARE_BYTES) * SHARE_BYTES
        share = max(share, SHARE_BYTES)
        return [
            link.fetch(number, sequence, message, begin, min(begin + share, message.nbytes))
            for link, begin in zip(links, range(0, message.nbytes, share), strict=False)
        ]

    def _links_to(self, producer: int) -> list[DataLink]:
        if producer not in self._links:
            if producer >= len(self._producers):
                raise IoError(f"the stream has no sending process {producer}")
            host, port = self._producers[producer]
            words = {"role": "data", "key": self._key, "rank": self._group.rank}
            sockets = [
                endpoint.dial(host, port, self._token, words, endpoint.GREETING_SECONDS)
                for _ in range(self._pathways)
            ]
            links = [DataLink(sock, producer) for sock in sockets]
            with self._lock:
                self._links[producer] = links
                if self._closed:
                    self._close_links()
        return self._links[producer]

    # How it ends.

    def _fail(self, error: BaseException) -> None:
        """Have `steps` raise an error, and tell the other processes, by the stream."""
        if self._error is not None or self._closed:
            return
        self._error = error
        said = error_of(error)
        self._control.say({"type": "bye", "code": said.code, "words": str(said)[:MAX_WORDS]})
        self._steps.put(None)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def counters(self) -> dict[str, int]:
        """Count what this process received, and steps that the stream dropped. Local."""
        links = [link for links in self._links.values() for link in links]
        return {
            "bytes_received": sum(link.bytes_received for link in links),
            "checksum_errors": sum(link.checksum_errors for link in links),
            "connections": len(links),
            "steps_dropped": self.dropped,
        }

    def close(self) -> None:
        """Leave the stream. Local; where other processes still want steps, they fail."""
        if self._closed:
            return
        with self._lock:
            self._closed = True
            self._close_links()
        self._control.say({"type": "bye"})
        self._control.finish()
        self._steps.put(None)
        endpoint.close(self._socket)

    def _close_links(self) -> None:
        for links in self._links.values():
            for link in links:
                link.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, *_: object) -> None:
        if error is not None:
            self._fail(error)
        self.close()

    def __repr__(self) -> str:
        host, port = self._address
        return f"Consumer(tcp://{host}:{port}, process {self._group.rank} of {self._group.size})"


def _words(info: ArrayInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "dtype": wire.words_of_dtype(info.dtype),
        "nprocs": info.layout.nprocs,
        "layout": wire.text_of_layout(info.layout),
    }


def _info(said: dict[str, Any]) -> ArrayInfo:
    nprocs = wire.number(said, "nprocs", 1, MAX_PRODUCERS)
    return ArrayInfo(
        wire.text(said, "name"),
        wire.dtype_of_words(said.get("dtype")),
        wire.layout_of_text(said.get("layout"), nprocs),
    )


def _told_error(said: dict[str, Any]) -> Error:
    words = said.get("words")
    error = class_of(str(said.get("code")))
    if error is Error:
        error = PeerFailed
    return error(str(words)[:MAX_WORDS])
