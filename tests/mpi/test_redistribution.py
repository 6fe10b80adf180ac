# SPDX-License-Identifier: BSD-3-Clause
"""Redistributions: every element arrives, for any two layouts, any memory and any transport."""

import drawn
import numpy as np
import pytest

import datamover as dm
from datamover.mpi import core

TRANSPORTS = ["auto", *(name for name in core().transports() if name != "self")]
OPS = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


@pytest.fixture
def local_rng(comm, rng):
    return np.random.default_rng([int(rng.integers(2**31)), comm.rank])


def draw_plan(rng, nprocs):
    """Two layouts of any kind, axes, and sometimes a section; with the shapes on both sides."""
    uneven = rng.random() < 0.25
    shape = drawn.uneven_shape(rng) if uneven else drawn.shape(rng)
    axes = tuple(int(a) for a in rng.permutation(len(shape)))
    permuted = tuple(shape[a] for a in axes)
    kinds = [drawn.layout, drawn.uneven_ranges if uneven else drawn.layout]
    draw_source, draw_destination = (kinds[i] for i in rng.permutation(2))
    source = draw_source(rng, shape, nprocs)
    destination = draw_destination(rng, permuted, nprocs)
    if rng.random() < 0.5:
        return dm.redistribute(source, destination, axes=axes), shape, axes, None
    extent = [int(rng.integers(1, n + 1)) for n in shape]
    lo = [int(rng.integers(0, n - e + 1)) for n, e in zip(shape, extent, strict=True)]
    to = [int(rng.integers(0, permuted[k] - extent[a] + 1)) for k, a in enumerate(axes)]
    section = dm.Region(lo, [x + e for x, e in zip(lo, extent, strict=True)])
    target = dm.Region(to, [x + extent[a] for x, a in zip(to, axes, strict=True)])
    flip = rng.random(len(shape)) < rng.choice([0, 0.6])
    plan = dm.redistribute(
        source, destination, axes, source_region=section, destination_region=target, flip=flip
    )
    read = [slice(*s.indices(n)) for s, n in zip(section.slices(), shape, strict=True)]
    for k, a in enumerate(axes):
        if flip[k]:
            end = section.lo[a] - 1 if section.lo[a] else None
            read[a] = slice(section.hi[a] - 1, end, -1)
    return plan, shape, axes, (tuple(read), target.slices())


def expected(whole, before, axes, section, op):
    """What NumPy makes of it."""
    combine = OPS.get(op, lambda old, new: new)
    result = before.copy()
    if section is None:
        return combine(before, whole.transpose(axes)).astype(before.dtype)
    result[section[1]] = combine(before[section[1]], whole[section[0]].transpose(axes))
    return result


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("op", [None, *OPS])
def test_any_layout_to_any_other(comm, rng, local_rng, cases, transport, op):
    for _ in range(cases * (12 if op is None else 4)):
        plan, shape, axes, section = draw_plan(rng, comm.size)
        dtype = drawn.DTYPES if op is None else drawn.NUMBER_DTYPES
        dtype = np.dtype(dtype[rng.integers(len(dtype))])
        library = True if transport == "shared" else None
        source = drawn.Part(comm, rng, local_rng, plan.source, dtype, library)
        destination = drawn.Part(comm, rng, local_rng, plan.destination, dtype)
        whole = drawn.numbered(shape, dtype)
        before = np.zeros(tuple(shape[a] for a in axes), dtype)
        if op is not None:
            before[...] = 3
        arguments = (plan, source.arrays, destination.arrays)
        options = {"op": op, "transport": transport, "comm": comm}
        options["max_bytes"] = limit = drawn.max_bytes(rng, comm.size)
        if drawn.impossible(plan, transport):
            with pytest.raises(dm.errors.Unsupported):
                dm.Mover(*arguments, **options)
            continue
        mover = dm.Mover(*arguments, **options)
        for factor in (1, 2):
            if dtype.kind in "iufc":
                whole = (whole * factor).astype(dtype)
            source.fill(whole)
            destination.fill(before)
            mover()
            destination.assert_holds(expected(whole, before, axes, section, op))
            source.assert_holds(whole)
        assert limit is None or mover.counters()["extra_bytes"] <= limit
        mover.close()


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0)])
def test_an_array_without_elements_moves_nothing(comm, shape):
    words = ", ".join(["block", "cyclic(2)"][: len(shape)])
    none = [[]] * comm.size
    kinds = [
        dm.BlockCyclic(shape, words, nprocs=comm.size),
        dm.FlatCyclic(shape, 2, comm.size),
        dm.IndexList(shape, none),
        dm.FloorPlan([dm.Region.from_shape(shape)], [0], nprocs=comm.size),
    ]
    for source in kinds:
        a = dm.Array(source, "f8", comm=comm)
        for destination in kinds:
            b = dm.Array(destination, "f8", ghost=0, comm=comm)
            plan = dm.redistribute(source, destination)
            dm.Mover(plan, a, b)()
            assert plan.outgoing(comm.rank) == {} and str(dm.explain(plan))
            if source is destination:
                dm.Mover(plan, a, a)()
    local = dm.Array(kinds[0], "f8", comm=comm).local
    assert local.shape == kinds[0].local_shape(comm.rank) and local.size == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_there_and_back_is_the_identity(comm, rng, local_rng, cases, transport):
    for _ in range(cases * 4):
        shape = drawn.shape(rng)
        plan = dm.redistribute(
            drawn.block_cyclic(rng, shape, comm.size), drawn.layout(rng, shape, comm.size)
        )
        if drawn.impossible(plan, transport):
            continue
        source = drawn.Part(comm, rng, local_rng, plan.source, "i8", transport == "shared" or None)
        middle = drawn.Part(
            comm, rng, local_rng, plan.destination, "i8", transport == "shared" or None
        )
        whole = drawn.numbered(shape, "i8")
        source.fill(whole)
        dm.Mover(plan, source.arrays, middle.arrays, transport=transport, comm=comm)()
        source.fill(np.full_like(whole, -1))
        back = dm.redistribute(plan.destination, plan.source)
        if drawn.impossible(back, transport):
            continue
        dm.Mover(back, middle.arrays, source.arrays, transport=transport, comm=comm)()
        source.assert_holds(whole)


class Numbered:
    """Blocks of one process, as a dictionary from global indices to numbers fills them."""

    def __init__(self, comm, layout, library):
        self.blocks = {b: (shape, at) for b, shape, at in drawn.indices_in(layout, comm.rank)}
        self.arrays = dm.Array(layout, "i8", comm=comm) if library else {}
        if not library:
            self.arrays = {b: np.zeros(shape, "i8") for b, (shape, _) in self.blocks.items()}

    def fill(self, number):
        """Set each element to the number of its index."""
        for block, (shape, indices) in self.blocks.items():
            self.arrays[block][...] = np.array([number(i) for i in indices], "i8").reshape(shape)

    def assert_holds(self, number):
        """Each element is the number of its index."""
        for block, (shape, indices) in self.blocks.items():
            want = np.array([number(i) for i in indices], "i8").reshape(shape)
            np.testing.assert_array_equal(self.arrays[block], want)


def held_by(layout):
    """All indices that any process holds."""
    return {
        index
        for rank in range(layout.nprocs)
        for _, _, indices in drawn.indices_in(layout, rank)
        for index in indices
    }


def number_of(index):
    """A number of its own for each index."""
    return sum((i + 50) * 1000**d for d, i in enumerate(index))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_index_goes_to_the_same_index_wherever_layouts_begin(comm, rng, cases, transport):
    refused = moved = 0
    for _ in range(cases * 40):
        dims = int(rng.integers(1, 4))
        axes = tuple(int(a) for a in rng.permutation(dims)) if rng.random() < 0.5 else None
        source, destination = (drawn.layout_anywhere(rng, dims, comm.size) for _ in range(2))
        library = transport == "shared" or bool(rng.integers(2))
        partial, check = bool(rng.random() < 0.7), bool(rng.integers(2))
        order = axes or range(dims)
        held = {tuple(index[a] for a in order): number_of(index) for index in held_by(source)}
        missing = held_by(destination) - held.keys()
        a, b = Numbered(comm, source, library), Numbered(comm, destination, False)
        a.fill(number_of)
        b.fill(lambda index: -number_of(index))
        options = {"transport": transport, "comm": comm, "check": check}
        if missing and not partial:
            refused += 1
            with pytest.raises(dm.Mismatch, match="pass partial=True") as raised:
                plan = dm.redistribute(source, destination, axes)
                dm.Mover(plan, a.arrays, b.arrays, **options)
            named = [tuple(i[order.index(k)] for k in range(dims)) for i in missing]
            words = [f"index {index if dims > 1 else f'({index[0]})'} of" for index in named]
            assert any(word in str(raised.value) for word in words), str(raised.value)
            b.assert_holds(lambda index: -number_of(index))
            continue
        plan = dm.redistribute(source, destination, axes, partial=partial)
        if drawn.impossible(plan, transport):
            continue
        moved += 1
        dm.Mover(plan, a.arrays, b.arrays, **options)()
        b.assert_holds(lambda index, held=held: held.get(index, -number_of(index)))
        a.assert_holds(number_of)
    assert refused and (moved or drawn.NODE_SIZE)


def test_a_list_that_one_process_knows_is_refused_on_all(comm):
    """The domains do not show that the last process alone needs what nobody holds."""
    mine = [comm.rank] if comm.rank < comm.size - 1 else [comm.rank, comm.size + 3]
    line = dm.BlockCyclic(comm.size, "block", nprocs=comm.size)
    (needed,) = dm.advanced.index_lists(comm.size + 5, mine, partners=[line], comm=comm)
    (fewer,) = dm.advanced.index_lists(comm.size + 5, mine[:1], partners=[line], comm=comm)
    a, b = np.array([10 + comm.rank]), np.full(len(mine), -1)
    with pytest.raises(
        dm.Mismatch, match=rf"index \({comm.size + 3}\) of the source.*partial=True"
    ):
        dm.Mover(dm.redistribute(line, needed), a, b, comm=comm)
    dm.Mover(dm.redistribute(line, needed, partial=True), a, b, comm=comm)()
    assert b.tolist() == [10 + comm.rank, -1][: len(mine)]
    dm.Mover(dm.redistribute(line, fewer), a, b[:1], comm=comm)()
    back = dm.redistribute(line, fewer).reversed()
    a[...] = 0
    dm.Mover(back, b[:1], a, comm=comm)()
    assert a == 10 + comm.rank


def test_eight_dimensions_and_one(comm, rng, local_rng):
    for dims in (1, 8):
        shape = drawn.shape(rng, dims)
        plan = dm.redistribute(
            drawn.block_cyclic(rng, shape, comm.size),
            drawn.block_cyclic(rng, shape[::-1], comm.size),
            axes=tuple(range(dims))[::-1],
        )
        source = drawn.Part(comm, rng, local_rng, plan.source, "f4")
        destination = drawn.Part(comm, rng, local_rng, plan.destination, "f4")
        whole = drawn.numbered(shape, "f4")
        source.fill(whole)
        dm.Mover(plan, source.arrays, destination.arrays, comm=comm)()
        destination.assert_holds(whole.T)


def test_bytes_sent_are_bytes_received(comm, rng, cases):
    for _ in range(cases * 10):
        plan, *_ = draw_plan(rng, comm.size)
        sent = {rank: plan.outgoing(rank) for rank in range(comm.size)}
        received = {rank: plan.incoming(rank) for rank in range(comm.size)}
        assert {(s, d): n for s, to in sent.items() for d, n in to.items()} == {
            (s, d): n for d, of in received.items() for s, n in of.items()
        }


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_number_types_convert_as_numpy_does(comm, rng, local_rng, cases, transport):
    for _ in range(cases * 8):
        plan, shape, axes, section = draw_plan(rng, comm.size)
        names = drawn.NUMBER_DTYPES
        source_type, destination_type = (
            np.dtype(names[i]) for i in rng.integers(len(names), size=2)
        )
        source = drawn.Part(
            comm, rng, local_rng, plan.source, source_type, transport == "shared" or None
        )
        destination = drawn.Part(comm, rng, local_rng, plan.destination, destination_type)
        whole = drawn.numbered(shape, source_type)
        before = np.full([shape[a] for a in axes], 5, destination_type)
        source.fill(whole)
        destination.fill(before)
        options = {"transport": transport, "comm": comm}
        options["max_bytes"] = drawn.max_bytes(rng, comm.size)
        if not np.can_cast(source_type, destination_type, "same_kind"):
            with pytest.raises(dm.errors.WrongType):
                dm.Mover(plan, source.arrays, destination.arrays, **options)
            destination.assert_holds(before)
            continue
        if drawn.impossible(plan, transport):
            continue
        dm.Mover(plan, source.arrays, destination.arrays, **options)()
        converted = whole.astype(destination_type)
        destination.assert_holds(expected(converted, before, axes, section, None))


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("dtype", ["f8", "c16", "f4"])
def test_scaled_conjugated_sum(comm, rng, local_rng, transport, dtype):
    """The matrix update B = alpha * conj(A).T + beta * B."""
    alpha, beta = (2 - 1j, 0.5j) if dtype == "c16" else (2.0, 0.5)
    shape = (13, 8)
    plan = dm.redistribute(
        drawn.block_cyclic(rng, shape, comm.size),
        drawn.block_cyclic(rng, shape[::-1], comm.size),
        axes=(1, 0),
    )
    if drawn.impossible(plan, transport):
        pytest.skip("the transport does not reach over nodes")
    source = drawn.Part(comm, rng, local_rng, plan.source, dtype, transport == "shared" or None)
    destination = drawn.Part(comm, rng, local_rng, plan.destination, dtype)
    whole = drawn.numbered(shape, dtype)
    if dtype == "c16":
        whole = whole + 1j * whole[::-1]
    before = np.full(shape[::-1], 4, dtype)
    source.fill(whole)
    destination.fill(before)
    dm.Mover(
        plan, source.arrays, destination.arrays, op="add", alpha=alpha, beta=beta,
        conjugate=dtype == "c16", transport=transport, comm=comm,
    )()  # fmt: skip
    want = alpha * (np.conj(whole).T if dtype == "c16" else whole.T) + beta * before
    destination.assert_holds(want.astype(dtype))


@pytest.mark.parametrize("source", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "c8"])
@pytest.mark.parametrize("destination", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16"])
def test_small_floats_are_floats(comm, source, destination):
    """Each is converted to any other, in several arrays too, and no imaginary part is cut off."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    source, destination = (
        np.dtype(getattr(ml_dtypes, name, name)) for name in (source, destination)
    )
    rows = dm.BlockCyclic((8, 2 * comm.size), "(*, block)", nprocs=comm.size)
    columns = dm.BlockCyclic((2 * comm.size, 8), "(*, block)", nprocs=comm.size)
    plan = dm.redistribute(rows, columns, axes=(1, 0))
    numbers = np.arange(16 * comm.size).reshape(8, -1) % 7 - 2.5
    mine = numbers[np.ix_(*rows.global_indices(comm.rank))].astype(source)
    out = [np.zeros(columns.local_shape(comm.rank), t) for t in (destination, source)]
    if source.kind == "c":
        with pytest.raises(dm.errors.WrongType, match="same_kind"):
            dm.Mover(plan, [mine, mine], out, comm=comm)
        return
    dm.Mover(plan, [mine, mine], out, comm=comm)()
    want = numbers.astype(source).astype("f4").T[np.ix_(*columns.global_indices(comm.rank))]
    assert np.array_equal(out[0], want.astype(destination))
    assert np.array_equal(out[1], want.astype(source))
