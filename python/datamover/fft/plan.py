# SPDX-License-Identifier: BSD-3-Clause
"""Plans of distributed Fourier transforms, carried out any number of times."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from ..arguments import integers, is_several, seconds
from ..arrays import Array, UserArrays
from ..collective_calls import agreeing, leaving, refused_by
from ..deprecated import comm_by_place
from ..errors import InvalidArgument, InvalidState, Mismatch, Unsupported, WrongType
from ..layouts import Layout, Region, checked
from ..movers import Mover
from ..mpi import collectively, comm_address, core, gathered
from ..plans import MotionPlan, redistribute
from .local import check_engine, steps
from .stages import Extents, Stage, dimension, stages

if TYPE_CHECKING:
    from mpi4py import MPI

    Arrays = Array | UserArrays | np.ndarray | Mapping[int, np.ndarray] | None

NORMS = ("backward", "ortho", "forward")
_numbers = itertools.count(1)  # of the plans that this process has made


class Plan:
    """Transforms an array that is distributed in any layout, forward and backward.

    `forward` and `backward` are a `Transform` each. The plan has work arrays and movers, which all
    calls use, so only one transform of a plan can be in flight. Collective to make.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the array, without padding.
    dtype : dtype
        Of the array that `forward` reads: single, double or long double precision. A transform of
        real numbers computes the non-negative frequencies of the last of `axes`, as
        `numpy.fft.rfftn`.
    layout : BlockCyclic, FloorPlan, IndexList or FlatCyclic, optional
        Layout of the array that `forward` reads, of shape ``input_shape``. By default, the one that
        needs the fewest exchanges.
    axes : int or sequence of int, optional
        Axes to transform, each once. By default all.
    padding : float or sequence of float
        Factor of the number of points along each transformed axis, or one for each dimension; 1.5
        removes aliasing of quadratic terms. `forward` reads ``floor(n * padding)`` points and
        returns n modes, `backward` the reverse.
    output_layout : BlockCyclic, FloorPlan, IndexList or FlatCyclic, optional
        Layout of the array that `forward` writes, of shape ``output_shape``. By default, that of
        the last stage.
    norm : {"backward", "ortho", "forward"}
        Which direction is divided by the number of points, as in `numpy.fft`. With "forward", the
        modes do not depend on the padding.
    comm : mpi4py.MPI.Comm
        The processes. It must exist as long as the plan.

    Attributes
    ----------
    input_shape, output_shape : tuple of int
        Shapes of the whole array before and after `forward`.
    input, output : Array
        Work arrays at both ends, with their layouts and dtypes. Every transform overwrites both.
    forward, backward : Transform
        The two directions.

    Raises
    ------
    Error
        On all processes. `Mismatch` if a layout is for another shape or number of processes, or
        processes pass different arguments; `Unsupported` for an `IndexList` of which each process
        knows only its own list; `WrongType` if the dtype is not one of the above;
        `InvalidArgument` if an axis is repeated, an extent is not positive or a factor is below 1;
        `OutOfRange` if there is no such axis.

    Notes
    -----
    Along each transformed axis there is a stage in which every process has all points. So the
    product of the other extents limits the number of processes that take part in a stage; a
    one-dimensional array is transformed by one process.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm
    >>> fft = dm.fft.Plan((8, 6), "c16", axes=0, padding=1.5, comm=MPI.COMM_SELF)
    >>> fft.input_shape, fft.output_shape
    ((12, 6), (8, 6))
    """

    @comm_by_place(1)
    @refused_by(agreeing)
    def __init__(
        self,
        shape: int | Sequence[int],
        dtype: DTypeLike,
        *,
        layout: Layout | None = None,
        axes: int | Sequence[int] | None = None,
        padding: float | Sequence[float] = 1,
        output_layout: Layout | None = None,
        norm: str = "backward",
        comm: MPI.Comm,
    ):
        address = comm_address(comm)
        self.comm = comm

        def prepare() -> tuple[np.dtype, Extents, list[Stage], list[tuple[str, str]]]:
            check_engine()
            if norm not in NORMS:
                raise InvalidArgument(f"norm is {norm!r}, it must be one of {', '.join(NORMS)}")
            number = _dtype(dtype)
            extents = _extents(shape, axes, padding, number.kind == "f")
            _check_layout(layout, "layout", extents.shape(()), comm.size)
            _check_layout(output_layout, "output_layout", extents.shape(extents.axes), comm.size)
            passed = [("options", f"{extents}, dtype={number}, norm={norm!r}")]
            passed += [("layouts", _digest(given)) for given in (layout, output_layout)]
            return number, extents, stages(extents, comm.size, layout), passed

        number, extents, chosen, passed = collectively(address, prepare)
        core().require_same(address, passed, "passed")
        self.input_shape, self.output_shape = extents.shape(()), extents.shape(extents.axes)
        self._stages = chosen
        there: list[Any] = []  # movers, and calculations on local arrays
        back: list[Any] = []
        self.input = array = Array(
            chosen[0].before if layout is None else layout, number, comm=comm
        )

        def move(array: Array, layout: Layout) -> Array:
            if array.layout == layout:
                return array
            other = Array(layout, array.dtype, comm=comm)
            there.append(Mover(redistribute(array.layout, layout), array, other))
            back.insert(0, Mover(redistribute(layout, array.layout), other, array))
            return other

        complex_number = np.result_type(number, np.complex64)
        for stage in chosen:
            before = array = move(array, stage.before)
            if stage.after != stage.before or before.dtype != complex_number:
                array = Array(stage.after, complex_number, comm=comm)
            for block in before.blocks:
                forward, backward = steps(before[block], array[block], stage.axes, extents, norm)
                there += forward
                back[:0] = backward
        self.output = array if output_layout is None else move(array, output_layout)
        running: list[int | None] = [None]
        # The same on all processes, and of no other plan on the communicator.
        number = gathered(address, [next(_numbers)])[0][0]
        ends = (self.input, self.output)
        names = [f"{direction} of plan {number}" for direction in ("forward", "backward")]
        self.forward = Transform(comm, names[0], ends, there, running)
        self.backward = Transform(comm, names[1], ends[::-1], back, running)

    def __repr__(self) -> str:
        parts = [f"{array.dtype} in {array.layout!r}" for array in (self.input, self.output)]
        parts += [f"axes {stage.axes} in {stage.before!r}" for stage in self._stages]
        return f"Plan({'; '.join(parts)})"


class Transform:
    """One direction of a `Plan`. Collective to call and to start.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm
    >>> fft = dm.fft.Plan(4, "f8", comm=MPI.COMM_SELF)
    >>> fft.forward(np.arange(4.0)).local
    array([ 6.+0.j, -2.+2.j, -2.+0.j])
    >>> u = np.empty(4)
    >>> fft.backward(out=u)
    array([0., 1., 2., 3.])
    """

    def __init__(
        self,
        comm: Any,
        name: str,
        ends: tuple[Array, Array],
        steps: list[Any],
        running: list[Any],
    ):
        self.comm = comm
        self._name = name
        self._has_peers = comm.size > 1
        # The id of the one that is in flight. Both directions share the list instead of the plan,
        # which holds them: a cycle would keep its shared memory, and a mover in flight that was
        # dropped, until Python collects garbage.
        self._running = running
        self._ends = ends
        self._steps = steps
        self._left: Iterator[Mover] = iter(())
        self._mover: Mover | None = None
        self._out: Any = None

    @refused_by(agreeing)
    def __call__(self, u: Arrays = None, out: Arrays = None, timeout: float | None = None) -> Any:
        """Do `start` and `wait`; return what `wait` returns.

        A wrong timeout on one process is an error on all, before anything is written.
        """
        self._begin(u, out, timeout)
        return self.wait(timeout)

    @refused_by(agreeing)
    def start(self, u: Arrays = None, out: Arrays = None) -> None:
        """Begin a transform: transform what is local, and start the first exchange. Collective.

        Waits for all processes to call it, but not for the exchange.

        Parameters
        ----------
        u : Array, ndarray, mapping of block to ndarray, or UserArrays, optional
            The array to transform, which is only read. By default, the values are already in the
            work array, `Plan.input` of `forward` or `Plan.output` of `backward`.
        out : Array, ndarray, mapping of block to ndarray, or UserArrays, optional
            Where the result is stored; may be `u`. By default, it stays in the other work array.

        Raises
        ------
        Error
            On all processes, before anything is written: `Mismatch` for another layout or shape,
            `WrongType` if the dtype cannot be converted under "same_kind", `InvalidArgument` if
            `out` is read-only, `InvalidState` if a transform of the plan is in flight. `Mismatch`
            if processes start different transforms.
        """
        self._begin(u, out)

    def _begin(self, u: Arrays, out: Arrays, timeout: float | None = None) -> None:
        def prepare() -> list[list[tuple[np.ndarray, np.ndarray]]]:
            seconds(timeout)
            if self._running[0] is not None:
                raise InvalidState("a transform of this plan is in flight: call its wait() first")
            return [self._pairs(u, "u", 0), self._pairs(out, "out", 1)]

        address = comm_address(self.comm)
        read, write = collectively(address, prepare)
        core().require_same(address, [("transforms", self._name)], "begin")
        for theirs, mine in read:
            np.copyto(mine, theirs, casting="same_kind")
        self._out, self._left = out, _run(self._steps, write)
        self._running[0] = id(self)
        self._go_on()

    def test(self) -> bool:
        """Do what can be done now; return whether the transform is complete on this process.

        Call `wait` in either case: it returns the result, and the plan can be used again.
        """
        self._require_started()
        while self._mover is not None and self._mover.test():
            self._go_on()
        return self._mover is None

    def wait(self, timeout: float | None = None) -> Any:
        """Complete the transform; return `out`, or by default the work array with the result.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait for each exchange before `Timeout` is raised. The transform is still in
            flight then, and you can call `wait` again.
        """
        seconds(timeout)
        self._require_started()
        while self._mover is not None:
            self._mover.wait(timeout)
            self._go_on()
        self._running[0] = None
        result, self._out = self._out, None
        return self._ends[1] if result is None else result

    def __del__(self) -> None:
        # The others would wait for exchanges that this process will not start. Local.
        if getattr(self, "_mover", None) is not None and self._has_peers:
            with contextlib.suppress(Exception):  # MPI may have ended, or the communicator
                core().fail(comm_address(self.comm), "a transform in flight was deleted")

    def _require_started(self) -> None:
        if self._running[0] != id(self):
            raise InvalidState("this transform was not started: call start() first")

    @refused_by(leaving)
    def _go_on(self) -> None:
        """Calculate until the next exchange is in flight."""
        try:
            self._mover = next(self._left, None)
        except BaseException:
            self._running[0] = None
            raise

    def _pairs(self, given: Arrays, name: str, end: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pair the blocks of an array that is passed with those of a work array."""
        own = self._ends[end]
        if given is None or given is own:
            return []
        arrays = given if isinstance(given, (Array, UserArrays)) else UserArrays(given)
        if isinstance(arrays, Array):
            arrays._require_rank(self.comm.rank)
            if arrays.layout != own.layout:
                raise Mismatch(f"{name} is in {arrays.layout!r}, and the plan in {own.layout!r}")
        elif end:
            arrays._refuse_overlaps()
        pairs = []
        for block, array in arrays._interiors(own.layout, self.comm.rank):
            mine = own[block]
            if array.shape != mine.shape:
                where = f"process {self.comm.rank}: block {block} of {name}"
                raise Mismatch(f"{where} has shape {array.shape}; it must be {mine.shape}")
            old, new = (array.dtype, mine.dtype)[:: -1 if end else 1]
            if not np.can_cast(old, new, "same_kind"):
                raise WrongType(f"{name} has dtype {array.dtype}; the plan has {mine.dtype}")
            if end and not array.flags.writeable:
                raise InvalidArgument(f"{name} is read-only")
            pairs.append((array, mine))
        return pairs


def _run(steps: list[Any], write: list[tuple[np.ndarray, np.ndarray]]) -> Iterator[Mover]:
    """Carry out the steps, and copy the result; yield each mover once it is in flight."""
    for step in steps:
        if isinstance(step, Mover):
            step.start()
            yield step
        else:
            step()
    for theirs, mine in write:
        np.copyto(theirs, mine, casting="same_kind")


def _dtype(dtype: DTypeLike) -> np.dtype:
    number = np.dtype(dtype)
    if number.char not in "fdgFDG" or not number.isnative:
        raise WrongType(
            f"dtype is {number}; it must be float32, float64 or longdouble, or complex of one of "
            "these precisions, in this machine's byte order: convert by astype"
        )
    return number


def _extents(shape: Any, axes: Any, padding: Any, real: bool) -> Extents:
    """Check the arguments that determine all extents."""
    modes = integers(shape, "shape")
    if not modes or min(modes) < 1:
        raise InvalidArgument(f"shape is {shape!r}; it must have positive extents")
    dims = len(modes)
    named = range(dims) if axes is None else integers(axes, "axes")
    chosen = tuple(dimension(axis, dims) for axis in named)
    if not chosen or len({*chosen}) < len(chosen):
        raise InvalidArgument(f"axes is {axes!r}; it must name at least one axis, and each once")
    one_for_all = [1 if axis not in chosen else padding for axis in range(dims)]
    factors = list(padding) if is_several(padding) else one_for_all
    if len(factors) != dims:
        raise Mismatch(f"padding is {padding!r}; it must have {dims} factors, or be a number")
    points = tuple(map(_points, modes, factors))
    if any(factors[axis] != 1 for axis in {*range(dims)}.difference(chosen)):
        raise InvalidArgument(f"padding is {padding!r}; it must be 1 for axes without a transform")
    return Extents(points, modes, chosen, chosen[-1] if real else None)


def _points(n: int, factor: Any) -> int:
    if not isinstance(factor, Real) or isinstance(factor, bool):
        raise WrongType(f"padding has a factor {factor!r}, it must be a number")
    if not 1 <= (times := float(factor)) < math.inf:
        raise InvalidArgument(f"padding has a factor {factor!r}; it must be at least 1, and finite")
    return math.floor(n * times + 1e-9)


def _check_layout(layout: Layout | None, name: str, shape: tuple[int, ...], nprocs: int) -> None:
    if layout is None:
        return
    if checked(layout).nprocs != nprocs:
        raise Mismatch(f"{name} is for {layout.nprocs} processes, the communicator has {nprocs}")
    if layout.domain != Region((0,) * len(shape), shape):
        raise Mismatch(f"{name} is of {layout.domain!r}; the array has shape {shape}")


def _digest(layout: Layout | None) -> str:
    """Describe a layout so that different ones differ."""
    if layout is None:
        return "None"
    try:
        described = MotionPlan(layout, layout).to_bytes()
    except Unsupported:
        raise Unsupported(
            "a Plan needs an IndexList that knows the lists of all processes; this one, of "
            "index_lists, knows only its own: make it by IndexList(shape, lists)"
        ) from None
    return f"{layout!r} {hashlib.sha256(described).hexdigest()[:8]}"
