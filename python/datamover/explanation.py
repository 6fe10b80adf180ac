# SPDX-License-Identifier: BSD-3-Clause
"""Explanations of plans: messages, sizes, peers, encodings and transports."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console, Group

from datamover import _plan
from datamover.arguments import integer
from datamover.errors import InvalidArgument, WrongType
from datamover.explanation_tables import as_tables

if TYPE_CHECKING:
    from datamover import MotionPlan

#: Version of the JSON form; it increases when a member is removed or changes its meaning.
SCHEMA = 1
#: Maximum number of processes for which all pairs are listed, each with its compiled relation.
MAX_LISTED_PROCS = 256
#: Relations of plans for more processes are compiled for a sample of this many ranks.
SAMPLED_RANKS = 3
#: Ranks with more peers than this are left out of the sample.
MAX_SAMPLED_PEERS = 100_000


@dataclasses.dataclass(frozen=True)
class Load:
    """Distribution of one quantity over the processes.

    Attributes
    ----------
    mean, maximum : float, int
        Over all processes; bytes or numbers of messages.
    rank : int
        The lowest rank with the maximum.
    imbalance : float
        Maximum over mean: 1 is perfectly balanced.
    """

    mean: float
    maximum: int
    rank: int
    imbalance: float

    @classmethod
    def of(cls, per_process: np.ndarray, scale: int = 1) -> Load:
        """Summarize a quantity per rank, multiplied by `scale`."""
        rank = int(np.argmax(per_process))
        mean, maximum = float(per_process.mean()) * scale, int(per_process[rank]) * scale
        return cls(mean, maximum, rank, maximum / mean if mean else 1.0)


@dataclasses.dataclass(frozen=True)
class Carrier:
    """Traffic by way: within a process, through a node's shared memory, or between nodes."""

    messages: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class Relations:
    """The address relations of one encoding; sizes in bytes that the encoded relation occupies."""

    encoding: str
    relations: int
    smallest_bytes: int
    largest_bytes: int
    total_bytes: int


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Pairs of processes with something to move, one entry per pair in each array.

    Attributes
    ----------
    source, destination : ndarray of int64
        Ranks.
    bytes : ndarray of int64
        Payload.
    encoding : ndarray of uint8
        Index into `datamover._plan.encoding_names()`.
    relation_bytes : ndarray of int64
        Size of the encoded relation.
    """

    source: np.ndarray
    destination: np.ndarray
    bytes: np.ndarray
    encoding: np.ndarray
    relation_bytes: np.ndarray

    def __len__(self) -> int:
        return len(self.source)

    @classmethod
    def of(cls, table: dict[str, np.ndarray], elem_bytes: int) -> Pairs:
        """Convert a table of the C++ side from elements to bytes."""
        columns = dict(table)
        return cls(bytes=columns.pop("elems") * elem_bytes, **columns)


@dataclasses.dataclass(frozen=True, repr=False)
class Explanation:
    """Result of `explain`. Printing it shows tables; `to_json` returns plain values.

    A message is the data from one process to another; data that stays on a process is `kept`.

    Attributes
    ----------
    nprocs, elem_bytes : int
    node_size : int or None
        Processes per node; None: all on one node.
    source, destination : str
        Descriptions of the two layouts.
    messages, moved_bytes, kept_bytes : int
        Over all processes.
    smallest_bytes, largest_bytes : int
        Over all messages; 0 without messages.
    loads : dict of str to Load
        "sent", "received", "kept" (bytes), "messages sent", "messages received".
    sizes : list of (int, int)
        (bytes, messages), ascending; empty if there are over a million different sizes.
    carriers : dict of str to Carrier
        "self", "shared", "p2p"; the latter two are missing if it takes too long to distinguish
        nodes.
    relations : list of Relations
        By encoding, for all pairs or those of the ranks in `sampled_ranks`.
    sampled_ranks : list of int
    rank : int or None
    pairs : Pairs or None
        All pairs, if there are few processes and no rank was requested.
    outgoing, incoming : Pairs or None
        The pairs of the requested rank.
    """

    nprocs: int
    elem_bytes: int
    node_size: int | None
    source: str
    destination: str
    messages: int
    moved_bytes: int
    kept_bytes: int
    smallest_bytes: int
    largest_bytes: int
    loads: dict[str, Load]
    sizes: list[tuple[int, int]]
    carriers: dict[str, Carrier]
    relations: list[Relations]
    sampled_ranks: list[int]
    rank: int | None = None
    pairs: Pairs | None = None
    outgoing: Pairs | None = None
    incoming: Pairs | None = None

    def carrier(self, source: int, destination: int) -> str:
        """Return the way of data between two ranks."""
        if source == destination:
            return "self"
        near = self.node_size is None or source // self.node_size == destination // self.node_size
        return "shared" if near else "p2p"

    def to_json(self) -> dict[str, Any]:
        """Return everything as values that `json.dump` takes."""
        return {"schema": SCHEMA} | dataclasses.asdict(self, dict_factory=_plain)

    def dumps(self) -> str:
        """Return `to_json` as text, without spaces."""
        return json.dumps(self.to_json(), separators=(",", ":"))

    def __rich__(self) -> Group:
        return as_tables(self)

    def __str__(self) -> str:
        console = Console(width=100, color_system=None)
        with console.capture() as capture:
            console.print(self)
        return capture.get()

    __repr__ = __str__


def _plain(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a dataclass as plain values, without lists of pairs that it lacks."""
    lists = ("pairs", "outgoing", "incoming")
    found = {name: value for name, value in members if value is not None or name not in lists}
    names = _plan.encoding_names()
    for name, value in found.items():
        if isinstance(value, np.ndarray):
            found[name] = [names[e] for e in value] if name == "encoding" else value.tolist()
    return found


def explain(
    plan: MotionPlan,
    rank: int | None = None,
    elem_bytes: int = 8,
    node_size: int | None = None,
) -> Explanation:
    """Explain a plan: messages, bytes, balance, encodings, and the transports.

    Local; needs neither MPI nor data. A redistribution between block-cyclic layouts takes seconds
    for a million processes; for other plans, the time grows with the number of their sections.

    Parameters
    ----------
    plan : MotionPlan
    rank : int, optional
        Also list what this rank sends and receives, peer by peer.
    elem_bytes : int
        Size of an element.
    node_size : int, optional
        Number of processes with consecutive ranks that share a node; by default all of them.

    Returns
    -------
    Explanation

    Raises
    ------
    OutOfRange
        The rank is outside the plan.
    InvalidArgument
        An element or node size is below one.
    WrongType
        `plan` is not a plan, or another argument is not an integer.
    Unsupported
        Two cyclic distributions have such a long common period that no sum over all is possible.

    Examples
    --------
    >>> import datamover as dm
    >>> rows = dm.BlockCyclic((8, 8), "(block, *)", nprocs=4)
    >>> columns = dm.BlockCyclic((8, 8), "(*, block)", nprocs=4)
    >>> e = dm.explain(dm.redistribute(rows, columns))
    >>> e.messages, e.moved_bytes, e.kept_bytes, e.largest_bytes
    (12, 384, 128, 32)
    """
    if not isinstance(plan, _plan.MotionPlan):
        raise WrongType(f"a {type(plan).__name__} was given, it must be a MotionPlan")
    integer(elem_bytes, "elem_bytes")
    for name, number in (("rank", rank), ("node_size", node_size)):
        if number is not None:
            integer(number, name)
    if node_size is not None and node_size < 1:
        raise InvalidArgument(f"node_size is {node_size}; it must be at least 1")
    outgoing = incoming = pairs = None
    if rank is not None:
        out, into = _plan.explain_rank(plan, rank, elem_bytes)
        outgoing, incoming = Pairs.of(out, elem_bytes), Pairs.of(into, elem_bytes)
    elif plan.nprocs <= MAX_LISTED_PROCS:
        pairs = Pairs.of(_plan.explain_pairs(plan, elem_bytes), elem_bytes)
    total = _plan.summarize_traffic(plan, node_size or 0)
    listed, sampled = ([pairs], []) if pairs is not None else _sample(plan, rank, total, elem_bytes)
    if outgoing is not None and incoming is not None:
        listed = [outgoing, incoming]
    source, destination = _plan.describe_layouts(plan)
    return Explanation(
        nprocs=plan.nprocs,
        elem_bytes=elem_bytes,
        node_size=node_size,
        source=source,
        destination=destination,
        messages=int(total["sent_messages"].sum()),
        moved_bytes=int(total["sent_elems"].sum()) * elem_bytes,
        kept_bytes=int(total["kept_elems"].sum()) * elem_bytes,
        smallest_bytes=total["smallest_elems"] * elem_bytes,
        largest_bytes=total["largest_elems"] * elem_bytes,
        loads={
            "sent": Load.of(total["sent_elems"], elem_bytes),
            "received": Load.of(total["received_elems"], elem_bytes),
            "kept": Load.of(total["kept_elems"], elem_bytes),
            "messages sent": Load.of(total["sent_messages"]),
            "messages received": Load.of(total["received_messages"]),
        },
        sizes=[
            (int(elems) * elem_bytes, int(messages))
            for elems, messages in zip(total["size_elems"], total["size_messages"], strict=True)
        ],
        carriers=_carriers(total, elem_bytes),
        relations=_relations(listed),
        sampled_ranks=sampled,
        rank=rank,
        pairs=pairs,
        outgoing=outgoing,
        incoming=incoming,
    )


def _sample(plan, rank, total, elem_bytes) -> tuple[list[Pairs], list[int]]:
    """Compile the relations of a few ranks spread over those that send something."""
    if rank is not None:
        return [], [rank]
    senders = np.flatnonzero(
        (total["sent_messages"] > 0) & (total["sent_messages"] <= MAX_SAMPLED_PEERS)
    )
    if not len(senders):
        return [], []
    places = np.linspace(0, len(senders) - 1, SAMPLED_RANKS).astype(int)
    ranks = sorted({int(senders[i]) for i in places})
    tables = [Pairs.of(_plan.explain_rank(plan, r, elem_bytes)[0], elem_bytes) for r in ranks]
    return tables, ranks


def _carriers(total: dict[str, Any], elem_bytes: int) -> dict[str, Carrier]:
    kept = total["kept_elems"]
    carriers = {"self": Carrier(int((kept > 0).sum()), int(kept.sum()) * elem_bytes)}
    if total["nodes_known"]:
        for name in ("shared", "p2p"):
            carriers[name] = Carrier(total[f"{name}_messages"], total[f"{name}_elems"] * elem_bytes)
    return carriers


def _relations(tables: list[Pairs]) -> list[Relations]:
    if not tables:
        return []
    encoding = np.concatenate([t.encoding for t in tables])
    nbytes = np.concatenate([t.relation_bytes for t in tables])
    names, found = _plan.encoding_names(), []
    for e in np.unique(encoding).tolist():
        sizes = nbytes[encoding == e]
        bounds = int(sizes.min()), int(sizes.max())
        found.append(Relations(names[e], len(sizes), *bounds, int(sizes.sum())))
    return found
