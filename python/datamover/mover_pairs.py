# SPDX-License-Identifier: BSD-3-Clause
"""How does a mover carry what goes to and comes from each process?"""

from __future__ import annotations

from typing import Any

#: Rows of the table that `repr` shows; the others are counted.
MAX_ROWS = 40

_COLUMNS = ("peer", "", "transport", "elements", "bytes", "chunks", "why", "loops")


class MoverPairs(list):
    """One dict per pair of processes and direction; prints as a table.

    Examples
    --------
    >>> pair = {"peer": 1, "sends": True, "transport": "p2p", "why": "asked for", "elems": 8,
    ...         "bytes": 64, "encoding": "product", "relation_bytes": 48, "kernel": "memcpy",
    ...         "chunks": 1}
    >>> print(MoverPairs([pair]))
    peer      transport  elements  bytes  chunks  why        loops
    1     to  p2p        8         64     1       asked for  memcpy
    >>> MoverPairs([pair]).to_dict()["pairs"][0]["bytes"]
    64
    """

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain values, for JSON."""
        return {"pairs": [dict(pair) for pair in self]}

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                str(p["peer"]),
                "to" if p["sends"] else "from",
                p["transport"],
                str(p["elems"]),
                str(p["bytes"]),
                str(p["chunks"]),
                p["why"],
                p["kernel"],
            )
            for p in self[:MAX_ROWS]
        ]

    def __repr__(self) -> str:
        rows = [_COLUMNS, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        if len(self) > MAX_ROWS:
            lines.append(f"… and {len(self) - MAX_ROWS} more")
        return "\n".join(lines)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        from html import escape

        def row(cells: tuple[str, ...], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

        body = "".join(row(cells, "td") for cells in self._rows())
        more = f"<p>… and {len(self) - MAX_ROWS} more</p>" if len(self) > MAX_ROWS else ""
        return f"<table>{row(_COLUMNS, 'th')}{body}</table>{more}"
