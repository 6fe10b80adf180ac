# SPDX-License-Identifier: BSD-3-Clause
"""Fourier transforms of distributed arrays, compared with transforms of the whole array."""

import gc
import weakref

import drawn
import numpy as np
import pytest
from test_redistribution import local_rng  # noqa: F401  (a fixture)

import datamover as dm
from datamover.fft import local

TOLERANCE = {"f": 1e-4, "d": 1e-11, "g": 1e-11}
DTYPES = ["f4", "f8", "c8", "c16"]


@pytest.fixture(params=["default", "scipy", "numpy"])
def engine(request, monkeypatch):
    """The library that transforms local arrays."""
    if request.param != "default":
        monkeypatch.setattr(local, "_pyfftw", None)
    if request.param == "numpy":
        monkeypatch.setattr(local, "_scipy", None)
    if request.param == "scipy":
        monkeypatch.setattr(local, "_NUMPY_WRITES", False)


def signed(modes):
    """The frequencies of a spectrum."""
    return (np.arange(modes) + modes // 2 - (modes % 2 == 0)) % modes - (modes - 1) // 2


def waves(points, modes, sign):
    """A matrix of one row per point, and one column per mode; the highest may stand for two."""
    phase = 2j * np.pi * sign / points
    found = np.exp(phase * np.outer(np.arange(points), signed(modes)))
    if modes % 2 == 0 and points > modes:
        found[:, modes // 2] += found[:, modes // 2].conj()
    return found


def along(matrix, array, axis):
    """Multiply each line of an array along an axis by a matrix."""
    return np.moveaxis(np.tensordot(matrix, array, (1, axis)), 0, axis)


def forward_of(whole, modes, axes, norm):
    """The spectrum by sums of waves."""
    result, points = whole.astype("c16"), whole.shape
    for axis in axes:
        result = along(waves(points[axis], modes[axis], -1).T, result, axis)
    if np.isrealobj(whole):
        result = result.take(range(modes[axes[-1]] // 2 + 1), axes[-1])
    return result * scale(points, axes, norm, "backward")


def scale(points, axes, norm, without):
    n = np.prod([points[a] for a in axes])
    return 1 if norm == without else n**-0.5 if norm == "ortho" else 1 / n


def backward_of(spectrum, points, modes, axes, norm, real):
    """The values at points by sums of waves."""
    result = spectrum.astype("c16")
    for axis in axes[: -1 if real else None]:
        result = along(halved(points[axis], modes[axis]), result, axis)
    if real:
        axis = axes[-1]
        matrix = halved(points[axis], modes[axis])[:, : modes[axis] // 2 + 1].copy()
        matrix[:, 1 : (modes[axis] + 1) // 2] *= 2
        result = along(matrix.real, result.real, axis) - along(matrix.imag, result.imag, axis)
    return result * scale(points, axes, norm, "forward")


def halved(points, modes):
    """Waves of which the highest is the mean of both that it stands for."""
    found = waves(points, modes, 1)
    if modes % 2 == 0 and points > modes:
        found[:, modes // 2] /= 2
    return found


def assert_close(part, whole):
    for block, index in drawn.indices_of_blocks(part.layout, part.rank):
        found, expected = part.blocks[block], whole[index]
        tolerance = TOLERANCE[found.dtype.char.lower()]
        np.testing.assert_allclose(
            found, expected, rtol=0, atol=tolerance * max(1, abs(whole).max())
        )
    for around in part._around:
        around.assert_padding_untouched()


def cyclic_layout(rng, shape, nprocs):
    """Cyclic blocks along one axis, so that the first stage can transform the others."""
    split = int(rng.integers(len(shape)))
    words = ["*"] * len(shape)
    words[split] = f"cyclic({rng.integers(1, max(2, shape[split] // nprocs))})"
    text = ", ".join(words)
    return dm.BlockCyclic(shape, str(rng.choice([text, f"({text})", f" ( {text} ) "])), nprocs)


def draw_plan(comm, rng, dtype):
    """A random plan with its modes, axes and normalization."""
    dims = int(rng.integers(1, 5))
    modes = tuple(int(n) for n in rng.integers(1, {1: 40, 2: 14, 3: 9, 4: 6}[dims], dims))
    axes = tuple(int(a) for a in rng.permutation(dims)[: int(rng.integers(1, dims + 1))])
    padding = 1
    if rng.random() < 0.4:
        padding = [float(rng.choice([1, 1.5, 1.5, 2])) if d in axes else 1 for d in range(dims)]
    norm = str(rng.choice(["backward", "ortho", "forward"]))
    options = {"axes": axes, "padding": padding, "norm": norm}
    plain = dm.fft.Plan(modes, dtype, comm=comm, **options)
    if rng.random() < 0.7:
        draw = drawn.layout if rng.random() < 0.6 else cyclic_layout
        options["layout"] = draw(rng, plain.input_shape, comm.size)
    if rng.random() < 0.4:
        options["output_layout"] = drawn.layout(rng, plain.output_shape, comm.size)
    fft = dm.fft.Plan(modes, dtype, comm=comm, **options) if len(options) > 3 else plain
    return fft, modes, axes, norm


def random_array(rng, shape, dtype):
    values = rng.standard_normal((2, *shape))
    complex_values = values[0] + 1j * values[1]
    return (complex_values if np.dtype(dtype).kind == "c" else values[0]).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_plan_equals_sums_of_waves(comm, rng, local_rng, cases, dtype, engine):  # noqa: F811
    for _ in range(cases * 8):
        fft, modes, axes, norm = draw_plan(comm, rng, dtype)
        whole = random_array(rng, fft.input_shape, dtype)
        spectrum = forward_of(whole, modes, axes, norm)
        assert fft.output_shape == spectrum.shape
        u = drawn.Part(comm, rng, local_rng, fft.input.layout, dtype)
        u_hat = drawn.Part(comm, rng, local_rng, fft.output.layout, fft.output.dtype)
        u.fill(whole)
        assert fft.forward(u.arrays, u_hat.arrays) is u_hat.arrays
        u.assert_holds(whole)
        assert_close(u_hat, spectrum)
        anything = random_array(rng, fft.output_shape, fft.output.dtype)
        u_hat.fill(anything)
        fft.backward(u_hat.arrays, u.arrays)
        u_hat.assert_holds(anything)
        points = fft.input_shape
        real = np.dtype(dtype).kind == "f"
        assert_close(u, backward_of(anything, points, modes, axes, norm, real))


@pytest.mark.parametrize("dtype", DTYPES)
def test_without_padding_it_equals_numpy(comm, rng, local_rng, cases, dtype):  # noqa: F811
    for _ in range(cases * 4):
        shape = drawn.shape(rng, elems=1500)
        axes = rng.permutation(len(shape))[: rng.integers(1, len(shape) + 1)].tolist()
        fft = dm.fft.Plan(shape, dtype, axes=axes, comm=comm)
        whole = random_array(rng, shape, dtype)
        transform = np.fft.fftn if np.dtype(dtype).kind == "c" else np.fft.rfftn
        u = drawn.Part(comm, rng, local_rng, fft.input.layout, dtype)
        u_hat = drawn.Part(comm, rng, local_rng, fft.output.layout, fft.output.dtype)
        u.fill(whole)
        fft.forward(u.arrays, u_hat.arrays)
        assert_close(
            u_hat, transform(whole.astype("f8" if transform is np.fft.rfftn else "c16"), axes=axes)
        )
        fft.backward(u_hat.arrays, u.arrays)
        assert_close(u, whole)


def test_extended_precision_is_kept(comm, rng):
    shape = (12, 10, 9)
    fft = dm.fft.Plan(shape, "g", comm=comm)
    whole = rng.random(shape).astype("g") + np.finfo("f8").eps / 4
    mine = np.ix_(*fft.input.layout.global_indices(comm.rank))
    fft.forward(whole[mine])
    assert fft.output.dtype == "G"
    result = np.empty(whole[mine].shape, "g")
    fft.backward(out=result)
    np.testing.assert_allclose(result, whole[mine], rtol=0, atol=20 * np.finfo("g").eps)


def test_energy_is_that_of_the_modes(comm, rng):
    """Parseval's theorem."""
    for shape in [(30,), (9, 14), (8, 5, 7)]:
        fft = dm.fft.Plan(shape, "c16", norm="ortho", comm=comm)
        u = random_array(rng, fft.input.layout.local_shape(comm.rank), "c16")
        u_hat = fft.forward(u).interior()
        before, after = (comm.allreduce(float((abs(x) ** 2).sum())) for x in (u, u_hat))
        assert before > 0 and np.isclose(before, after, rtol=1e-12)


def test_padding_by_two_keeps_the_values_in_between(comm, rng):
    modes = (8, 7, 6)
    exact = dm.fft.Plan(modes, "f8", norm="forward", comm=comm)
    layout = dm.BlockCyclic([2 * n for n in modes], "(block, *, *)", comm.size)
    fine = dm.fft.Plan(
        modes,
        "f8",
        layout=layout,
        padding=2,
        norm="forward",
        output_layout=exact.output.layout,
        comm=comm,
    )
    u_hat = random_array(rng, (*modes[:2], 4), "c16")[
        np.ix_(*exact.output.layout.global_indices(comm.rank))
    ]
    coarse = exact.backward(u_hat).interior()
    wanted = np.zeros(modes)
    wanted[np.ix_(*exact.input.layout.global_indices(comm.rank))] = coarse
    wanted = comm.allreduce(wanted)
    found = fine.backward(u_hat).interior()
    indices = layout.global_indices(comm.rank)
    even = [ix % 2 == 0 for ix in indices]
    at = [ix[e] // 2 for ix, e in zip(indices, even, strict=True)]
    np.testing.assert_allclose(found[np.ix_(*even)], wanted[np.ix_(*at)], rtol=0, atol=1e-12)


def test_products_of_waves_have_no_aliases(comm):
    """With 3/2 of the points, a product of the highest waves does not alias to lower modes."""
    n = 9
    fft = dm.fft.Plan((n, 4), "c16", axes=0, padding=1.5, norm="forward", comm=comm)
    points = fft.input_shape[0]
    (x, _) = np.meshgrid(*fft.input.layout.global_indices(comm.rank), indexing="ij")
    wave = np.exp(2j * np.pi * (n // 2) * x / points)
    result = fft.forward(wave * wave).interior()
    np.testing.assert_allclose(result, 0, atol=1e-14)


def test_default_stages_have_few_exchanges(comm):
    n = 4 * comm.size
    fft = dm.fft.Plan((n, n, n), "f8", comm=comm)
    assert repr(fft).count("axes ") == (2 if comm.size > 1 else 1)
    fields = dm.fft.Plan((n, 6, 6), "f8", axes=(1, 2), comm=comm)
    assert repr(fields).count("axes ") == 1
    assert fields.input.layout.local_shape(comm.rank) == (4, 6, 6)
    small = dm.fft.Plan((2, 2, 2), "c16", comm=comm)
    assert repr(small).count("axes ") == (1 if comm.size == 1 else 3 if comm.size > 3 else 2)


def test_an_array_may_be_source_and_destination(comm, rng):
    shape = (6, 5)
    fft = dm.fft.Plan(shape, "c16", output_layout=None, comm=comm)
    same = dm.fft.Plan(
        shape, "c16", layout=fft.input.layout, output_layout=fft.input.layout, comm=comm
    )
    whole = random_array(rng, shape, "c16")
    mine = np.ix_(*fft.input.layout.global_indices(comm.rank))
    u = whole[mine]
    assert same.forward(u, u) is u
    np.testing.assert_allclose(u, np.fft.fftn(whole)[mine], atol=1e-12)
    same.backward(u, u)
    np.testing.assert_allclose(u, whole[mine], atol=1e-12)
    same.input.interior()[...] = u
    assert same.forward(same.input, same.output) is same.output
    np.testing.assert_allclose(same.output.interior(), np.fft.fftn(whole)[mine], atol=1e-12)


def test_several_in_flight(comm, rng):
    shape = (10, 9, 8)
    plans = [dm.fft.Plan(shape, "f8", comm=comm) for _ in range(3)]
    wholes = [rng.random(shape) for _ in plans]
    for fft, whole in zip(plans, wholes, strict=True):
        fft.forward.start(whole[np.ix_(*fft.input.layout.global_indices(comm.rank))])
    with pytest.raises(dm.errors.InvalidState, match="in flight"):
        plans[0].forward.start()
    with pytest.raises(dm.errors.InvalidState, match="not started"):
        plans[0].backward.wait()
    while not plans[1].forward.test():
        pass
    for fft, whole in reversed(list(zip(plans, wholes, strict=True))):
        result = fft.forward.wait(60)
        mine = np.ix_(*result.layout.global_indices(comm.rank))
        np.testing.assert_allclose(result.interior(), np.fft.rfftn(whole)[mine], atol=1e-11)
    with pytest.raises(dm.errors.InvalidState):
        plans[2].forward.wait()


@pytest.mark.parametrize("words", ["(*, cyclic(2))", "*, cyclic(2)", " ( *, cyclic(2) ) "])
@pytest.mark.parametrize("options", [{"dtype": "f8"}, {"dtype": "c16", "padding": (1.5, 1)}])
def test_the_first_stage_keeps_a_cyclic_layout(comm, words, options):
    n = 4 * comm.size
    points = 4 if options["dtype"] == "f8" else 6
    layout = dm.BlockCyclic((points, n), words, comm.size)
    fft = dm.fft.Plan((4, n), layout=layout, axes=0, comm=comm, **options)
    before, after = (x.layout.global_indices(comm.rank)[1] for x in (fft.input, fft.output))
    np.testing.assert_array_equal(before, after)


def plans(comm):
    """Make a plan with an exchange, if there are several processes, and one without."""
    rows = dm.BlockCyclic((6, 5), "(block, *)", comm.size)
    for axes in ((0, 1), 1):
        yield dm.fft.Plan((6, 5), "c16", layout=rows, axes=axes, output_layout=rows, comm=comm)


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize(
    ("error", "timeout"),
    [
        (dm.errors.InvalidArgument, -1),
        (dm.errors.InvalidArgument, float("nan")),
        (dm.errors.WrongType, "x"),
    ],
)
def test_a_wrong_timeout_is_an_error_of_all_and_changes_nothing(comm, error, timeout, everywhere):
    is_wrong = everywhere or comm.rank == comm.size - 1
    for fft in plans(comm):
        u = np.full(fft.input.interior().shape, 2, "c16")
        fft.input.interior()[...] = 1
        with pytest.raises(error, match="timeout"):
            fft.forward(u, timeout=timeout if is_wrong else None)
        assert (fft.input.interior() == 1).all()
        fft.forward.start(u)
        if is_wrong:
            with pytest.raises(error, match="timeout"):
                fft.forward.wait(timeout)
        assert fft.forward.wait(60) is fft.output


def test_different_transforms_are_an_error_of_all(comm, rng):
    if comm.size == 1:
        return
    plans = [dm.fft.Plan((4, 6), "c16", comm=comm) for _ in range(2)]
    odd = comm.rank == comm.size - 1
    before = plans[0].input.interior().copy()
    with pytest.raises(dm.Mismatch, match=r"forward of plan.*backward of plan"):
        (plans[0].backward if odd else plans[0].forward)()
    with pytest.raises(dm.Mismatch, match=r"forward of plan \d+.*forward of plan \d+"):
        plans[odd].forward.start()
    np.testing.assert_array_equal(plans[0].input.interior(), before)
    whole = rng.random((4, 6)) + 0j
    result = plans[0].forward(whole[np.ix_(*plans[0].input.layout.global_indices(comm.rank))])
    mine = np.ix_(*result.layout.global_indices(comm.rank))
    np.testing.assert_allclose(result.interior(), np.fft.fftn(whole)[mine], atol=1e-12)


def test_memory_is_released_with_the_plan(comm):
    gc.collect()
    gc.disable()
    try:
        for fft in plans(comm):
            u = fft.input.interior().copy()
            fft.backward(fft.forward(u, u), u)
            held = [weakref.ref(x) for x in (fft, fft.forward, fft.input, fft.output)]
            del fft
            assert [ref() for ref in held] == [None] * 4
    finally:
        gc.enable()


def test_a_plan_that_is_dropped_in_flight_ends_the_transforms_of_the_others(comm):
    own = comm.Dup()  # of no use afterwards
    n = 2 * comm.size  # each process has elements in both layouts, so that all wait for the last
    rows = dm.BlockCyclic((n, n), "(block, *)", comm.size)
    gc.collect()
    gc.disable()
    try:
        fft = dm.fft.Plan((n, n), "c16", layout=rows, output_layout=rows, comm=own)
        fft.forward.start()
        comm.barrier()  # nobody hears of it in start()
        if comm.rank == comm.size - 1:
            held = weakref.ref(fft.forward)
            del fft
            assert held() is None
        else:
            with pytest.raises(dm.errors.PeerFailed):
                fft.forward.wait(60)
    finally:
        gc.enable()


WRONG = {
    "dtype": (dm.errors.WrongType, {"dtype": "i4"}),
    "half precision": (dm.errors.WrongType, {"dtype": "f2"}),
    "byte order": (dm.errors.WrongType, {"dtype": ">f8"}),
    "no dtype": (dm.errors.WrongType, {"dtype": "many"}),
    "repeated axis": (dm.errors.InvalidArgument, {"axes": (0, -2)}),
    "no axis": (dm.errors.InvalidArgument, {"axes": ()}),
    "axis beyond": (dm.errors.OutOfRange, {"axes": 2}),
    "axis of a name": (dm.errors.WrongType, {"axes": "x"}),
    "extent": (dm.errors.InvalidArgument, {"shape": (4, 0)}),
    "no extent": (dm.errors.InvalidArgument, {"shape": ()}),
    "factor below 1": (dm.errors.InvalidArgument, {"padding": 0.5}),
    "infinite factor": (dm.errors.InvalidArgument, {"padding": float("inf")}),
    "factor without a transform": (dm.errors.InvalidArgument, {"padding": (1.5, 1), "axes": 1}),
    "factors": (dm.Mismatch, {"padding": (1.5, 1, 1)}),
    "factor of True": (dm.errors.WrongType, {"padding": True}),
    "norm": (dm.errors.InvalidArgument, {"norm": "forwards"}),
    "layout": (dm.errors.WrongType, {"layout": "slabs"}),
    "argument": (dm.errors.WrongType, {"layouts": None}),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("everywhere", [True, False])
def test_wrong_arguments_are_an_error_of_all(comm, case, everywhere):
    error, wrong = WRONG[case]
    right = {"shape": (4, 6), "dtype": "f8"}
    mine = right | (wrong if everywhere or comm.rank == comm.size - 1 else {})
    with pytest.raises(error):
        dm.fft.Plan(comm=comm, **mine)
    assert dm.fft.Plan(comm=comm, **right).output_shape == (4, 4)


def test_layouts_of_other_arrays_are_refused(comm):
    wrong = [
        dm.BlockCyclic((4, 5), "(block, *)", comm.size),
        dm.BlockCyclic((4, 6), "(block, *)", comm.size + 1),
        dm.FloorPlan([dm.Region((0, 1), (4, 6))], [0], comm.size),
        dm.FloorPlan([dm.Region((0, 0), (1, 1)), dm.Region((3, 5), (4, 6))], [0, 0], comm.size),
        dm.IndexList((4, 6), [[0, 1]] + [[]] * (comm.size - 1)),
    ]
    for layout in wrong:
        for name in ("layout", "output_layout"):
            with pytest.raises(dm.Mismatch):
                dm.fft.Plan((4, 6), "c16", comm=comm, **{name: layout})


def test_different_arguments_are_an_error_of_all(comm):
    if comm.size == 1:
        return
    odd = comm.rank == comm.size - 1
    rows, columns = (dm.BlockCyclic((4, 6), w, comm.size) for w in ("(block, *)", "(*, block)"))
    lists = [[k for k in range(24) if k % comm.size == r] for r in range(comm.size)]
    for options in (
        {"shape": (4, 7 if odd else 6)},
        {"dtype": "f4" if odd else "f8"},
        {"axes": (0, 1) if odd else (1, 0)},
        {"padding": 1.5 if odd else 1},
        {"norm": "ortho" if odd else "forward"},
        {"layout": rows if odd else columns},
        {"layout": dm.IndexList((4, 6), lists[::-1] if odd else lists)},
        {"output_layout": None if odd else dm.BlockCyclic((4, 4), "(block, *)", comm.size)},
    ):
        with pytest.raises(dm.Mismatch, match=r"different (options|layouts)"):
            dm.fft.Plan(comm=comm, **{"shape": (4, 6), "dtype": "f8", **options})


@pytest.mark.parametrize("name", ["layout", "output_layout"])
@pytest.mark.parametrize("everywhere", [True, False])
def test_index_lists_that_each_process_knows_alone_are_refused(comm, name, everywhere):
    if comm.size == 1:
        return
    lists = [np.arange(24)[rank :: comm.size] for rank in range(comm.size)]
    own = dm.advanced.index_lists(24, lists[comm.rank], comm=comm)[0]
    given = own if everywhere or comm.rank == comm.size - 1 else dm.IndexList(24, lists)
    with pytest.raises(
        dm.errors.Unsupported, match="needs an IndexList that knows the lists of all"
    ):
        dm.fft.Plan(24, "c16", comm=comm, **{name: given})


def test_wrong_arrays_are_an_error_of_all(comm, rng):
    fft = dm.fft.Plan((4 * comm.size, 6), "f8", comm=comm)
    shape = fft.input.layout.local_shape(comm.rank)
    u = rng.random(shape)
    u_hat = np.full(fft.output.layout.local_shape(comm.rank), 7, "c16")
    locked = u_hat.copy()
    locked.flags.writeable = False
    other = dm.Array(dm.BlockCyclic((4 * comm.size, 6), "(cyclic, *)", comm.size), comm=comm)
    for error, a, b in (
        (dm.Mismatch, u[:, :5], u_hat),
        (dm.errors.WrongType, u.astype("c16"), u_hat),
        (dm.errors.WrongType, u, u_hat.real.copy()),
        (dm.errors.WrongType, u.tolist(), u_hat),
        (dm.errors.InvalidArgument, u, locked),
        (dm.Mismatch, {17: u}, u_hat),
        (dm.errors.InvalidArgument, u, np.broadcast_to(u_hat[:1], u_hat.shape)),
        *([(dm.Mismatch, other, u_hat)] if comm.size > 1 else []),
    ):
        for everywhere in (True, False):
            is_wrong = everywhere or comm.rank == 0
            with pytest.raises(error):
                fft.forward(a if is_wrong or a is other else u, b if is_wrong else u_hat)
            assert (u_hat == 7).all()
    fft.forward(u, u_hat)
    result = np.empty(shape)
    fft.backward(u_hat, result)
    np.testing.assert_allclose(result, u, atol=1e-13)


def test_numbers_are_converted(comm, rng):
    fft = dm.fft.Plan((6, 4), "c16", comm=comm)
    whole = rng.random((6, 4)).astype("f4")
    mine = np.ix_(*fft.input.layout.global_indices(comm.rank))
    out = np.empty(fft.output.layout.local_shape(comm.rank), "c8")
    fft.forward(whole[mine], out)
    expected = np.fft.fftn(whole)[np.ix_(*fft.output.layout.global_indices(comm.rank))]
    np.testing.assert_allclose(out, expected, atol=1e-5)


def split(n, nprocs, rank):
    """The part of an axis that a process has: the first ones have one more."""
    few, more = divmod(n, nprocs)
    first = rank * few + min(rank, more)
    return slice(first, first + few + (rank < more))


def test_transfer_moves_between_pencils(comm, rng, cases):
    for _ in range(cases * 12):
        dims = int(rng.integers(2, 5))
        shape = tuple(int(n) for n in rng.integers(1, 9, dims))
        axes = [int(a) for a in rng.permutation(dims)[:2]]
        dtype = np.dtype(str(rng.choice(["i4", "f4", "f8", "g", "c16"])))
        whole = drawn.numbered(shape, dtype)
        parts = []
        for other in reversed(axes):
            index = [slice(None)] * dims
            index[other] = split(shape[other], comm.size, comm.rank)
            parts.append(whole[tuple(index)].copy())
        a, b = parts
        signs = rng.choice([0, dims], 2)
        named = [int(axis - sign) for axis, sign in zip(axes, signs, strict=True)]
        transfer = dm.fft.Transfer(comm, shape, dtype, a.shape, named[0], b.shape, named[1])
        for turn in range(4):
            to, back = np.zeros_like(b), np.zeros_like(a)
            if turn == 2 and comm.rank == 0:
                to, back = last  # noqa: F821  (of the turn before)
                to[...], back[...] = 0, 0
            transfer.forward(a, to)
            np.testing.assert_array_equal(to, b)
            transfer.backward(to, back)
            np.testing.assert_array_equal(back, a)
            last = to, back  # noqa: F841
        transfer.destroy()
        with pytest.raises(dm.errors.InvalidState):
            transfer.forward(a, to)


def arguments_of_transfer(comm):
    """Arrays in two pencils, and what makes a transfer between them."""
    rows, columns = (split(n, comm.size, comm.rank) for n in (8, 6))
    a, b = np.zeros((8, columns.stop - columns.start)), np.zeros((rows.stop - rows.start, 6))
    return a, b, [comm, (8, 6), "f8", a.shape, 0, b.shape, 1]


def test_a_transfer_that_one_process_destroyed_is_refused_on_all(comm):
    a, b, right = arguments_of_transfer(comm)
    transfer = dm.fft.Transfer(*right)
    transfer.forward(a, b)
    last = comm.size - 1
    if comm.rank == last:
        transfer.destroy()
        assert not transfer._bound
    for move, ends in ((transfer.forward, (a, b)), (transfer.backward, (b, a))):
        with pytest.raises(
            dm.errors.InvalidState, match=f"process {last} has destroyed the transfer"
        ):
            move(*ends)
    transfer.destroy()
    transfer.destroy()
    with pytest.raises(dm.errors.InvalidState, match="process 0 has destroyed"):
        transfer.forward(a, b)


def test_transfer_refuses_on_all_processes(comm):
    a, b, right = arguments_of_transfer(comm)
    for error, at, value in (
        (dm.errors.InvalidArgument, 6, 0),
        (dm.errors.OutOfRange, 6, 2),
        (dm.errors.WrongType, 3, 9),
        (dm.errors.WrongType, 2, object),
        (dm.errors.WrongType, 4, "x"),
    ):
        for everywhere in (True, False):
            given = list(right)
            if everywhere or comm.rank == comm.size - 1:
                given[at] = value
            with pytest.raises(error):
                dm.fft.Transfer(*given)
    transfer = dm.fft.Transfer(*right)
    transfer.forward(a, b)
    is_last = comm.rank == comm.size - 1
    for error, value in (
        (dm.Mismatch, None),
        (dm.errors.WrongType, {1: "x"}),
        (dm.Mismatch, b[:, :5]),
    ):
        with pytest.raises(error):
            transfer.forward(a, value if is_last else b)
        a[...] = 5
        b[...] = 0
        transfer.forward(a, b)
        assert (b == 5).all()


def test_a_transfer_of_other_arrays_than_before(comm):
    """New dictionaries of arrays are not mistaken for those of the last call."""
    a, b, right = arguments_of_transfer(comm)
    transfer = dm.fft.Transfer(*right)
    for value in (1, 2):
        there, back = np.full_like(b, -1), np.full_like(a, -1)
        transfer.forward({comm.rank: np.full_like(a, value)}, {comm.rank: there})
        assert (there == value).all()
        transfer.backward({comm.rank: there}, {comm.rank: back})
        assert (back == value).all()


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4)])
def test_an_array_of_other_dimensions_is_named(comm, shape):
    layout = dm.BlockCyclic((8, 6), "(block, *)", nprocs=comm.size)
    plan = dm.fft.Plan((8, 6), "f8", layout=layout, comm=comm)
    with pytest.raises(dm.errors.InvalidArgument, match="its layout has 2 dimensions"):
        plan.forward(np.zeros(shape))
