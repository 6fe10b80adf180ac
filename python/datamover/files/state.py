# SPDX-License-Identifier: BSD-3-Clause
"""How does a program save its distributed arrays, and load them on other processes?

A mover takes an array from its layout to that of the file's chunks, dealt to the processes that
write; each encodes and writes its own. Loading is the same the other way round. So the processes
and layouts that load need not be those that saved.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover.arguments import memory_limit
from datamover.collective_calls import agreeing, ending, leaving, refused_by
from datamover.errors import InvalidArgument, InvalidState, Mismatch, NoMemory, WrongType
from datamover.files import (
    address_place,
    addresses,
    formats,
    names,
    placing,
    state_addresses,
    state_direct,
    write_back,
)
from datamover.files.agreement import tell_at_end, threads_here, together
from datamover.files.at_work import boxes, do_all, threads_within
from datamover.files.state_items import (
    Item,
    State,
    agree_on,
    agree_on_dtypes,
    bytes_digest,
    check_items,
    communicator,
    refuse_shared_memory,
    state_of,
    targets_of,
)
from datamover.files.state_steps import (
    Slab,
    Staging,
    batches,
    check_fits,
    file_ranks,
    slabs_of,
)
from datamover.files.state_stores import Origin, StoreOptions, target_of, whole
from datamover.mpi import collectively, comm_address, gathered

if TYPE_CHECKING:
    from mpi4py import MPI

#: Memory of a process for its part of what is saved or loaded, when nobody says.
MAX_BYTES = 1 << 28
#: What a process holds of it at once, even where it may hold more: the same memory again costs less
#: than fresh pages, each of which the system clears, and what it holds is still in the caches.
STEP_BYTES = 1 << 26


@refused_by(agreeing)
def save(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Any],
    *,
    comm: MPI.Comm | None = None,
    overwrite: bool = False,
    chunks: Mapping[str, Sequence[int]] | None = None,
    compressor: str | None = None,
    writers: int | Sequence[int] | None = None,
    max_bytes: int = MAX_BYTES,
    wait: bool = True,
) -> Saving | None:
    """Save distributed arrays and values of a program in one file or store.

    Collective over `comm`. The output appears under its name when it is complete and on the disk,
    and not before; on any error, on any process, all processes raise it, there is no new output,
    and an older one stays as it was.

    Parameters
    ----------
    path : path
        Its end says the format. ``.zarr``: a Zarr v3 group. ``.h5``, ``.hdf5``: an HDF5 file with a
        contiguous dataset per array, made by h5py and written without parallel HDF5. ``.npy``: one
        array. Seen under the same path by all processes. Or an address, as ``s3://bucket/u.zarr``,
        where the group gets its metadata when all else is there; one that is replaced is removed
        first. What a killed program leaves there is removed by the next save with `overwrite`,
        and nothing that belongs to others: where such is in the way, nothing is replaced.
    arrays : mapping
        By name; a ``/`` makes groups. A value is an `XArray`; a pair (array, layout), where array
        is what a `Mover` takes as this process's part (an ndarray, a mapping of blocks,
        `UserArrays`, None without a block); or a NumPy array, number or string that is the same on
        all processes.
        Numbers and strings become attributes. Ghosts are not saved.
    comm : mpi4py.MPI.Comm, optional
        The processes; needed when there is no `XArray`.
    overwrite : bool
        Whether an output that is there is replaced, be it a whole Zarr group.
    chunks : mapping, optional
        Of Zarr arrays: extents of chunks by name. About 4 MiB, nearly cubic, when not said.
    compressor : str, optional
        Of Zarr arrays: "auto" (Zarr's own choice), "none", "zstd", "gzip" or "blosc".
    writers : int or sequence of int, optional
        How many processes write, or which; all, if not said.
    max_bytes : int
        Memory of each process for its part: half of it for elements, a quarter each for messages
        (1 MiB at least) and for encoding. Larger arrays go in several steps.
    wait : bool
        False: return when the arrays are captured, that is copied to the processes that write,
        which takes all of their part at once within `max_bytes`. The arrays may then be changed;
        the files are written by threads, without MPI.

    Returns
    -------
    Saving or None
        With ``wait=False``, what is to be waited for on all processes: there is no output before.

    Raises
    ------
    IoError
        The output is there, its directory is missing or not writable, a disk is full.
    Mismatch
        Processes give different names, shapes, dtypes, values or options; an element that nobody
        holds; a layout for another number of processes.
    InvalidArgument, WrongType, Unsupported
        Names, values, options or dtypes that the format does not have.
    NoMemory
        `max_bytes` is too little for a chunk, or with ``wait=False`` for all.

    All of them on all processes.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm, tempfile
    >>> comm = MPI.COMM_SELF
    >>> rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=1)
    >>> tiles = dm.BlockCyclic((4, 6), "(cyclic(2), cyclic(3))", nprocs=1)
    >>> u = np.arange(24.0).reshape(4, 6)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     dm.save(place + "/state.zarr", {"u": (u, rows), "step": 7}, comm=comm)
    ...     state = dm.load(place + "/state.zarr", {"u": tiles}, comm=comm)
    >>> state["step"], bool((state["u"].local == u).all())
    (7, True)
    """
    comm = communicator(comm, arrays)
    address = comm_address(comm)

    def prepare() -> _Save:
        output = names.place_of(path)
        if addresses.is_address(output):
            state_addresses.check_saved(output, comm.size)
        found = _Save(comm, address, output, state_of(arrays))
        check_items(found.state.items, comm)
        found.set_options(overwrite, chunks, compressor, writers, max_bytes, wait)
        return found

    job = collectively(address, prepare)
    job.agree()
    return job.run()


@refused_by(agreeing)
def load(
    path: str | os.PathLike[str],
    targets: Mapping[str, Any],
    *,
    comm: MPI.Comm | None = None,
    readers: int | Sequence[int] | None = None,
    max_bytes: int = MAX_BYTES,
) -> dict[str, Any]:
    """Load arrays into any layout, on any number of processes, and all values.

    Collective over `comm`. Files may be those of `save` or any others of these formats.

    Parameters
    ----------
    path : path
        A Zarr group (v2 or v3), an HDF5 file; or a Zarr array or .npy file, whose one array is
        loaded under any name. A Zarr group or array, and an .npy file, may have an address.
    targets : mapping
        By name: a layout, for which an `XArray` is made; an `XArray`; a pair (array, layout) as for
        `save`; or None, for a whole NumPy array on each process. Arrays that are not named are not
        loaded. Elements are converted to those of the given array as by a `Mover`.
    comm : mpi4py.MPI.Comm, optional
        The processes; needed when there is no `XArray`.
    readers : int or sequence of int, optional
        How many processes read, or which; all, if not said.
    max_bytes : int
        As for `save`; arrays made here come on top.

    Returns
    -------
    dict
        By name: the arrays, made or given; the attributes of the group or file; arrays without
        dimensions, as NumPy scalars.

    Raises
    ------
    IoError
        There is no such file or array, or it cannot be read, or was replaced meanwhile.
    Mismatch
        The array in the file has another shape than the layout.
    WrongType
        Its elements are not converted to those of the given array.
    InvalidArgument
        Two arrays would be loaded into the same memory.
    NoMemory
        `max_bytes` is too little for a chunk.

    All of them on all processes. Before anything is moved, except where a file turns out to be
    broken: given arrays may then be partly loaded.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm, tempfile
    >>> rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=1)
    >>> mine = np.zeros((4, 6), "f4")
    >>> with tempfile.TemporaryDirectory() as place:
    ...     np.save(place + "/a.npy", np.ones((4, 6)))
    ...     found = dm.load(place + "/a.npy", {"a": (mine, rows)}, comm=MPI.COMM_SELF)
    >>> mine.sum(), found["a"] is mine
    (np.float32(24.0), True)
    """
    comm = communicator(comm, targets)
    address = comm_address(comm)

    def prepare() -> _Load:
        found = _Load(comm, address, _origin(path, comm.size), targets_of(targets))
        found.ranks = file_ranks(readers, "readers", comm.size)
        found.max_bytes = _limit(max_bytes)
        found.look()
        return found

    job = collectively(address, prepare)
    job.agree()
    arrays = job.run()
    given = {name: target[0] for name, target in targets.items() if isinstance(target, tuple)}
    return {**job.values, **arrays, **given}


def _origin(path: str | os.PathLike[str], processes: int) -> Any:
    found = names.place_of(path)
    if addresses.is_address(found):
        state_addresses.check_shared(found, processes)
        return state_addresses.origin_at(found)
    formats.check_input_kind(found)
    return Origin(found)


def _limit(max_bytes: Any) -> int:
    if max_bytes is None:
        raise WrongType("max_bytes is None, it must be a number of bytes")
    return memory_limit(max_bytes)


class _Work:
    """What saving and loading have in common: limits, threads, open files of a step."""

    def __init__(self, comm: MPI.Comm, address: int):
        self.comm, self.address = comm, address
        self.is_first = comm.rank == 0
        self.ranks: tuple[int, ...] = ()
        self.max_bytes = MAX_BYTES
        self.threads = 1
        self.items: dict[str, Item] = {}
        self.splits: dict[str, state_direct.Split] = {}
        self._suiting: set[str] = set()
        self._to_file = False

    def open(self, name: str) -> Any:
        """Open an array of the file."""
        raise NotImplementedError

    def agree_on_direct(self, specs: Mapping[str, Any], to_file: bool) -> None:
        """Settle which arrays may go straight between memory and the file. Collective."""

        def look() -> list[int]:
            return [
                int(state_direct.suits(item, spec.dtype, spec.order, self.comm.rank, to_file))
                for item, spec in ((item, specs[name]) for name, item in self.items.items())
            ]

        suits = gathered(self.address, collectively(self.address, look))
        self._suiting = {
            name for k, name in enumerate(self.items) if all(found[k] for found in suits)
        }
        self._to_file = to_file

    def steps(self, step_bytes: int) -> list[list[Slab]]:
        """Say what of the arrays goes straight; cut the rest into slabs, say which go at once.

        No process holds more than `step_bytes` at once, where chunks are not larger. Local, the
        same everywhere.
        """
        most_bytes = self.max_bytes // 2
        found = []
        for name, item in self.items.items():
            with contextlib.closing(self.open(name)) as file:
                chunk_bytes = math.prod(file.granule) * file.spec.dtype.itemsize
                limit = min(most_bytes, max(step_bytes, chunk_bytes))
                check_fits(name, file, self.ranks, limit)
                if name not in self._suiting:
                    found += slabs_of(name, file, self.ranks, limit)
                    continue
                split = state_direct.split(file, item.layout, self.ranks, self._to_file)
                self.splits[name] = split
                for box in split.rest:
                    found += slabs_of(name, file, self.ranks, limit, box)
        return batches(found, min(most_bytes, step_bytes))

    def direct_parts(self) -> Iterator[tuple[str, Any, np.ndarray]]:
        """Go through what goes straight: (name, index of the first element, array). Local."""
        return state_direct.parts(self.splits, self.items, self.comm.rank)

    def do(self, parts: Iterator[tuple[str, Any, np.ndarray]], work: Any) -> None:
        """Call `work` with (file, index, array) for each box of these parts of arrays."""
        found = list(parts)
        with contextlib.ExitStack() as opened:
            files: dict[str, Any] = {}

            def tasks() -> Iterator[tuple[Any, Any, np.ndarray]]:
                for name, lo, part in found:
                    file = files[name]
                    for at, piece in boxes(lo, part, file.granule, file.spec.order):
                        yield file, at, piece

            for name, _, _ in found:
                if name not in files:
                    files[name] = opened.enter_context(contextlib.closing(self.open(name)))
            threads = threads_within(self.threads, files.values(), self.max_bytes // 4)
            do_all(tasks(), lambda task: work(*task), threads)


class _Save(_Work):
    """One save on one process."""

    def __init__(self, comm: MPI.Comm, address: int, output: str, state: State):
        super().__init__(comm, address)
        self.output, self.state, self.items = output, state, state.items
        self.temporary = ""
        self.target: Any = None
        self._place: Any = None

    def set_options(
        self,
        overwrite: Any,
        chunks: Any,
        compressor: Any,
        writers: Any,
        max_bytes: Any,
        wait: Any,
    ) -> None:
        """Check options. Local."""
        self.overwrite, self.waits = bool(overwrite), bool(wait)
        self.ranks = file_ranks(writers, "writers", self.comm.size)
        self.max_bytes = _limit(max_bytes)
        if chunks is not None and not isinstance(chunks, Mapping):
            raise WrongType(f"chunks are {chunks!r}, they must be a mapping of names to extents")
        if compressor is not None and not isinstance(compressor, str):
            raise WrongType(f"compressor is {compressor!r}, it must be a string")
        try:
            by_name = {
                str(name): tuple(int(np.asarray(n).astype(np.int64, casting="safe")) for n in box)
                for name, box in (chunks or {}).items()
            }
        except TypeError:
            raise WrongType(f"chunks are {chunks!r}: extents must be integers") from None
        self.options = StoreOptions(by_name, compressor)

    def agree(self) -> None:
        """Check that all processes mean the same; settle what is written. Collective."""
        state = self.state
        options = _words_of_options(self.options)
        said: dict[str, Any] = {
            "the options": (self.output, self.overwrite, self.waits, self.ranks, self.max_bytes,
                            options),
        }  # fmt: skip
        for name, item in state.items.items():
            said[name] = ("array", item.shape, item.origin)
        for name, array in state.arrays.items():
            said[name] = (str(array.dtype), array.shape, bytes_digest(array))
        for name, value in state.values.items():
            said[name] = (type(value).__name__, value)
        agree_on(self.address, said, "save")
        agree_on_dtypes(self.address, state.items)

        def settle() -> None:
            at_address = addresses.is_address(self.output)
            kind = state_addresses.AddressTarget if at_address else target_of(self.output)
            self.target = kind(state, self.options)

        collectively(self.address, settle)
        if self.waits:  # else all is copied before this returns
            self.agree_on_direct(self.target.specs, to_file=True)
        self.threads = threads_here(self.address)

    def open(self, name: str) -> Any:
        """Open an array to be written."""
        return self.target.open(self.temporary, name)

    def run(self) -> Saving | None:
        """Make the output, or capture the arrays and go on with it in a thread. Collective."""
        token = placing.token(self.address)
        if addresses.is_address(self.output):
            said = ("", self.output, self.overwrite, self.overwrite)
            self._place = address_place.AddressPlace(*said)
        else:
            said = (None, self.output, token, self.overwrite, self.overwrite, None)
            self._place = placing.LocalPlace(*said)
        self.temporary = self._place.path
        try:
            self._create()
            steps = self._steps()
            if not self.waits:
                staging = self._capture(steps[0]) if steps else None
                return Saving(self, staging)
            with together(self.comm):
                self.write(self.direct_parts())
            for step in steps:
                staging = self._capture(step)
                try:
                    with together(self.comm):
                        self.write(staging.parts())
                finally:
                    staging.free()
            with together(self.comm):
                self.target.sync(self.temporary)
            self.finish()
        except BaseException:
            self.close()
            raise
        self.close()
        return None

    def _create(self) -> None:
        with together(self.comm):
            if self.is_first:
                self._place.check()
                dims = {name: len(spec.shape) for name, spec in self.target.specs.items()}
                self._place.claim(self.target.is_directory, dims)
                self.target.create(self.temporary)
        with together(self.comm):
            self._place.hold()

    def _steps(self) -> list[list[Slab]]:
        """Say which slabs go at once. Collective."""
        found: list[list[Slab]] = []
        with together(self.comm):
            step_bytes = STEP_BYTES if self.waits else self.max_bytes
            found = self.steps(step_bytes)
            if not self.waits and len(found) > 1:
                needed = 2 * sum(slab.most_bytes for step in found for slab in step)
                raise NoMemory(
                    f"to save without waiting, max_bytes must be {needed:,} at least: all is "
                    f"captured at once; it is {self.max_bytes:,}"
                )
        return found

    def _capture(self, step: list[Slab]) -> Staging:
        """Copy slabs to the processes that write them. Collective."""
        specs = self.target.specs
        dtypes = {slab.name: specs[slab.name].dtype for slab in step}
        staging = Staging(
            self.comm, step, self.state.items, specs, dtypes, True, self.max_bytes // 4
        )
        try:
            staging.move()
        except BaseException:
            staging.free()
            raise
        return staging

    def write(self, parts: Iterator[tuple[str, Any, np.ndarray]]) -> None:
        """Write what this process holds. Local; no MPI."""
        self.do(parts, lambda file, at, piece: file.write(at, piece))

    def finish(self) -> None:
        """Give the complete output its name. Collective."""
        with together(self.comm):
            if self.is_first:
                self._place.finish(self.target)

    def close(self) -> None:
        """Remove the old output, or a new one that is not complete. Local."""
        if self._place is not None:
            write_back.give_up()
            self._place.give_back()
            self._place = None


def _words_of_options(options: StoreOptions) -> tuple[Any, ...]:
    """Give options as what prints alike where it is the same."""
    return sorted(options.chunks.items()), options.compressor


class Saving:
    """A save that is under way: the arrays are captured, threads write the files.

    Made by `save` with ``wait=False``. All processes wait for it, in the order of their saves;
    until then there is no output. One that is never waited for leaves none.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm, tempfile
    >>> rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=1)
    >>> u = np.ones((4, 6))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     saving = dm.save(place + "/u.npy", {"u": (u, rows)}, comm=MPI.COMM_SELF, wait=False)
    ...     u[...] = 0  # the program goes on
    ...     saving.wait()
    ...     np.load(place + "/u.npy").sum()
    np.float64(24.0)
    """

    # Of the class: an interrupt may leave one without its own.
    _job: _Save | None = None
    _staging: Staging | None = None
    _process = -1

    def __init__(self, job: _Save, staging: Staging | None):
        self._job, self._comm = job, job.comm
        self._process = os.getpid()
        self._staging = staging
        self._failure: BaseException | None = None
        self._written = threading.Event()
        threading.Thread(target=self._write).start()

    def _write(self) -> None:
        try:
            if self._staging is not None:
                self._job.write(self._staging.parts())
            self._job.target.sync(self._job.temporary)
        except BaseException as e:
            self._failure = e
        finally:
            self._written.set()

    @property
    def done(self) -> bool:
        """Whether all that this process writes is written, or has failed. Local."""
        return self._written.is_set()

    @refused_by(ending)
    def wait(self) -> None:
        """Wait until the output is complete on all processes, and give it its name. Collective.

        Raises
        ------
        Error
            As `save`, on all processes; there is no new output then, an older one stays.
        InvalidState
            It was waited for before.

        A call that is refused on one process, for arguments that it does not take, is refused on
        all, and there is no output.
        """
        job = self._job
        if job is None:
            raise InvalidState("this save was waited for before")
        self._written.wait()
        try:
            with together(job.comm):
                if self._failure is not None:
                    raise self._failure
            job.finish()
        finally:
            self._job = None
            self._drop(job)

    @property
    def _is_over(self) -> bool:
        return self._job is None

    def _end_refused(self) -> None:
        """End where this process's call to wait was refused: there is no output. Local."""
        self._written.wait()
        job, self._job = self._job, None
        if job is not None:
            self._drop(job)

    def _drop(self, job: _Save) -> None:
        """Give back memory and place. Local."""
        if self._staging is not None:
            self._staging.free()
        job.close()

    def __del__(self) -> None:
        if self._job is not None and self._process == os.getpid():  # a child's is its parent's
            self._drop(self._job)

    def __enter__(self) -> Saving:
        return self

    @refused_by(leaving)
    def __exit__(self, kind: type | None, error: BaseException | None, _: object) -> None:
        """Wait; where the block failed on any process, all fail, and there is no output."""
        job = self._job
        if job is None:
            return
        if kind is None:
            self.wait()
            return
        self._written.wait()
        try:
            tell_at_end(job.comm, error)
        finally:
            self._job = None
            self._drop(job)


class _Load(_Work):
    """One load on one process."""

    def __init__(
        self, comm: MPI.Comm, address: int, origin: Origin, targets: dict[str, Item | None]
    ):
        super().__init__(comm, address)
        self.origin, self.targets = origin, targets
        self.items = {name: item for name, item in targets.items() if item is not None}
        self.specs: dict[str, Any] = {}
        self.staged: dict[str, np.dtype] = {}
        self.values: dict[str, Any] = {}
        self._granules: dict[str, Any] = {}

    def open(self, name: str) -> Any:
        """Open an array to be read."""
        return self.origin.open(name)

    def look(self) -> None:
        """Look at what is there, and check that it fits the targets. Local."""
        if self.origin.names == (None,) and len(self.targets) > 1:
            raise InvalidArgument(
                f"{self.origin.path} holds one array; {len(self.targets)} are to be loaded: "
                f"{', '.join(self.targets)}"
            )
        check_items(self.items, self.comm)
        for name in self.targets:
            with contextlib.closing(self.open(name)) as file:
                self.specs[name], self._granules[name] = file.spec, file.granule
        for name, item in self.items.items():
            self._check(name, item)
        refuse_shared_memory(self.items, self.comm.rank)
        self.values = self.origin.values()

    def _check(self, name: str, item: Item) -> None:
        spec = self.specs[name]
        if item.shape != spec.shape:
            raise Mismatch(
                f"{name!r} has the shape {spec.shape} in {self.origin.path}, the layout has "
                f"{item.shape}"
            )
        self.staged[name] = native_dtype(spec.dtype)
        given = item.dtype
        if given is not None and given != self.staged[name]:
            _check_conversion(name, self.staged[name], given)

    def agree(self) -> None:
        """Check that all processes see the same and want the same. Collective."""
        said: dict[str, Any] = {
            "the options": (self.origin.path, self.ranks, self.max_bytes),
            "the values": sorted((name, repr(value)) for name, value in self.values.items()),
        }
        for name, item in self.targets.items():
            wanted = item and (item.shape, item.origin, item.array is None)
            spec = self.specs[name]
            said[name] = (wanted, spec.shape, str(spec.dtype), spec.order, self._granules[name])
        agree_on(self.address, said, "load")
        self.agree_on_direct(self.specs, to_file=False)
        self.threads = threads_here(self.address)

    def run(self) -> dict[str, Any]:
        """Load all. Collective."""
        from datamover.arrays import XArray

        made: dict[str, XArray] = {}
        try:
            for name, item in self.items.items():
                if item.array is None:
                    item.array = XArray(self.comm, item.layout, self.staged[name])
                    made[name] = item.array
            wholes = self._load_wholes()
            steps = self._steps()
            with together(self.comm):
                self.do(self.direct_parts(), self._read)
            for step in steps:
                staging = Staging(
                    self.comm, step, self.items, self.specs, self.staged, False, self.max_bytes // 4
                )
                try:
                    with together(self.comm):
                        self.do(staging.parts(), self._read)
                    staging.move()
                finally:
                    staging.free()
            with together(self.comm):
                self.origin.check_still_there()
        except BaseException:
            for array in made.values():
                array.free()
            raise
        given = {name: item.array for name, item in self.items.items() if name not in made}
        return {**given, **made, **wholes}

    def _steps(self) -> list[list[Slab]]:
        with together(self.comm):
            found = self.steps(STEP_BYTES)
        return found

    def _load_wholes(self) -> dict[str, np.ndarray]:
        """Read arrays that every process wants whole."""
        found = {}
        with together(self.comm):
            for name, item in self.targets.items():
                if item is None:
                    with contextlib.closing(self.open(name)) as file:
                        array = whole(file)
                        found[name] = array.astype(native_dtype(array.dtype), copy=False)
        return found

    @staticmethod
    def _read(file: Any, at: Any, piece: np.ndarray) -> None:
        file.read(at, piece)
        if piece.dtype != file.spec.dtype:  # the engine calculates with the machine's own order
            piece.view(file.spec.dtype).byteswap(inplace=True)


def native_dtype(dtype: np.dtype) -> np.dtype:
    """Give numbers in the byte order of the machine; records stay as they are."""
    return dtype if dtype.names else dtype.newbyteorder("=")


def _check_conversion(name: str, stored: np.dtype, given: np.dtype) -> None:
    from datamover.movers import converts

    if not converts(stored, given):
        raise WrongType(
            f"{name!r} has elements of {stored} in the file, those given are {given}: "
            "only numbers in this machine's byte order are converted, as NumPy does under "
            '"same_kind"'
        )
