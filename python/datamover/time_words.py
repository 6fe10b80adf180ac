# SPDX-License-Identifier: BSD-3-Clause
"""Times as text: 1.23 µs, 7.5 s."""

from __future__ import annotations


def as_time(seconds: float) -> str:
    """Return a time as text, in a suitable unit.

    Examples
    --------
    >>> from datamover.time_words import as_time
    >>> as_time(0.00000123), as_time(0.0456), as_time(7.5), as_time(1254.3), as_time(0.0)
    ('1.23 µs', '45.6 ms', '7.5 s', '1254 s', '0 s')
    """
    if seconds >= 999.5:
        return f"{seconds:.0f} s"
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 0.9995 or not seconds:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
