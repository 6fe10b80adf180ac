# SPDX-License-Identifier: BSD-3-Clause
"""Tables of an explanation on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from rich import box
from rich.console import Group
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from datamover import _plan
from datamover.counted import counted

if TYPE_CHECKING:
    from datamover.explanation import Explanation, Pairs

#: Maximum number of processes for which the pairs are shown as a square of numbers.
MAX_SQUARE_PROCS = 8
#: Columns about a pair's address relation, which are shown on request.
RELATION_COLUMNS = ("encoding", "relation")


def as_tables(e: Explanation, top: int = 10, verbose: bool = False) -> Group:
    """Show an explanation as tables.

    Parameters
    ----------
    e : Explanation
    top : int
        Number of peers or pairs listed, the largest first.
    verbose : bool
        Also show how address relations are encoded.
    """
    parts: list[Any] = [_headline(e), _load_table(e), _carrier_table(e)]
    if e.relations and verbose:
        parts.append(_relation_table(e))
    if e.rank is not None:
        parts += [_peer_table(e, verb, top, verbose) for verb in ("sends", "receives")]
    elif e.pairs is not None and (alike := _pairs_alike(e, e.pairs)):
        parts.append(_line(alike))
    elif e.pairs is not None and e.nprocs <= MAX_SQUARE_PROCS:
        parts.append(_square_table(e, e.pairs))
    elif e.pairs is not None:
        parts.append(_pair_table(e, e.pairs, top, verbose))
    return Group(*parts)


def titled(title: str, *tables: Table) -> Group:
    """Put a title above tables; a table's own title would be cut to the table's width."""
    return Group(Text(title, style="bold"), *tables)


def _table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str | Text]]) -> Group:
    table = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return titled(title, table)


def message_sizes(e: Explanation) -> str:
    """Return the range of message sizes; sizes that round to the same text are given once."""
    smallest, largest = decimal(e.smallest_bytes), decimal(e.largest_bytes)
    if e.smallest_bytes == e.largest_bytes:
        return smallest
    return f"about {largest}" if smallest == largest else f"{smallest} to {largest}"


def _unbroken(layout: str) -> str:
    """Return a layout's description without spaces in its tuples, so that they are not wrapped."""
    return re.sub(r", (?=[^()]*\))", ",", layout)


def _headline(e: Explanation) -> Text:
    sizes = f" of {message_sizes(e)}" if e.messages else ""
    stay = "stays where it is" if e.kept_bytes == 1 else "stay where they are"
    lines: list[str | tuple[str, str]] = [
        ("from  ", "dim"), f"{_unbroken(e.source)}\n",
        ("to    ", "dim"), f"{_unbroken(e.destination)}\n",
        ("      ", "dim"), f"{counted(e.nprocs, 'process', 'processes')}, ",
        f"elements of {counted(e.elem_bytes, 'byte')}\n",
        ("moves ", "dim"), (f"{decimal(e.moved_bytes)}", "bold"), " in ",
        (f"{e.messages:,}", "bold"), f" message{'' if e.messages == 1 else 's'}{sizes}; ",
        f"{decimal(e.kept_bytes)} {stay}\n",
    ]  # fmt: skip
    return Text.assemble(*lines)


def _load_table(e: Explanation) -> Group:
    rows = []
    for name, load in e.loads.items():
        in_bytes = not name.startswith("messages")
        mean = decimal(round(load.mean)) if in_bytes else f"{load.mean:,.1f}"
        largest = decimal(load.maximum) if in_bytes else f"{load.maximum:,}"
        rows.append((name, mean, largest, f"{load.rank:,}", f"{load.imbalance:.2f}"))
    return _table("Per process", ("", "mean", "largest", "at rank", "largest / mean"), rows)


def _carrier_table(e: Explanation) -> Group:
    node = "all on one node"
    if e.node_size is not None:
        node = f"{counted(e.node_size, 'process', 'processes')} per node"
    percent = 100 / max(e.moved_bytes + e.kept_bytes, 1)
    words = {"self": "self (kept)", "shared": "shared (same node)", "p2p": "p2p (between nodes)"}
    rows = [
        (words[name], f"{c.messages:,}", decimal(c.bytes), f"{percent * c.bytes:.1f} %")
        for name, c in e.carriers.items()
    ]
    return _table(f"Transport ({node})", ("", "messages", "bytes", "share"), rows)


def _relation_table(e: Explanation) -> Group:
    of = "all pairs"
    if e.sampled_ranks:
        of = "rank " if len(e.sampled_ranks) == 1 else "ranks "
        of += ", ".join(f"{r:,}" for r in e.sampled_ranks)
    columns = ("encoding", "relations", "smallest", "largest", "together")
    rows = [
        (
            r.encoding,
            f"{r.relations:,}",
            *map(decimal, (r.smallest_bytes, r.largest_bytes, r.total_bytes)),
        )
        for r in e.relations
    ]
    return _table(f"Address relations ({of})", columns, rows)


def _line(words: str) -> Group:
    """Return a line instead of a table."""
    return Group(Text(f"{words}\n", style="bold"))


def _pairs_alike(e: Explanation, pairs: Pairs) -> str:
    """Describe all pairs in one sentence if every process sends the same amount to each other."""
    sent = pairs.bytes[pairs.source != pairs.destination]
    if e.nprocs < 3 or len(sent) < e.nprocs * (e.nprocs - 1) or (sent != sent[0]).any():
        return ""
    return f"All pairs equal: each process sends {decimal(int(sent[0]))} to each other one"


def peer_words(e: Explanation, verb: str) -> str:
    """Return how much a rank sends to, or receives from, how many others."""
    sends = verb == "sends"
    pairs = cast("Pairs", e.outgoing if sends else e.incoming)
    goes = (pairs.destination if sends else pairs.source) != e.rank
    if not goes.any():
        return f"{verb} nothing"
    whom = counted(int(goes.sum()), "process", "processes")
    nbytes = decimal(int(pairs.bytes[goes].sum()))
    return f"{verb} {nbytes} {'to' if sends else 'from'} {whom}"


def _peer_table(e: Explanation, verb: str, top: int, verbose: bool) -> Group:
    pairs = cast("Pairs", e.outgoing if verb == "sends" else e.incoming)
    peers = pairs.destination if verb == "sends" else pairs.source
    if not len(pairs):
        return _line(f"Rank {e.rank:,} {verb} nothing")
    title = f"Rank {e.rank:,} {peer_words(e, verb)}"
    kept = int(pairs.bytes[peers == e.rank].sum())
    if kept:
        title += f", keeps {decimal(kept)}"
    if len(pairs) > top:
        title += f"; the largest {top}"
    return _listed(e, title, {"to" if verb == "sends" else "from": peers}, pairs, top, verbose)


def _pair_table(e: Explanation, pairs: Pairs, top: int, verbose: bool) -> Group:
    if not len(pairs):
        return _line("Pairs: none")
    title = f"Pairs: {len(pairs):,}" + (f", the largest {top}" if len(pairs) > top else "")
    return _listed(e, title, {"from": pairs.source, "to": pairs.destination}, pairs, top, verbose)


def _listed(
    e: Explanation, title: str, ranks: dict[str, Any], pairs: Pairs, top: int, verbose: bool
) -> Group:
    """Return a table of the largest pairs, largest first, in rank order among equals."""
    rows = []
    for i in np.argsort(-pairs.bytes, kind="stable")[:top]:
        cells = [f"{of[i]:,}" for of in ranks.values()]
        cells += [decimal(int(pairs.bytes[i])), e.carrier(pairs.source[i], pairs.destination[i])]
        if verbose:
            name = _plan.encoding_names()[pairs.encoding[i]]
            cells += [name, decimal(int(pairs.relation_bytes[i]))]
        rows.append(cells)
    return _table(title, (*ranks, "bytes", "transport", *RELATION_COLUMNS[: 2 * verbose]), rows)


def _square_table(e: Explanation, pairs: Pairs) -> Group:
    ranks = [str(rank) for rank in range(e.nprocs)]
    rows: list[list[str | Text]] = [[rank, *("" for _ in ranks)] for rank in ranks]
    for source, destination, nbytes in zip(
        pairs.source, pairs.destination, pairs.bytes, strict=True
    ):
        style = "dim" if source == destination else ""
        rows[source][destination + 1] = Text(decimal(int(nbytes)), style=style)
    return _table("Bytes from (row) to (column)", ("", *ranks), rows)
