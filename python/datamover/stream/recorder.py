# SPDX-License-Identifier: BSD-3-Clause
"""Recorder: writes a stream to a Zarr group, for `datamover stream`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
import urllib.parse
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from datamover._plan import whole_of
from datamover.counted import counted
from datamover.errors import Error, InvalidArgument, IoFailed, Unsupported
from datamover.files import chunk_boxes, zarr_group, zarr_output
from datamover.files.formats import ArraySpec, MoveOptions
from datamover.files.growing_array import create
from datamover.files.space import raise_no_space
from datamover.files.zarr_array import zarr_python
from datamover.layouts import Layout
from datamover.lifeline import ENDING, uninterrupted
from datamover.stream.consumer import Consumer, connect

#: Timeout for a requested array to be sent, counted from the start, if none is given.
PATIENCE_SECONDS = 10.0
MAX_FILE_NAME_BYTES = 255


@dataclasses.dataclass(frozen=True)
class Recorded:
    """Counters of a recording."""

    steps: int
    bytes: int
    dropped: int

    def __str__(self) -> str:
        lost = f", {self.dropped:,} dropped by the stream" if self.dropped else ""
        return f"{counted(self.steps, 'step')}, {counted(self.bytes, 'byte')}{lost}"


def describe(address: str, timeout: float | None) -> str:
    """Return a line for each array that a stream has sent, once it has sent the first."""
    with connect(address, timeout=timeout) as source:
        lines = [
            f"{info.name}: {' x '.join(map(str, info.shape))} {info.dtype}, on "
            f"{counted(info.layout.nprocs, 'process', 'processes')}"
            for info in source.arrays(timeout).values()
        ]
    return "\n".join(lines)


def record(
    address: str,
    output: str,
    names: Sequence[str],
    steps: int | None,
    timeout: float | None,
    report: Callable[[Recorded], None] = lambda so_far: None,
) -> Recorded:
    """Write the steps of a stream to a Zarr group, until the stream ends or `steps` are written.

    If all arrays are recorded, they arrive one by one, and a step is only known to be complete
    when the next one begins.

    Parameters
    ----------
    address : str
    output : path
        A new Zarr group. It gets an array for each name, with the steps along the first
        dimension.
    names : sequence of str
        The arrays; by default all, including those that are first sent later.
    steps : int, optional
    timeout : float, optional
        Seconds to wait for the stream, and for each step.
    report : callable, optional
        Called with the counters so far, after each array.

    Raises
    ------
    InvalidArgument
        `output` has the extension of another format, or an array is not sent.
    IoFailed
        The path exists, or cannot be written, for example because the disk is full.
    """
    path = os.fspath(output)
    if Path(path).suffix in (".npy", ".raw", ".h5", ".hdf5", ".nc"):
        raise InvalidArgument(f"{path}: a stream is recorded to a Zarr group, such as run.zarr")
    if os.path.lexists(path):
        raise _already_exists(path)
    group = _Group(Path(path))
    group.check_names(set(names))
    with _naming_output(path), connect(address, timeout=timeout) as source:
        count = nbytes = 0
        last: int | None = None
        seen: set[str] = set()  # in this step
        known: set[str] = set(names)
        sent: set[str] = set()
        deadline = time.monotonic() + (PATIENCE_SECONDS if timeout is None else timeout)
        for step, arrays in source.steps(_targets(source, names, timeout), timeout):
            sent |= arrays.keys()
            if time.monotonic() > deadline:
                _refuse_unsent(names, sent)
            if names and not arrays.keys() <= set(names):
                continue
            if step != last or seen & arrays.keys():
                if count == steps:
                    break
                count, last, seen = count + 1, step, set()
            # Whatever is recorded is complete, and reported. zarr-python warns about dtypes that
            # other readers may not support.
            with uninterrupted(*ENDING), warnings.catch_warnings(action="ignore"):
                for name, array in arrays.items():
                    group.append(name, step, array)
                    nbytes += array.nbytes
                report(Recorded(count, nbytes, source.dropped))
            seen |= arrays.keys()
            if count == steps and (names or count > 1) and seen >= known:
                break
            known |= seen
        _refuse_unsent(names, sent)
        return Recorded(count, nbytes, source.dropped)


def _targets(
    source: Consumer, names: Collection[str], timeout: float | None
) -> dict[str, Layout] | None:
    """Return the layouts to request for these arrays; None, for all, if one was not sent yet.

    The stream may wait with the first array until this consumer has requested something.
    """
    known = source.arrays(timeout) if names else {}
    if not names or not known.keys() >= set(names):
        return None
    return {name: whole_of(known[name].layout) for name in names}


def _refuse_unsent(names: Collection[str], sent: Collection[str]) -> None:
    missing = [name for name in names if name not in sent]
    if missing:
        raise InvalidArgument(f"the stream does not send {missing}; it sends {sorted(sent)}")


def _already_exists(path: str) -> IoFailed:
    return IoFailed(f"{path} already exists; pass the path of a new Zarr group")


@contextlib.contextmanager
def _naming_output(path: str) -> Iterator[None]:
    """Name in an error of the system the file that could not be written, and why."""
    try:
        yield
    except Error:
        raise
    except FileExistsError as error:  # created since the check
        raise _already_exists(error.filename or path) from error
    except OSError as error:
        raise_no_space(error, path)
        raise IoFailed(f"{error.filename or path}: {error.strerror or error}") from error


def _file_name(name: str) -> str:
    """Quote an array's name so that it is a file name, and stays in its directory."""
    quoted = urllib.parse.quote(name, safe=" ")
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]
    if len(f"{quoted}.steps") > MAX_FILE_NAME_BYTES:
        raise Unsupported(
            f"the array name {name[:24]!r}... needs a file name of {len(quoted):,} bytes; at most "
            f"{MAX_FILE_NAME_BYTES} are possible"
        )
    return quoted


class _Group:
    """A new Zarr group with a growing array for each name, and another for its step numbers."""

    def __init__(self, path: Path):
        zarr_python()
        self._path = path
        self._arrays: dict[str, tuple[Any, Any]] = {}

    @staticmethod
    def _stored_names(name: str) -> tuple[str, str]:
        name = _file_name(name)
        if name == "zarr.json":  # the group's own
            name = "zarr%2Ejson"
        return name, f"{name}.steps"

    def check_names(self, arrays: Collection[str]) -> None:
        """Reject arrays that would have the same name in the group."""
        names = [name for array in arrays for name in self._stored_names(array)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidArgument(
                f"in Zarr an array and the steps of another one would both be {twice[0]!r}; "
                "record one of them alone"
            )

    def append(self, name: str, step: int, array: np.ndarray) -> None:
        """Append one step of an array, which is created with its first."""
        stored = array.astype(self._stored_dtype(name, array), copy=False)
        if name not in self._arrays:
            self.check_names([*self._arrays, name])
            self._arrays[name] = self._created(name, stored)
        data, steps = self._arrays[name]
        count = steps.shape[0]
        try:
            data.append(stored[None])
            steps.append(np.array([step]))
        except Exception:
            # xarray reads them only if both have one length. If this fails too, nothing changes.
            with contextlib.suppress(Exception):
                data.resize((count, *array.shape))
                steps.resize((count,))
            raise

    def _stored_dtype(self, name: str, array: np.ndarray) -> np.dtype:
        if name not in self._arrays:
            try:
                zarr_output.made_in_memory(ArraySpec((1, *array.shape), array.dtype), MoveOptions())
            except Unsupported as error:
                raise Unsupported(f"array {name!r}: {error}") from None
        return zarr_output.stored_dtype(array.dtype)

    def _created(self, name: str, array: np.ndarray) -> tuple[Any, Any]:
        """Create an array and that of its steps, which xarray takes for its coordinate."""
        if not self._arrays:
            self._path.mkdir(parents=True)  # only one of two recorders succeeds
            zarr_group.remove_copies_around(os.path.realpath(self._path))
            zarr_group.write_objects(str(self._path), zarr_group.objects({}, 3))
        name, name_of_steps = self._stored_names(name)
        names = (name_of_steps, *(f"{name}_{d}" for d in range(array.ndim)))
        chunks = chunk_boxes.chunk_shape(ArraySpec(array.shape, array.dtype), MoveOptions())
        place = str(self._path / name)
        return (
            create(place, array.shape, array.dtype, names, chunks),
            create(str(self._path / name_of_steps), (), "i8", names[:1]),
        )
