# SPDX-License-Identifier: BSD-3-Clause
"""Decoding of chunks with bounded memory, whatever their bytes claim.

A few kilobytes can decode to gigabytes, by accident or on purpose.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

#: zlib's parameter for the header and trailer, by the codec's name.
WBITS = {"gzip": 31, "zlib": 15}
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
#: Bytes of the size field and of the dictionary field in a zstd frame, by two bits each.
SIZE_BYTES, DICTIONARY_BYTES = (0, 2, 4, 8), (0, 1, 2, 4)


def decode(codec: Any, data: bytes, most: int) -> Any:
    r"""Decode a chunk of at most `most` bytes; the caller checks everything else.

    Zstd frames without their size are decoded without this check.

    Raises
    ------
    ValueError
        The decoded chunk is larger.

    Examples
    --------
    >>> import zlib
    >>> from types import SimpleNamespace
    >>> from datamover.files.bounded_decode import decode
    >>> decode(SimpleNamespace(codec_id="zlib"), zlib.compress(bytes(4)), 4)
    b'\x00\x00\x00\x00'
    """
    if codec.codec_id in WBITS:
        return inflated(data, WBITS[codec.codec_id], most)
    said = said_bytes(codec.codec_id, data)
    if said is not None and said > most:
        raise ValueError(f"it holds {said:,} bytes, not {most:,}")
    return codec.decode(data)


def said_bytes(kind: str, data: bytes) -> int | None:
    """Return the size after decoding that encoded bytes declare; None if they do not."""
    if kind == "zstd":
        return _of_zstd(data)
    if kind in ("blosc", "lz4"):
        at = 4 if kind == "blosc" else 0
        return struct.unpack_from("<I", data, at)[0] if len(data) >= at + 4 else None
    return None


def _of_zstd(data: bytes) -> int | None:
    if len(data) < 5 or not data.startswith(ZSTD_MAGIC):
        return None
    said = data[4]
    has_window = not said >> 5 & 1
    size_bytes = SIZE_BYTES[said >> 6] or (0 if has_window else 1)
    at = 5 + has_window + DICTIONARY_BYTES[said & 3]
    if not size_bytes or len(data) < at + size_bytes:
        return None
    size = int.from_bytes(data[at : at + size_bytes], "little")
    return size + 256 if size_bytes == 2 else size


def inflated(data: bytes, wbits: int, most: int) -> bytes:
    """Decode consecutive streams of gzip, or one of zlib."""
    pieces, left = [], most + 1
    while data and left > 0:
        stream = zlib.decompressobj(wbits)
        pieces.append(stream.decompress(data, left))
        left -= len(pieces[-1])
        if left > 0 and not stream.eof:
            raise ValueError("its compressed bytes end too early")
        data = stream.unused_data.lstrip(b"\0") if wbits == WBITS["gzip"] else b""
    if left == 0:
        raise ValueError(f"it decodes to more than {most:,} bytes")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
