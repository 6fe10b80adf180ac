# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of moving files against other libraries. `datamover bench files`.

Every contender is a tree of processes of its own, measured from its start to its synced output. Its
peak memory is the proportional set size of the tree, sampled every 20 ms.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from datamover.bench import file_data, options, process_trees, restart
from datamover.bench.file_contenders import DATASET, dataset_of, have_memory_at_hand, sync
from datamover.bench.report import Style
from datamover.bench.rows import Results
from datamover.errors import IoError

OTHERS = ("tensorstore", "zarrs", "zarr-python", "dask")
OTHERS_BY_SOURCE = {"h5": ("h5py", "h5repack"), "nc": (*OTHERS, "xarray")}
STYLE = Style(references=("limit", *OTHERS, "h5py", "h5repack", "xarray", "rechunker", "mpi-io"))
DTYPE = "float32"
#: Memory of a datamover process beyond its limit and its size before any array is opened.
BESIDE_BYTES = 30_000_000
#: Packages for rechunker, which supports no later Zarr.
RECHUNKER = ("rechunker", "zarr<3", "numcodecs<0.16", "dask[array]")


@dataclass(frozen=True)
class Case:
    """One move: kinds of files, and chunks as parts of 16 of each extent (None: no Zarr)."""

    name: str
    source: str
    output: str
    source_parts: tuple[int, ...] | None = None
    output_parts: tuple[int, ...] | None = None
    axes: tuple[int, ...] = (0, 1, 2)
    codec: str = "none"
    source_codec: str | None = None  # None: the output's

    def description(self, place: Path, shape: tuple[int, ...], max_bytes: int) -> dict[str, Any]:
        """Return the description of the case for contenders."""
        output_shape = tuple(shape[a] for a in self.axes)
        return {
            "source": str(place / f"source-{self.name}.{self.source}"),
            "output": str(place / f"output.{self.output}"),
            "source_v2": str(place / f"source-{self.name}-v2.zarr"),
            "source_kind": self.source,
            "output_kind": self.output,
            "source_shape": shape,
            "output_shape": output_shape,
            "source_chunks": _chunks(shape, self.source_parts),
            "chunks": _chunks(output_shape, self.output_parts),
            "axes": self.axes,
            "codec": self.codec,
            "source_codec": self.source_codec or self.codec,
            "dtype": DTYPE,
            "max_bytes": max_bytes,
        }


def _chunks(shape: tuple[int, ...], parts: tuple[int, ...] | None) -> list[int] | None:
    """Return extents as sixteenths of a shape's, at least 1; 0 means 1."""
    if parts is None:
        return None
    return [max(1, n * p // 16) for n, p in zip(shape, parts, strict=True)]


CUBE, SLICE, PENCIL, PLATE = (2, 2, 2), (0, 16, 16), (16, 1, 1), (16, 16, 1)


def all_cases() -> list[Case]:
    """Return all cases, with and without a codec if that makes a difference.

    Examples
    --------
    >>> from datamover.bench.files import all_cases
    >>> [case.name for case in all_cases()][:2]
    ['cube-plates-zstd', 'npy-cube-zstd']
    """
    cases = []
    for codec in ("zstd", "none"):
        cases += [
            Case(f"cube-plates-{codec}", "zarr", "zarr", CUBE, PLATE, codec=codec),
            Case(f"npy-cube-{codec}", "npy", "zarr", None, CUBE, codec=codec),
            Case(f"cube-npy-{codec}", "zarr", "npy", CUBE, None, codec=codec),
            Case(f"slices-pencils-{codec}", "zarr", "zarr", SLICE, PENCIL, codec=codec),
        ]
    cases.append(Case("raw-npy-permuted", "raw", "npy", axes=(2, 1, 0)))
    for codec in ("gzip", "none"):
        cases.append(Case(f"hdf5-plates-{codec}", "h5", "h5", CUBE, PLATE, codec=codec))
    for codec, source_codec in (("zstd", "gzip"), ("none", "none")):
        cases.append(
            Case(
                f"netcdf-plates-{codec}",
                "nc",
                "zarr",
                CUBE,
                PLATE,
                codec=codec,
                source_codec=source_codec,
            )
        )
    return cases


def _write_source(case: dict[str, Any], array: np.ndarray, rechunker: str | None) -> None:
    if case["source_kind"] == "npy":
        np.save(case["source"], array)
    elif case["source_kind"] == "raw":
        array.tofile(case["source"])
    elif case["source_kind"] in ("h5", "nc"):
        _write_hdf5(case, array)
    else:
        _write_zarr(case, array, case["source"], 3)
        if rechunker:
            _write_zarr(case, array, case["source_v2"], 2)


def _write_zarr(case: dict[str, Any], array: np.ndarray, path: str, zarr_format: int) -> None:
    import numcodecs
    import zarr

    codec = zarr.codecs.ZstdCodec() if zarr_format == 3 else numcodecs.Zstd(0)
    zarr.create_array(
        path,
        shape=array.shape,
        chunks=tuple(case["source_chunks"]),
        dtype=array.dtype,
        compressors=codec if case["source_codec"] == "zstd" else None,
        zarr_format=zarr_format,
    )[...] = array


def _write_hdf5(case: dict[str, Any], array: np.ndarray) -> None:
    import h5py

    with h5py.File(case["source"], "w") as file:
        dataset = dataset_of(
            file, array.shape, case["dtype"], case["source_chunks"], case["source_codec"]
        )
        dataset[...] = array
        if case["source_kind"] == "nc":
            for d, (name, extent) in enumerate(zip("zyx", array.shape, strict=True)):
                file[name] = np.arange(extent, dtype="f8")
                file[name].make_scale(name)
                dataset.dims[d].attach_scale(file[name])


def _our_command(case: dict[str, Any], processes: int) -> list[str]:
    ends = [
        f"{case[end]}:/{DATASET}" if case[f"{end}_kind"] == "h5" else case[end]
        for end in ("source", "output")
    ]
    words = ["move", *ends, "--max-bytes", str(case["max_bytes"]), "-q"]
    if processes > 1:
        words += ["-n", str(processes)]
    if case["chunks"] is not None:
        words += ["--chunks", ",".join(map(str, case["chunks"])), "--compressor", case["codec"]]
    if case["source_kind"] == "raw":
        words += ["--shape", ",".join(map(str, case["source_shape"])), "--dtype", case["dtype"]]
    if case["source_kind"] in ("npy", "raw"):
        words += ["--axes", ",".join(map(str, case["axes"]))]
    return [sys.executable, "-m", "datamover", *words]


def _is_right(case: dict[str, Any], array: np.ndarray) -> bool:
    """Return whether samples of the output, spread over all of it, are correct."""
    if case["output_kind"] == "h5":
        import h5py

        with h5py.File(case["output"], "r") as file:
            return _holds(file[DATASET], array)
    if case["output_kind"] == "npy":
        found = np.load(case["output"], mmap_mode="r")
    else:
        import zarr

        within = os.path.join(case["output"], "a.zarr")  # rechunker's
        found = zarr.open(within if os.path.isdir(within) else case["output"], mode="r")
        if isinstance(found, zarr.Group):  # with the coordinates of a NetCDF file
            found = found[DATASET]
    return _holds(found, array.transpose(case["axes"]))


def _holds(found: Any, expected: np.ndarray) -> bool:
    step = max(1, len(expected) // 5)
    return found.shape == expected.shape and all(
        np.array_equal(found[i], expected[i]) for i in range(0, len(expected), step)
    )


def _clear(path: str) -> None:
    shutil.rmtree(path) if os.path.isdir(path) else Path(path).unlink(missing_ok=True)


def _turns(
    case: dict[str, Any], processes: int, python: str, rechunker: str | None
) -> Iterator[tuple[str, list[str]]]:
    """Yield the contenders' commands, in turn."""
    program = str(Path(__file__).with_name("file_contenders.py"))
    description = json.dumps(case)
    yield "datamover", _our_command(case, 1)
    if processes > 1:
        yield f"datamover:{processes}", _our_command(case, processes)
    for name in OTHERS_BY_SOURCE.get(case["source_kind"], OTHERS):
        yield name, [python, program, name, description]
    if rechunker and case["source_kind"] == case["output_kind"] == "zarr":
        yield "rechunker", [rechunker, program, "rechunker", description]
    yield "limit", [python, program, "limit", description]


def _measure(
    results: Results,
    name: str,
    case: dict[str, Any],
    array: np.ndarray,
    turn: tuple[str, list],
    base_bytes: dict[str, int],
) -> None:
    contender, command = turn
    have_memory_at_hand(case["output"] + ".memory", 2 * array.nbytes)
    ended = process_trees.run(command)
    seconds = ended.seconds
    if (reason := ended.failure()) is not None:
        results.leave_out(contender, reason, name)
    elif contender != "limit" and not _is_right(case, array):
        results.leave_out(contender, "wrong data", name)
    else:
        if contender == "limit":
            seconds = json.loads(ended.printed)["seconds"]
        row = {
            "case": name,
            "phase": "move",
            "contender": contender,
            "processes": int(contender.partition(":")[2] or 1),
            "bytes": array.nbytes,
            "samples": [seconds],
            "peak_bytes": ended.peak_bytes,
        }
        if contender in base_bytes:
            each = case["max_bytes"] + BESIDE_BYTES
            row["allowed_bytes"] = base_bytes[contender] + row["processes"] * each
        results.add(row, mpi="")
    _clear(case["output"])


def _base_bytes(place: Path, processes: int, max_bytes: int) -> dict[str, int]:
    """Return the memory of datamover's contenders for a minimal move: imports, and MPI's start."""
    case = Case("base", "npy", "zarr", output_parts=CUBE).description(
        place, (16, 16, 16), max_bytes
    )
    np.save(case["source"], np.zeros((16, 16, 16), DTYPE))
    found = {}
    for p in {1, processes}:
        ended = process_trees.run(_our_command(case, p))
        found["datamover" if p == 1 else f"datamover:{p}"] = ended.peak_bytes
        _clear(case["output"])
    _clear(case["source"])
    return found


def _rechunker_environment(place: Path) -> str:
    """Create a virtual environment with rechunker; return its interpreter."""
    python = str(place / "rechunker" / "bin" / "python")
    for command in (
        [sys.executable, "-m", "venv", str(place / "rechunker")],
        [python, "-m", "pip", "install", "-q", *RECHUNKER],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no reason said"])[-1]
            raise IoError(f"rechunker cannot be installed: {last}")
    return python


def bench(
    processes: options.Processes = 1,
    json_file: options.JsonFile = None,
    gigabytes: Annotated[float, typer.Option(min=0.0, help="Size of the array.")] = 1.0,
    rounds: Annotated[int, typer.Option(min=1, help="Number of turns of each contender.")] = 3,
    data: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Data of the array: brain (a scan that nilearn has), noise, or auto: the first "
            "that is installed.",
        ),
    ] = "auto",
    case: options.CaseNames = None,
    max_bytes: Annotated[
        int, typer.Option(min=1, help="Memory limit, for contenders with one.")
    ] = (1 << 28),
    directory: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY", help="Directory of the files; by default a temporary one."
        ),
    ] = None,
    python: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            show_default="the current one",
            help="Interpreter that has the other contenders installed.",
        ),
    ] = sys.executable,
    rechunker: Annotated[
        bool,
        typer.Option(
            "--rechunker",
            metavar="",
            help="Add rechunker, which needs zarr < 3: it is installed in an environment of "
            "its own, next to the files.",
        ),
    ] = False,
) -> None:
    """Compare `datamover move` with tensorstore, zarr-python, zarrs, dask, h5py and h5repack.

    With -n above 1, also on several processes.

    `limit`: decode and encode all chunks in memory on all cores, and write the bytes.
    """
    results = Results()
    with options.measuring(None):
        cases = options.choose([*all_cases(), *restart.CASES], case)
        with tempfile.TemporaryDirectory(dir=directory) as place:
            array = file_data.cube(data, gigabytes)
            base_bytes = _base_bytes(Path(place), processes, max_bytes)
            with_rechunker = _rechunker_environment(Path(place)) if rechunker else None
            for chosen in cases:
                if isinstance(chosen, restart.Case):
                    restart.measure(results, chosen, Path(place), gigabytes, rounds, python)
                    continue
                described = chosen.description(Path(place), array.shape, max_bytes)
                _write_source(described, array, with_rechunker)
                sync(place)  # else the first contender waits for what was written here
                turns = list(_turns(described, processes, python, with_rechunker))
                for k in range(rounds):
                    for turn in turns[k % len(turns) :] + turns[: k % len(turns)]:
                        _measure(results, chosen.name, described, array, turn, base_bytes)
                _clear(described["source"])
                _clear(described["source_v2"])
        options.finish(results, STYLE, json_file)
