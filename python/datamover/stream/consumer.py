# SPDX-License-Identifier: BSD-3-Clause
"""How does a program get, step by step, the arrays that another one sends?"""

from __future__ import annotations

import queue
import socket
import threading
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover._plan import plan_between
from datamover.arguments import seconds, text
from datamover.arrays import XArray
from datamover.collective_calls import agreeing, refused_by
from datamover.errors import (
    InvalidArgument,
    InvalidState,
    IoError,
    Mismatch,
    PeerFailed,
    Timeout,
    WrongType,
)
from datamover.layouts import Layout
from datamover.mpi import error_of
from datamover.stream import endpoint, wire
from datamover.stream.control import FrameWriter
from datamover.stream.data_link import DataLink, IncomingMessage
from datamover.stream.group import Group
from datamover.stream.message_parts import LocalMemory, Unpacker, new_arrays
from datamover.stream.receiver import ArrayInfo, Arrived, Receiver, info_of_words, told_error

if TYPE_CHECKING:
    from mpi4py import MPI

MAX_PRODUCERS = wire.MAX_PROCESSES
#: How often a wait looks whether it was interrupted or has ended.
LOOK_SECONDS = 0.2
MAX_LOCAL_NAME = 64


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

    def unpack(self, incoming: dict[int, IncomingMessage]) -> Any:
        """Put messages where their elements belong; give what the user gets."""
        messages = {producer: message.memory for producer, message in incoming.items()}
        if isinstance(self.target, XArray):
            self.unpacker.unpack(messages, LocalMemory(*self.target.memory()))
            return self.target
        local, arrays = new_arrays(self.layout, self._rank, self.dtype)
        self.unpacker.unpack(messages, local)
        return arrays


@refused_by(agreeing)
def connect(
    address: str,
    comm: MPI.Comm | None = None,
    *,
    token: str | None = None,
    timeout: float | None = 30.0,
    ahead: int = 2,
    local: bool = True,
    newest: bool = False,
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
    local : bool
        Whether messages of processes on this machine may come through shared memory.
    newest : bool
        Whether this consumer wants the newest step only, whatever the stream's policy is: one step
        waits for it, is dropped for the next one, and nobody waits for this consumer.

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
    return Consumer(
        address, comm, token=token, timeout=timeout, ahead=ahead, local=local, newest=newest
    )


class Consumer:
    """The receiving end of a stream; made by `connect`."""

    def __init__(
        self,
        address: str,
        comm: MPI.Comm | None,
        *,
        token: str | None,
        timeout: float | None,
        ahead: int,
        local: bool,
        newest: bool,
    ):
        self._group = Group(comm)
        self._wanted: dict[str, _Wanted] = {}
        self._error: BaseException | None = None
        self._is_iterating = self._closed = False
        self._leaving = threading.RLock()  # of the last thing that is said
        self._local, self._newest = local, bool(newest)
        self._token = endpoint.known_token(token)

        def first() -> dict[str, Any] | None:
            self._address = wire.parse_address(address)
            self._limit = seconds(timeout)
            if type(ahead) is not int or not 1 <= ahead <= wire.MAX_CREDITS:
                raise InvalidArgument(f"ahead is {ahead!r}, it must be 1 to {wire.MAX_CREDITS}")
            return self._introduce() if self._group.rank == 0 else None

        welcome = self._group.told_by_first(self._group.together(first))
        self._ahead = ahead
        self._key = welcome["key"]
        self._pathways, self._producers = welcome["pathways"], welcome["producers"]
        self._goes_ahead = welcome["ahead"] and not self._newest
        self._group.together(self._join)
        wire.limit_sending(self._socket, wire.STALLED_SECONDS)
        self._control = FrameWriter(self._socket)
        self._receiver = Receiver(self._socket, self._dial, self._fail)
        self._receiver.start()

    @property
    def dropped(self) -> int:
        """Steps that the stream's policy has dropped for this consumer so far."""
        return self._receiver.dropped

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
            raise told_error(said)
        producers = wire.items(said, "producers", MAX_PRODUCERS)
        for item in producers:
            if not isinstance(item, list) or len(item) != 3:
                raise IoError("an address of a sending process is a host, a port and a name")
            named = {"host": item[0], "port": item[1], "name": item[2]}
            wire.text(named, "host")
            wire.number(named, "port", 1, 65535)
            wire.text(named, "name", MAX_LOCAL_NAME)
        if not isinstance(said.get("ahead"), bool):
            raise IoError("'ahead' of a frame must be true or false")
        return {
            "key": wire.text(said, "key"),
            "pathways": wire.number(said, "pathways", 1, 16),
            # The first one was reached; where a tunnel leads there, it knows itself otherwise.
            "producers": [[*self._address, *item[2:]] for item in producers[:1]] + producers[1:],
            "ahead": said["ahead"],
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
            while not self._receiver.arrays_known.wait(LOOK_SECONDS):
                if until is not None and endpoint.after(0) > until:
                    raise Timeout(f"the stream has sent nothing in {limit} s")
            self._raise_error()
            return [_words(info) for info in list(self._receiver.infos.values())]

        known = self._group.told_by_first(self._group.together(ask))
        return {one["name"]: info_of_words(one) for one in known}

    def names(self) -> set[str]:
        """Give the names of the arrays that the stream has told of so far. Local, on process 0."""
        return {info.name for info in list(self._receiver.infos.values())}

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
        self._receiver.want(self._wanted, self._ahead, self._goes_ahead)
        if self._group.rank == 0:
            self._control.say(
                {
                    "type": "subscribe",
                    "arrays": self._words_of_wanted(),
                    "newest": self._newest,
                }
            )
        self._control.say({"type": "credit", "steps": self._ahead})
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
            self._receiver.taken(arrived)
            self._control.say({"type": "done", "place": arrived.place})
            number, arrived = arrived.number, None
            yield number, arrays

    def _next(self, limit: float | None) -> Arrived | None:
        until = None if limit is None else endpoint.after(limit)
        while True:
            self._raise_error()
            if self._closed:
                raise InvalidState("the connection is closed")
            try:
                arrived = self._receiver.ready.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                if until is not None and endpoint.after(0) > until:
                    raise Timeout(f"no step came in {limit} s") from None
                continue
            if arrived is None:
                self._raise_error()
            return arrived

    def _dial(self, producer: int) -> list[DataLink]:
        """Connect to a sending process: by shared memory if it is here, else by all pathways."""
        if producer >= len(self._producers):
            raise IoError(f"the stream has no sending process {producer}")
        host, port, name = self._producers[producer]
        words = {"role": "data", "key": self._key, "rank": self._group.rank, "pathway": 0}
        if self._local and name:
            sock = endpoint.dial_local(name, self._token, words)
            if sock is not None:
                return [self._link(sock, producer, 0, 1)]
        try:
            sockets = [
                endpoint.dial(
                    host, port, self._token, {**words, "pathway": pathway},
                    endpoint.GREETING_SECONDS, again=False,
                )
                for pathway in range(self._pathways)
            ]  # fmt: skip
        except Timeout:
            raise PeerFailed(f"sending process {producer} has ended") from None
        return [self._link(s, producer, k, self._pathways) for k, s in enumerate(sockets)]

    def _link(self, sock: socket.socket, producer: int, pathway: int, pathways: int) -> DataLink:
        wire.limit_sending(sock, wire.STALLED_SECONDS)
        return DataLink(sock, producer, pathway, pathways)

    # How it ends.

    def _fail(self, error: BaseException) -> None:
        """Have `steps` raise an error, and tell the other processes, by the stream."""
        with self._leaving:
            if self._error is not None or self._closed:
                return
            said = error_of(error)
            words = str(said)[: wire.MAX_WORDS]
            # Said before anybody here sees it: who sees it closes, and then it would not be said.
            self._control.say({"type": "bye", "code": said.code, "words": words})
            self._error = error
        self._control.finish()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def counters(self) -> dict[str, int]:
        """Count what this process received, and steps that the stream dropped. Local."""
        links = self._receiver.links()
        return {
            "bytes_received": sum(link.bytes_received for link in links),
            "checksum_errors": sum(link.checksum_errors for link in links),
            "connections": len(links),
            "connections_local": sum(link.is_local for link in links),
            "steps_dropped": self.dropped,
        }

    def close(self) -> None:
        """Leave the stream. Local; where other processes still want steps, they fail."""
        with self._leaving:
            if self._closed:
                return
            self._closed = True
            self._control.say({"type": "bye"})
        self._control.finish()
        endpoint.wake(self._socket)  # the receiver ends with it, and ends the other connections

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
