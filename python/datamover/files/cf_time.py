# SPDX-License-Identifier: BSD-3-Clause
"""Units of time of the CF conventions, "days since 2000-01-01", and exact conversion between them.

Source: CF conventions, section 4.4, https://cfconventions.org.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from fractions import Fraction
from typing import Any

import numpy as np

_SECONDS = {
    "microsec microsecond microsecs microseconds": Fraction(1, 10**6),
    "millisec millisecond millisecs milliseconds msec msecs ms": Fraction(1, 1000),
    "second seconds sec secs s": Fraction(1),
    "minute minutes min mins": Fraction(60),
    "hour hours hr hrs h": Fraction(3600),
    "day days d": Fraction(86400),
}
_UNITS = {name: seconds for names, seconds in _SECONDS.items() for name in names.split()}
_FORM = re.compile(
    r"\s*(?P<unit>[a-z]+)\s+since\s+(?P<year>\d{1,4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"(?:[T ]\s*(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2}(?:\.\d*)?))?)?)?"
    r"(?:\s*(?:Z|UTC|GMT|\+0{1,2}(?::?00)?)|\s+0{1,2}(?::?00)?)?\s*",
    re.IGNORECASE,
)
#: Names of the same calendar.
_CALENDARS = {
    "gregorian": "standard", "standard": "standard", "proleptic_gregorian": "proleptic_gregorian",
    "noleap": "noleap", "365_day": "noleap", "all_leap": "all_leap", "366_day": "all_leap",
    "360_day": "360_day",
}  # fmt: skip
_GREGORIAN = datetime.date(1582, 10, 15)
_FROM_MARCH = (31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
#: Lengths of months in calendars whose years are all alike.
_MONTHS = {
    "noleap": (31, 28, *_FROM_MARCH), "all_leap": (31, 29, *_FROM_MARCH), "360_day": (30,) * 12,
}  # fmt: skip


def is_time(units: Any) -> bool:
    """Return whether a text has the form of units of time since a date."""
    return isinstance(units, str) and " since " in units.lower()


def calendar_of(name: Any) -> Any:
    """Return the calendar of an attribute, the same for its synonyms; the default is "standard"."""
    return "standard" if name is None else _CALENDARS.get(str(name).lower(), name)


@dataclasses.dataclass(frozen=True)
class Conversion:
    """Times in other units: `factor * time + offset`; the value of missing times stays."""

    factor: Fraction
    offset: Fraction
    missing: float | None = None

    def __call__(self, times: np.ndarray) -> np.ndarray:
        """Return converted times of the same dtype; what is not finite stays.

        Raises
        ------
        ValueError
            A result does not have an exact value of this dtype, or has that of missing times.
        """
        found = times.copy()
        for place in np.ndindex(times.shape):
            before = times[place].item()
            if before - before != 0 or before == self.missing:  # also NaN and infinity
                continue
            after = self.factor * Fraction(before) + self.offset
            try:
                found[place] = float(after) if times.dtype.kind == "f" else int(after)
            except OverflowError:
                raise ValueError(before) from None
            if Fraction(found[place].item()) != after or found[place].item() == self.missing:
                raise ValueError(before)
        return found


#: Of other words for the same units.
SAME = Conversion(Fraction(1), Fraction(0))


def conversion(units: str, wanted: str, calendar: Any) -> Conversion | None:
    """Return the conversion from units to others of a calendar; None if it is not known.

    Examples
    --------
    >>> import numpy as np
    >>> from datamover.files.cf_time import conversion
    >>> found = conversion("days since 2001-02-01", "hours since 2001-01-01", "standard")
    >>> found(np.array([0, 1, 2]))
    array([744, 768, 792])
    """
    here, there = (_parsed(text, calendar_of(calendar)) for text in (units, wanted))
    if here is None or there is None:
        return None
    (unit, first), (to, origin) = here, there
    return Conversion(unit / to, (first - origin) / to)


def _parsed(text: str, calendar: Any) -> tuple[Fraction, Fraction] | None:
    """Return the seconds of a unit, and those of the date from a fixed one."""
    found = _FORM.fullmatch(text)
    if not found or found["unit"].lower() not in _UNITS:
        return None
    days = _days(int(found["year"]), int(found["month"]), int(found["day"]), calendar)
    if days is None:
        return None
    clock = [Fraction(found[name] or 0) for name in ("hour", "minute", "second")]
    unit = _UNITS[found["unit"].lower()]
    return unit, days * 86400 + clock[0] * 3600 + clock[1] * 60 + clock[2]


def _days(year: int, month: int, day: int, calendar: Any) -> int | None:
    """Return the days from a fixed one to a date; None if the calendar does not have it."""
    if calendar in ("standard", "proleptic_gregorian"):
        try:
            date = datetime.date(year, month, day)
        except ValueError:
            return None
        is_julian = calendar == "standard" and date < _GREGORIAN
        return None if is_julian else date.toordinal()
    months = _MONTHS.get(calendar)
    if months is None or not 1 <= month <= 12 or not 1 <= day <= months[month - 1]:
        return None
    return year * sum(months) + sum(months[: month - 1]) + day
