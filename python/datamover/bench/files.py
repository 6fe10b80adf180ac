# SPDX-License-Identifier: BSD-3-Clause
"""How fast are files moved, beside other libraries that can? `datamover bench files`.

Every contender is a tree of processes of its own, measured from its start to its synced output; its
peak memory is the proportional set size of the tree, looked at every 20 ms.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from datamover.bench import options
from datamover.bench.file_contenders import sync
from datamover.bench.report import Style
from datamover.bench.rows import Results

STYLE = Style(references=("limit", "tensorstore", "zarrs", "zarr-python", "dask"))
OTHERS = ("tensorstore", "zarrs", "zarr-python", "dask")
NOT_INSTALLED = 3
LOOK_SECONDS = 0.02
DTYPE = "float32"


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

    def description(self, place: Path, shape: tuple[int, ...], max_bytes: int) -> dict[str, Any]:
        """Say everything that a contender has to know."""
        output_shape = tuple(shape[a] for a in self.axes)
        return {
            "source": str(place / f"source-{self.name}.{self.source}"),
            "output": str(place / f"output.{self.output}"),
            "source_kind": self.source,
            "output_kind": self.output,
            "source_shape": shape,
            "output_shape": output_shape,
            "source_chunks": _chunks(shape, self.source_parts),
            "chunks": _chunks(output_shape, self.output_parts),
            "axes": self.axes,
            "codec": self.codec,
            "dtype": DTYPE,
            "max_bytes": max_bytes,
        }


def _chunks(shape: tuple[int, ...], parts: tuple[int, ...] | None) -> list[int] | None:
    """Give the extents that are so many sixteenths of a shape's, at least 1; 0 means 1."""
    if parts is None:
        return None
    return [max(1, n * p // 16) for n, p in zip(shape, parts, strict=True)]


CUBE, SLICE, PENCIL, PLATE = (2, 2, 2), (0, 16, 16), (16, 1, 1), (16, 16, 1)


def all_cases() -> list[Case]:
    """Return all cases, with and without a codec where that says something.

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
    return [*cases, Case("raw-npy-permuted", "raw", "npy", axes=(2, 1, 0))]


def sample_array(gigabytes: float) -> np.ndarray:
    """Make a cube of smooth noise with a gradient, which compresses to about two thirds."""
    edge = max(16, round((gigabytes * 1e9 / 4) ** (1 / 3) / 16) * 16)
    noise = np.random.default_rng(1).normal(size=(64, 64, 64)).astype("f4").round(2)
    repeats = [-(-edge // 64)] * 3
    tiled = np.tile(noise, repeats)[:edge, :edge, :edge]
    return tiled + np.linspace(0, 1, edge, dtype="f4").round(2)[:, None, None]


def _write_source(case: dict[str, Any], array: np.ndarray) -> None:
    if case["source_kind"] == "npy":
        np.save(case["source"], array)
    elif case["source_kind"] == "raw":
        array.tofile(case["source"])
    else:
        import zarr

        codec = zarr.codecs.ZstdCodec() if case["codec"] == "zstd" else None
        zarr.create_array(
            case["source"],
            shape=array.shape,
            chunks=tuple(case["source_chunks"]),
            dtype=array.dtype,
            compressors=codec,
        )[...] = array


def _our_command(case: dict[str, Any], processes: int) -> list[str]:
    words = ["move", case["source"], case["output"], "--max-bytes", str(case["max_bytes"]), "-q"]
    if processes > 1:
        words += ["-n", str(processes)]
    if case["output_kind"] == "zarr":
        words += ["--chunks", ",".join(map(str, case["chunks"])), "--compressor", case["codec"]]
    if case["source_kind"] == "raw":
        words += ["--shape", ",".join(map(str, case["source_shape"])), "--dtype", case["dtype"]]
    if case["source_kind"] != "zarr":
        words += ["--axes", ",".join(map(str, case["axes"]))]
    return [sys.executable, "-m", "datamover", *words]


class _Watch(threading.Thread):
    """Looks at the memory of a process and all below it."""

    def __init__(self, pid: int):
        super().__init__(daemon=True)
        self._pid = pid
        self._over = threading.Event()
        self.peak_bytes = 0
        self.start()

    def run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.peak_bytes = max(self.peak_bytes, sum(map(_pss_bytes, _tree(self._pid))))

    def end(self) -> int:
        self._over.set()
        self.join()
        return self.peak_bytes


def _tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                children = Path(f"/proc/{parent}/task/{task}/children").read_text()
                found += map(int, children.split())
    return found


def _pss_bytes(pid: int) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _run(command: list[str]) -> tuple[float, int, subprocess.CompletedProcess[str]]:
    """Run a program; give its seconds, its peak memory in bytes, and how it ended."""
    begin = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        watch = _Watch(process.pid)
        printed, words = process.communicate()
        seconds = time.perf_counter() - begin
        peak_bytes = watch.end()
    return (
        seconds,
        peak_bytes,
        subprocess.CompletedProcess(command, process.returncode, printed, words),
    )


def _is_right(case: dict[str, Any], array: np.ndarray) -> bool:
    """Compare some of the output, spread over all of it, with what it should be."""
    if case["output_kind"] == "npy":
        found = np.load(case["output"], mmap_mode="r")
    else:
        import zarr

        found = zarr.open_array(case["output"], mode="r")
    expected = array.transpose(case["axes"])
    step = max(1, len(expected) // 5)
    return found.shape == expected.shape and all(
        np.array_equal(found[i], expected[i]) for i in range(0, len(expected), step)
    )


def _clear(path: str) -> None:
    shutil.rmtree(path) if os.path.isdir(path) else Path(path).unlink(missing_ok=True)


def _turns(case: dict[str, Any], processes: int, python: str) -> Iterator[tuple[str, list[str]]]:
    """Give the contenders' commands, in turn."""
    program = str(Path(__file__).with_name("file_contenders.py"))
    description = json.dumps(case)
    yield "datamover", _our_command(case, 1)
    if processes > 1:
        yield f"datamover:{processes}", _our_command(case, processes)
    for name in OTHERS:
        yield name, [python, program, name, description]
    yield "limit", [python, program, "limit", description]


def _measure(
    results: Results, name: str, case: dict[str, Any], array: np.ndarray, turn: tuple[str, list]
) -> None:
    contender, command = turn
    seconds, peak_bytes, done = _run(command)
    if done.returncode == NOT_INSTALLED:
        results.leave_out(contender, done.stderr.strip(), name)
    elif done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        results.leave_out(contender, f"failed: {last}", name)
    elif contender != "limit" and not _is_right(case, array):
        results.leave_out(contender, "wrong data", name)
    else:
        if contender == "limit":
            seconds = json.loads(done.stdout)["seconds"]
        row = {
            "case": name,
            "phase": "move",
            "contender": contender,
            "processes": int(contender.partition(":")[2] or 1),
            "bytes": array.nbytes,
            "samples": [seconds],
            "peak_bytes": peak_bytes,
        }
        results.add(row, mpi="")
    _clear(case["output"])


def bench(
    processes: options.Processes = 1,
    json_file: options.JsonFile = None,
    gigabytes: Annotated[float, typer.Option(min=0.0, help="Size of the array.")] = 1.0,
    rounds: Annotated[int, typer.Option(min=1, help="How often contenders take turns.")] = 3,
    case: options.CaseNames = None,
    max_bytes: Annotated[int, typer.Option(min=1, help="Memory limit where one can be said.")] = (
        1 << 28
    ),
    directory: Annotated[
        Path | None, typer.Option(help="Where files are made; a temporary directory else.")
    ] = None,
    python: Annotated[
        str, typer.Option(help="Interpreter that has the other contenders installed.")
    ] = sys.executable,
) -> None:
    """Measure `datamover move` beside tensorstore, zarr-python, zarrs and dask.

    With -n above 1 also by several processes. `limit` is decoding and encoding all chunks in memory
    on all cores, and writing and syncing the bytes.
    """
    results = Results()
    with options.errors_to_exit():
        cases = options.choose(all_cases(), case)
        with tempfile.TemporaryDirectory(dir=directory) as place:
            array = sample_array(gigabytes)
            for chosen in cases:
                described = chosen.description(Path(place), array.shape, max_bytes)
                _write_source(described, array)
                sync(place)  # else the first contender waits for what was written here
                turns = list(_turns(described, processes, python))
                for k in range(rounds):
                    for turn in turns[k % len(turns) :] + turns[: k % len(turns)]:
                        _measure(results, chosen.name, described, array, turn)
                _clear(described["source"])
        options.finish(results, STYLE, json_file)
