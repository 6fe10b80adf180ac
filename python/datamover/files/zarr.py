# SPDX-License-Identifier: BSD-3-Clause
"""How are Zarr arrays read and written? zarr-python does the store, the codecs and the chunks."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import logging
import math
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from datamover.errors import InvalidArgument, IoError, Unsupported
from datamover.files import addresses, direct_zarr, zarr_format_2
from datamover.files.at_work import return_large_blocks
from datamover.files.formats import (
    ArraySpec,
    ChunkFunctions,
    Format,
    MoveOptions,
    Shape,
    check_shape,
    register,
)
from datamover.files.native_attributes import tell_left_out_of_json
from datamover.files.space import is_no_space, no_space
from datamover.files.write_back import sync_file_system
from datamover.files.zarr_traits import DIMENSIONS_V2, ZarrTraits, traits_of

log = logging.getLogger("datamover")

COMPRESSORS = ("auto", "none", "zstd", "gzip", "blosc")
#: What says that a directory is an array or a group.
METADATA = ("zarr.json", ".zarray", ".zgroup")
#: At most so many arrays of a group are named in an error.
SHOWN_ARRAYS = 10
#: Chunks are about this large when nobody says how large they are to be.
DEFAULT_CHUNK_BYTES = 1 << 20


def _zarr():
    try:
        import zarr
    except ImportError as e:
        raise Unsupported(
            "Zarr needs zarr-python 3 (pip install 'datamover[files]', Python 3.11)"
        ) from e
    return zarr


def recognizes(path: str) -> bool:
    """Tell whether a directory holds Zarr's metadata."""
    return any(os.path.exists(os.path.join(path, name)) for name in METADATA)


#: Tasks of zarr's loop that wait for all others to end, but not for each other.
_WAITING: set[Any] = set()


async def _others_end() -> None:
    """Wait for the other tasks of zarr's loop, which complain where they are left alone."""
    import asyncio

    this = asyncio.current_task()
    _WAITING.add(this)
    try:
        await asyncio.gather(*(asyncio.all_tasks() - _WAITING), return_exceptions=True)
    finally:
        _WAITING.discard(this)


class _Abandonable:
    """Mixed into a store: it can be told to write nothing more. Zarr writes from its own thread."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._abandoned: BaseException | None = None  # for what reason
        self._writing = 0
        self._loop: Any = None
        self._changed = threading.Condition()

    async def set(self, key: str, value: Any) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        with self._changed:
            if self._abandoned is not None:
                raise InvalidArgument(f"{self} is given up")
            self._writing += 1
        try:
            await super().set(key, value)
        finally:
            with self._changed:
                self._writing -= 1
                self._changed.notify_all()

    def abandon(self, reason: BaseException) -> BaseException:
        """Wait until nothing is being written; refuse what comes later.

        Returns the first reason: of several threads the others fail since the store is given up.
        """
        import asyncio

        with self._changed:
            self._abandoned = self._abandoned or reason
            self._changed.wait_for(lambda: self._writing == 0)
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(_others_end(), self._loop).result()
        return self._abandoned


@cache
def _store_class() -> type:
    from zarr.storage import LocalStore

    return type("AbandonableStore", (_Abandonable, LocalStore), {})


@cache
def _late_store_class() -> type:
    from zarr.storage import WrapperStore

    return type("LateStore", (addresses.LateMetadata, _Abandonable, WrapperStore), {})


def _late_store_at(address: str) -> Any:
    """Open the store at an address so that metadata are held back."""
    return _late_store_class()(addresses.store_at(address, read_only=False))


class ZarrArray:
    """One process's view of an array in a Zarr store; boxes are whole chunks (or shards).

    Parameters
    ----------
    array : zarr.Array
    path : str
    dtype : numpy.dtype
        Of the elements as they are read or written; zarr brings them into the store's byte order.
    traits : ZarrTraits, optional
        What a copy is to keep.
    store : optional
        Where the array is written.
    """

    def __init__(
        self,
        array: Any,
        path: str,
        dtype: np.dtype,
        traits: ZarrTraits | None = None,
        store: Any = None,
    ):
        self.spec = ArraySpec(tuple(array.shape), dtype, kept=traits)
        self.granule: Shape = tuple(array.shards or array.chunks)
        #: What a shard consists of, each of which can be read by itself; None without shards.
        self.parts: Shape | None = tuple(array.chunks) if array.shards else None
        if math.prod(self.granule) * dtype.itemsize > DEFAULT_CHUNK_BYTES:
            return_large_blocks()
        self._array = array
        self._path = path
        self._store = store

    def unit(self, shape: Shape, nprocs: int) -> Shape:
        """Chunks, or shards where there are some."""
        return self.granule

    def read(self, lo: Shape, out: np.ndarray) -> None:
        """Fill `out` with the elements from index `lo` on."""
        if self._array.shards:
            self._refuse_empty_shards(lo, out.shape)
        elements = out.view(self.spec.dtype)
        try:
            for box in self._boxes(lo, out.shape):
                here = tuple(slice(b.start - a, b.stop - a) for a, b in zip(lo, box, strict=True))
                elements[here] = self._array[box]
        except Exception as e:  # whatever a codec says of bytes that it cannot decode
            where, cause = self._broken_chunk(lo, out.shape) or (f"at {lo}", e)
            raise IoError(
                f"{self._path} cannot be read {where}: {addresses.words_of(cause)}"
            ) from e

    def _boxes(self, lo: Shape, shape: Shape) -> Iterator[tuple[slice, ...]]:
        """Cut a box at the ends of large chunks: of one box, zarr decodes all chunks at once."""
        whole = tuple(slice(a, a + n) for a, n in zip(lo, shape, strict=True))
        if math.prod(self.granule) * self.spec.dtype.itemsize < DEFAULT_CHUNK_BYTES:
            yield whole
            return
        for _, chunk in self._chunks(lo, shape):
            yield tuple(
                slice(max(a.start, b.start), min(a.stop, b.stop))
                for a, b in zip(whole, chunk, strict=True)
            )

    def _refuse_empty_shards(self, lo: Shape, shape: Shape) -> None:
        """Refuse files of no bytes, which zarr reads as if there were none."""
        for key, _ in self._chunks(lo, shape):
            with contextlib.suppress(FileNotFoundError):
                if os.path.getsize(os.path.join(self._path, key)) == 0:
                    raise IoError(f"{self._path} cannot be read in chunk {key}: its file is empty")

    def _broken_chunk(self, lo: Shape, shape: Shape) -> tuple[str, Exception] | None:
        """Find the first chunk (or shard) of a box that cannot be read."""
        for key, box in self._chunks(lo, shape):
            try:
                self._array[box]
            except Exception as e:
                return f"in chunk {key}", e
        return None

    def _chunks(self, lo: Shape, shape: Shape) -> Iterator[tuple[str, tuple[slice, ...]]]:
        """Go through the chunks (or shards) of a box: their names and what they hold."""
        cells = [
            range(a // g, -(-(a + n) // g)) for a, n, g in zip(lo, shape, self.granule, strict=True)
        ]
        for cell in itertools.product(*cells):
            box = tuple(slice(c * g, (c + 1) * g) for c, g in zip(cell, self.granule, strict=True))
            yield self._array.metadata.encode_chunk_key(cell), box

    def check_unchanged(self) -> None:
        """Chunks are files or objects of their own: nothing tells of all of them."""

    def write(self, lo: Shape, array: np.ndarray) -> None:
        """Write `array` to the elements from index `lo` on."""
        elements = array.view(self.spec.dtype)
        if elements.dtype.names:  # zarr stores the bytes of these as they stand in memory
            elements = elements.astype(self._array.dtype)
        try:
            target = self._array
            if target.fill_value is None or _hides_bytes(elements, target.fill_value):
                target = _writing_every_chunk(target)
            target[_box(lo, array)] = elements
        except BaseException as e:
            first = self._store.abandon(e)
            _raise_no_space(first, self._path, self.spec)
            if isinstance(first, Exception) and addresses.is_address(self._path):
                words = addresses.words_of(first)
                raise IoError(f"{self._path} cannot be written: {words}") from first
            raise

    def sync(self) -> None:
        """Bring the file system that holds the store to the disk: one call for all chunks."""
        if not addresses.is_address(self._path):
            sync_file_system(self._path)

    def publish(self) -> None:
        """Write the metadata of an array at an address."""
        self._store.publish()

    def held_metadata(self) -> dict[str, bytes]:
        """Give what `publish` would write, by names of objects."""
        return self._store.held()

    def close(self) -> None:
        """Nothing is open between calls."""


def _hides_bytes(elements: np.ndarray, fill_value: Any) -> bool:
    """Tell whether some elements are equal to the fill value and have other bytes: -0.0, a NaN.

    zarr compares numbers, and leaves a chunk out where all are equal.
    """
    dtype = elements.dtype
    if dtype.kind not in "fc" and dtype.names is None:
        return False
    fill = np.asarray(fill_value, dtype)
    equal = elements == fill
    if dtype.names is None and np.isnan(fill):
        equal = np.isnan(elements)
    opaque = np.dtype((np.void, dtype.itemsize))
    same = elements.view(opaque) == np.frombuffer(fill.tobytes(), opaque)[0]
    return bool(np.any(equal & ~same))


def _writing_every_chunk(array: Any) -> Any:
    """Give an open array that also writes chunks of which all elements equal the fill value."""
    said = {"write_empty_chunks": True}
    if hasattr(array, "with_config"):
        return array.with_config(said)
    return _zarr().open_array(array.store_path, mode="r+", config=said)  # older zarr-python


def _box(lo: Shape, array: np.ndarray) -> tuple[slice, ...]:
    return tuple(slice(a, a + n) for a, n in zip(lo, array.shape, strict=True))


def _raise_no_space(e: BaseException, path: str, spec: ArraySpec) -> None:
    """Where an error says that the disk is full, say which, and what would be needed."""
    if isinstance(e, OSError) and is_no_space(e):
        words = no_space(path, e, spec.nbytes)
        raise IoError(f"{words} (the array before compression)") from e


def open_reader(path: str, options: MoveOptions) -> ZarrArray:
    """Open an array; groups and other things are refused."""
    zarr = _zarr()
    at_address = addresses.is_address(path)
    if not at_address and not os.path.isdir(path):
        raise IoError(f"{path} is no directory; a Zarr array is one")
    store = addresses.store_at(path, read_only=True) if at_address else path
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = zarr.open(store, mode="r")
    except Exception as e:  # zarr, json and the codecs have many words for foreign metadata
        if not at_address and not recognizes(path):
            raise IoError(
                f"{path} is a directory without {' or '.join(METADATA)}: no Zarr array"
            ) from None
        words = addresses.words_of(e)
        raise IoError(f"{path} is no Zarr array that can be read: {words}") from e
    if not isinstance(found, zarr.Array):
        raise IoError(f"{path} is a Zarr group; {_how_to_name(found, path, at_address)}")
    _check_dtype(found.dtype, path)
    check_shape(found.shape, found.dtype, path)
    if any(extent < 1 for extent in found.shards or found.chunks):
        raise IoError(f"{path} has chunks of {found.shards or found.chunks}: they hold nothing")
    return ZarrArray(found, path, found.dtype, _traits(found, path))


def _traits(array: Any, path: str) -> ZarrTraits:
    try:
        return traits_of(array)
    except (TypeError, ValueError, LookupError, AttributeError) as e:  # of foreign metadata
        raise IoError(f"{path} is no Zarr array that can be read: {addresses.words_of(e)}") from e


def _how_to_name(group: Any, path: str, at_address: bool) -> str:
    """Say how an array of a group is named, and which there are, where that is soon known."""
    if at_address:
        return f"name one of its arrays, as {path}/NAME"
    members = group.members(max_depth=None)
    arrays = sorted(name for name, found in members if hasattr(found, "chunks"))
    if not arrays:
        return "there is no array in it"
    more = f", and {len(arrays) - SHOWN_ARRAYS} more" if len(arrays) > SHOWN_ARRAYS else ""
    return (
        f"name one of its arrays, as {path}/{arrays[0]}: {', '.join(arrays[:SHOWN_ARRAYS])}{more}"
    )


def _check_dtype(dtype: Any, where: str) -> None:
    if not isinstance(dtype, np.dtype) or dtype.hasobject or dtype.kind == "T":
        raise Unsupported(f"{where} has dtype {dtype}: its elements have no fixed size in bytes")
    if dtype.itemsize == 0:
        raise Unsupported(f"{where} has dtype {dtype.str}, whose elements have no bytes at all")


def _with_traits(spec: ArraySpec) -> ArraySpec:
    """Give a spec whose traits are as zarr-python has them."""
    if isinstance(spec.kept, direct_zarr.Kept):
        return dataclasses.replace(spec, kept=spec.kept.traits())
    return spec


def check_output(spec: ArraySpec, options: MoveOptions) -> ArraySpec:
    """Check chunks, shards, compressor and dtype."""
    spec = _with_traits(spec)
    _check_dtype(spec.dtype, "the output")
    check_boxes("chunks", options.chunks, spec)
    check_boxes("shards", options.shards, spec)
    chunks = chunk_shape(spec, options)
    check_boxes("chunks", chunks, spec)
    if options.shards is not None and not spec.shape:
        raise InvalidArgument("an array of one element has no shards")
    if options.shards and any(s % c for s, c in zip(options.shards, chunks, strict=True)):
        raise InvalidArgument(f"shards {options.shards} are no multiples of the chunks {chunks}")
    if (options.compressor or "auto") not in COMPRESSORS:
        raise InvalidArgument(
            f"unknown compressor {options.compressor!r}; there are {', '.join(COMPRESSORS)}"
        )
    stored = stored_dtype(spec.dtype)
    shards = _shards(spec, options)
    _arguments(spec, options)  # refuses what the format has not
    held = f"dtype {spec.dtype}{'' if shards is None else ' in shards'}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _create({}, spec, options)  # in memory: tells whether Zarr knows the dtype
            kept = _keeps_values(stored, spec.dtype, shards is not None, options.zarr_format or 3)
    except (OSError, MemoryError):
        raise
    except Exception as e:  # zarr and its codecs have many words for what they cannot hold
        raise Unsupported(f"Zarr cannot hold {held}: {addresses.words_of(e)}") from e
    if not kept:
        raise Unsupported(f"Zarr cannot hold {held}: values come back as others")
    return dataclasses.replace(spec, order="C")


def stored_dtype(dtype: np.dtype) -> np.dtype:
    """Return how elements of a dtype stand in a Zarr array: records packed, in little endian.

    Zarr's records have no byte order of their own and no gaps.

    Raises
    ------
    Unsupported
        A field is an array.
    """
    if dtype.names is None:
        return dtype
    fields = []
    for name in dtype.names:
        field = dtype[name]
        if field.subdtype is not None:
            raise Unsupported(
                f"Zarr cannot hold dtype {dtype}: its field {name!r} is an array of {field.shape}; "
                "make it fields of their own, or write .h5 or .npy"
            )
        fields.append((name, stored_dtype(field)))
    return np.dtype(fields).newbyteorder("<")


def _titled(dtype: np.dtype, above: str = "") -> Iterator[str]:
    """Name the fields that have titles, and those within them."""
    for name in dtype.names or ():
        field, *_ = found = dtype.fields[name]
        if len(found) > 2:
            yield repr(above + name)
        yield from _titled(field, f"{above}{name}.")


def _keeps_values(stored: np.dtype, given: np.dtype, in_shards: bool, zarr_format: int) -> bool:
    """Write some elements to a Zarr array in memory, as they will be, and see what comes back."""
    samples = _samples(given).astype(stored)
    store: dict[str, Any] = {}
    shards = (4,) if in_shards else None
    _zarr().create_array(
        store, shape=(3,), chunks=(2,), shards=shards, dtype=stored, zarr_format=zarr_format
    )
    _zarr().open_array(store, mode="r+")[...] = samples
    back = _zarr().open_array(store, mode="r")[...].astype(stored)
    return back.tobytes() == samples.tobytes()


def _samples(dtype: np.dtype) -> np.ndarray:
    """Three elements whose bytes differ."""
    if dtype.names:
        samples = np.zeros(3, dtype)
        for name in dtype.names:
            samples[name] = _samples(dtype[name])
        return samples
    if dtype.kind in "bU":
        return np.array([True, False, True] if dtype.kind == "b" else ["a", "b", ""]).astype(dtype)
    return np.frombuffer((bytes(range(1, 256)) * (1 + dtype.itemsize))[: 3 * dtype.itemsize], dtype)


def check_boxes(what: str, boxes: Shape | None, spec: ArraySpec) -> None:
    """Check that chunks, or shards, can be those of an array."""
    if boxes is None:
        return
    if len(boxes) != len(spec.shape):
        raise InvalidArgument(
            f"{what} {boxes} have {len(boxes)} dimensions, the output has {len(spec.shape)}: "
            f"{spec.shape}"
        )
    if any(extent < 1 for extent in boxes):
        raise InvalidArgument(f"{what} {boxes} must be positive in every dimension")
    if math.prod(boxes) * spec.dtype.itemsize >= 2**63:
        raise InvalidArgument(f"{what} {boxes} have 2**63 bytes or more each")


def chunk_shape(spec: ArraySpec, options: MoveOptions) -> Shape:
    """Return the chunks that were said; else the input's; else nearly cubic ones of a megabyte."""
    if options.chunks is not None:
        return tuple(options.chunks)
    if spec.kept is not None:
        return spec.kept.chunks
    chunks = [max(extent, 1) for extent in spec.shape]
    while np.prod(chunks, dtype=object) * spec.dtype.itemsize > DEFAULT_CHUNK_BYTES and any(
        extent > 1 for extent in chunks
    ):
        d = int(np.argmax(chunks))
        chunks[d] = -(-chunks[d] // 2)
    return tuple(chunks)


def _shards(spec: ArraySpec, options: MoveOptions) -> Shape | None:
    """Return the shards that were said; else the input's, where its chunks are kept."""
    if options.shards is None and options.chunks is None and spec.kept is not None:
        return spec.kept.shards
    return options.shards


def _arguments(spec: ArraySpec, options: MoveOptions) -> dict[str, Any]:
    """Give what zarr-python is to know of a new array besides its elements."""
    if options.zarr_format == 2:
        said = "kept" if options.compressor is None else _compressors(options.compressor)
        return zarr_format_2.arguments(spec, _shards(spec, options), said)
    arguments: dict[str, Any] = {"compressors": "auto", "zarr_format": 3}
    if spec.kept is not None:
        kept = spec.kept
        arguments |= {
            **kept.others,
            "dimension_names": kept.dimension_names,
            "compressors": kept.compressors,
        }
    if spec.dimension_names is not None:
        arguments["dimension_names"] = spec.dimension_names
    if options.compressor is not None:
        arguments["compressors"] = _compressors(options.compressor)
    return arguments


def _create(store: Any, spec: ArraySpec, options: MoveOptions) -> Any:
    return _zarr().create_array(
        store=store,
        shape=spec.shape,
        dtype=stored_dtype(spec.dtype),
        chunks=chunk_shape(spec, options),
        shards=_shards(spec, options),
        **_arguments(spec, options),
    )


def _compressors(name: str) -> Any:
    from zarr import codecs

    by_name = {"zstd": codecs.ZstdCodec, "gzip": codecs.GzipCodec, "blosc": codecs.BloscCodec}
    if name in by_name:
        return by_name[name]()
    return "auto" if name == "auto" else None


def create(path: str, spec: ArraySpec, options: MoveOptions) -> None:
    """Write the metadata; chunks come when they are written. At an address metadata come last."""
    if addresses.is_address(path):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _create(path, _with_traits(spec), options)
        except OSError as e:
            _raise_no_space(e, path, spec)
            raise


def create_strings(
    path: str,
    shape: Shape,
    chunks: Shape,
    attributes: dict[str, Any],
    dimension_names: Sequence[str | None] | None,
    zarr_format: int = 3,
    kept: dict[str, Any] | None = None,
) -> Any:
    """Make an array of strings of any length, as xarray and zarr-python have them.

    At an address its metadata are held back, by its store. `kept` are further arguments of
    zarr-python's `create_array`.
    """
    said: dict[str, Any] = {"attributes": attributes, "dimension_names": dimension_names}
    if zarr_format == 2:
        said = {"attributes": dict(attributes)}
        if dimension_names is not None or not shape:
            said["attributes"][DIMENSIONS_V2] = list(dimension_names or ())
            # xarray takes it for missing.
            said |= {"fill_value": None, "config": {"write_empty_chunks": True}}
    said |= kept or {}
    store = _late_store_at(path) if addresses.is_address(path) else path
    return _zarr().create_array(
        store, shape=shape, chunks=chunks, dtype=str, zarr_format=zarr_format, **said
    )


def kept_of_strings(traits: ZarrTraits | None, options: MoveOptions) -> dict[str, Any]:
    """Give what `create_strings` is to be told of an input in Zarr, and of what was said.

    Raises
    ------
    Unsupported
        The input has codecs that Zarr format 2 has not.
    """
    is_of_2 = options.zarr_format == 2
    found = {} if traits is None else _of_strings_in_format(is_of_2, traits)
    if options.compressor is not None:
        found["compressors"] = _compressors(options.compressor)
    elif traits is not None and is_of_2 and traits.of_format_2 is not None:
        return found | {"compressors": traits.of_format_2["compressors"]}
    elif traits is not None:
        found["compressors"] = traits.compressors
    if is_of_2 and "compressors" in found:
        found["compressors"] = zarr_format_2.compressor(found["compressors"])
    return found


def _of_strings_in_format(is_of_2: bool, traits: ZarrTraits) -> dict[str, Any]:
    """Give fill value, shards and names of chunks, as far as the format has them."""
    if traits.of_format_2 is not None:
        fill_value = traits.of_format_2["fill_value"]
        return {"fill_value": fill_value} if isinstance(fill_value, str) else {}
    if is_of_2:
        return {}  # xarray takes a fill value there for missing
    named = ("fill_value", "chunk_key_encoding")
    return {"shards": traits.shards, **{name: traits.others[name] for name in named}}


def open_strings(path: str) -> Any:
    """Open an array of strings to be read.

    Raises
    ------
    IoError
        It cannot be.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            store = path
            if addresses.is_address(path):
                store = addresses.store_at(path, read_only=True)
            return _zarr().open_array(store, mode="r")
    except (Unsupported, IoError):
        raise
    except Exception as e:  # zarr, json and the codecs have many words for foreign metadata
        raise IoError(f"{path} is no Zarr array that can be read: {addresses.words_of(e)}") from e


def open_writer(path: str, spec: ArraySpec, options: MoveOptions) -> ZarrArray:
    """Open an array that `create` made."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if addresses.is_address(path):
            late = _late_store_at(path)
            return ZarrArray(
                _create(late, _with_traits(spec), options), path, spec.dtype, store=late
            )
        store = _store_class()(path)
        return ZarrArray(_zarr().open_array(store, mode="r+"), path, spec.dtype, store=store)


def open_source(path: str, options: MoveOptions) -> ZarrArray | direct_zarr.OrdinaryArray:
    """Open an array to be read chunk by chunk, without zarr-python where it is an ordinary one."""

    def traits() -> ZarrTraits:
        return open_reader(path, options).spec.kept

    if addresses.is_address(path):
        return open_reader(path, options)
    return direct_zarr.open_reader(path, traits) or open_reader(path, options)


def check_sink(spec: ArraySpec, options: MoveOptions) -> ArraySpec:
    """Check the output as `check_output` does, without zarr-python where it is an ordinary one."""
    if options.zarr_format != 2 and _ordinary_output(spec, options) is not None:
        return dataclasses.replace(spec, order="C")
    return check_output(spec, options)


def _ordinary_output(spec: ArraySpec, options: MoveOptions) -> dict[str, Any] | None:
    """Give the metadata of an output that is written without zarr-python."""
    _check_dtype(spec.dtype, "the output")
    check_boxes("chunks", options.chunks, spec)
    chunks = chunk_shape(spec, options)
    check_boxes("chunks", chunks, spec)
    return None if options.zarr_format == 2 else direct_zarr.output_metadata(spec, chunks, options)


def create_sink(path: str, spec: ArraySpec, options: MoveOptions) -> None:
    """Write the metadata; chunks come when they are written."""
    tell_left_out_of_json(direct_zarr.attributes_of(spec.kept))
    if titled := list(_titled(spec.dtype)):
        log.warning("the titles of fields are left out, as Zarr has none: %s", ", ".join(titled))
    metadata = None if addresses.is_address(path) else _ordinary_output(spec, options)
    if metadata is None:
        create(path, spec, options)
    else:
        direct_zarr.create(path, metadata, spec)


def open_sink(
    path: str, spec: ArraySpec, options: MoveOptions
) -> ZarrArray | direct_zarr.OrdinaryArray:
    """Open an array that `create_sink` made."""
    is_direct = options.zarr_format == 2 or _ordinary_output(spec, options) is not None
    if is_direct and not addresses.is_address(path):
        ordinary = direct_zarr.open_reader(path, lambda: None)
        if ordinary is not None:
            return ordinary
    return open_writer(path, spec, options)


def preview_sink(spec: ArraySpec, options: MoveOptions) -> ZarrArray | direct_zarr.OrdinaryArray:
    """Give an array as `open_sink` would, without a place: to be looked at only."""
    metadata = _ordinary_output(spec, options)
    if metadata is not None:
        return direct_zarr.preview(metadata)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store: dict[str, Any] = {}
        array = _create(store, _with_traits(spec), options)
        found = None
        if options.zarr_format == 2:
            found = direct_zarr.preview_of_v2(json.loads(store[".zarray"].to_bytes()))
        return found or ZarrArray(array, "", spec.dtype)


register(
    Format(
        "zarr",
        (".zarr",),
        recognizes,
        open_reader,
        check_output,
        create,
        open_writer,
        is_directory=True,
        by_chunk=ChunkFunctions(open_source, check_sink, create_sink, open_sink, preview_sink),
    )
)
