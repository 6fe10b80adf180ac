# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of moving files against other libraries. `datamover bench files`.

Every contender is a tree of processes of its own, measured from its start to its synced output. Its
peak memory is the proportional set size of the tree, sampled every 20 ms. Cases `restart-…` save
and load arrays by programs under mpiexec (`restart_contenders`), timed from within.

The cost of a move with a codec depends on how well the numbers compress. They are therefore real
data, if the package that has them is installed (`pip install datamover[meshes]`); nothing is
downloaded.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from datamover.bench import programs
from datamover.bench.benchmark import Benchmark, Case, Player, Run
from datamover.bench.file_contenders import (
    DATASET,
    File,
    created,
    have_memory_at_hand,
    opened,
    sync,
)
from datamover.bench.meshes import file_of_package, need
from datamover.bench.programs import Line
from datamover.errors import InvalidArgument, IoFailed, MpiFailed

OTHERS = ("tensorstore", "zarrs", "zarr-python", "dask")
#: The last one: a directory of NetCDF files, one for each index of the first dimension.
KINDS = ("zarr", "npy", "raw", "nc", "h5", "days")
#: Kinds of sources that the other contenders read.
READS = {
    **dict.fromkeys(OTHERS, KINDS[:4]),
    **{"h5py": ("h5",), "h5repack": ("h5",), "xarray": ("nc", "days"), "rechunker": ("zarr",)},
    **{"nco": ("days",), "cdo": ("days",), "limit": KINDS[:5]},
}
SAVERS = ("datamover", "datamover:numpy", "tensorstore", "mpi-io")
DTYPE = "float32"
#: Memory that a process of ours may take in addition to its limit and to its imports.
BESIDE_BYTES = 30_000_000
#: Packages for rechunker, which reads Zarr 2 only.
RECHUNKER = ("rechunker", "zarr<3", "numcodecs<0.16", "dask[array]")
#: Arrays of a restart, and chunks along their extents.
ARRAYS, PARTS = 8, 4

#: A file's kind, its chunks in sixteenths of each extent (0: 1 element; None: none), and its codec.
Kind = tuple[str, tuple[int, ...] | None, str]


def move(name: str, source: Kind, output: Kind, axes: tuple[int, ...] = (0, 1, 2)) -> Case:
    """Return a move between files."""
    return Case(name, (source, output, axes))


def description(case: Case, place: Path, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return what a contender needs of a move, besides the memory limit."""
    source, output, axes = case.words
    files = {"source": _file(place / "source", shape, *source)}
    files["output"] = _file(place, tuple(shape[a] for a in axes), *output)
    return files | {"axes": axes}


def _file(
    place: Path, shape: tuple[int, ...], kind: str, parts: tuple[int, ...] | None, codec: str
) -> File:
    chunks = parts and [max(1, n * p // 16) for n, p in zip(shape, parts, strict=True)]
    file = {"kind": kind, "path": str(place / f"a.{kind}"), "shape": shape, "chunks": chunks}
    return file | {"codec": codec, "dtype": DTYPE}


def _edge(elems: float) -> int:
    """Return the edge of a cube of about this many elements, a multiple of 16."""
    return max(16, round(elems ** (1 / 3) / 16) * 16)


CUBE, SLICE, PENCIL, PLATE = (2, 2, 2), (0, 16, 16), (16, 1, 1), (16, 16, 1)
MOVES = (
    *(
        move(f"{name}-{codec}", (source, before, codec), (output, after, codec))
        for codec in ("zstd", "none")
        for name, source, before, output, after in (
            ("cube-plates", "zarr", CUBE, "zarr", PLATE),
            ("npy-cube", "npy", None, "zarr", CUBE),
            ("cube-npy", "zarr", CUBE, "npy", None),
            ("slices-pencils", "zarr", SLICE, "zarr", PENCIL),
        )
    ),
    move("raw-npy-permuted", ("raw", None, "none"), ("npy", None, "none"), axes=(2, 1, 0)),
    move("hdf5-plates-gzip", ("h5", CUBE, "gzip"), ("h5", PLATE, "gzip")),
    move("hdf5-plates-none", ("h5", CUBE, "none"), ("h5", PLATE, "none")),
    move("netcdf-plates-zstd", ("nc", CUBE, "gzip"), ("zarr", PLATE, "zstd")),
    move("netcdf-plates-none", ("nc", CUBE, "none"), ("zarr", PLATE, "none")),
    move("days-cube-zstd", ("days", SLICE, "gzip"), ("zarr", CUBE, "zstd")),
    move("days-cube-none", ("days", SLICE, "none"), ("zarr", CUBE, "none")),
)
#: Eight cubes of doubles are saved on some processes, and loaded on others. The last word: whether
#: the last dimension is cut first, instead of the first one.
RESTARTS = tuple(
    Case(f"restart-{columns}{save}-{load}", (save, load, bool(columns)))
    for columns in ("", "columns-")
    for save, load in ((4, 2), (2, 3))
)


def _clear(path: str) -> None:
    shutil.rmtree(path) if os.path.isdir(path) else Path(path).unlink(missing_ok=True)


class Mover:
    """Turns of the contenders that move the array of a run between files."""

    def __init__(self, run: Run):
        self.run = run
        self.python = {"rechunker": _rechunker_environment(run.scratch)} if run.rechunker else {}
        self.written: Case | None = None
        self.base_bytes = {p: self._base_bytes(p) for p in {1, run.nprocs}}

    @cached_property
    def array(self) -> np.ndarray:
        """The array that is moved."""
        return cube(self.run.data, self.run.gigabytes)

    def described(self, move: Case, array: np.ndarray) -> dict[str, Any]:
        """Return the description of a move whose source is written and synced."""
        case = description(move, self.run.scratch, array.shape)
        case["max_bytes"] = self.run.max_bytes
        if self.written != move:
            place = Path(case["source"]["path"]).parent
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            _write_source(case["source"], array, bool(self.python))
            sync(self.run.scratch)  # else the first contender waits for what was written here
            self.written = move
        return case

    def _base_bytes(self, processes: int) -> int:
        """Return the memory of ours for next to nothing: imports, and MPI's start."""
        base = move("base", ("npy", None, "none"), ("zarr", CUBE, "none"))
        case = self.described(base, np.zeros((16, 16, 16), DTYPE))
        peak_bytes = programs.run_tree(_our_command(case, processes)).peak_bytes
        _clear(case["output"]["path"])
        return peak_bytes

    def turn(self, contender: str, moves: Sequence[Case], seconds: float) -> Iterator[Line]:
        """Let a contender move the array once, check its output and remove it."""
        (move,) = moves
        case = self.described(move, self.array)
        name, _, number = contender.partition(":")
        processes, output = int(number or 1), case["output"]["path"]
        have_memory_at_hand(output + ".memory", 2 * self.array.nbytes)
        program = str(Path(__file__).with_name("file_contenders.py"))
        theirs = [self.python.get(name, self.run.python), program, name, json.dumps(case)]
        command = _our_command(case, processes) if name == "datamover" else theirs
        ended = programs.run_tree(command)
        reason = ended.failure()
        if reason is None and name != "limit" and not _is_right(case, self.array):
            reason = "wrong data"
        _clear(output)
        if reason is not None:
            yield {"left_out": contender, "reason": reason, "case": move.name}
            return
        taken = json.loads(ended.printed)["seconds"] if name == "limit" else ended.seconds
        row = {"case": move.name, "phase": "move", "contender": contender, "processes": processes}
        row |= {"bytes": self.array.nbytes, "samples": [taken], "peak_bytes": ended.peak_bytes}
        if name == "datamover":
            each = case["max_bytes"] + BESIDE_BYTES
            row["allowed_bytes"] = self.base_bytes[processes] + processes * each
        yield row


def restart(run: Run, contender: str, cases: Sequence[Case], seconds: float) -> list[Line]:
    """Let a contender save and load once; a phase is a program of its own."""
    (case,) = cases
    *numbers, columns = case.words
    path = run.scratch / f"restart{'.bin' if contender == 'mpi-io' else '.zarr'}"
    edge = _edge(run.gigabytes * 1e9 / 8 / ARRAYS)
    chunks = [edge // PARTS, edge // PARTS, 2 * (edge // PARTS)]
    said = {"case": case.name, "path": str(path), "edge": edge, "chunks": chunks}
    said |= {"arrays": ARRAYS, "columns": columns}
    python = run.python if contender == "tensorstore" else sys.executable
    program = str(Path(__file__).with_name("restart_contenders.py"))
    rows: list[Line] = []
    for phase, processes in zip(("save", "load"), numbers, strict=True):
        words = [contender, phase, json.dumps(said | {"processes": processes})]
        try:
            rows += programs.run(run.mpi, processes, [python, program, *words], 0)
        except MpiFailed as e:
            rows.append({"left_out": contender, "reason": str(e), "case": case.name})
        if "left_out" in rows[-1]:
            rows = rows[-1:]
            break
    _clear(str(path))
    return rows


def _write_source(source: File, array: np.ndarray, rechunker: bool) -> None:
    if source["kind"] == "days":
        os.mkdir(source["path"])
        for day, plane in enumerate(array):
            path = f"{source['path']}/{day:06}.nc"
            one = source | {"kind": "nc", "path": path, "shape": (1, *plane.shape)}
            _write_netcdf(one, plane[None], first=day)
        return
    if source["kind"] == "nc":
        return _write_netcdf(source, array)
    with created(source) as file:
        file[...] = array
    if rechunker and source["kind"] == "zarr":
        with created(source | {"path": source["path"] + "2"}, zarr_format=2) as file:
            file[...] = array


def _write_netcdf(source: File, array: np.ndarray, first: int = 0) -> None:
    """Write an array with its coordinates; the first dimension is time, which is unlimited."""
    with created(source) as file:
        file[...] = array
        for d, (name, extent) in enumerate(zip("zyx", array.shape, strict=True)):
            numbers = np.arange(extent, dtype="f8") + (first if d == 0 else 0)
            scale = file.parent.create_dataset(
                name, data=numbers, chunks=(extent,), maxshape=(None if d == 0 else extent,)
            )
            if d == 0:
                scale.attrs["units"] = "days since 2001-01-01"
            scale.make_scale(name)
            file.dims[d].attach_scale(scale)


def _our_command(case: dict[str, Any], processes: int) -> list[str]:
    source, output = case["source"], case["output"]
    within = {"h5": f":/{DATASET}", "days": "/*.nc"}
    ends = [f["path"] + within.get(f["kind"], "") for f in (source, output)]
    words = ["move", *ends, "--max-bytes", str(case["max_bytes"]), "-q"]
    if processes > 1:
        words += ["-n", str(processes)]
    if output["chunks"] is not None:
        words += ["--chunks", ",".join(map(str, output["chunks"]))]
        words += ["--compressor", output["codec"]]
    if source["kind"] == "days":
        words += ["--along", "z"]
    if source["kind"] == "raw":
        words += ["--shape", ",".join(map(str, source["shape"])), "--dtype", source["dtype"]]
    if source["kind"] in ("npy", "raw"):
        words += ["--axes", ",".join(map(str, case["axes"]))]
    return [sys.executable, "-m", "datamover", *words]


def _is_right(case: dict[str, Any], array: np.ndarray) -> bool:
    """Compare some of the output, spread over all of it, with the array."""
    path = case["output"]["path"]
    # Rechunker writes it within its directory; that of a NetCDF file is next to its coordinates.
    within = [place for place in (f"{path}/a.zarr", f"{path}/{DATASET}") if os.path.isdir(place)]
    output = case["output"] | {"path": (within or [path])[0]}
    if output["kind"] == "zarr" and os.path.isfile(path):  # NCO and CDO write NetCDF
        output["kind"] = "nc"
    found = opened(output)
    expected = array.transpose(case["axes"])
    step = max(1, len(expected) // 5)
    return found.shape == expected.shape and all(
        np.array_equal(found[i], expected[i]) for i in range(0, len(expected), step)
    )


def _rechunker_environment(place: Path) -> str:
    """Make a virtual environment that has rechunker; return its interpreter."""
    python = str(place / "rechunker" / "bin" / "python")
    for command in (
        [sys.executable, "-m", "venv", str(place / "rechunker")],
        [python, "-m", "pip", "install", "-q", *RECHUNKER],
    ):
        ended = programs.run_tree(command, looks=False)
        if ended.code != 0:
            raise IoFailed(f"rechunker cannot be installed: {ended.last_words()}")
    return python


def players(run: Run) -> Iterator[Player]:
    """Give ours, by one process and several, the others, and the ways to restart."""
    if any(case not in RESTARTS for case in run.cases):
        mover = Mover(run)
        ours = ["datamover", *([f"datamover:{run.nprocs}"] if run.nprocs > 1 else [])]
        for name in (*ours, *(name for name in READS if name != "rechunker" or run.rechunker)):
            yield Player(partial(mover.turn, name), partial(_moves, READS.get(name, KINDS)))
    for name in SAVERS:
        yield Player(partial(restart, run, name), RESTARTS.__contains__)


def _moves(kinds: tuple[str, ...], case: Case) -> bool:
    """Return whether a contender that reads these kinds moves between the files of a case."""
    if case in RESTARTS:
        return False
    (source, *_), (output, *_), _ = case.words
    return source in kinds and (kinds != ("zarr",) or output == "zarr")


#: The brain of the ICBM 152 atlas, 1 mm per element, as nilearn has it.
BRAIN = ("datasets", "data", "mni_icbm152_t1_tal_nlin_sym_09a_converted.nii.gz")


def cube(name: str, gigabytes: float) -> npt.NDArray[np.float32]:
    """Make a cube of this size, its edge a multiple of 16 and at least 16.

    Real data is repeated along each dimension, with a gradient, so that no two repetitions are
    equal.

    Parameters
    ----------
    name : str
        `brain`, `noise`, or `auto`: the brain if nilearn is installed.
    gigabytes : float
        Size, in 10^9 bytes.

    Raises
    ------
    Unsupported
        Nilearn, or nibabel, which reads the data, is not installed.
    InvalidArgument
        The name is unknown.

    Examples
    --------
    >>> from datamover.bench.files import cube
    >>> cube("noise", 0.001).shape
    (64, 64, 64)
    """
    edge = _edge(gigabytes * 1e9 / 4)
    unit = _unit(name)
    repeats = [-(-edge // n) for n in unit.shape]
    tiled = np.tile(unit, repeats)[:edge, :edge, :edge]
    return tiled + np.linspace(0, 1, edge, dtype="f4").round(2)[:, None, None]


def _unit(name: str) -> npt.NDArray[np.float32]:
    """Return the data that is repeated."""
    if name == "auto":
        name = "brain" if find_spec("nilearn") and find_spec("nibabel") else "noise"
    if name == "noise":
        return np.random.default_rng(1).normal(size=(64, 64, 64)).astype("f4").round(2)
    if name != "brain":
        raise InvalidArgument(f"data {name!r}: there are brain, noise and auto")
    path = file_of_package("nilearn", *BRAIN)
    need("nibabel")
    import nibabel

    volume: Any = nibabel.load(path)
    return np.asarray(volume.dataobj, dtype=np.float32)


BENCHMARK = Benchmark(
    name="files",
    help="Measure `datamover move` against tensorstore, zarr-python, zarrs, dask, h5py and "
    "h5repack.\n\nWith -n above 1 also by several processes. `limit`: coding all chunks in memory "
    "on all cores, and writing the bytes.",
    options={
        "gigabytes": 1.0, "rounds": 3, "data": "auto", "max_bytes": 1 << 28, "directory": None,
        "python": sys.executable, "rechunker": False,
    },
    cases=lambda run: (*MOVES, *RESTARTS),
    threads=True,
    players=players,
    references=("limit", *(name for name in READS if name != "limit"), "mpi-io"),
    shown=("datamover",),
    quick={"gigabytes": 0.1, "rounds": 1},
)  # fmt: skip
