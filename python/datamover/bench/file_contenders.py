# SPDX-License-Identifier: BSD-3-Clause
"""Contenders that move an array between files. A program of its own for each contender.

Arguments: the contender, and a case as JSON (`files.description`). It does not import
datamover, so that another Python, with other packages, can run it. It ends when the output is on
the disk; `limit` prints its seconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

CORES = len(os.sched_getaffinity(0))
#: Of HDF5 files: the name of the array, and what h5py and datamover compress with.
DATASET = "a"
GZIP_LEVEL = 4

#: The description of a file: kind, path, shape, dtype, codec, and chunks (None: it has none).
File = dict[str, Any]


def opened(file: File) -> Any:
    """Open a file as an array; flat files are mapped."""
    path = file["path"]
    if file["kind"] == "zarr":
        import zarr

        return zarr.open_array(path, mode="r")
    if file["kind"] in ("h5", "nc"):
        import h5py

        return h5py.File(path, "r")[DATASET]
    if file["kind"] == "npy":
        return np.load(path, mmap_mode="r")
    return np.memmap(path, file["dtype"], "r", shape=tuple(file["shape"]))


@contextlib.contextmanager
def created(file: File, zarr_format: Any = 3) -> Iterator[Any]:
    """Create a file, and give its array, which is written at the end."""
    path, shape, dtype = file["path"], tuple(file["shape"]), file["dtype"]
    if file["kind"] == "zarr":
        import zarr

        chunks, codec = tuple(file["chunks"]), zarr_codec(file, zarr_format)
        made = {"shape": shape, "chunks": chunks, "dtype": dtype, "compressors": codec}
        yield zarr.create_array(path, **made, zarr_format=zarr_format)
    elif file["kind"] in ("h5", "nc"):
        import h5py

        packed = {"compression": "gzip", "compression_opts": GZIP_LEVEL, "shuffle": True}
        more: dict[str, Any] = packed if file["codec"] == "gzip" else {}
        if file["kind"] == "nc":  # the time dimension is unlimited
            more["maxshape"] = (None, *shape[1:])
        with h5py.File(path, "w") as within:
            yield within.create_dataset(DATASET, shape, dtype, chunks=tuple(file["chunks"]), **more)
    else:
        mapped: Any = np.lib.format.open_memmap if file["kind"] == "npy" else np.memmap
        yield (array := mapped(path, mode="w+", dtype=dtype, shape=shape))
        array.flush()


def zarr_codec(file: File, zarr_format: int = 3) -> Any:
    """Return the codec of a file for zarr-python; None: nothing is compressed."""
    from zarr.codecs import ZstdCodec

    if file["codec"] == "none":
        return None
    return codecs_of(file)[0] if zarr_format == 2 else ZstdCodec()


def codecs_of(file: File) -> list[Any]:
    """Return the codecs that encode a chunk one after the other; none if nothing does."""
    import numcodecs

    if file["codec"] == "gzip":  # as HDF5 does it
        return [numcodecs.Shuffle(np.dtype(file["dtype"]).itemsize), numcodecs.Zlib(GZIP_LEVEL)]
    return [numcodecs.Zstd(0)] if file["codec"] == "zstd" else []


def boxes(shape: Sequence[int], box: Sequence[int]) -> list[tuple[slice, ...]]:
    """Cut an array into boxes."""
    starts = itertools.product(*(range(0, n, b) for n, b in zip(shape, box, strict=True)))
    return [
        tuple(slice(a, min(a + b, n)) for a, b, n in zip(lo, box, shape, strict=True))
        for lo in starts
    ]


def slabs(case: dict[str, Any]) -> list[tuple[slice, ...]]:
    """Cut the output into boxes of whole chunks that take half of the memory limit."""
    output = case["output"]
    box, most = np.array(output["shape"]), case["max_bytes"] // 2
    units = np.array(output["chunks"] or np.ones_like(box))
    # If possible it is cut without cutting chunks of either side, else of the output.
    for unit in (np.lcm(units, case["source"]["chunks"] or units), units):
        while box.prod() * np.dtype(output["dtype"]).itemsize > most and (box > unit).any():
            d = np.argmax(box / unit)
            box[d] = max(unit[d], -(-box[d] // (2 * unit[d])) * unit[d])
    return boxes(output["shape"], box.tolist())


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


def source_of(case: dict[str, Any]) -> Any:
    """Open the source, as an array of the output's dimensions."""
    source = opened(case["source"])
    return source.transpose(case["axes"]) if isinstance(source, np.ndarray) else source


def by_slabs(case: dict[str, Any], package: str, source: Any = None) -> None:
    """Move slab by slab, if a package can be imported."""
    import_module(package)
    source = source_of(case) if source is None else source
    with created(case["output"]) as output:
        for slab in slabs(case):
            output[slab] = source[slab]


def by_zarrs(case: dict[str, Any]) -> None:
    """Move with zarr-python and the codec pipeline of zarrs."""
    import zarr

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    by_slabs(case, "zarrs")


@functools.cache
def _context() -> Any:
    import tensorstore as ts

    # As for every contender, one sync at the end serves all files; one for each chunk costs more.
    return ts.Context({"file_io_sync": False})


def stored(file: File, create: bool = False) -> Any:
    """Open a Zarr array with tensorstore, or create it; return a future."""
    import tensorstore as ts

    spec = {"driver": "zarr3", "kvstore": "file://" + os.path.abspath(file["path"])}
    if create:
        codecs: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]
        if file["codec"] == "zstd":
            codecs.append({"name": "zstd", "configuration": {"level": 0}})
        grid = {"name": "regular", "configuration": {"chunk_shape": file["chunks"]}}
        metadata = {"shape": file["shape"], "data_type": file["dtype"]}
        spec |= {"metadata": metadata | {"chunk_grid": grid, "codecs": codecs}}
    return ts.open(spec, context=_context(), create=create)


def by_tensorstore(case: dict[str, Any]) -> None:
    """Move with tensorstore; the writes of all slabs are started at once."""
    kinds = [case[side]["kind"] for side in ("source", "output")]
    import_module("tensorstore")
    if "zarr" not in kinds:
        raise ImportError("it has no driver for flat files")
    source = stored(case["source"]).result() if kinds[0] == "zarr" else source_of(case)
    if kinds[1] != "zarr":
        by_slabs(case, "tensorstore", source)
        return
    output = stored(case["output"], create=True).result()
    for write in [output[slab].write(source[slab]) for slab in slabs(case)]:
        write.result()


def by_dask(case: dict[str, Any]) -> None:
    """Move with dask and its threads."""
    import dask.array as da

    source = case["source"]
    array = (
        da.from_zarr(source["path"])
        if source["kind"] == "zarr"
        else da.from_array(opened(source), chunks="64MiB").transpose(case["axes"])
    )
    if case["output"]["chunks"] is not None:
        array = array.rechunk(tuple(case["output"]["chunks"]))
    with created(case["output"]) as output:
        da.store(array, output, lock=False)


def by_rechunker(case: dict[str, Any]) -> None:
    """Move with rechunker, by dask, from and to Zarr v2, the only version that it supports."""
    import rechunker
    import zarr
    from numcodecs import Zstd

    output = case["output"]
    codec = {"compressor": Zstd(0) if output["codec"] == "zstd" else None}
    os.mkdir(output["path"])  # for both, so that both are removed with it
    rechunker.rechunk(
        zarr.open_array(case["source"]["path"] + "2", mode="r"),
        tuple(output["chunks"]),
        case["max_bytes"] // CORES,  # of each thread
        os.path.join(output["path"], "a.zarr"),
        target_options=codec,
        temp_store=os.path.join(output["path"], "between.zarr"),
        temp_options=codec,
    ).execute()


def by_xarray(case: dict[str, Any]) -> None:
    """Move a whole NetCDF file, or many joined, with xarray, by dask and its threads."""
    import dask  # noqa: F401  (xarray's name for it where it is missing is another)
    import xarray

    output = case["output"]
    chunks = dict(zip("zyx", output["chunks"], strict=True))
    encoding = {DATASET: {"chunks": tuple(output["chunks"]), "compressors": zarr_codec(output)}}
    path, read = case["source"]["path"], {"engine": "h5netcdf", "chunks": {}}
    joined = {"combine": "nested", "concat_dim": "z", "join": "override", "compat": "override"}
    with (
        xarray.open_mfdataset(f"{path}/*.nc", **read, **joined, coords="minimal")
        if case["source"]["kind"] == "days"
        else xarray.open_dataset(path, **read)
    ) as source:
        made = source.chunk(chunks).drop_encoding()
        made.to_zarr(output["path"], encoding=encoding, zarr_format=3, consolidated=False)


def by_h5repack(case: dict[str, Any]) -> None:
    """Move between HDF5 files with the program h5repack, of HDF5's own tools."""
    if shutil.which("h5repack") is None:
        raise ImportError("no h5repack; it is in hdf5-tools")
    output = case["output"]
    filters = ["-f", "SHUF", "-f", f"GZIP={GZIP_LEVEL}"] if output["codec"] == "gzip" else []
    chunks = f"{DATASET}:CHUNK={'x'.join(map(str, output['chunks']))}"
    command = ["h5repack", *filters, "-l", chunks, case["source"]["path"], output["path"]]
    subprocess.run(command, check=True)


def by_programs(case: dict[str, Any], package: str, *join: str) -> None:
    """Join NetCDF files into one with a program, and cut it into chunks by nccopy."""
    if shutil.which(join[0]) is None or shutil.which("nccopy") is None:
        raise ImportError(f"no {join[0]} or nccopy; they are in {package} and netcdf-bin")
    source, output = case["source"]["path"], case["output"]
    joined = output["path"] + ".nc"
    days = sorted(os.path.join(source, name) for name in os.listdir(source))
    subprocess.run([*join, *days, joined], check=True)
    level = "0" if output["codec"] == "none" else "1"
    chunks = ",".join(f"{d}/{n}" for d, n in zip("zyx", output["chunks"], strict=True))
    command = ["nccopy", "-k", "nc4", "-d", level, "-c", chunks, joined, output["path"]]
    subprocess.run(command, check=True)
    os.unlink(joined)


def coded(method: str, codecs: Sequence[Any], data: Any) -> Any:
    """Return data after a method of all codecs, one after the other."""
    for codec in codecs:
        data = getattr(codec, method)(data)
    return data


def limit(case: dict[str, Any]) -> None:
    """Decode and encode all chunks in memory on all cores, write and sync the bytes; print seconds.

    Flat files have no chunks, so that nothing is coded.
    """
    array = np.array(source_of(case))

    def chunks_of(file: File) -> list[np.ndarray]:
        cut = boxes(array.shape, file["chunks"] or [1, *array.shape[1:]])
        return [np.ascontiguousarray(array[box]) for box in cut]

    before, after = (
        codecs_of(case[side]) if case[side]["chunks"] is not None else []
        for side in ("source", "output")
    )
    with ThreadPoolExecutor(CORES) as pool:
        source = chunks_of(case["source"]) if before else []
        given = list(pool.map(partial(coded, "encode", before), source))
        made: list[Any] = chunks_of(case["output"])
        begin = time.perf_counter()
        for chunk in pool.map(partial(coded, "decode", before[::-1]), given):
            assert len(chunk)
        made = list(pool.map(partial(coded, "encode", after), made)) if after else made
        with open(case["output"]["path"], "wb", buffering=0) as file:
            for chunk in made:
                file.write(chunk)
            os.fsync(file.fileno())
    print(json.dumps({"seconds": time.perf_counter() - begin}))


CONTENDERS: dict[str, Callable[[dict[str, Any]], None]] = {
    "tensorstore": by_tensorstore,
    "zarr-python": lambda case: by_slabs(case, "zarr"),  # left out without it for flat files too
    "zarrs": by_zarrs,
    "dask": by_dask,
    "rechunker": by_rechunker,
    "h5py": lambda case: by_slabs(case, "h5py"),
    "h5repack": by_h5repack,
    "xarray": by_xarray,
    "nco": lambda case: by_programs(case, "nco", "ncrcat", "-h", "-O"),
    "cdo": lambda case: by_programs(case, "cdo", "cdo", "-s", "-O", "-f", "nc4", "mergetime"),
    "limit": limit,
}


def main() -> None:
    """Run one contender; the exit code is 3 if it is not installed."""
    name, case = sys.argv[1], json.loads(sys.argv[2])
    try:
        CONTENDERS[name](case)
    except ImportError as e:
        print(e, file=sys.stderr)
        sys.exit(3)
    sync(case["output"]["path"])


if __name__ == "__main__":
    main()
