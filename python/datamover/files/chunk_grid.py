# SPDX-License-Identifier: BSD-3-Clause
"""Chunks along a dimension: of one extent, which is an int, or of several (`Uneven`).

An int is the extent of all chunks, the last of which may extend beyond the array. Everything that
depends on where a chunk begins uses the functions of this module.
"""

from __future__ import annotations

import bisect
import collections
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from datamover.arguments import is_several
from datamover.errors import InvalidArgument, WrongType

#: Maximum number of chunk sizes in a text.
MOST_SHOWN = 20
#: A chunk extent, or the sizes of all chunks, of each dimension, as users pass them.
Sizes = tuple[Any, ...]


class Uneven(int):
    """Chunks of several extents along a dimension; as a number, the extent of the largest one.

    Limits of memory and costs need nothing else. Division would ignore where chunks begin, and
    raises.

    Attributes
    ----------
    ends : tuple of int
        Ends of all chunks, ascending; the last is that of the array.
    times : int
        Number of chunks of the file in each.
    """

    ends: tuple[int, ...]
    times: int

    def __new__(cls, ends: Sequence[int], times: int = 1) -> Uneven:
        """Create chunks by their ends; `times` are those of the file in each."""
        found = super().__new__(cls, max(_sizes(ends)))
        found.ends, found.times = tuple(ends), times
        return found

    def __getnewargs__(self) -> Any:
        return self.ends, self.times

    @property
    def sizes(self) -> list[int]:
        """Extents of all chunks."""
        return _sizes(self.ends)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Uneven) and self.ends == other.ends

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.ends)

    def __repr__(self) -> str:
        return shown(self.sizes)

    def __format__(self, spec: str) -> str:
        return f"up to {int(self):{spec}}"

    def _refuse(self, _: Any) -> NoReturn:
        raise TypeError("internal error: chunks of several extents have no common divisor")

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse


def shown(sizes: Sequence[int]) -> str:
    """Return sizes in the form of the command line; if there are many, only the first ones."""
    more = f"+... ({len(sizes):,} chunks)" if len(sizes) > MOST_SHOWN else ""
    return "+".join(map(str, sizes[:MOST_SHOWN])) + more


def _sizes(ends: Sequence[int]) -> list[int]:
    return [b - a for a, b in itertools.pairwise((0, *ends))]


def said_sizes(value: Any, name: str) -> Sizes:
    """Return chunks as users pass them: for each dimension an extent, or the sizes of all chunks.

    Examples
    --------
    >>> from datamover.files.chunk_grid import said_sizes
    >>> said_sizes(([3, 5, 2], 4), "chunks")
    ((3, 5, 2), 4)
    """
    try:
        return tuple(
            tuple(map(operator.index, one)) if is_several(one) else operator.index(one)
            for one in (value if is_several(value) else (value,))
        )
    except TypeError:
        raise WrongType(
            f"{name} is {value!r}, it must be an integer or a sequence of integers, or have the "
            "sizes of all chunks for a dimension"
        ) from None


def grids(what: str, sizes: Sizes, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the chunks of an array, given for each dimension; raise for wrong sizes."""
    for d, (one, n) in enumerate(zip(sizes, shape, strict=True)):
        if isinstance(one, tuple) and (min(one, default=0) < 1 or sum(one) != n):
            raise InvalidArgument(
                f"{what} {shown(one) or '()'} of dimension {d} must be positive and have {n} "
                f"elements together; they have {sum(one)}"
            )
    return tuple(map(chunks_of, sizes, shape))


def chunks_of(sizes: Any, extent: int) -> int:
    """Return the chunks of a dimension from their extent, or from the sizes of all."""
    return window(sizes if isinstance(sizes, int) else itertools.accumulate(sizes), 0, extent)


def several_extents(chunks: Sequence[int] | None) -> bool:
    """Return whether chunks have several extents along a dimension."""
    return any(isinstance(chunk, Uneven) for chunk in chunks or ())


def window(chunk: Any, begin: int, extent: int) -> int:
    """Return the chunks of the part of a dimension that begins at `begin`, cut at its ends.

    An int is returned unchanged: such chunks are counted from the begin of the part.

    Parameters
    ----------
    chunk : int, or iterable of int
        The chunks of the dimension, or their ends.
    begin, extent : int
    """
    if isinstance(chunk, int) and not isinstance(chunk, Uneven):
        return chunk
    ends = chunk.ends if isinstance(chunk, Uneven) else tuple(chunk)
    inner = ends[bisect.bisect_right(ends, begin) : bisect.bisect_left(ends, begin + extent)]
    found = [*(end - begin for end in inner), extent]
    first, *rest = _sizes(found)
    is_even = not rest or (all(n == first for n in rest[:-1]) and rest[-1] <= first)
    return max(first, 1) if is_even else Uneven(found)


def several(chunk: int, count: int) -> int:
    """Return boxes of this number of chunks, counted from the first one."""
    if not isinstance(chunk, Uneven):
        return chunk * count
    ends = chunk.ends[count - 1 :: count]
    last = chunk.ends[-1:] if ends[-1:] != chunk.ends[-1:] else ()
    return Uneven(ends + last, chunk.times * count)


def chunks_in(box: int, chunk: int) -> int:
    """Return the number of chunks in a box of `several` chunks, or of a whole dimension."""
    if isinstance(box, Uneven):
        return box.times // chunk.times if isinstance(chunk, Uneven) else box.times
    return len(cells(0, box, chunk))


def cells(lo: int, hi: int, chunk: int) -> range:
    """Return the indices of the chunks that the elements `lo` .. `hi` - 1 meet."""
    if isinstance(chunk, Uneven):
        first = bisect.bisect_right(chunk.ends, lo)
        return range(first, bisect.bisect_left(chunk.ends, hi) + 1 if hi > 0 else first)
    return range(lo // chunk, -(-hi // chunk))


def begin_of(cell: int, chunk: int) -> int:
    """Return the first element of a chunk."""
    if isinstance(chunk, Uneven):
        return chunk.ends[cell - 1] if cell else 0
    return cell * chunk


def end_of(cell: int, chunk: int) -> int:
    """Return the end of a chunk, which may be beyond the array if all have one extent."""
    return chunk.ends[cell] if isinstance(chunk, Uneven) else (cell + 1) * chunk


def cell_of(element: int, chunk: int) -> int:
    """Return the index of the chunk that holds an element."""
    return cells(element, element + 1, chunk)[0]


def is_begin(element: Any, chunk: int) -> Any:
    """Return whether a chunk begins at an element, or at the end; also for an array of them."""
    if not isinstance(chunk, Uneven):
        return element % chunk == 0
    if isinstance(element, np.ndarray):
        return np.isin(element, (0, *chunk.ends))
    at = bisect.bisect_left(chunk.ends, element)
    return element == 0 or chunk.ends[at : at + 1] == (element,)


def mean(extent: int, chunk: int) -> int:
    """Return the mean extent of the chunks of a dimension, if they have several; at least 1."""
    return max(1, extent // len(chunk.ends)) if isinstance(chunk, Uneven) else chunk


def inner_ends(extent: int, chunk: int, other: int) -> int:
    """Count the ends of chunks within a dimension that are not ends of `other` chunks too."""
    if isinstance(chunk, Uneven):
        return int(np.count_nonzero(~is_begin(np.array(chunk.ends[:-1]), other)))
    ends = -(-extent // chunk) - 1
    if isinstance(other, Uneven):
        return ends - int(np.count_nonzero(np.array(other.ends[:-1]) % chunk == 0))
    return ends - ends // (other // math.gcd(chunk, other))


def most_met(extent: int, chunk: int, other: int) -> int:
    """Return the most `other` chunks that a chunk meets, at most those of the dimension.

    If both have one extent, chunks begin at multiples of the greatest common divisor of both,
    counted from the begin of another chunk: only some extents have chunks that meet parts of two
    others and all that fit between them.
    """
    if isinstance(chunk, Uneven):
        begins, ends = np.array((0, *chunk.ends[:-1])), np.array(chunk.ends)
        if isinstance(other, Uneven):
            first, last = (np.searchsorted(other.ends, at, "right") for at in (begins, ends - 1))
        else:
            first, last = begins // other, (ends - 1) // other
        return int(np.max(last - first)) + 1
    if isinstance(other, Uneven):
        inside = collections.Counter(end // chunk for end in other.ends[:-1] if end % chunk)
        return 1 + max(inside.values(), default=0)
    whole, rest = divmod(chunk, other)
    met = whole + (rest > 0) + (rest > math.gcd(chunk, other))
    return min(met, chunks_in(extent, other))
