# SPDX-License-Identifier: BSD-3-Clause
"""The pairs of a mover: what is sent to and received from each process."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

from .notebook import html_table

#: Maximum number of rows that `repr` shows; the others are counted.
MAX_ROWS = 40

#: Maximum width of a line of the table as text.
MAX_COLUMNS = 100

_COLUMNS = ("peer", "", "transport", "elements", "bytes", "chunks", "loops", "why")
_TRIAL_COLUMNS = ("tried", "a round", "rounds", "")


def table(rows: list[tuple[str, ...]]) -> str:
    """Return rows as text in columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _wrapped(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return rows of a table with the loops in several lines if the table is too wide."""
    loops = _COLUMNS.index("loops")
    others = [max(len(cell) for cell in cells) for cells in zip(*rows, strict=True)]
    room = max(MAX_COLUMNS - sum(others) + others[loops] - 2 * (len(others) - 1), 20)
    wrapped = []
    for row in rows:
        first, *more = textwrap.wrap(row[loops], room) or [""]
        wrapped.append((*row[:loops], first, *row[loops + 1 :]))
        blank = [""] * len(row)
        wrapped += [(*blank[:loops], line, *blank[loops + 1 :]) for line in more]
    return wrapped


class MoverPairs(list):
    """One dict per pair of processes and direction; prints as a table.

    Examples
    --------
    >>> pair = {"peer": 1, "sends": True, "transport": "p2p", "why": "asked for", "elems": 8,
    ...         "bytes": 64, "encoding": "product", "relation_bytes": 48, "kernel": "memcpy",
    ...         "chunks": 1}
    >>> print(MoverPairs([pair]))
    peer      transport  elements  bytes  chunks  loops   why
    1     to  p2p        8         64     1       memcpy  (1)
    (1) asked for
    >>> long = pair | {"kernel": "runs of 3840 B, listed pieces, 1 per period, runs of 1280 B"}
    >>> max(map(len, str(MoverPairs([long])).splitlines())) <= MAX_COLUMNS
    True
    >>> MoverPairs([pair]).to_dict()["pairs"][0]["bytes"]
    64
    >>> trial = {"rounds": 40, "why_not": "", "chosen": False, "passed_over": ""}
    >>> auto = trial | {"transport": "auto", "seconds": 3e-6, "chosen": True}
    >>> put = {"transport": "put", "seconds": 2e-6, "passed_over": "slower with cold caches"}
    >>> print(*str(MoverPairs([pair], [auto, trial | put])).splitlines()[-3:], sep=chr(10))
    tried  a round  rounds
    put    2.0 us   40      slower with cold caches
    auto   3.0 us   40      chosen
    """

    def __init__(self, pairs: Iterable[dict] = (), trials: Iterable[dict] = ()):
        super().__init__(pairs)
        #: Candidates in the search for the fastest transports: one dict each.
        self.trials = list(trials)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        told: dict[str, Any] = {"pairs": [dict(pair) for pair in self]}
        if self.trials:
            told["trials"] = [dict(trial) for trial in self.trials]
        return told

    def _rows(self) -> list[tuple[str, ...]]:
        columns = ("transport", "elems", "bytes", "chunks", "kernel", "why")
        return [
            (str(p["peer"]), "to" if p["sends"] else "from", *(str(p[name]) for name in columns))
            for p in self[:MAX_ROWS]
        ]

    def _text(self) -> str:
        """Return the pairs as text, with each reason once below the table."""
        reasons: dict[str, int] = {}
        rows = [
            (*cells, f"({reasons.setdefault(why, len(reasons) + 1)})")
            for *cells, why in self._rows()
        ]
        notes = [
            textwrap.fill(why, MAX_COLUMNS, initial_indent=f"({n}) ", subsequent_indent="    ")
            for why, n in reasons.items()
        ]
        more = [f"… and {len(self) - MAX_ROWS} more"] if len(self) > MAX_ROWS else []
        return "\n".join([table(_wrapped([_COLUMNS, *rows])), *more, *notes])

    def _trial_rows(self) -> list[tuple[str, ...]]:
        """List the candidates, the fastest first, then those that cannot carry the plan."""

        def remarks(t: dict[str, Any]) -> str:
            said = "chosen" if t["chosen"] else "", t["passed_over"], t["why_not"]
            return ", ".join(filter(None, said))

        ordered = sorted(self.trials, key=lambda t: (bool(t["why_not"]), t["seconds"]))
        return [
            (
                t["transport"],
                "" if t["why_not"] else f"{t['seconds'] * 1e6:.1f} us",
                str(t["rounds"]),
                remarks(t),
            )
            for t in ordered
        ]

    def __repr__(self) -> str:
        text = self._text()
        if self.trials:
            text += "\n\n" + table([_TRIAL_COLUMNS, *self._trial_rows()])
        return text

    __str__ = __repr__

    def _repr_html_(self) -> str:
        more = f"… and {len(self) - MAX_ROWS} more" if len(self) > MAX_ROWS else ""
        trials = html_table("", _TRIAL_COLUMNS, self._trial_rows()) if self.trials else ""
        return html_table("", _COLUMNS, self._rows(), more) + trials
