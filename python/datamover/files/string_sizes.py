# SPDX-License-Identifier: BSD-3-Clause
"""Decoded size in bytes of a chunk of strings, in a Zarr array in a directory or at an address.

Most codecs store it in the first or last bytes of an encoded chunk. Chunks of other codecs are
decoded piece by piece, and the bytes are counted.
"""

from __future__ import annotations

import bz2
import contextlib
import itertools
import lzma
import os
import threading
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from datamover.errors import IoError, Unsupported
from datamover.files import address_place, addresses, bounded_decode
from datamover.files.formats import num_boxes

#: With so many of its first bytes an encoded chunk says how many it stands for.
HEAD_BYTES = 32
#: One of gzip does so with its last.
GZIP_SIZE_BYTES = 4
#: The index of a shard has two integers for each chunk, and a checksum behind all.
INDEX_ROW_BYTES, CHECKSUM_BYTES = 16, 4
#: What is counted is decoded so many bytes at a time.
PIECE_BYTES = 1 << 20
#: So many chunks at an address are asked at once, of so many that are listed.
AT_ONCE, LISTED = 32, 1024
#: Where a server gives no ranges, chunks are read as a whole, of no more bytes, one at a time.
WHOLE_BYTES, ONE_WHOLE = 1 << 24, threading.Lock()
#: Codecs that say how much they encoded, and those of which it is counted.
TELLING = (None, "gzip", "zstd", "blosc", "lz4")
COUNTED = ("zlib", "bz2", "lzma")
#: What frames of zstd consist of: blocks of no more bytes than that when decoded.
ZSTD_BLOCK_BYTES = 1 << 17


class Sizes(NamedTuple):
    """Of all chunks of an array.

    Attributes
    ----------
    largest_bytes : int
        That a chunk, or shard, has when it is decoded.
    are_missing : bool
        Whether some are not there, and hold the fill value.
    """

    largest_bytes: int
    are_missing: bool


def codec_of(array: Any, path: str) -> Any:
    """Give the codec, as numcodecs has it, of an open array's chunks; None where there is none.

    Raises
    ------
    Unsupported
        With such codecs no limit of memory can be kept.
    """
    import numcodecs

    configs = [_config(codec) for codec in array.compressors]
    if has_checksum(array):
        configs.pop()
    if len(configs) > 1 or any(one["id"] not in (*TELLING, *COUNTED) for one in configs):
        names = ", ".join(one["id"] for one in configs)
        raise Unsupported(
            f"{path} has strings that are encoded by {names}: how much memory they take when they "
            "are decoded is not known before, so that no limit can be kept"
        )
    return numcodecs.get_codec(configs[0]) if configs else None


def has_checksum(array: Any) -> bool:
    """Tell whether a checksum stands behind each encoded chunk."""
    return bool(array.compressors) and _config(array.compressors[-1])["id"] == "crc32c"


def _config(codec: Any) -> dict[str, Any]:
    if hasattr(codec, "codec_id"):
        return codec.get_config()
    said = codec.to_dict()
    config = {key: getattr(v, "value", v) for key, v in said.get("configuration", {}).items()}
    if said["name"] == "blosc":
        from datamover.files.ordinary_layout import SHUFFLES

        config = {**config, "shuffle": SHUFFLES[config["shuffle"]]}
        config.pop("typesize", None)
    return {"id": said["name"].removeprefix("numcodecs."), **config}


def sizes_of(path: str, array: Any) -> Sizes:
    """Look at the stored chunks of an open array at that path or address.

    Raises
    ------
    IoError
        They cannot be read.
    Unsupported
        As of `codec_of`.
    """
    codec = codec_of(array, path)
    count, largest_bytes = 0, 0
    for found in _asked(path, array, codec):
        count += found is not None
        largest_bytes = max(largest_bytes, found or 0)
    unit = array.shards or array.chunks
    return Sizes(largest_bytes, count < num_boxes(array.shape, unit))


def _asked(path: str, array: Any, codec: Any) -> Iterator[int | None]:
    """Give the bytes of each chunk; None where it is not there."""

    def ask(key: str) -> int | None:
        try:
            with _stored(path, key, array) as stored:
                return _decoded_bytes(stored, array, codec)
        except FileNotFoundError:
            return None
        except Exception as e:  # whatever a server says, or a codec of bytes it cannot decode
            raise IoError(f"{path} cannot be read in chunk {key}: {addresses.words_of(e)}") from e

    keys = _keys(path, array)
    if not addresses.is_address(path):
        yield from map(ask, keys)
        return
    with ThreadPoolExecutor(AT_ONCE) as threads:
        while some := list(itertools.islice(keys, LISTED)):
            yield from threads.map(ask, some)


def _keys(path: str, array: Any) -> Iterator[str]:
    """Give the names of chunks: those that are there, or all where nobody lists them."""
    is_chunk = address_place.chunk_key(array.ndim).fullmatch
    if addresses.scheme_of(path) in addresses.READ_ONLY:
        unit = array.shards or array.chunks
        counts = (range(-(-n // c)) for n, c in zip(array.shape, unit, strict=True))
        yield from map(array.metadata.encode_chunk_key, itertools.product(*counts))
    elif addresses.is_address(path):
        yield from filter(is_chunk, _listed(path, array.store))
    else:
        for folder, _, names in os.walk(path):
            files = (os.path.relpath(os.path.join(folder, name), path) for name in names)
            yield from filter(is_chunk, files)


def _listed(path: str, store: Any) -> list[str]:
    async def names() -> list[str]:
        return [key async for key in store.list()]

    try:
        return addresses.done(names())
    except Exception as e:
        raise IoError(f"{path} cannot be looked at: {addresses.words_of(e)}") from e


class _File:
    """A chunk in a file."""

    def __init__(self, file: Any):
        self._file = file
        self.size = os.fstat(file.fileno()).st_size

    def read(self, begin: int, end: int) -> bytes:
        """Read the bytes from `begin` up to `end`, as far as there are some."""
        self._file.seek(begin)
        return self._file.read(end - begin)


class _Object:
    """A chunk in a store."""

    def __init__(self, store: Any, key: str):
        self._store, self._key = store, key
        self.size: int = addresses.done(store.getsize(key))

    def read(self, begin: int, end: int) -> bytes:
        """Read the bytes from `begin` up to `end`."""
        from zarr.abc.store import RangeByteRequest

        if begin >= end:
            return b""  # stores refuse to be asked for nothing
        try:
            found = self._get(RangeByteRequest(begin, end))
        except (FileNotFoundError, IoError):
            raise
        except Exception:  # of servers that give no ranges each library has its own words
            found = self._whole()
        return found if len(found) == end - begin else found[begin:end]

    def _whole(self) -> bytes:
        if self.size > WHOLE_BYTES:
            raise IoError("the server gives no ranges of bytes; copy it here first")
        with ONE_WHOLE:
            return self._get(None)

    def _get(self, asked: Any) -> bytes:
        from zarr.core.buffer import default_buffer_prototype

        found = addresses.done(self._store.get(self._key, default_buffer_prototype(), asked))
        if found is None:
            raise FileNotFoundError(self._key)
        return found.to_bytes()


@contextlib.contextmanager
def _stored(path: str, key: str, array: Any) -> Iterator[Any]:
    if addresses.is_address(path):
        yield _Object(array.store, key)
        return
    with open(os.path.join(path, key), "rb") as file:
        yield _File(file)


def _decoded_bytes(stored: Any, array: Any, codec: Any) -> int:
    """Give the bytes of a chunk, or shard, when it is decoded."""
    behind_bytes = CHECKSUM_BYTES * has_checksum(array)
    if not array.shards:
        return _bytes_of_part(stored, 0, stored.size - behind_bytes, codec)
    parts = _parts_of_shard(stored, array)
    if not parts:  # who decodes it says what is wrong with it
        return stored.size
    return sum(_bytes_of_part(stored, at, n - behind_bytes, codec) for at, n in parts)


def _parts_of_shard(stored: Any, array: Any) -> list[tuple[int, int]]:
    """Give first and number of the bytes of each chunk in a shard; none where that is not read."""
    said = array.metadata.codecs[0].to_dict()["configuration"]
    if [codec["name"] for codec in said["index_codecs"]] != ["bytes", "crc32c"]:
        return []
    index_bytes = num_boxes(array.shards, array.chunks) * INDEX_ROW_BYTES
    is_first = said["index_location"] == "start"
    begin = 0 if is_first else max(0, stored.size - index_bytes - CHECKSUM_BYTES)
    rows = stored.read(begin, begin + index_bytes)
    if len(rows) != index_bytes:
        return []
    endian = said["index_codecs"][0].get("configuration", {}).get("endian", "little")
    index = np.frombuffer(rows, ">u8" if endian == "big" else "<u8").reshape(-1, 2).tolist()
    return [(begin, nbytes) for begin, nbytes in index if begin + nbytes <= stored.size]


def _bytes_of_part(stored: Any, begin: int, nbytes: int, codec: Any) -> int:
    """Give how many bytes encoded ones stand for."""
    kind = codec.codec_id if codec is not None else None
    if kind is None:
        return nbytes
    end = begin + nbytes
    if kind == "gzip" and nbytes >= GZIP_SIZE_BYTES:  # says it at the end
        return int.from_bytes(stored.read(end - GZIP_SIZE_BYTES, end), "little")
    if kind in COUNTED:
        starts = range(begin, end, PIECE_BYTES)
        return _counted(codec, (stored.read(at, min(at + PIECE_BYTES, end)) for at in starts))
    said = bounded_decode.said_bytes(kind, stored.read(begin, min(begin + HEAD_BYTES, end)))
    if said is None and kind == "zstd":
        return _most_of_zstd(stored, begin, end)
    return nbytes if said is None else said


def _counted(codec: Any, pieces: Iterable[bytes]) -> int:
    """Count what streams stand for, one behind the other, in the memory of a piece."""
    count, stream = 0, _stream(codec)
    for data in pieces:
        while data or not getattr(stream, "needs_input", True):
            found = stream.decompress(data, PIECE_BYTES)
            count += len(found)
            data = getattr(stream, "unconsumed_tail", b"")  # others keep it
            if stream.eof:
                data, stream = stream.unused_data, _stream(codec)
            elif not found and not data:
                break
    return count


def _stream(codec: Any) -> Any:
    if codec.codec_id == "zlib":
        return zlib.decompressobj()
    if codec.codec_id == "bz2":
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor(codec.format, filters=codec.filters)


def _most_of_zstd(stored: Any, begin: int, end: int) -> int:
    """Bound a frame of zstd that does not say its size, by the blocks that it consists of."""
    flags = stored.read(begin + 4, begin + 5)
    if not flags:
        return 0
    has_window = not flags[0] >> 5 & 1
    at = begin + 5 + has_window + bounded_decode.DICTIONARY_BYTES[flags[0] & 3]
    count, is_last = 0, False
    while not is_last and at + 3 <= end:
        header = int.from_bytes(stored.read(at, at + 3), "little")
        is_last, kind, size = header & 1, header >> 1 & 3, header >> 3
        count += size if kind < 2 else ZSTD_BLOCK_BYTES
        at += 3 + (1 if kind == 1 else size)
    return count
