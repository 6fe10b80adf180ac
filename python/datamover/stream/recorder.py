# SPDX-License-Identifier: BSD-3-Clause
"""How is a stream written to files, by `datamover stream`?"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
import urllib.parse
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from datamover.counted import counted
from datamover.errors import InvalidArgument, IoError, Unsupported
from datamover.files import npy
from datamover.files.formats import ArraySpec, MoveOptions
from datamover.files.space import is_no_space, no_space
from datamover.layouts import BlockCyclic
from datamover.stream.array_info import ArrayInfo
from datamover.stream.consumer import Consumer, connect

#: A chunk of a Zarr array holds about so many bytes of one step.
ZARR_CHUNK_BYTES = 4 << 20
#: Between two questions which arrays a stream sends.
SETTLE_SECONDS = 0.2
#: An array that is wanted may come so long after the first one, where no other time is given.
PATIENCE_SECONDS = 10.0


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


def _known_arrays(
    source: Consumer, timeout: float | None, names: Collection[str] = ()
) -> dict[str, ArrayInfo]:
    """Ask which arrays there are until there are no more of them after a while, and all of `names`.

    Most programs send the arrays of a step one after the other.
    """
    known = source.arrays(timeout)
    deadline = time.monotonic() + (PATIENCE_SECONDS if timeout is None else timeout)
    while True:
        time.sleep(SETTLE_SECONDS)
        found = source.arrays(timeout)
        has_settled = len(found) == len(known)
        known = found
        if has_settled and (known.keys() >= set(names) or time.monotonic() > deadline):
            return known


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
    with connect(address, timeout=timeout) as source:
        wanted = _wanted(source, timeout, names)
        with _naming_full_disks(path):
            recorder.begin(wanted.values())
            layouts = {
                name: BlockCyclic(info.shape, f"({', '.join('*' * len(info.shape))})", nprocs=1)
                for name, info in wanted.items()
            }
            if names:
                return _record(source, recorder, layouts, steps, timeout, tell)
            return _record_all(source, recorder, steps, timeout, tell)


def _wanted(source: Consumer, timeout: float | None, names: Sequence[str]) -> dict[str, ArrayInfo]:
    """Find what is known of the arrays that were named."""
    known = _known_arrays(source, timeout, names) if names else {}
    missing = [name for name in names if name not in known]
    if missing:
        raise InvalidArgument(f"the stream sends {sorted(known)}, not {missing}")
    return {name: known[name] for name in names}


def _record(
    source: Consumer,
    recorder: Recorder,
    layouts: dict[str, BlockCyclic],
    steps: int | None,
    timeout: float | None,
    tell: Callable[[Recorded], None],
) -> Recorded:
    count = nbytes = 0
    for step, arrays in source.steps(layouts, timeout):
        for name, array in arrays.items():
            recorder.write(name, step, array)
            nbytes += array.nbytes
        count += 1
        tell(Recorded(count, nbytes, source.dropped))
        if count == steps:
            break
    return Recorded(count, nbytes, source.dropped)


def _record_all(
    source: Consumer,
    recorder: Recorder,
    steps: int | None,
    timeout: float | None,
    tell: Callable[[Recorded], None],
) -> Recorded:
    """Record every array; those of a step come one by one, with its number."""
    count = nbytes = 0
    last: int | None = None
    seen: set[str] = set()  # in this step
    known: set[str] = set()
    for step, arrays in source.steps(timeout=timeout):
        if step != last or seen & arrays.keys():
            if count == steps:
                break
            count, last, seen = count + 1, step, set()
        for name, array in arrays.items():
            recorder.write(name, step, array)
            nbytes += array.nbytes
        tell(Recorded(count, nbytes, source.dropped))
        seen |= arrays.keys()
        # In the first step nobody knows yet whether another one comes.
        if count == steps and count > 1 and seen >= known:
            break
        known |= seen
    return Recorded(count, nbytes, source.dropped)


@contextlib.contextmanager
def _naming_full_disks(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if is_no_space(error):
            raise IoError(no_space(path, error)) from error
        raise


def _recorder(to: str) -> tuple[Recorder, str]:
    kind, colon, path = to.partition(":")
    if not colon or not path or kind not in _RECORDERS:
        raise InvalidArgument(f'--to is "{to}", it must be npy:DIRECTORY or zarr:PATH')
    if Path(path).exists():
        raise IoError(f"there is something already: {path}")
    return _RECORDERS[kind](Path(path)), path


def _file_name(name: str) -> str:
    """Give a name for a file that stands for any name of an array, and stays in its directory."""
    quoted = urllib.parse.quote(name, safe=" ")
    return "%2E" + quoted[1:] if quoted.startswith(".") else quoted


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


class _ZarrRecorder:
    """A group with an array for each name, which grows, and its steps beside it."""

    def __init__(self, path: Path):
        try:
            import zarr
        except ImportError:
            raise Unsupported("recording to Zarr needs the package zarr") from None
        self._make_group = functools.partial(zarr.open_group, str(path), mode="w-")
        self._group: Any = None
        self._arrays: dict[str, tuple[Any, Any]] = {}

    def begin(self, infos: Collection[ArrayInfo]) -> None:
        self._refuse_twice([info.name for info in infos])
        self._group = self._make_group()
        for info in infos:
            self._begin(info.name, info.shape, info.dtype)

    @staticmethod
    def _names(name: str) -> tuple[str, str]:
        name = _file_name(name)
        return name, f"{name}.steps"

    def _refuse_twice(self, arrays: Collection[str]) -> None:
        names = [name for array in arrays for name in self._names(array)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidArgument(
                f"in Zarr an array and the steps of another one would both be {twice[0]!r}; "
                "record to npy: instead, or one of them alone"
            )

    def _begin(self, array: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
        name, name_of_steps = self._names(array)
        chunk = list(shape)
        for d in range(len(chunk)):  # the slowest dimensions are cut first
            rest = int(np.prod(chunk[d + 1 :], dtype=object)) * dtype.itemsize
            chunk[d] = max(1, min(chunk[d], ZARR_CHUNK_BYTES // max(rest, 1)))
        # As dm.save names those that nobody has named; with the steps as coordinates, for xarray.
        dims = (name_of_steps, *(f"{name}_{d}" for d in range(len(shape))))
        data = self._group.create_array(
            name, shape=(0, *shape), chunks=(1, *chunk), dtype=dtype, dimension_names=dims
        )
        steps = self._group.create_array(
            name_of_steps, shape=(0,), chunks=(1024,), dtype="i8", dimension_names=dims[:1]
        )
        self._arrays[array] = data, steps

    def write(self, name: str, step: int, array: np.ndarray) -> None:
        if name not in self._arrays:
            self._refuse_twice([*self._arrays, name])
            self._begin(name, array.shape, array.dtype)
        data, steps = self._arrays[name]
        data.append(array[None])
        steps.append(np.array([step]))


_RECORDERS = {"npy": _NpyRecorder, "zarr": _ZarrRecorder}
