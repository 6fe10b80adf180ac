# SPDX-License-Identifier: BSD-3-Clause
"""Arrays on disk: `open` returns a `FileArray`, which a mover takes like an array in memory.

A `FileArray` is a file and the layout by which plans refer to its elements. `array_steps` and
`file_mover` execute plans; this module opens files, reads and writes boxes of them, and closes
them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import DTypeLike

from datamover.arguments import byte_count, flag
from datamover.arrays import element_dtype
from datamover.collective_calls import agreeing, ending, refused_by
from datamover.errors import (
    InvalidArgument,
    InvalidState,
    IoFailed,
    Mismatch,
    Unsupported,
)
from datamover.files import (
    addresses,
    format_choice,
    formats,
    names,
    placing,
    space,
    unfinished,
    zarr_output,
)
from datamover.files.agreement import Unfinished, agree_on, threads_here, together
from datamover.files.direct_zarr import OrdinaryArray
from datamover.files.file_arguments import file_ranks, sizes_for
from datamover.files.flat import FlatFile
from datamover.files.formats import ArraySpec, MoveOptions, Shape
from datamover.files.staged_moves import MAX_BYTES, native_dtype
from datamover.files.zarr_array import ZarrArray, reopened
from datamover.layouts import BlockCyclic, FlatCyclic, FloorPlan, Layout, checked, shape_of
from datamover.mpi import collectively, comm_address
from datamover.plans import redistribute

if TYPE_CHECKING:
    from mpi4py import MPI

MODES = ("r", "r+", "w")


@refused_by(agreeing)
def open(
    path: str | os.PathLike[str],
    layout: Layout,
    *,
    comm: MPI.Comm,
    mode: str = "r",
    dtype: DTypeLike | None = None,
    order: str | None = None,
    chunks: Sequence[Any] | str | None = None,
    compressor: str | None = None,
    ranks: int | Sequence[int] | None = None,
    max_bytes: int = MAX_BYTES,
    overwrite: bool = False,
) -> FileArray:
    """Open an array on the disk for movers.

    Collective over `comm`. A `Mover` accepts the result as its source or its destination, like an
    array in memory: whole arrays, sections, transposes, halos and sums with `op`, repeatedly. Data
    that exceeds `max_bytes` is moved in several steps.

    Parameters
    ----------
    path : path
        ``.npy``, ``.zarr`` (an array), HDF5 as ``run.h5:/fields/u`` (or a file of one dataset), or
        raw. The path must be the same on all processes. With mode "r" also the address of a Zarr
        array or an ``.npy`` file.
    layout : Layout
        Defines the indices and blocks of plans: the file stores ``layout.domain``, its lowest
        corner first. It need not match the chunks of the file or the processes that read it, but
        every element must be in some block.
    comm : mpi4py.MPI.Comm
        The processes.
    mode : {"r", "r+", "w"}
        "r" reads. "r+" reads and writes elements in place: after an error, elements may be old or
        new, in Zarr whole chunks of them. "w" creates a new file, which gets its name once it is
        closed on all processes and is on the disk; elements never written are 0.
    dtype : dtype, optional
        Dtype of a new file, and of a raw one.
    order : {"C", "F"}, optional
        Order of the elements of a new .npy or raw file, and of a raw one that is read.
    chunks : sequence of int, "blocks", optional
        Chunks of a new Zarr array: for each dimension their extent, or the sizes of all, as in
        ``((3, 5, 2), 4)``; "blocks" are the blocks of the layout.
    compressor : str, optional
        Compressor of a new Zarr array: "auto", "none", "zstd", "gzip" or "blosc".
    ranks : int or sequence of int, optional
        Number of processes that read and write, or their ranks; by default all.
    max_bytes : int
        Memory of each process while a mover works: half of it for elements, a quarter each for
        messages (at least 1 MiB) and for codecs.
    overwrite : bool
        With "w": whether an existing file is replaced.

    Returns
    -------
    FileArray
        Close it, or use it in a `with` block.

    Raises
    ------
    IoFailed
        The file does not exist, cannot be read or written, or was replaced while the processes
        opened it; with "w", it already exists.
    Mismatch
        The file has another shape than the layout, or another dtype than `dtype`; processes pass
        different arguments; no block of the layout has some element.
    InvalidArgument, WrongType, Unsupported
        The format does not have an option, or chunks of HDF5 would be written.

    All errors are raised on all processes.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm, tempfile
    >>> rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=1)
    >>> columns = dm.BlockCyclic((6, 4), "(block, *)", nprocs=1)
    >>> u, back = np.arange(24.0).reshape(4, 6), np.zeros((6, 4), "f4")
    >>> with tempfile.TemporaryDirectory() as place:
    ...     name = place + "/u.npy"
    ...     with dm.files.open(name, rows, comm=MPI.COMM_SELF, mode="w", dtype="f8") as f:
    ...         dm.Mover(dm.redistribute(rows, rows), u, f)()
    ...     with dm.files.open(name, rows, comm=MPI.COMM_SELF) as f:
    ...         dm.Mover(dm.redistribute(rows, columns, axes=(1, 0)), f, back)()
    >>> bool((back == u.T).all())
    True
    """
    address = comm_address(comm)

    def prepare() -> tuple[FileArray, np.dtype | None, MoveOptions, dict[str, Any]]:
        if checked(layout).nprocs != comm.size:
            raise Mismatch(
                f"the layout is for {layout.nprocs} processes, the communicator has {comm.size}"
            )
        if mode not in MODES:
            raise InvalidArgument(f"mode is {mode!r}, it must be one of {', '.join(MODES)}")
        name, member = names.split_member(path)
        place = names.place_of(name)
        if mode != "r" and addresses.is_address(place):
            raise Unsupported(
                f'{place}: at addresses arrays are opened with mode "r"; new ones are written '
                "by datamover.save or `datamover move`"
            )
        wanted = None if dtype is None else element_dtype(dtype)
        of_file, limit = file_ranks(ranks, "ranks", comm.size), byte_count(max_bytes, "max_bytes")
        replaces = flag(overwrite, "overwrite")
        if order not in (None, "C", "F"):
            raise InvalidArgument(f'order {order!r} is neither "C" nor "F"')
        if mode == "w" and wanted is None:
            raise InvalidArgument("dtype is needed for a new file")
        if mode != "w" and (chunks is not None or compressor is not None or overwrite):
            raise InvalidArgument('chunks, compressor and overwrite need mode "w"')
        box = None if chunks is None else sizes_for(layout, chunks, "chunks")
        options = MoveOptions(
            chunks=box, compressor=compressor, output_order=cast(Any, order), output_member=member,
            overwrite=replaces,
        )  # fmt: skip
        passed = {
            "path=": place, "mode=": mode, "ranks=": of_file,
            "layouts": (type(layout).__name__, layout.domain.lo, layout.domain.hi),
            "dtype=": str(wanted), "max_bytes=": limit, "overwrite=": replaces, "member=": member,
            "order=": order, "chunks=": box, "compressor=": compressor,
        }  # fmt: skip
        file = FileArray(comm, place, layout, mode, of_file, limit)
        return file, wanted, options, passed

    file, wanted, options, passed = collectively(address, prepare)
    agree_on(address, passed)
    file._open(wanted, options)
    return file


class Rounds:
    """The movers of a file that are in flight on this process."""

    def __init__(self, path: str):
        self._path = path
        self._in_flight: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self._is_damaged = False  # whether one failed to write the file

    def begin(self, mover: Any, writes: bool) -> None:
        """Register a mover that starts. Local.

        Raises
        ------
        InvalidState
            A mover in flight writes the file, or reads it while this one writes: both would read,
            change and write the same pieces of the file.
        """
        if any(writes or other for other in self._in_flight.values()):
            raise InvalidState(
                f"another mover of {self._path} is in flight: while one writes a file, no other "
                "reads or writes it"
            )
        self._in_flight[mover] = writes

    def end(self, mover: Any, failed: bool) -> None:
        """Register the end of a round. Local."""
        self._is_damaged |= self._in_flight.pop(mover, False) and failed

    def give_up(self) -> bool:
        """Give up movers in flight, notifying all processes; return whether there were any."""
        in_flight = [*self._in_flight]
        for mover in in_flight:
            mover.give_up()
        return bool(in_flight)

    def check_complete(self, is_new: bool) -> None:
        """Raise if a mover is in flight, or has failed to write a new file. Local."""
        if self.give_up():
            raise InvalidState(f"a mover of {self._path} was in flight when it was closed")
        if self._is_damaged and is_new:
            raise IoFailed(f"{self._path} is not created: its content could not be written")


class FileArray(Unfinished):
    """An array on the disk for movers; created by `open`.

    Attributes
    ----------
    path : str
    mode : str
    layout : Layout
        Defines the indices and blocks of plans.
    comm : mpi4py.MPI.Comm
    dtype : numpy.dtype
        Dtype of the elements for movers, in the machine's byte order.
    ranks : tuple of int
        The processes that read and write.
    max_bytes : int
    closed : bool

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm, tempfile
    >>> line = dm.BlockCyclic((4,), "(block)", nprocs=1)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     np.save(place + "/u.npy", np.arange(4.0))
    ...     with dm.files.open(place + "/u.npy", line, comm=MPI.COMM_SELF, mode="r+") as f:
    ...         dm.Mover(dm.redistribute(line, line), np.ones(4), f, op="add")()
    ...     f.closed, np.load(place + "/u.npy").tolist()
    (True, [1.0, 2.0, 3.0, 4.0])
    """

    #: Lets movers recognize it without loading this module.
    is_file_array = True
    _place: placing.LocalPlace | None = None
    _held = -1  # an existing file or directory

    def __init__(
        self, comm: MPI.Comm, path: str, layout: Layout, mode: str, ranks: tuple[int, ...],
        max_bytes: int,
    ):  # fmt: skip
        self.comm, self.layout, self.mode = comm, layout, mode
        self.path, self.ranks, self.max_bytes = path, ranks, max_bytes
        self._file: Any = None
        self._rounds = Rounds(path)

    def _open(self, wanted: np.dtype | None, options: MoveOptions) -> None:
        """Open or create the file, of elements of the wanted dtype. Collective."""
        comm = self.comm
        self.closed = False  # from here on there is something to close
        try:
            if self.mode == "w":
                self._create(cast(np.dtype, wanted), options)
            else:
                with together(comm):
                    if not addresses.is_address(self.path):
                        format_choice.check_input_kind(self.path)
                        self._held = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
                    self._file = _opened(self.path, shape_of(self.layout), wanted, options)
                    if self.mode == "r+":
                        self._file = _writable(_reopened(self._file, self.path))
                        if comm.rank == 0 and isinstance(self._file, OrdinaryArray):
                            self._file.remove_leftovers()  # of a killed program
            with together(comm):
                self._check_same(always=True)  # when all have opened it
                _check(self._file.spec, self.layout, wanted, self.path, comm.rank)
            self._threads = threads_here(comm_address(comm))
            words = f"{self.path}, opened with mode {self.mode!r}, was not closed"
            lost = "; there is no new file" if self.mode == "w" else ""
            self._begin(comm, self.path, words, lost)
        except BaseException:
            self._drop()
            raise

    def _create(self, dtype: np.dtype, options: MoveOptions) -> None:
        """Create a new file next to its final place. Collective."""
        with together(self.comm):
            file_format = format_choice.of_output(self.path, options)
            formats.check_options(options, file_format, file_format)
            if file_format.name == "zarr":
                options = zarr_output.settled(self.path, options)
            if file_format.name == "hdf5" and (options.chunks or options.compressor):
                raise InvalidArgument(f"{self.path}: HDF5 that movers write is contiguous")
            spec = ArraySpec(shape_of(self.layout), dtype, options.output_order or "C")
            output = file_format.output(spec, options)
        said = options.overwrite, None, options.output_member
        token = placing.token(comm_address(self.comm))
        self._place = placing.LocalPlace(None, self.path, token, *said)
        placing.begin(self.comm, self._place, file_format.is_directory, output.create)
        with together(self.comm):
            self._file = _writable(output.open(self._place.path))

    def _check_same(self, always: bool) -> None:
        """Raise if the file was replaced, `always` or if it is used by its path. Local.

        Processes may have opened, or read, both versions; what they have written is lost.
        """
        is_checked = always or isinstance(self._file, (OrdinaryArray, ZarrArray))
        if is_checked and self._held >= 0 and not unfinished.is_still(self._held, self.path):
            raise IoFailed(f"{self.path} was replaced or removed while it was open")

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the elements for movers, in the machine's byte order."""
        return native_dtype(self._file.spec.dtype)

    @property
    def shape(self) -> Shape:
        """Extents of the array."""
        return tuple(self._file.spec.shape)

    @property
    def _open_file(self) -> Any:
        """Return the open file."""
        if self.closed:
            raise InvalidState(f"{self.path} has been closed")
        return self._file

    @refused_by(ending)
    def close(self) -> None:
        """Sync everything written to the disk, and give a new file its name. Collective.

        Raises
        ------
        IoFailed
            On all processes, and no new file is created: the sync failed, a mover failed to write
            the file, or an .npy at an address has changed since it was opened.
        PeerFailed
            A process left its ``with`` block by an exception, or ended.
        Timeout
            A process does not close it, if `set_timeout` is set.
        InvalidState
            On all processes, if a mover is in flight on one. It is given up.

        If one process passes wrong arguments to this call, it raises on all of them, and no new
        file is created.
        """
        if not self.closed:
            self._finish()

    def _end(self) -> None:
        rounds, is_new = self._rounds, self.mode == "w"
        collectively(comm_address(self.comm), lambda: rounds.check_complete(is_new))
        with together(self.comm):
            if self.mode == "r":
                self._file.check_unchanged()
            elif self._place is None:
                space.sync(self._held, self.path)
            else:
                self._place.sync()
        if self._place is not None:
            placing.finish(self.comm, self._place)

    def _stop(self) -> None:
        self._rounds.give_up()

    def _release(self) -> None:
        held, self._held = self._held, -1
        if held >= 0:
            os.close(held)
        if self._file is not None:
            with contextlib.suppress(OSError):  # the error of the file was raised before
                self._file.close()
        if self._place is not None:
            place, self._place = self._place, None
            place.give_back()

    def __repr__(self) -> str:
        return f"FileArray({self.path!r}, {self.layout!r}, mode={self.mode!r})"


def _opened(path: str, shape: Shape, dtype: np.dtype | None, said: MoveOptions) -> Any:
    """Open an existing file for reading."""
    member, order = said.output_member, said.output_order
    options = MoveOptions(member=member, shape=shape, dtype=dtype, order=order)
    file_format = format_choice.of_input(path, options)
    if file_format.name != "raw":
        if order is not None:
            raise InvalidArgument(f"{path}: order applies to new files and raw ones only")
        options = MoveOptions(member=member)
    if member is not None and file_format.name != "hdf5":
        raise InvalidArgument(f"{path} is not an HDF5 file: it has no {member!r}")
    file = file_format.open_reader(path, options)
    file.spec = dataclasses.replace(file.spec, kept=None)
    return file


def _check(spec: ArraySpec, layout: Layout, wanted: np.dtype | None, path: str, rank: int) -> None:
    """Check that file and layout fit each other. Local."""
    if spec.shape != (shape := shape_of(layout)):
        raise Mismatch(f"{path} has the shape {spec.shape}; the layout has {shape}")
    if wanted is not None and native_dtype(wanted) != native_dtype(spec.dtype):
        raise Mismatch(f"{path} has elements of {spec.dtype}, not of {wanted}")
    if isinstance(layout, (BlockCyclic, FlatCyclic)) or 0 in spec.shape:
        return
    count = layout.nprocs
    rows = FloorPlan.uniform(layout.domain, (count, *(1 for _ in spec.shape[1:])), count)
    try:
        redistribute(layout, rows).incoming(rank)
    except Mismatch as e:
        raise Mismatch(f"the layout does not hold every element of {path}: {e}") from e


def _reopened(file: Any, path: str) -> Any:
    """Open a file for writing that was opened for reading."""
    if isinstance(file, FlatFile):
        return file.reopened_to_write()
    file.close()
    if isinstance(file, (OrdinaryArray, ZarrArray)):
        return reopened(path, file.spec.dtype)
    raise Unsupported(
        f"{path} has chunks, or elements that only h5py reads: only contiguous HDF5 datasets can "
        "be written; create a new one"
    )


def _writable(file: Any) -> Any:
    """Prepare a file for writes by several processes in several rounds."""
    if isinstance(file, OrdinaryArray):
        file.replaces = True
    return file
