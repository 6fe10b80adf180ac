# SPDX-License-Identifier: BSD-3-Clause
"""Time series of a program's arrays: a Zarr group to which steps are appended.

Each variable is an array with one more dimension in front, and chunks of one step. A process writes
the chunks that are within its own blocks, so that nothing moves between processes if the blocks are
whole chunks. A step becomes part of the arrays when all its chunks are written: last of all, the
group's consolidated metadata is replaced.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from datamover.arguments import flag
from datamover.collective_calls import agreeing, ending, refused_by
from datamover.errors import InvalidArgument, InvalidState, IoFailed, Unsupported, WrongType
from datamover.files import names, placing, unfinished, zarr_group
from datamover.files.addresses import failing
from datamover.files.agreement import Unfinished, agree_on, together
from datamover.files.formats import log
from datamover.files.growing_array import StepWriter, Variable, create
from datamover.files.space import sync_path
from datamover.files.staged_moves import StagedMoves, Work
from datamover.files.state_items import check_items, state_of
from datamover.files.zarr_array import permitting
from datamover.mpi import collectively, comm_address

if TYPE_CHECKING:
    from mpi4py import MPI

#: Memory limit of a step: a block, which is a chunk by default, may have any size.
MOST_BYTES = 1 << 60


@refused_by(agreeing)
def series(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Any],
    *,
    along: str = "time",
    comm: MPI.Comm,
    dimensions: Mapping[str, Sequence[str]] | None = None,
    chunks: Mapping[str, Any] | None = None,
    resume: bool = False,
    rechunk: bool = False,
    overwrite: bool = False,
) -> Series:
    """Open a Zarr group to which the arrays of a program are appended, step by step.

    Collective over `comm`. The arrays are those of every step: change their elements and call
    `append` again. A step is visible to readers once it is complete. A program that is killed
    leaves the complete steps.

    Parameters
    ----------
    path : path
        Directory of the group, ``run.zarr``; the same path on all processes.
    arrays : mapping of str to array
        As for `datamover.save`: an `Array`, or a pair of array and layout. They must not be freed
        before the series is closed.
    along : str
        Name of the dimension along which steps are appended.
    comm : mpi4py.MPI.Comm
        The processes.
    dimensions : mapping of str to sequence of str, optional
        Names of the other dimensions of an array. By default, ``NAME_0``, ``NAME_1``, ...
    chunks : mapping, optional
        Chunks of an array, without the dimension `along`: for each dimension their extent, or the
        sizes of all, as in ``((3, 5, 2), 4)``; "blocks" are the blocks of its layout. By default,
        the extents of its largest block. If each process has whole chunks, it writes them without
        communication.
    resume : bool
        Whether to continue a series at `path`: steps that are not complete in all arrays are cut
        off. Numbers of steps that others added, such as an empty ``time`` with units, stay, and
        `append` must pass them. By default, an existing series is an error.
    rechunk : bool
        With `resume`: whether to accept that the chunks in the file differ from those described
        above. Elements then move between processes; the chunks in the file stay.
    overwrite : bool
        Whether to replace an existing group.

    Returns
    -------
    Series
        Close it, or use it in a ``with`` block.

    Raises
    ------
    IoFailed
        If the group exists, without `resume` and `overwrite`; does not exist, with `resume`; cannot
        be written; or if another process writes it, which the message names.
    Mismatch
        If processes pass different arguments, or the arrays in the file have other shapes, dtypes,
        dimension names or, without `rechunk`, chunks.
    InvalidArgument, WrongType
        For other wrong arguments.

    All errors are raised on all processes.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm, tempfile, zarr
    >>> rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=1)
    >>> u = np.zeros((4, 6))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with dm.series(place + "/run.zarr", {"u": (u, rows)}, comm=MPI.COMM_SELF) as run:
    ...         for step in range(3):
    ...             u += 1
    ...             run.append(time=0.5 * step)
    ...     group = zarr.open_group(place + "/run.zarr", mode="r")
    ...     group["u"][:, 0, 0].tolist(), group["time"][:].tolist()
    ([1.0, 2.0, 3.0], [0.0, 0.5, 1.0])
    """
    address = comm_address(comm)
    state = state_of(address, arrays)

    def prepare() -> tuple[list[Variable], dict[str, Any]]:
        of_rows = [name for name, item in state.items.items() if item.rows is not None]
        if state.arrays or state.values or of_rows or not state.items:
            odd = next(iter([*state.arrays, *state.values, *of_rows]), None)
            raise WrongType(
                f"{odd!r} has no layout: pass an Array or (array, layout)"
                if odd
                else "there are no arrays"
            )
        if not isinstance(along, str) or not along:
            raise WrongType(f"along is {along!r}, it must be the name of a dimension")
        if along in state.items:
            raise InvalidArgument(f"{along!r} is the dimension, and cannot name an array")
        if any("/" in name for name in state.items):
            raise InvalidArgument("a series is one group: names of arrays cannot contain '/'")
        check_items(state.items, comm)
        if flag(resume, "resume") and flag(overwrite, "overwrite"):
            raise InvalidArgument("resume=True continues a series, overwrite=True replaces it")
        if flag(rechunk, "rechunk") and not resume:
            raise InvalidArgument("rechunk=True needs resume=True")
        for given, kind in ((dimensions, "dimensions"), (chunks, "chunks")):
            for name in given or {}:
                if name not in state.items:
                    raise InvalidArgument(f"{kind} names {name!r}, which is not one of the arrays")
        passed: dict[str, Any] = {
            "path=": names.place_of(path), "along=": along, "resume=": resume, "rechunk=": rechunk,
            "overwrite=": overwrite,
            "dtypes": [(name, str(item.dtype)) for name, item in state.items.items()],
            "arrays": [(name, item.shape, item.origin) for name, item in state.items.items()],
            "dimensions=": sorted((dimensions or {}).items()),
            "chunks=": sorted((chunks or {}).items()),
        }  # fmt: skip
        if "://" in passed["path="]:
            raise Unsupported(f"{passed['path=']}: a series is written to a directory only")
        named, cut = dimensions or {}, chunks or {}
        variables = [
            Variable(name, item, along, named.get(name), cut.get(name))
            for name, item in state.items.items()
        ]
        return variables, passed

    variables, passed = collectively(address, prepare)
    agree_on(address, passed)
    found = Series(comm, passed["path="], along, variables)
    try:
        found._open(resume, rechunk, overwrite)
    except BaseException:
        found._drop()
        raise
    return found


class Series(Unfinished):
    """A Zarr group to which steps are appended; created by `datamover.series`.

    Attributes
    ----------
    path : str
    steps : int
        Complete steps in the group.
    closed : bool
    """

    _lock: int | None = None
    _work = cast(Work, None)  # until it is open

    def __init__(self, comm: MPI.Comm, path: str, along: str, variables: list[Variable]):
        self.path, self.steps = path, 0
        self._comm, self._address, self._along = comm, comm_address(comm), along
        self._variables = variables
        self._items = {variable.name: variable.item for variable in variables}
        self._moves: list[StagedMoves] = []  # of the chunks that are not within blocks
        self._coordinates: dict[str, str] | None = None  # dtypes by name; None: no step yet
        self.closed = False

    def _open(self, resume: bool, rechunk: bool, overwrite: bool) -> None:
        """Create or check the group, and bind the mover that fills the chunks. Collective."""
        with together(self._comm):
            if self._comm.rank == 0:
                self._lock = unfinished.take_series(self.path)
                if not resume:
                    self._create(overwrite)
        with together(self._comm):
            group = self._group()
            for variable in self._variables:
                variable.check(group, rechunk)
            arrays = permitting(lambda: list(group.arrays()), self.path)  # also those of others
            dimensions = {name: array.metadata.dimension_names or () for name, array in arrays}
            growing = {n: a for n, a in arrays if dimensions[n][:1] == (self._along,)}
            #: Those that are complete in all arrays.
            self.steps = min(array.shape[0] for array in growing.values())
            numbers = {n: str(a.dtype) for n, a in growing.items() if len(dimensions[n]) == 1}
            # Without steps, a number of a first step that failed would end all others.
            left = [n for n in numbers if not self.steps and _is_as_made(growing[n])]
            known = {n: dtype for n, dtype in numbers.items() if n not in left}
            self._coordinates = known if known or self.steps else None
        with together(self._comm):
            if resume and self._comm.rank == 0:
                for name in left:
                    log.warning("%s/%s is removed: its first step failed", self.path, name)
                    del group[name], growing[name]
                self._grow(growing.values(), self.steps)
        self._work = Work(self._comm, self._items, tuple(range(self._comm.size)), MOST_BYTES, True)
        held: Any = weakref.ref(self)  # a cycle would keep it open until it is collected
        for group in self._work.plan(lambda name: held()._next_step(name)):
            self._moves.append(self._work.staged(group, keeps=True))
            self._moves[-1].bind()
        self._begin(self._comm, self.path, f"the series {self.path} was not closed")

    def _group(self) -> Any:
        import zarr

        words = f"{self.path} is not a Zarr group: there is no series to resume"
        with failing(words, of=(FileNotFoundError,)):
            return zarr.open_group(self.path, mode="r+", use_consolidated=False)

    def _create(self, overwrite: bool) -> None:
        """Create the group with empty arrays in place of an old one. By the first process."""
        import zarr

        if os.path.lexists(self.path) and not overwrite:
            raise IoFailed(f"{self.path} exists; pass resume=True or overwrite=True")
        place = placing.LocalPlace(None, self.path, placing.token(None), overwrite, True)
        # Not by the methods of `place`, which refuse a path whose series is open, as this one is.
        placing.check_place(self.path, overwrite, overwrite_group=True)
        try:
            place.claim(is_directory=True)
            zarr.create_group(place.path)
            for variable in self._variables:
                item, at = variable.item, os.path.join(place.path, variable.name)
                create(at, item.shape, item.dtype, variable.names, variable.chunks)
            zarr_group.consolidate(place.path)
            placing.place(place.path, self.path, overwrite)
        finally:
            place.give_back()

    def _next_step(self, name: str) -> StepWriter:
        """Open the next step of an array."""
        return StepWriter(os.path.join(self.path, name), self.steps)

    def _grow(self, arrays: Iterable[Any], steps: int) -> None:
        """Give all arrays this number of steps, or take those beyond. By the first process."""
        for array in arrays:
            if array.shape[0] != steps:
                array.resize((steps, *array.shape[1:]))
        zarr_group.consolidate(self.path)

    @refused_by(agreeing)
    def append(self, **coordinates: float) -> None:
        """Append the present elements of all arrays as one step. Collective.

        Parameters
        ----------
        **coordinates : int or float
            Numbers of this step, the same on all processes, such as ``time=0.5``: each becomes an
            array along the dimension of the steps. Every step needs the same ones.

        Raises
        ------
        IoFailed, NoMemory
            If the step cannot be written. It is then not in the series, and can be appended again.
        InvalidState
            If the series is closed.
        InvalidArgument, Mismatch, WrongType
            If the coordinates differ from those of the steps before, or between processes.

        All errors are raised on all processes.
        """
        collectively(self._address, lambda: self._check(coordinates))
        agree_on(self._address, {f"{name}=": value for name, value in coordinates.items()})
        self._work.transfer_direct()
        for moves in self._moves:
            self._work.execute(moves)
        with together(self._comm):
            if self._comm.rank == 0:
                self._commit(self._group(), coordinates)
        self.steps += 1
        if self._coordinates is None:
            self._coordinates = {name: _dtype_of(value) for name, value in coordinates.items()}

    def _check(self, coordinates: Mapping[str, Any]) -> None:
        if self.closed:
            raise InvalidState(f"the series {self.path} is closed")
        for name, value in coordinates.items():
            if isinstance(value, (bool, np.bool_)) or not isinstance(
                value, (int, float, np.integer, np.floating)
            ):
                raise WrongType(f"{name} is {value!r}, it must be an int or a float")
            if name in self._items:
                raise InvalidArgument(f"{name!r} is an array of the series, not a coordinate")
        known = self._coordinates
        if known is not None and set(coordinates) != set(known):
            raise InvalidArgument(
                f"coordinates are {sorted(coordinates)}; the steps before have {sorted(known)}"
            )
        for name, dtype in (known or {}).items():
            value = coordinates[name]
            is_nan = value != value and np.dtype(dtype).kind == "f"
            if not is_nan and np.dtype(dtype).type(value) != value:
                raise InvalidArgument(
                    f"{name}={value!r} does not fit {dtype}, the type of the first step"
                )

    def _commit(self, group: Any, coordinates: Mapping[str, Any]) -> None:
        """Make the written step a part of all arrays. By the first process."""
        for name, value in coordinates.items():
            if name not in group:
                create(os.path.join(self.path, name), (), _dtype_of(value), (self._along,))
            array = group[name]
            array.resize((self.steps + 1,))
            array[self.steps] = value
        self._grow((group[variable.name] for variable in self._variables), self.steps + 1)

    @refused_by(ending)
    def close(self) -> None:
        """Wait until everything is on the disk, and let others write the group. Collective."""
        if not self.closed:
            self._finish()

    def _end(self) -> None:
        with together(self._comm):
            sync_path(self.path)

    def _release(self) -> None:
        while self._moves:
            self._moves.pop().close()
        if self._work is not None:
            self._work.direct.clear()  # views of the program's arrays
        if self._lock is not None:
            unfinished.release_series(self.path, self._lock)
            self._lock = None

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.steps} steps"
        return f"Series({self.path!r}, {state})"


def _dtype_of(value: Any) -> str:
    return "int64" if isinstance(value, (int, np.integer)) else "float64"


def _is_as_made(array: Any) -> bool:
    """Return whether numbers of steps are as a series makes them, and nobody changed them since."""
    return bool(array.shape[0] and not array.attrs and str(array.dtype) in ("float64", "int64"))
