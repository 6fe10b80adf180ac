# SPDX-License-Identifier: BSD-3-Clause
"""Text of `explain` for a migration's method."""

from __future__ import annotations

from typing import Any

from datamover.mover_pairs import table


class MigrationMethods(dict):
    """Result of `Migration.explain`; prints as a table.

    Examples
    --------
    >>> measured = [("partition", False, 4, 2.8e-4), ("alltoallv", True, 64, 8.9e-4)]
    >>> MigrationMethods(method="partition", in_place="sort", measured=measured)
    moves by partition, moves in place by sort
    <BLANKLINE>
    tried      in place  element   a round
    partition  no        4 bytes   280.0 us
    alltoallv  yes       64 bytes  890.0 us
    """

    def __repr__(self) -> str:
        words = f"moves by {self['method']}, moves in place by {self['in_place']}"
        if not self["measured"]:
            return words
        return f"{words}\n\n{table([('tried', 'in place', 'element', 'a round'), *self._rows()])}"

    def _rows(self) -> list[tuple[str, ...]]:
        tried: list[tuple[Any, ...]] = self["measured"]
        return [
            (method, "yes" if in_place else "no", f"{nbytes} bytes", f"{seconds * 1e6:.1f} us")
            for method, in_place, nbytes, seconds in tried
        ]
