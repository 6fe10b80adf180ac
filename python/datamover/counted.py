# SPDX-License-Identifier: BSD-3-Clause
"""Counts with their nouns: 1 message, 2 messages."""

from __future__ import annotations


def counted(number: int, one: str, several: str | None = None) -> str:
    """Return a number with its noun; by default the plural is `one` with an s.

    Examples
    --------
    >>> from datamover.counted import counted
    >>> counted(1, "piece"), counted(2000, "piece"), counted(0, "process", "processes")
    ('1 piece', '2,000 pieces', '0 processes')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"
