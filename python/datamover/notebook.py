# SPDX-License-Identifier: BSD-3-Clause
"""Tables of layouts and plans in notebooks, with pictures of layouts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any

from ._plan import (
    BlockCyclic,
    FlatCyclic,
    FloorPlan,
    HaloExchange,
    IndexList,
    MemoryLayout,
    MotionPlan,
    Redistribution,
    SectionCopy,
)
from .counted import counted

if TYPE_CHECKING:
    import numpy.typing as npt

#: Maximum number of blocks, ranks or terms that are shown; the others are counted.
SHOWN = 8
#: Layouts of more blocks or lists are not drawn.
MOST_DRAWN = 1000

Row = tuple[Any, ...]


def html_table(caption: str, head: Row, rows: Iterable[Row], last: str = "") -> str:
    """Return an HTML table; `last` is the text of its last row."""
    lines = [f"<table><caption>{escape(caption)}</caption>"]
    for kind, row in (*([("th", head)] if head else []), *(("td", row) for row in rows)):
        cells = "".join(f"<{kind}>{escape(str(cell))}</{kind}>" for cell in row)
        lines.append(f"<tr>{cells}</tr>")
    if last:
        lines.append(f'<tr><td colspan="{len(head)}">{escape(last)}</td></tr>')
    return "\n".join([*lines, "</table>"])


def others(total: int, what: str) -> str:
    """Return how many are not shown; "" if none."""
    return f"and {total - SHOWN} more {what}" if total > SHOWN else ""


def _slices(region: Any, step: Sequence[int] | None = None) -> str:
    """Return a region in slice notation, such as [0:4, 2:8:2]."""
    sides = zip(region.lo, region.hi, step or (1,) * len(region.lo), strict=True)
    return "[" + ", ".join(f"{lo}:{hi}" + (f":{s}" if s > 1 else "") for lo, hi, s in sides) + "]"


#: Attributes of a layout that has few, by what they are called.
_ATTRIBUTES = {
    "shape": "shape",
    "distribution": "distribution",
    "elements per range": "block_elems",
    "processes": "nprocs",
    "grid": "grid",
    "block size": "block",
    "replicas": "replicas",
}


def _properties(layout: BlockCyclic | FlatCyclic) -> str:
    rows = [(w, getattr(layout, name)) for w, name in _ATTRIBUTES.items() if hasattr(layout, name)]
    rows = [row for row in rows if row != ("replicas", 1)]
    if isinstance(layout, FlatCyclic):
        rows.append(("owners", _first(layout.owners)))
    return _with_picture(html_table(type(layout).__name__, (), rows), layout, 1)


def _floor_plan(layout: FloorPlan) -> str:
    caption = (
        f"FloorPlan of {counted(len(layout), 'block')} in {_slices(layout.domain)} "
        f"on {counted(layout.nprocs, 'process', 'processes')}"
    )
    rows = (
        (i, layout.owner(i), _slices(layout.region(i)), layout.region(i).shape)
        for i in range(min(len(layout), SHOWN))
    )
    head = ("block", "rank", "region", "shape")
    shown = html_table(caption, head, rows, others(len(layout), "blocks"))
    return _with_picture(shown, layout, len(layout))


def _index_list(layout: IndexList) -> str:
    rows = []
    for rank in range(min(layout.nprocs, SHOWN)):
        indices = layout.indices_of(rank)
        rows.append((rank, len(indices), _first(indices)))
    caption = f"IndexList over {layout.shape} on {counted(layout.nprocs, 'process', 'processes')}"
    shown = html_table(caption, ("rank", "number", "indices"), rows, others(layout.nprocs, "ranks"))
    return _with_picture(shown, layout, layout.nprocs)


def _first(numbers: npt.NDArray[Any]) -> str:
    """Return the first of some numbers."""
    return ", ".join(map(str, numbers[:SHOWN])) + (", …" if len(numbers) > SHOWN else "")


def _with_picture(
    shown: str, layout: BlockCyclic | FloorPlan | IndexList | FlatCyclic, parts: int
) -> str:
    """Put the picture of a layout below a table, unless it is not available or takes long."""
    if parts > MOST_DRAWN or find_spec("matplotlib") is None:
        return shown
    from .picture import layout_png

    picture = b64encode(layout_png(layout)).decode()
    return f'<div>{shown}<img alt="who holds what" src="data:image/png;base64,{picture}"/></div>'


def _memory(memory: MemoryLayout) -> str:
    rows = (
        (b.block, b.offset_bytes, b.strides_bytes, _slices(b.valid))
        for b in islice(memory.blocks, SHOWN)
    )
    caption = f"MemoryLayout: bytes {memory.begin_bytes} to {memory.end_bytes}"
    head = ("block", "offset in bytes", "strides in bytes", "local indices")
    return html_table(caption, head, rows, others(len(memory.blocks), "blocks"))


def _turn(term: SectionCopy | Redistribution) -> str:
    axes = f", axes {term.axes}" if term.axes else ""
    return axes + (f", flip {term.flip}" if term.flip else "")


def _term(term: SectionCopy | Redistribution | HaloExchange) -> Row:
    """Return a term as (kind, from, to)."""
    if isinstance(term, SectionCopy):
        read = _slices(term.source_region, term.source_step)
        written = _slices(term.destination_region, term.destination_step) + _turn(term)
        source = f"block {term.source_block} {read}"
        return ("section", source, f"block {term.destination_block} {written}")
    if isinstance(term, Redistribution):
        flags = ("partial", "reversed", "adjoint")
        kind = "".join(f"{flag} " for flag in flags if getattr(term, flag))
        destination = _slices(term.destination_region) + _turn(term)
        return (f"{kind}redistribution", _slices(term.source_region), destination)
    ghosts = f"ghosts, {term.lower} below and {term.upper} above"
    if not term.corners:
        ghosts += ", no corners"
    if term.colors > 1:
        ghosts += f", color {term.color} of {term.colors}"
    if any(term.periodic):
        ghosts += f", periodic in {_slices(term.domain)}"
    return ("halo", ghosts, "interiors") if term.reversed else ("halo", "interiors", ghosts)


def _plan(plan: MotionPlan) -> str:
    caption = f"MotionPlan from {plan.source!r} to {plan.destination!r}"
    rows = (_term(plan[i]) for i in range(min(len(plan), SHOWN)))
    return html_table(caption, ("term", "from", "to"), rows, others(len(plan), "terms"))


for _class, _html in (
    (BlockCyclic, _properties),
    (FloorPlan, _floor_plan),
    (IndexList, _index_list),
    (FlatCyclic, _properties),
    (MemoryLayout, _memory),
    (MotionPlan, _plan),
):
    _class._repr_html_ = _html  # type: ignore[union-attr]
