# SPDX-License-Identifier: BSD-3-Clause
"""Contenders that move an array between files. A program of its own for each contender.

Arguments: the contender, and a case as JSON (`files.Case.description`). It does not import
datamover, so that another Python, with other packages, can run it. It ends when the output is on
the disk; `limit` prints its seconds.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

CORES = len(os.sched_getaffinity(0))
#: Of HDF5 files: the name of the array, and what h5py and datamover compress with.
DATASET = "a"
GZIP_LEVEL = 4


def mapped(case: dict[str, Any], side: str) -> Any:
    """Map an .npy or raw file; create an output."""
    path, shape = case[side], case[f"{side}_shape"]
    if side == "output":
        return np.lib.format.open_memmap(path, "w+", case["dtype"], tuple(shape))
    if case["source_kind"] == "npy":
        return np.load(path, mmap_mode="r")
    return np.memmap(path, case["dtype"], "r", shape=tuple(shape))


def opened(case: dict[str, Any]) -> Any:
    """Open a source, as an array of the output's dimensions."""
    if case["source_kind"] == "zarr":
        import zarr

        return zarr.open_array(case["source"], mode="r")
    if case["source_kind"] in ("h5", "nc"):
        import h5py

        return h5py.File(case["source"], "r")[DATASET]
    return mapped(case, "source").transpose(case["axes"])


def zarr_codec(case: dict[str, Any], zarr_format: int = 3) -> Any:
    """Return the codec of an output for zarr-python; None: nothing is compressed."""
    from zarr.codecs import ZstdCodec

    codec = codecs_of("zstd", "")[0] if zarr_format == 2 else ZstdCodec()
    return codec if case["codec"] == "zstd" else None


def made_zarr(case: dict[str, Any], zarr_format: Any = 3) -> Any:
    """Create a Zarr output with zarr-python."""
    import zarr

    return zarr.create_array(
        case["output"],
        shape=case["output_shape"],
        chunks=tuple(case["chunks"]),
        dtype=case["dtype"],
        compressors=zarr_codec(case, zarr_format),
        zarr_format=zarr_format,
    )


def slabs(case: dict[str, Any]) -> list[tuple[slice, ...]]:
    """Cut the output into boxes of whole chunks that take half of the memory limit."""
    shape, itemsize = case["output_shape"], np.dtype(case["dtype"]).itemsize
    units = case["chunks"] or [1] * len(shape)
    coarse = [math.lcm(u, s) for u, s in zip(units, case["source_chunks"] or units, strict=True)]
    box = list(shape)
    while math.prod(box) * itemsize > case["max_bytes"] // 2:
        # Where it can be cut without cutting chunks of either side, else of the output.
        ratios = [b / c for b, c in zip(box, coarse, strict=True)]
        d = int(np.argmax(ratios))
        unit = coarse[d]
        if ratios[d] <= 1:
            ratios = [b / u for b, u in zip(box, units, strict=True)]
            d = int(np.argmax(ratios))
            unit = units[d]
        box[d] = max(unit, -(-box[d] // (2 * unit)) * unit)
        if max(ratios) <= 1:
            break
    starts = [range(0, n, b) for n, b in zip(shape, box, strict=True)]
    return [
        tuple(slice(a, min(a + b, n)) for a, b, n in zip(lo, box, shape, strict=True))
        for lo in itertools.product(*starts)
    ]


def sync(path: str | os.PathLike[str]) -> None:
    """Sync the file system of an output."""
    fd = os.open(path, os.O_RDONLY)
    ctypes.CDLL(None).syncfs(fd)
    os.close(fd)


def have_memory_at_hand(path: str, nbytes: int) -> None:
    """Write a file of this size, and remove it.

    A virtual machine returns memory that it does not use. The first contender that uses it again
    would pay for it.
    """
    zeros = bytes(1 << 20)
    with open(path, "wb", buffering=0) as file:
        for _ in range(nbytes >> 20):
            file.write(zeros)
    os.unlink(path)


def move_by_slabs(case: dict[str, Any], source: Any, output: Any) -> None:
    """Copy slab by slab; the source is an array of the output's dimensions."""
    for slab in slabs(case):
        output[slab] = source[slab]
    if isinstance(output, np.memmap):
        output.flush()


def by_zarr(case: dict[str, Any]) -> None:
    """Move with zarr-python, by the codec pipeline that is set."""
    import zarr  # noqa: F401  (who has none is left out, also between flat files)

    source = opened(case)
    output = made_zarr(case) if case["output_kind"] == "zarr" else mapped(case, "output")
    move_by_slabs(case, source, output)


def by_zarrs(case: dict[str, Any]) -> None:
    """Move with zarr-python and the codec pipeline of zarrs."""
    import zarr
    import zarrs  # noqa: F401

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    by_zarr(case)


def by_tensorstore(case: dict[str, Any]) -> None:
    """Move with tensorstore."""
    import tensorstore as ts

    # As for every contender, one sync at the end serves all files; one for each chunk costs more.
    context = ts.Context({"file_io_sync": False})

    def store(path: str, **options: Any) -> Any:
        spec = {"driver": "zarr3", "kvstore": "file://" + os.path.abspath(path), **options}
        return ts.open(spec, context=context, create=bool(options)).result()

    if "zarr" not in (case["source_kind"], case["output_kind"]):
        raise ImportError("it has no driver for flat files")
    source = store(case["source"]) if case["source_kind"] == "zarr" else opened(case)
    if case["output_kind"] != "zarr":
        move_by_slabs(case, source, mapped(case, "output"))  # a slab is read as an array
        return
    codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if case["codec"] == "zstd":
        codecs.append({"name": "zstd", "configuration": {"level": 0}})
    grid = {"name": "regular", "configuration": {"chunk_shape": case["chunks"]}}
    metadata = {"shape": case["output_shape"], "data_type": case["dtype"]}
    metadata |= {"chunk_grid": grid, "codecs": codecs}
    output = store(case["output"], metadata=metadata)
    for write in [output[slab].write(source[slab]) for slab in slabs(case)]:
        write.result()


def by_dask(case: dict[str, Any]) -> None:
    """Move with dask and its threads."""
    import dask.array as da

    if case["source_kind"] == "zarr":
        source = da.from_zarr(case["source"])
    else:
        given = opened(case) if case["source_kind"] == "nc" else mapped(case, "source")
        source = da.from_array(given, chunks="64MiB").transpose(case["axes"])
    if case["output_kind"] != "zarr":
        output = mapped(case, "output")
        da.store(source, output, lock=False)
        output.flush()
        return
    output = made_zarr(case)
    da.store(source.rechunk(tuple(case["chunks"])), output, lock=False)


def by_rechunker(case: dict[str, Any]) -> None:
    """Move with rechunker, by dask, from and to Zarr v2, the only version that it supports."""
    import rechunker
    import zarr
    from numcodecs import Zstd

    if (case["source_kind"], case["output_kind"]) != ("zarr", "zarr"):
        raise ImportError("it moves from Zarr to Zarr only")
    target = case["output"]
    codec = {"compressor": Zstd(0) if case["codec"] == "zstd" else None}
    os.mkdir(target)  # for both, so that both are removed with it
    rechunker.rechunk(
        zarr.open_array(case["source_v2"], mode="r"),
        tuple(case["chunks"]),
        case["max_bytes"] // CORES,  # of each thread
        os.path.join(target, "a.zarr"),
        target_options=codec,
        temp_store=os.path.join(target, "between.zarr"),
        temp_options=codec,
    ).execute()


def dataset_of(file: Any, case: dict[str, Any]) -> Any:
    """Make the dataset of an HDF5 output."""
    packed = {"compression": "gzip", "compression_opts": GZIP_LEVEL, "shuffle": True}
    words = packed if case["codec"] == "gzip" else {}
    shape, chunks = tuple(case["output_shape"]), tuple(case["chunks"])
    return file.create_dataset(DATASET, shape, case["dtype"], chunks=chunks, **words)


def by_h5py(case: dict[str, Any]) -> None:
    """Move between HDF5 files with h5py."""
    import h5py

    with h5py.File(case["source"], "r") as source, h5py.File(case["output"], "w") as output:
        move_by_slabs(case, source[DATASET], dataset_of(output, case))


def by_xarray(case: dict[str, Any]) -> None:
    """Move a whole NetCDF file with xarray, by dask and its threads."""
    import dask  # noqa: F401  (xarray's name for it where it is missing is another)
    import xarray

    chunks = dict(zip("zyx", case["chunks"], strict=True))
    encoding = {DATASET: {"chunks": tuple(case["chunks"]), "compressors": zarr_codec(case)}}
    with xarray.open_dataset(case["source"], engine="h5netcdf", chunks={}) as source:
        made = source.chunk(chunks).drop_encoding()
        made.to_zarr(case["output"], encoding=encoding, zarr_format=3, consolidated=False)


def by_h5repack(case: dict[str, Any]) -> None:
    """Move between HDF5 files with the program h5repack, of HDF5's own tools."""
    if shutil.which("h5repack") is None:
        raise ImportError("no h5repack; it is in hdf5-tools")
    filters = ["-f", "SHUF", "-f", f"GZIP={GZIP_LEVEL}"] if case["codec"] == "gzip" else []
    chunks = f"{DATASET}:CHUNK={'x'.join(map(str, case['chunks']))}"
    command = ["h5repack", *filters, "-l", chunks, case["source"], case["output"]]
    subprocess.run(command, check=True)


def codecs_of(name: str, dtype: str) -> list[Any]:
    """Return the codecs that encode one after the other; none if nothing does."""
    import numcodecs

    if name == "gzip":  # as HDF5 does it
        return [numcodecs.Shuffle(np.dtype(dtype).itemsize), numcodecs.Zlib(GZIP_LEVEL)]
    return [numcodecs.Zstd(0)] if name == "zstd" else []


def encoded(codecs: Sequence[Any], data: Any) -> Any:
    """Return encoded data."""
    for codec in codecs:
        data = codec.encode(data)
    return data


def decoded(codecs: Sequence[Any], data: Any) -> Any:
    """Return decoded data."""
    for codec in reversed(codecs):
        data = codec.decode(data)
    return data


def limit(case: dict[str, Any]) -> float:
    """Decode and encode all chunks in memory on all cores, write and sync the bytes; seconds."""
    array = np.array(opened(case))

    def chunks_of(extents: list[int] | None) -> list[np.ndarray]:
        box = extents or [1, *array.shape[1:]]
        starts = [range(0, n, b) for n, b in zip(array.shape, box, strict=True)]
        return [
            np.ascontiguousarray(array[tuple(map(slice, lo, map(sum, zip(lo, box, strict=True))))])
            for lo in itertools.product(*starts)
        ]

    # Flat files have no chunks, so that nothing is coded.
    before, after = (
        codecs_of(case[codec], case["dtype"]) if case[chunks] is not None else []
        for codec, chunks in (("source_codec", "source_chunks"), ("codec", "chunks"))
    )
    with ThreadPoolExecutor(CORES) as pool:
        source = chunks_of(case["source_chunks"]) if before else []
        given = list(pool.map(partial(encoded, before), source))
        made: list[Any] = chunks_of(case["chunks"])
        begin = time.perf_counter()
        for chunk in pool.map(partial(decoded, before), given):
            assert len(chunk)
        made = list(pool.map(partial(encoded, after), made)) if after else made
        with open(case["output"], "wb", buffering=0) as file:
            for chunk in made:
                file.write(chunk)
            os.fsync(file.fileno())
    return time.perf_counter() - begin


CONTENDERS = {
    "tensorstore": by_tensorstore,
    "zarr-python": by_zarr,
    "zarrs": by_zarrs,
    "dask": by_dask,
    "rechunker": by_rechunker,
    "h5py": by_h5py,
    "h5repack": by_h5repack,
    "xarray": by_xarray,
}


def main() -> None:
    """Run one contender; the exit code is 3 if it is not installed."""
    name, case = sys.argv[1], json.loads(sys.argv[2])
    try:
        if name == "limit":
            print(json.dumps({"seconds": limit(case)}))
            return
        CONTENDERS[name](case)
    except ImportError as e:
        print(e, file=sys.stderr)
        sys.exit(3)
    sync(case["output"])


if __name__ == "__main__":
    main()
