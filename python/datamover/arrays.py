# SPDX-License-Identifier: BSD-3-Clause
"""Distributed arrays in the library's memory (`Array`) or the user's (`UserArrays`)."""

from __future__ import annotations

import functools
import math
import reprlib
from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .arguments import as_array, refuse_mask
from .array_copy import lies_on_itself
from .collective_calls import agreeing, refused_by
from .deprecated import WithFree
from .dlpack import array_of
from .doors import memory_of
from .errors import InvalidArgument, InvalidState, Mismatch, OutOfRange, WrongType
from .layouts import (
    FlatCyclic,
    IndexList,
    Layout,
    MemoryLayout,
    checked,
    shape_of,
)
from .mpi import collectively, comm_address, core

if TYPE_CHECKING:
    from mpi4py import MPI

_NUMBER_NAMES = frozenset(
    [
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        *("float32", "float64", "complex64", "complex128", "bool"),
        *("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    ]
)


@functools.lru_cache(maxsize=256)
def number_name(dtype: np.dtype) -> str:
    """Return the engine's name of a number type, or "opaque" if it can only copy it."""
    return dtype.name if dtype.isnative and dtype.name in _NUMBER_NAMES else "opaque"


def type_word(dtype: DTypeLike) -> str:
    """Return a dtype as a word: NumPy's string, or its name if that is ambiguous (bfloat16)."""
    dtype = np.dtype(dtype)
    return dtype.str if dtype.isbuiltin == 1 or number_name(dtype) == "opaque" else dtype.name


def element_dtype(dtype: DTypeLike) -> np.dtype:
    """Convert anything that NumPy accepts as a dtype to one whose elements can be moved.

    Raises
    ------
    WrongType
        The elements are Python objects or have no size.
    """
    result = np.dtype(dtype)
    if result.hasobject:
        raise WrongType(f"dtype {result} holds Python objects, which cannot be moved as bytes")
    if result.itemsize == 0:
        raise WrongType(f"dtype {result} has elements of 0 bytes")
    return result


def _per_side(ghost: Any, dims: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Read ghost widths: a number, one number per dimension, or (lower, upper) per dimension."""
    if type(ghost) is int and ghost == 0:
        return (0,) * dims, (0,) * dims
    table = as_array(ghost, "ghost")
    if (
        table.dtype.kind not in "iu"
        or table.ndim > 2
        or table.shape not in ((), (dims,), (dims, 2))
    ):
        raise InvalidArgument(
            f"ghost widths {ghost!r} are neither an integer, nor {dims} integers, nor {dims} pairs"
        )
    if (table < 0).any():
        raise InvalidArgument(f"ghost widths {ghost!r} contain a negative number")
    if (table > np.iinfo("i8").max).any():
        raise OutOfRange(f"ghost widths {ghost!r} contain a number beyond 64 bits")
    pairs = np.broadcast_to(table[..., None] if table.ndim < 2 else table, (dims, 2))
    return tuple(pairs[:, 0].tolist()), tuple(pairs[:, 1].tolist())


def _is_flat(layout: Layout) -> bool:
    """Return whether a process stores a list of single elements, whatever their dimensions."""
    return isinstance(layout, IndexList | FlatCyclic)


def block_dims(layout: Layout) -> int:
    """Return the number of dimensions of the arrays of a layout's blocks."""
    return 1 if _is_flat(layout) else layout.dims


def _inside(grid: np.ndarray, lower: tuple[int, ...], upper: tuple[int, ...]) -> np.ndarray:
    """View an array without its ghosts."""
    sides = zip(lower, upper, grid.shape, strict=True)
    return grid[tuple(slice(below, n - above) for below, above, n in sides)]


class Array(WithFree):
    """A distributed array allocated by the library: this process's blocks of a layout, with ghosts.

    All blocks of a process are in one allocation that the other processes of its node can access,
    so that movers copy directly between arrays. The contents are undefined at first. Creating an
    array is collective and takes O(local elements).

    Parameters
    ----------
    layout : BlockCyclic, FloorPlan, IndexList or FlatCyclic
        The owner of each element.
    dtype : dtype
        Any type of fixed size, including structured types.
    order : {"C", "F"}
        The contiguous dimension of a block: the last or the first.
    ghost : int, sequence of int, or sequence of (int, int)
        Extra elements around each block: for all sides, per dimension, or per side.
    comm : mpi4py.MPI.Comm
        The processes; their number is `layout.nprocs`.

    Raises
    ------
    Mismatch
        The layout is for another number of processes.
    WrongType
        The dtype holds Python objects.
    NoMemory
        One process does not have enough memory; raised on all of them.

    Notes
    -----
    Source: the Array and Grid of the KeLP Data Mover, section 2.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import datamover as dm
    >>> comm = MPI.COMM_SELF
    >>> rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=comm.size)
    >>> a = dm.Array(rows, dtype="f4", ghost=1, comm=comm)
    >>> a.local.shape, a.interior(0).shape
    ((6, 8), (4, 6))
    """

    @refused_by(agreeing)
    def __init__(
        self,
        layout: Layout,
        dtype: DTypeLike = "f8",
        *,
        order: str = "C",
        ghost: ArrayLike = 0,
        comm: MPI.Comm,
    ):
        address = comm_address(comm)

        def prepare() -> tuple[np.dtype, tuple, tuple]:
            checked(layout)
            if order not in ("C", "F"):
                raise InvalidArgument(f'order {order!r} is neither "C" nor "F"')
            return (element_dtype(dtype), *_per_side(ghost, block_dims(layout)))

        self.dtype, self._ghost_lower, self._ghost_upper = collectively(address, prepare)
        self.comm = comm
        self._rank = comm.rank  # the communicator may be freed before the array
        self.layout = layout
        self._core = core().XArray(
            address,
            layout,
            self.dtype.itemsize,
            number_name(self.dtype),
            order,
            self._ghost_lower,
            self._ghost_upper,
        )
        self._places = {block: place for block, *place in self._core.blocks()}
        self._freed = False

    @property
    def blocks(self) -> tuple[int, ...]:
        """The numbers of this process's blocks, ascending."""
        return tuple(self._places)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the whole array, without ghosts."""
        return shape_of(self.layout)

    @property
    def ndim(self) -> int:
        """The number of dimensions of the whole array."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements of the whole array, without ghosts."""
        return math.prod(self.shape) * self.itemsize

    @property
    def shared(self) -> bool:
        """Whether the other processes of the node can access this process's memory directly."""
        return self._core.shared

    @property
    def local(self) -> np.ndarray:
        """The one block of this process with its ghosts, as a view. Local, O(1).

        A process without a block has an empty array.

        Raises
        ------
        InvalidState
            This process holds several blocks; use `array[block]`.
        """
        if len(self._places) > 1:
            raise InvalidState(
                f"this process holds {len(self._places)} blocks; use array[block] or array.grids()"
            )
        if not self._places:
            return np.empty((0,) * block_dims(self.layout), self.dtype)
        (block,) = self._places
        return self[block]

    def _require_rank(self, rank: int) -> None:
        """Raise Mismatch if this process has another rank in the array."""
        if self._rank != rank:
            raise Mismatch(
                f"process {rank} was given an Array of a communicator in which it is process "
                f"{self._rank}"
            )

    def _require_open(self) -> None:
        if self._freed:
            raise InvalidState("the array is closed")

    def __getitem__(self, block: int) -> np.ndarray:
        """View a block with its ghosts; raises OutOfRange (a LookupError) if it is absent."""
        self._require_open()
        if not isinstance(block, Integral):
            raise WrongType(
                f"array[...] takes the number of a block, not {block!r}; for elements, use a view: "
                "array.local[...] or array[block][...]"
            )
        if block not in self._places:
            raise OutOfRange(
                f"block {block} is not on process {self._rank}, which holds {list(self._places)}"
            )
        offset, strides, lowest, shape = self._places[block]
        first = offset + sum(x * s for x, s in zip(lowest, strides, strict=True))
        return np.ndarray(shape, self.dtype, self._core.bytes(), first, strides)

    def block(self, number: int) -> np.ndarray:
        """View a block with its ghosts, as ``array[number]``."""
        return self[number]

    def __setitem__(self, block: int, values: ArrayLike) -> None:
        """Write a block with its ghosts, as ``array[block][...] = values``."""
        self[block][...] = values

    def interior(self, block: int | None = None) -> np.ndarray:
        """View block `block` without its ghosts; the one block of this process, as `local`."""
        grid = self.local if block is None else self[block]
        return _inside(grid, self._ghost_lower, self._ghost_upper) if grid.size else grid

    def _interiors(self, layout: Layout, rank: int) -> Iterator[tuple[int, np.ndarray]]:
        """Iterate over this process's blocks as (number, view without ghosts)."""
        for block in self._places:
            yield block, self.interior(block)

    def grids(self) -> Iterator[tuple[int, np.ndarray]]:
        """Iterate over this process's blocks as (number, view with ghosts)."""
        for block in self._places:
            yield block, self[block]

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the numbers of this process's blocks."""
        return iter(self.blocks)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        """Raise: the conversion must specify the blocks, and whether to include ghosts."""
        raise WrongType(
            "an Array is not a NumPy array: use array.local (with ghosts), array.interior(), or "
            "array[block]"
        )

    def __contains__(self, block: object) -> bool:
        return block in self._places

    @property
    def __partitioned__(self) -> dict[str, Any]:
        """The array as a grid of boxes for other libraries, such as `heat.from_partitioned`. Local.

        The data are views of this process's blocks, without ghosts. Raises `Unsupported` for blocks
        that do not form a grid, such as cyclic ones.
        """
        from .doors.partitioned import table_of

        return table_of(self)

    def _columns(self, *_: Any) -> list[Array]:
        """Return what movers bind one by one."""
        return [self]

    def _refuse_overlaps(self) -> None:
        """Do nothing: blocks do not overlap."""

    def _part(self, *_: Any) -> Any:
        """Return the part that movers bind."""
        self._require_open()
        return self._core.part()

    def _memory(self) -> tuple[np.ndarray, MemoryLayout]:
        """Return all bytes of this process, and the places of its blocks."""
        self._require_open()
        return self._core.bytes(), self._memory_layout

    @functools.cached_property
    def _memory_layout(self) -> MemoryLayout:
        return self._core.memory()

    def close(self) -> None:
        """Free the memory, once views of it and movers bound to it no longer exist. Local."""
        self._freed = True
        self._core.free()

    def __enter__(self) -> Array:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        blocks = reprlib.repr([*self._places])
        return f"Array({self.layout!r}, dtype={type_word(self.dtype)!r}, blocks={blocks})"


class UserArrays:
    """NumPy arrays of the user as one process's blocks of a layout, perhaps with ghosts.

    Movers also accept plain arrays; use this class for arrays with ghosts. Local.

    Parameters
    ----------
    arrays : ndarray or mapping of block to ndarray
        One array (for a process with one block), or one per local block, by its number: of NumPy,
        or of another library that supports DLPack. A distributed array that `layout_of` accepts
        provides its own blocks and ghosts. Any strides; ghosts included. None, or an empty mapping,
        if a process has no elements. Masked arrays raise `WrongType`, because elements are moved
        without masks.
    ghost : int, sequence of int, or sequence of (int, int)
        As for `Array`.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> a = dm.advanced.UserArrays(np.zeros((6, 8)), ghost=1)
    >>> a.dtype
    dtype('float64')
    """

    def __init__(
        self,
        arrays: np.ndarray | Mapping[int, np.ndarray] | None,
        ghost: ArrayLike = 0,
    ):
        # Read once: a mapping may create its arrays when they are read, and they must stay alive.
        found = memory_of(arrays)
        #: The arrays by the numbers of their blocks, if those were given.
        self._blocks: dict[Any, Any] | None = None
        if found is not None:  # of another library's distributed array
            arrays, ghost = found
            self._arrays = [array_of(array, "an array") for array in arrays]
        elif isinstance(arrays, Mapping):
            self._blocks = {block: array_of(a, f"block {block!r}") for block, a in arrays.items()}
            self._arrays = list(self._blocks.values())
        else:
            self._arrays = [] if arrays is None else [array_of(arrays, "an array")]
        if not self._arrays:
            self._blocks = {}
        self._ghost = ghost
        for array in self._arrays:
            if not isinstance(array, np.ndarray):
                raise WrongType(
                    f"a {type(array).__name__} was given, it must be a NumPy array or one that "
                    "supports DLPack (or a mapping {block: array}, for the blocks of one array)"
                )
            refuse_mask(array, "an array")
        dtypes = {array.dtype for array in self._arrays}
        if len(dtypes) > 1:
            raise WrongType(f"the blocks have different dtypes: {', '.join(map(str, dtypes))}")
        self.dtype = element_dtype(dtypes.pop()) if dtypes else None

    def _refuse_overlaps(self) -> None:
        """Reject a destination in which a block lies on itself, or begins where another does."""
        begins: set[int] = set()
        for array in self._arrays:
            if lies_on_itself(array):
                raise InvalidArgument(
                    "elements of the destination lie on top of each other: an array of shape "
                    f"{array.shape} with strides of {array.strides} bytes, and elements of "
                    f"{array.itemsize}"
                )
            if array.size == 0:
                continue
            begin = array.__array_interface__["data"][0]
            if begin in begins:
                raise InvalidArgument(
                    "two blocks of the destination begin at the same element of memory: each needs "
                    f"memory of its own; the second has shape {array.shape}"
                )
            begins.add(begin)

    def _columns(self, layout: Layout, rank: int) -> list[UserArrays]:
        """Split (n, k) rows into columns if a process has n single elements."""
        shapes = [array.shape for array in self._arrays]
        if not _is_flat(layout) or len(shapes) != 1 or len(shapes[0]) != 2 or shapes[0][1] == 0:
            return [self]
        if shapes[0][0] != sum(layout.block_extents(b)[0] for b in layout.blocks_of(rank)):
            return [self]  # not rows, but an array of a wrong shape
        columns = self._arrays[0].T
        if self._blocks is None:
            return [UserArrays(column, self._ghost) for column in columns]
        (block,) = self._blocks
        return [UserArrays({block: column}, self._ghost) for column in columns]

    def _ghosts(self, layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the widths on the lower and the upper sides."""
        return _per_side(self._ghost, block_dims(layout))

    def _by_block(
        self, layout: Layout, rank: int, default_dtype: np.dtype | None = None
    ) -> dict[int, np.ndarray]:
        """Return the array of each block; blocks without elements need no array."""
        blocks = list(layout.blocks_of(rank))
        dtype = self.dtype or default_dtype or np.dtype("u1")
        named, listed = self._blocks, self._arrays
        if named is None and not blocks and all(array.size == 0 for array in listed):
            return {}
        if named is None and len(listed) != len(blocks):
            remedy = "the blocks of one array as a mapping {block: array}"
            raise Mismatch(
                f"process {rank} passed {len(listed)} arrays for its {len(blocks)} blocks; pass "
                + (remedy if blocks else "{} on a process that owns no block")
            )
        for block in named or ():
            if not isinstance(block, Integral):
                raise WrongType(f"the arrays have a key {block!r}; keys are numbers of blocks")
        numbers = blocks if named is None else map(int, named)
        given = dict(zip(numbers, listed, strict=True))
        # Empty blocks need no array, and theirs may have extents that the blocks do not.
        for block in [b for b in blocks if b not in given or given[b].size == 0]:
            shape, (lower, upper) = layout.block_extents(block), self._ghosts(layout)
            if 0 in shape and not any(lower) and not any(upper):
                given[block] = np.empty(shape, dtype)
        if missing := set(blocks).difference(given):
            raise Mismatch(f"process {rank} passed no array for its block {min(missing)}")
        if more := set(given).difference(blocks):
            raise Mismatch(f"process {rank} passed block {min(more)}, but owns only {blocks}")
        return given

    def __repr__(self) -> str:
        if not self._arrays:
            return "UserArrays(no block)"
        arrays = f"{len(self._arrays)} blocks"
        if len(self._arrays) == 1:
            arrays = "x".join(map(str, self._arrays[0].shape)) or "one element"
        has_ghosts = not isinstance(self._ghost, Integral) or self._ghost != 0
        ghost = f", ghost={self._ghost!r}" if has_ghosts else ""
        return f"UserArrays({arrays} of {self.dtype}{ghost})"

    def _part(self, layout: Layout, rank: int, default_dtype: np.dtype) -> Any:
        """Return the part that movers bind."""
        dtype = self.dtype or default_dtype
        described = self._placed_blocks(layout, rank, default_dtype)
        writable = all(array.flags.writeable for array in self._arrays)
        return core().user_part(
            layout, described, dtype.itemsize, number_name(dtype), writable, self._arrays
        )

    def _interiors(self, layout: Layout, rank: int) -> Iterator[tuple[int, np.ndarray]]:
        """Iterate over the blocks as (number, view without ghosts)."""
        lower, upper = self._ghosts(layout)
        for block, array in self._by_block(layout, rank).items():
            if array.ndim != len(lower):
                raise InvalidArgument(
                    f"block {block} has the shape {array.shape}; its layout has {len(lower)} "
                    "dimensions"
                )
            yield block, _inside(array, lower, upper)

    def _placed_blocks(
        self, layout: Layout, rank: int, default_dtype: np.dtype | None = None
    ) -> list[tuple]:
        """Return (block, address, shape, byte strides, ghosts below, above) each."""
        lower, upper = self._ghosts(layout)
        return [
            (block, a.__array_interface__["data"][0], a.shape, a.strides, lower, upper)
            for block, a in self._by_block(layout, rank, default_dtype).items()
        ]
