# SPDX-License-Identifier: BSD-3-Clause
"""Recorder: writes a stream to files, for `datamover stream`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
import urllib.parse
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from datamover._plan import whole_of
from datamover.counted import counted
from datamover.errors import Error, InvalidArgument, IoError, Unsupported
from datamover.files import consolidated, npy, zarr_output
from datamover.files.formats import ArraySpec, MoveOptions
from datamover.files.space import is_no_space, no_space
from datamover.layouts import Layout
from datamover.lifeline import ENDING
from datamover.stream.array_info import ArrayInfo
from datamover.stream.consumer import Consumer, connect
from datamover.uninterrupted import uninterrupted

#: A chunk of a Zarr array holds about so many bytes of one step.
ZARR_CHUNK_BYTES = 4 << 20
#: Between two questions which arrays a stream sends.
SETTLE_SECONDS = 0.2
#: An array that is wanted may come so long after the first one, where no other time is given.
PATIENCE_SECONDS = 10.0
#: What file systems take for a name.
MAX_FILE_NAME_BYTES = 255


class Recorder(Protocol):
    """What a format of recordings has to offer."""

    def begin(self, infos: Collection[ArrayInfo]) -> None:
        """Prepare for the arrays that are known, before their first step."""

    def write(self, name: str, step: int, array: np.ndarray) -> None:
        """Write one step of an array, known before or not."""


@dataclasses.dataclass(frozen=True)
class Recorded:
    """What a recording holds."""

    steps: int
    bytes: int
    dropped: int

    def __str__(self) -> str:
        lost = f", {self.dropped:,} dropped by the stream" if self.dropped else ""
        return f"{counted(self.steps, 'step')}, {counted(self.bytes, 'byte')}{lost}"


def _known_arrays(source: Consumer, timeout: float | None) -> dict[str, ArrayInfo]:
    """Ask which arrays there are until there are no more of them after a while.

    Most programs send the arrays of a step one after the other.
    """
    known = source.arrays(timeout)
    while True:
        time.sleep(SETTLE_SECONDS)
        found = source.arrays(timeout)
        if len(found) == len(known):
            return found
        known = found


def describe(address: str, timeout: float | None) -> str:
    """Give a line for each array that a stream sends, once it has sent the first."""
    with connect(address, timeout=timeout) as source:
        known = _known_arrays(source, timeout)
        lines = [
            f"{info.name}: {' x '.join(map(str, info.shape))} {info.dtype}, on "
            f"{counted(info.layout.nprocs, 'process', 'processes')}"
            for info in known.values()
        ]
    return "\n".join(lines)


def _nobody(so_far: Recorded) -> None:
    """Tell nobody."""


def record(
    address: str,
    to: str,
    names: Sequence[str],
    steps: int | None,
    timeout: float | None,
    tell: Callable[[Recorded], None] = _nobody,
) -> Recorded:
    """Write the steps of a stream to files, until it ends or there are so many.

    Parameters
    ----------
    address : str
    to : str
        "npy:DIRECTORY" for a file NAME/STEP.npy for each, "zarr:PATH" for a group with an array for
        each name, steps along its first dimension.
    names : sequence of str
        The arrays; without any, all, also those that are sent first later.
    steps : int, optional
    timeout : float, optional
        Seconds to wait for the stream, and for each step.
    tell : callable, optional
        Gets what is recorded so far, after each array.

    Raises
    ------
    InvalidArgument
        A format that is not known, or an array that is not sent.
    IoError
        There is something in the place already, or it cannot be written, as where the disk is full.
    """
    recorder, path = _recorder(to)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_naming_output(path))
        source = stack.enter_context(connect(address, timeout=timeout))
        known = _known_arrays(source, timeout) if names else {}
        if names and known.keys() >= set(names):
            wanted = {name: known[name] for name in names}
            recorder.begin(wanted.values())
            layouts = {name: whole_of(info.layout) for name, info in wanted.items()}
            return _record(source, recorder, layouts, steps, timeout, tell)
        if names:  # one that has asked for the arrays is told of some of them too early
            source.close()
            source = stack.enter_context(connect(address, timeout=timeout))
        return _record_as_they_come(source, recorder, names, steps, timeout, tell)


def _record(
    source: Consumer,
    recorder: Recorder,
    layouts: dict[str, Layout],
    steps: int | None,
    timeout: float | None,
    tell: Callable[[Recorded], None],
) -> Recorded:
    count = nbytes = 0
    for step, arrays in source.steps(layouts, timeout):
        with uninterrupted(*ENDING):  # what is recorded is whole, and told
            for name, array in arrays.items():
                recorder.write(name, step, array)
                nbytes += array.nbytes
            count += 1
            tell(Recorded(count, nbytes, source.dropped))
        if count == steps:
            break
    return Recorded(count, nbytes, source.dropped)


def _record_as_they_come(
    source: Consumer,
    recorder: Recorder,
    names: Collection[str],
    steps: int | None,
    timeout: float | None,
    tell: Callable[[Recorded], None],
) -> Recorded:
    """Record every array, or those of these names; those of a step come one by one.

    So too where some of the names were not sent yet: the stream may wait with the first array of a
    step until this consumer wants something, and nobody knows the layouts of the others before.
    """
    count = nbytes = 0
    last: int | None = None
    seen: set[str] = set()  # in this step
    known: set[str] = set(names)
    sent: set[str] = set()
    deadline = time.monotonic() + (PATIENCE_SECONDS if timeout is None else timeout)
    for step, arrays in source.steps(timeout=timeout):
        sent |= arrays.keys()
        if time.monotonic() > deadline:
            _refuse_unsent(names, sent)
        if names and not arrays.keys() <= set(names):
            continue
        if step != last or seen & arrays.keys():
            if count == steps:
                break
            if count == 0:
                recorder.begin([])
            count, last, seen = count + 1, step, set()
        with uninterrupted(*ENDING):
            for name, array in arrays.items():
                recorder.write(name, step, array)
                nbytes += array.nbytes
            tell(Recorded(count, nbytes, source.dropped))
        seen |= arrays.keys()
        # In the first step nobody knows yet whether another one comes, unless all were named.
        if count == steps and (names or count > 1) and seen >= known:
            break
        known |= seen
    _refuse_unsent(names, sent)
    return Recorded(count, nbytes, source.dropped)


def _refuse_unsent(names: Collection[str], sent: Collection[str]) -> None:
    missing = [name for name in names if name not in sent]
    if missing:
        raise InvalidArgument(f"the stream does not send {missing}; it sends {sorted(sent)}")


@contextlib.contextmanager
def _naming_output(path: str) -> Iterator[None]:
    """Say of an error of the system what could not be written, and why."""
    try:
        yield
    except Error:
        raise
    except FileExistsError as error:  # since it was looked for
        raise IoError(f"{error.filename or path} already exists") from error
    except OSError as error:
        if is_no_space(error):
            raise IoError(no_space(path, error)) from error
        raise IoError(f"{error.filename or path}: {error.strerror or error}") from error


def _recorder(to: str) -> tuple[Recorder, str]:
    kind, colon, path = to.partition(":")
    if not colon or not path or kind not in _RECORDERS:
        raise InvalidArgument(f'--to is "{to}", it must be npy:DIRECTORY or zarr:PATH')
    if os.path.lexists(path):
        raise IoError(f"{path} already exists")
    return _RECORDERS[kind](Path(path)), path


def _file_name(name: str) -> str:
    """Give a name for a file that stands for any name of an array, and stays in its directory."""
    quoted = urllib.parse.quote(name, safe=" ")
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]
    if len(f"{quoted}.steps") > MAX_FILE_NAME_BYTES:
        raise Unsupported(
            f"the array name {name[:24]!r}... needs a file name of {len(quoted):,} bytes; at most "
            f"{MAX_FILE_NAME_BYTES} are possible"
        )
    return quoted


class _NpyRecorder:
    """A directory for each array, a file for each step."""

    def __init__(self, path: Path):
        self._path = path

    def begin(self, infos: Collection[ArrayInfo]) -> None:
        self._path.mkdir(parents=True)
        for info in infos:
            (self._path / _file_name(info.name)).mkdir()

    def write(self, name: str, step: int, array: np.ndarray) -> None:
        (self._path / _file_name(name)).mkdir(exist_ok=True)
        path = self._path / _file_name(name) / f"{step}.npy"
        if path.exists():
            raise IoError(f"step {step} of {name!r} came a second time; record to zarr: instead")
        partial = path.with_name(f".{path.name}.partial")
        try:
            self._write_file(str(partial), array)
            partial.rename(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise

    @staticmethod
    def _write_file(path: str, array: np.ndarray) -> None:
        spec, options = ArraySpec(array.shape, array.dtype), MoveOptions()
        npy.create(path, spec, options)
        with contextlib.closing(npy.open_writer(path, spec, options)) as writer:
            writer.write((0,) * array.ndim, array)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Keep back what zarr-python says of dtypes that other readers may not know."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _ZarrRecorder:
    """A group with an array for each name, which grows, and its steps beside it."""

    def __init__(self, path: Path):
        try:
            import zarr
        except ImportError:
            raise Unsupported("recording to Zarr needs the package zarr") from None
        self._path = path
        self._open_group = functools.partial(zarr.open_group, str(path), mode="w-")
        self._group: Any = None
        self._arrays: dict[str, tuple[Any, Any]] = {}

    @_without_warnings()
    def begin(self, infos: Collection[ArrayInfo]) -> None:
        self._refuse_twice([info.name for info in infos])
        for info in infos:
            self._refuse_unheld(info.name, info.shape, info.dtype)
        for info in infos:
            self._begin(info.name, info.shape, info.dtype)

    @staticmethod
    def _names(name: str) -> tuple[str, str]:
        name = _file_name(name)
        if name == "zarr.json":  # the group's own
            name = "zarr%2Ejson"
        return name, f"{name}.steps"

    def _refuse_twice(self, arrays: Collection[str]) -> None:
        names = [name for array in arrays for name in self._names(array)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidArgument(
                f"in Zarr an array and the steps of another one would both be {twice[0]!r}; "
                "record to npy: instead, or one of them alone"
            )

    @staticmethod
    def _refuse_unheld(array: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
        try:
            zarr_output.check_output(ArraySpec((1, *shape), dtype), MoveOptions())
        except Unsupported as error:
            raise Unsupported(f"array {array!r}: {error}; record to npy: instead") from None

    def _begin(self, array: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
        name, name_of_steps = self._names(array)
        chunk = list(shape)
        for d in range(len(chunk)):  # the slowest dimensions are cut first
            rest = int(np.prod(chunk[d + 1 :], dtype=object)) * dtype.itemsize
            chunk[d] = max(1, min(chunk[d], ZARR_CHUNK_BYTES // max(rest, 1)))
        # As dm.save names those that nobody has named; with the steps as coordinates, for xarray.
        dims = (name_of_steps, *(f"{name}_{d}" for d in range(len(shape))))
        if self._group is None:
            self._path.mkdir(parents=True)  # of two recorders at once one alone makes it
            consolidated.remove_around(os.path.realpath(self._path))
            self._group = self._open_group()
        stored = zarr_output.stored_dtype(dtype)
        data = self._group.create_array(
            name, shape=(0, *shape), chunks=(1, *chunk), dtype=stored, dimension_names=dims
        )
        steps = self._group.create_array(
            name_of_steps, shape=(0,), chunks=(1024,), dtype="i8", dimension_names=dims[:1]
        )
        self._arrays[array] = data, steps

    @_without_warnings()
    def write(self, name: str, step: int, array: np.ndarray) -> None:
        if name not in self._arrays:
            self._refuse_twice([*self._arrays, name])
            self._refuse_unheld(name, array.shape, array.dtype)
            self._begin(name, array.shape, array.dtype)
        data, steps = self._arrays[name]
        count = steps.shape[0]
        try:
            data.append(array.astype(zarr_output.stored_dtype(array.dtype), copy=False)[None])
            steps.append(np.array([step]))
        except Exception:
            # xarray reads them only where both are as long. Where this fails too, it is as before.
            with contextlib.suppress(Exception):
                data.resize((count, *array.shape))
                steps.resize((count,))
            raise


_RECORDERS = {"npy": _NpyRecorder, "zarr": _ZarrRecorder}
