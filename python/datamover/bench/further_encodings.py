# SPDX-License-Identifier: BSD-3-Clause
"""Size and decoding time of further encodings of irregular relations.

Only those that the library does not have, by well-known libraries: a trial, in the same run and on
the same indices. Decoding means: back to the addresses of all elements; moving them comes on top.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from datamover.bench.contest import timed
from datamover.bench.programs import Line

Indices = npt.NDArray[np.int64]


def measure(case: str, index: Indices) -> Iterator[Line]:
    """Yield a row per further encoding: its `nbytes`, and the time to decode it.

    Parameters
    ----------
    case : str
    index : (n,) array of int64
        Which elements are gathered.
    """
    for name, (nbytes, decode) in candidates(index).items():
        facts = {"case": case, "phase": "decode_only", "contender": name}
        yield timed(decode, **facts, bytes=8 * len(index), nbytes=nbytes)


def candidates(index: Indices) -> dict[str, tuple[int, Callable[[], Indices]]]:
    """Return the bytes of each further encoding, and a function that decodes it.

    `deltas` are differences in 16 bits where they fit, else 32; `bitmap` a bit per element for a
    set in ascending order, and a rank per entry where entries repeat; `lempel_ziv` zlib over the
    differences, which ends in a Huffman code; `huffman` that code alone.
    """
    differences = np.diff(index, prepend=0)
    narrow = np.int16 if np.abs(differences[1:]).max(initial=0) < 1 << 15 else np.int32
    first, deltas = int(index[0]), differences[1:].astype(narrow)
    distinct, rank = np.unique(index, return_inverse=True)
    bitmap = np.packbits(np.isin(np.arange(distinct[-1] + 1), distinct))
    rank = rank.astype(np.uint16 if len(distinct) < 1 << 16 else np.uint32)
    packed = zlib.compress(deltas.tobytes(), 9)
    only = zlib.compressobj(9, strategy=zlib.Z_HUFFMAN_ONLY)
    huffman = only.compress(deltas.tobytes()) + only.flush()

    def from_deltas(steps: npt.NDArray) -> Indices:
        decoded = np.empty(len(steps) + 1, np.int64)
        decoded[0] = first
        np.cumsum(steps, dtype=np.int64, out=decoded[1:])
        decoded[1:] += first
        return decoded

    def unpacked(data: bytes) -> Indices:
        return from_deltas(np.frombuffer(zlib.decompress(data), narrow))

    return {
        "deltas": (8 + deltas.nbytes, lambda: from_deltas(deltas)),
        "bitmap": (
            bitmap.nbytes + rank.nbytes,
            lambda: np.flatnonzero(np.unpackbits(bitmap))[rank],
        ),
        "huffman": (8 + len(huffman), lambda: unpacked(huffman)),
        "lempel_ziv": (8 + len(packed), lambda: unpacked(packed)),
    }
