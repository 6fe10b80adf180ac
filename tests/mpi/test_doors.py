# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of other libraries as both ends of movers: random distributions, compared with NumPy.

The libraries' classes are stand-ins (`foreign_arrays`) with the attributes that they document.
"""

import itertools
import math
from types import SimpleNamespace

import foreign_arrays as foreign
import numpy as np
import pytest
from foreign_arrays import box_values
from mpi4py import MPI

import datamover as dm


def cuts(rng, extent, parts):
    """Ends of random ranges, some of them empty."""
    inner = np.sort(rng.integers(0, extent + 1, parts - 1))
    return [0, *inner.tolist(), extent]


def random_shape(rng, dims=None):
    return tuple(rng.integers(1, 8, dims or int(rng.integers(1, 4))).tolist())


def even(extent, parts, at):
    """Start and extent of a part as mpi4py-fft and pylops-mpi cut: larger ones first."""
    n, more = divmod(extent, parts)
    return at * n + min(at, more), n + (at < more)


class Case:
    """A foreign array, the flat indices of its elements here, and its memory.

    `values` is the array that the library shows its user, and `wanted` what it is to hold.
    """

    def __init__(self, x, shape, values, wanted, /, **options):
        self.x, self.shape, self.options = x, shape, options
        self.values, self.wanted = values, wanted


def vec(comm, rng):
    ends = cuts(rng, 13, comm.size)
    wanted = np.arange(ends[comm.rank], ends[comm.rank + 1])
    values = np.zeros(len(wanted))
    return Case(foreign.Vec(comm, ends, values), (13,), values, wanted)


def grid(comm, rng, dof=None):
    dims = int(rng.integers(1, 4))
    procs = rng.permutation([comm.size, *(1,) * (dims - 1)])
    widths = [rng.integers(1, 4, p).tolist() for p in procs]
    da = foreign.DMDA(comm.rank, widths, dof=int(rng.integers(1, 3)))
    shape = tuple(reversed(da.getSizes())) + ((da.dof,) if da.dof > 1 else ())
    own = list(reversed(da.getRanges())) + ([(0, da.dof)] if da.dof > 1 else [])
    return da, shape, own


def vec_of_grid(comm, rng):
    da, shape, own = grid(comm, rng)
    wanted = box_values(shape, *zip(*own, strict=True)).ravel()
    values = np.zeros(wanted.size)
    return Case(foreign.Vec(comm, None, values, da), shape, values, wanted)


def index_set(comm, rng):
    order = rng.permutation(17)
    wanted = order[comm.rank :: comm.size]
    values = np.zeros(len(wanted))
    case = Case(foreign.IS(comm, wanted), (17,), values, wanted, shape=17)
    case.memory = values
    return case


def function(comm, rng):
    ends, width = cuts(rng, 11, comm.size), int(rng.integers(1, 4))
    own = (ends[comm.rank], ends[comm.rank + 1])
    others = np.setdiff1d(np.arange(11), np.arange(*own))
    index_map = foreign.IndexMap(comm, own, 11, others[::2])
    x = foreign.Function(index_map, width)
    wanted = np.arange(own[0] * width, own[1] * width)
    return Case(x, (11 * width,), x.x.array[: len(wanted)], wanted)


def dist_array(comm, rng):
    components = () if rng.random() < 0.5 else (2,)
    shape = (comm.size + 2, *random_shape(rng))
    start, extent = even(shape[0], comm.size, comm.rank)
    zeros = (0,) * (len(shape) - 1)
    pencil = foreign.Pencil(shape, (start, *zeros), (extent, *shape[1:]))
    x = foreign.DistArray.make(pencil, components)
    lo, whole = (*(0,) * len(components), start, *zeros), components + shape
    wanted = box_values(whole, lo, [a + n for a, n in zip(lo, x.shape, strict=True)])
    return Case(x, whole, x.view(np.ndarray), wanted)


def pylops(comm, rng):
    shape = random_shape(rng)
    axis = int(rng.integers(len(shape)))
    ends = cuts(rng, shape[axis], comm.size)
    lo, hi = [0] * len(shape), list(shape)
    lo[axis], hi[axis] = ends[comm.rank], ends[comm.rank + 1]
    wanted = box_values(shape, lo, hi)
    x = foreign.DistributedArray(comm, shape, axis, np.zeros(wanted.shape))
    return Case(x, shape, x.local_array, wanted)


def broadcast(comm, rng):
    shape = random_shape(rng)
    local, wanted = np.zeros(shape), box_values(shape, (0,) * len(shape), shape)
    partition = str(rng.choice(["BROADCAST", "UNSAFE_BROADCAST"]))
    return Case(foreign.DistributedArray(comm, shape, 0, local, partition), shape, local, wanted)


def heat(comm, rng):
    shape = random_shape(rng)
    split = int(rng.integers(-1, len(shape)))
    lo, hi = [0] * len(shape), list(shape)
    if split >= 0:
        ends = cuts(rng, shape[split], comm.size)
        lo[split], hi[split] = ends[comm.rank], ends[comm.rank + 1]
    wanted = box_values(shape, lo, hi)
    values = np.zeros(wanted.shape)
    x = foreign.DNDarray(comm, shape, None if split < 0 else split, values)
    return Case(x, shape, values, wanted)


def chunks(extent, parts):
    """Ranges as torch.chunk cuts them, and empty ones after those."""
    width = max(1, -(-extent // parts))
    return [(min(i * width, extent), min((i + 1) * width, extent)) for i in range(parts)]


def mesh_of(comm, rng):
    """A mesh of all processes, in random order, and what each dimension of it cuts."""
    grid = (comm.size,) if comm.size % 2 or rng.random() < 0.5 else (2, comm.size // 2)
    return rng.permutation(comm.size).reshape(grid)


def sharded_box(mesh, rank, shape, dims):
    """The box of a rank, cut after cut as torch.distributed.tensor does it."""
    place = [int(at[0]) for at in np.nonzero(mesh == rank)]
    box = [[0, n] for n in shape]
    for along, dim in enumerate(dims):
        if dim is not None:
            lo, hi = box[dim]
            a, b = chunks(hi - lo, mesh.shape[along])[place[along]]
            box[dim] = [lo + a, lo + b]
    return [a for a, _ in box], [b for _, b in box]


def dtensor(comm, rng):
    shape, mesh = random_shape(rng), mesh_of(comm, rng)
    dims = [None if rng.random() < 0.2 else int(rng.integers(len(shape))) for _ in mesh.shape]
    lo, hi = sharded_box(mesh, comm.rank, shape, dims)
    wanted = box_values(shape, lo, hi)
    values = np.zeros(wanted.shape)
    placements = [foreign.Replicate() if d is None else foreign.Shard(d) for d in dims]
    return Case(foreign.DTensor(shape, mesh, placements, values), shape, values, wanted)


def partitioned(comm, rng):
    shape = random_shape(rng)
    ends = cuts(rng, shape[0], 2 * comm.size)
    boxes = [((a, *(0,) * (len(shape) - 1)), (b, *shape[1:])) for a, b in itertools.pairwise(ends)]
    owners = rng.permutation([*range(comm.size)] * 2)
    wanted = [
        box_values(shape, *box) for box, o in zip(boxes, owners, strict=True) if o == comm.rank
    ]
    values = [np.zeros(w.shape) for w in wanted]
    x = foreign.Partitioned(shape, boxes, owners, values, comm.rank)
    return Case(x, shape, values, wanted)


def distarray_blocks(comm, rng):
    shape, ghost = (3 * comm.size, *random_shape(rng, 1)), int(rng.integers(0, 2))
    first, last = comm.rank == 0, comm.rank == comm.size - 1
    pad = [0 if first else ghost, 0 if last else ghost]
    own = (3 * comm.rank, 3 * comm.rank + 3)
    start, stop = own[0] - pad[0], own[1] + pad[1]
    values = np.zeros((stop - start, shape[1]))
    place = {"proc_grid_rank": comm.rank, "proc_grid_size": comm.size}
    x = foreign.Exported(
        values,
        {"dist_type": "b", "size": shape[0], "start": start, "stop": stop, "padding": pad, **place},
        {},
    )
    inner = values[pad[0] : len(values) - pad[1]]
    return Case(x, shape, inner, box_values(shape, (own[0], 0), (own[1], shape[1])))


def cyclic_indices(extent, block, procs, at):
    return [i for i in range(extent) if i // block % procs == at]


def distarray_cyclic(comm, rng):
    shape, block = random_shape(rng, 2), int(rng.integers(1, 4))
    rows = cyclic_indices(shape[0], block, comm.size, comm.rank)
    wanted = box_values(shape, (0, 0), shape)[rows]
    values = np.zeros(wanted.shape)
    start = min(comm.rank * block, shape[0])
    place = {"proc_grid_rank": comm.rank, "proc_grid_size": comm.size, "start": start}
    cyclic = {"dist_type": "c", "size": shape[0], "block_size": block, **place}
    return Case(foreign.Exported(values, cyclic, {"dist_type": "n"}), shape, values, wanted)


def distarray_unstructured(comm, rng):
    shape = random_shape(rng, 2)
    rows = rng.permutation(shape[0])[comm.rank :: comm.size]
    wanted = box_values(shape, (0, 0), shape)[rows]
    values = np.zeros(wanted.shape)
    place = {"proc_grid_rank": comm.rank, "proc_grid_size": comm.size}
    x = foreign.Exported(values, {"dist_type": "u", "size": shape[0], "indices": rows, **place}, {})
    return Case(x, shape, values, wanted)


def protocol(comm, rng):
    """An object that describes itself in JSON, in whatever layout."""
    shape = random_shape(rng, 2)
    layout = dm.BlockCyclic(shape, "(cyclic(2), *)", nprocs=comm.size)
    wanted = box_values(shape, (0, 0), shape)[np.ix_(*layout.global_indices(comm.rank))]
    values = np.zeros(wanted.shape)

    class Described:
        __distributed_layout__ = dm.layouts.to_json(layout)

        def __array__(self, dtype=None, copy=None):
            return values

    return Case(Described(), shape, values, wanted)


KINDS = [
    vec,
    vec_of_grid,
    index_set,
    function,
    dist_array,
    pylops,
    broadcast,
    heat,
    dtensor,
    partitioned,
    distarray_blocks,
    distarray_cyclic,
    distarray_unstructured,
    protocol,
]


@pytest.mark.parametrize("kind", KINDS)
def test_foreign_arrays_are_moved_in_place(comm, rng, cases, kind):
    for _ in range(4 * cases):
        case = kind(comm, rng)
        memory = getattr(case, "memory", case.x)
        layout = dm.layout_of(case.x, comm=comm, **case.options)
        assert layout == dm.layout_of(case.x, comm=comm, **case.options)
        words = ", ".join(["cyclic(2)"] + ["*"] * (len(case.shape) - 1))
        other = dm.BlockCyclic(case.shape, f"({words})", nprocs=comm.size)
        whole = box_values(case.shape, (0,) * len(case.shape), case.shape)
        part = whole[np.ix_(*other.global_indices(comm.rank))]
        dm.Mover(dm.redistribute(other, layout), part, memory, comm=comm)()
        lists = isinstance(case.values, list)
        pairs = (
            [*zip(case.values, case.wanted, strict=True)] if lists else [(case.values, case.wanted)]
        )
        for values, wanted in pairs:
            np.testing.assert_array_equal(values, wanted)
        back = np.zeros(part.shape, "f4")
        dm.Mover(dm.redistribute(layout, other), memory, back, comm=comm)()
        np.testing.assert_array_equal(back, part)


def test_a_sharded_jax_array_is_a_source(comm, rng):
    devices = np.array(
        [SimpleNamespace(process_index=p, id=(p, d)) for d in (0, 1) for p in range(comm.size)]
    )
    devices = rng.permutation(devices).reshape(2, comm.size)
    shape = (2 * comm.size * 2, 3)
    for spec in (("b", None), (("b", "a"), None), (None, None), (("a", "b"),)):
        sharding = foreign.NamedSharding(devices, ("a", "b"), spec)
        layout = dm.layout_of(sharding, shape=shape)
        axes = spec[0] if isinstance(spec[0], tuple) else (spec[0],)
        shards = []
        for place in np.ndindex(devices.shape):
            lo, hi = 0, shape[0]
            for axis in axes:
                if axis is not None:
                    k, n = place["ab".index(axis)], devices.shape["ab".index(axis)]
                    lo, hi = lo + k * (hi - lo) // n, lo + (k + 1) * (hi - lo) // n
            data = box_values(shape, (lo, 0), (hi, 3))
            data.flags.writeable = False
            if devices[place].process_index == comm.rank:
                shards.append(SimpleNamespace(device=Hashed(devices[place]), data=data))
        hashed = np.array([Hashed(d) for d in devices.flat]).reshape(devices.shape)
        sharding = foreign.NamedSharding(hashed, ("a", "b"), spec)
        x = foreign.JaxArray(shape, sharding, shards[::-1])
        assert dm.layout_of(x, comm=comm) == layout
        rows = dm.BlockCyclic(shape, "(block, *)", nprocs=comm.size)
        out = np.zeros(rows.local_shape(comm.rank))
        dm.Mover(dm.redistribute(layout, rows), x, out, comm=comm)()
        expected = box_values(shape, (0, 0), shape)[rows.global_indices(comm.rank)[0]]
        np.testing.assert_array_equal(out, expected)
        with pytest.raises(dm.errors.InvalidArgument, match="read-only"):
            dm.Mover(dm.redistribute(rows, layout), out, x, comm=comm)


class Hashed:
    """A device, which is a key."""

    def __init__(self, device):
        self.process_index, self.id = device.process_index, device.id

    def __hash__(self):
        return hash(self.id)

    def __eq__(self, other):
        return self.id == other.id


def test_ghosts_are_filled_from_owners_and_added_back(comm, rng):
    ends = cuts(rng, 14, comm.size)
    own = np.arange(ends[comm.rank], ends[comm.rank + 1])
    ghosts = rng.permutation(np.setdiff1d(np.arange(14), own))[:5]
    index_map = foreign.IndexMap(comm, (ends[comm.rank], ends[comm.rank + 1]), 14, ghosts)
    local = np.append(own, ghosts)
    v = foreign.Vec(comm, ends, own * 10.0, ghosts=ghosts)
    f = foreign.Function(index_map, 2)
    for x in (v, index_map, f):
        width = 2 if x is f else 1
        owned, with_ghosts = dm.layout_of(x), dm.layout_of(x, ghosts=True)
        indices = (local[:, None] * width + np.arange(width)).ravel()
        assert with_ghosts.indices_of(comm.rank).tolist() == indices.tolist()
        mine = np.repeat(own, width) * 10.0
        if x is f:
            f.x.array[: len(mine)] = mine
        filled = np.zeros(len(indices))
        source = mine if x is index_map else x
        plan = dm.redistribute(owned, with_ghosts)
        dm.Mover(plan, source, filled, comm=comm)()
        assert filled.tolist() == np.repeat(local * 10.0, width).tolist()
        holders = np.zeros(14)
        for all_of in comm.allgather(ghosts):
            holders[all_of] += 1
        added = np.zeros(len(mine))
        dm.Mover(plan.adjoint(), np.ones(len(indices)), added, op="add", comm=comm)()
        assert added.tolist() == np.repeat(1 + holders[own], width).tolist()


def test_indices_with_partners_are_not_gathered(comm, rng):
    ends = cuts(rng, 15, comm.size)
    v = foreign.Vec(comm, ends, np.arange(*ends[comm.rank : comm.rank + 2]) * 2.0)
    wanted = rng.permutation(15)[comm.rank :: comm.size]
    blocks = dm.layout_of(v, comm=comm)
    chosen = dm.layout_of(foreign.IS(comm, wanted), partners=[blocks])
    out = np.zeros(len(wanted))
    dm.Mover(dm.redistribute(blocks, chosen), v, out, comm=comm)()
    assert out.tolist() == (wanted * 2.0).tolist()


def test_the_local_vector_of_a_grid_is_filled_with_its_ghosts(comm, rng):
    da, shape, own = grid(comm, rng)
    layout = dm.layout_of(da)
    around = [*reversed(da.getGhostRanges())] + ([(0, da.dof)] if da.dof > 1 else [])
    wanted = box_values(shape, *zip(*around, strict=True))
    local = np.zeros(wanted.size)
    dims = len(da.widths)
    plan = dm.halo(layout, [1] * dims + [0] * (len(shape) - dims))
    v = foreign.Vec(comm, None, local, da)
    mine = box_values(shape, *zip(*own, strict=True))
    dm.Mover(dm.redistribute(layout, layout), mine, v, comm=comm)()
    dm.Mover(plan, v, v, comm=comm)()
    np.testing.assert_array_equal(local.reshape(wanted.shape), wanted)


def raised(comm, call):
    """The error of a call, which must be the same on all processes."""
    try:
        call()
        error = None
    except dm.Error as found:
        error = type(found)
        message = str(found)
    everyone = comm.allgather(error)
    assert error is not None and everyone == [error] * comm.size, everyone
    return error, message


def slab(comm, rank, shape, lo, hi):
    return foreign.Pencil(shape, lo, [b - a for a, b in zip(lo, hi, strict=True)])


def test_parts_that_do_not_fit_each_other_are_refused_on_all(comm):
    p, r = comm.size, comm.rank
    last = r == p - 1
    rows = ((r, 0), (r + 1, 3))
    good = foreign.Pencil((p, 3), rows[0], (1, 3))
    assert dm.layout_of(good, comm=comm).nprocs == p
    hole = foreign.Pencil((p, 3), rows[0], (1, 2 if last else 3))
    error, words = raised(comm, lambda: dm.layout_of(hole, comm=comm))
    assert error is dm.Mismatch and f"hold {3 * p - 1} of the {3 * p} elements" in words
    outside = foreign.Pencil((p, 3), rows[0], (2 if last else 1, 3))
    error, words = raised(comm, lambda: dm.layout_of(outside, comm=comm))
    assert error is dm.errors.OutOfRange and f"process {p - 1}" in words
    freed = foreign.Vec(comm, [*range(p + 1)], np.zeros(1))
    plan = dm.redistribute(dm.layout_of(freed, comm=comm), dm.layout_of(freed))
    if last:
        freed.destroy()
    for call in (
        lambda: dm.layout_of(freed, comm=comm),
        lambda: dm.Mover(plan, freed, np.zeros(1), comm=comm),
        lambda: dm.Mover(plan, np.zeros(1), freed, comm=comm),
    ):
        error, words = raised(comm, call)
        assert error is dm.errors.InvalidArgument and "destroyed" in words
    nothing = None if last else good
    assert raised(comm, lambda: dm.layout_of(nothing, comm=comm))[0] is dm.errors.WrongType
    twice = dm.layout_of(foreign.IS(comm, [r, r] if last else [r]))  # two copies of one element
    assert twice.local_elems(p - 1) == 2
    for start, shape in ((2**63, (p, 3)), (r, (2**63, 3))):
        large = foreign.Pencil(shape, (start, 0), (1, 3)) if last else good
        error, words = raised(comm, lambda x=large: dm.layout_of(x, comm=comm))
        assert error is dm.errors.OutOfRange and "9223372036854775808" in words
    # As numbers in a row these would be boxes of one dimension.
    flat = foreign.Pencil((2 * p,), (2 * p,) * 2 if r else (0, p), (0, 0) if r else (p, p))
    error, words = raised(comm, lambda: dm.layout_of(flat, comm=comm))
    assert error is dm.Mismatch and "must have 1 dimensions" in words
    fractions = foreign.IS(comm, [r])
    if last:
        fractions.indices = np.array([0.5])
    assert raised(comm, lambda: dm.layout_of(fractions))[0] is dm.errors.InvalidArgument


def test_an_axis_that_the_array_does_not_have_is_refused_on_all(comm):
    p, last = comm.size, comm.rank == comm.size - 1
    for everywhere in (True, False):
        axis = 2 if everywhere or last else 0
        for x in (
            foreign.DNDarray(comm, (p, 3), axis, np.zeros((1, 3))),
            foreign.DistributedArray(comm, (p, 3), axis, np.zeros((1, 3))),
        ):
            error, words = raised(comm, lambda x=x: dm.layout_of(x))
            assert error is dm.errors.OutOfRange and "split along axis 2" in words
        tensor = foreign.DTensor((p, 3), np.arange(p), [foreign.Shard(axis)], np.zeros((1, 3)))
        error, words = raised(comm, lambda x=tensor: dm.layout_of(x, comm=comm))
        assert error is dm.errors.InvalidArgument and "index out of range" in words
    index_set, blocks = foreign.IS(comm, [comm.rank]), dm.BlockCyclic(p, "(block)", p)
    partners = blocks if last else [blocks]
    error, words = raised(comm, lambda: dm.layout_of(index_set, partners=partners))
    assert error is dm.errors.WrongType and "partners is BlockCyclic" in words


def test_processes_that_differ_are_named(comm):
    p, r = comm.size, comm.rank
    if p == 1:
        return
    last = r == p - 1
    overlapping = foreign.Pencil((p, 3), (0 if last else r, 0), (1, 3))
    error, words = raised(comm, lambda: dm.layout_of(overlapping, comm=comm))
    assert error is dm.Mismatch and f"processes 0 and {p - 1} both hold" in words
    shapes = foreign.Pencil((p, 4 if last else 3), (r, 0), (1, 3))
    error, words = raised(comm, lambda: dm.layout_of(shapes, comm=comm))
    assert f": ({p}, 3) in boxes" in words and f"process 0, ({p}, 4) in boxes" in words
    kinds = foreign.IS(comm, [r]) if last else foreign.Pencil((p, 3), (r, 0), (1, 3))
    error, words = raised(comm, lambda: dm.layout_of(kinds, comm=comm))
    assert f"processes 0 and {p - 1} describe different arrays" in words
    for options in ({"shape": ()}, {"shape": p, "partners": [dm.BlockCyclic(p, "(block)", p)]}):
        said = options if last else {"shape": options["shape"] or None}
        error, words = raised(
            comm, lambda s=said: dm.layout_of(foreign.IS(comm, [r]), comm=comm, **s)
        )
        assert f"processes 0 and {p - 1} describe different arrays" in words
    layouts = foreign.Vec(comm, [0, 1 + last, *range(3, p + 2)], np.zeros(1))
    error, words = raised(comm, lambda: dm.layout_of(layouts, comm=comm))
    assert f"processes 0 and {p - 1}" in words
    half = comm.Split(r % 2, r)
    v = foreign.Vec(comm, [*range(p + 1)], np.zeros(1))
    with pytest.raises(dm.Mismatch, match=f"over {p} processes, the communicator has {half.size}"):
        dm.layout_of(v, comm=half)
    half.Free()
    block = {"dist_type": "c", "size": 2 * p, "proc_grid_size": p}
    turned = foreign.Exported(
        np.zeros(2), block | {"start": (r + 1) % p, "proc_grid_rank": (r + 1) % p}
    )
    error, words = raised(comm, lambda: dm.layout_of(turned, comm=comm))
    assert error is dm.Mismatch and "holds the part of process" in words


def test_a_shape_that_is_not_the_layouts_is_refused_and_nothing_moves(comm):
    p, r = comm.size, comm.rank
    x = foreign.DistributedArray(comm, (2 * p, 3), 0, np.zeros((2, 3)))
    layout = dm.layout_of(x)
    wrong = foreign.DistributedArray(comm, (2 * p, 3), 0, np.zeros((2, 3 if r else 4)))
    assert (
        raised(comm, lambda: dm.Mover(dm.redistribute(layout, layout), wrong, x, comm=comm))[0]
        is dm.Mismatch
    )
    flipped = foreign.DistributedArray(
        comm, (2 * p, 3), 0, np.arange(6.0).reshape(2, 3)[::-1, ::-1]
    )
    dm.Mover(dm.redistribute(layout, layout), flipped, x, comm=comm)()
    assert x.local_array.ravel().tolist() == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("wrong", ["too many", "too few"])
def test_locals_that_are_not_at_their_locations(comm, wrong):
    boxes = [((rank,), (rank + 1,)) for rank in range(comm.size)]
    x = foreign.Partitioned((comm.size,), boxes, range(comm.size), [np.zeros(1)], comm.rank)
    assert dm.layout_of(x, comm=comm).owner(comm.size - 1) == comm.size - 1
    table = x.__partitioned__
    if comm.rank == 0:
        if wrong == "too few":
            table["locals"] = []
        else:
            table["partitions"][(0,)]["location"] = comm.size if comm.size % 2 else [comm.size]
    with pytest.raises(dm.Mismatch, match=r"process 0: part \(0,\) is (not )?in 'locals'"):
        dm.layout_of(x, comm=comm)
    for part in table["partitions"].values():  # names of hosts are not compared
        part["location"] = ["node1"]
    table["locals"] = [(comm.rank,)]
    dm.layout_of(x, comm=comm)


@pytest.mark.parametrize("kind", [vec, vec_of_grid, index_set, function, pylops, heat])
@pytest.mark.parametrize("wrong", [MPI.COMM_NULL, "comm"])
def test_a_communicator_that_is_invalid_on_one_process(comm, rng, kind, wrong):
    case = kind(comm, rng)
    layout = dm.layout_of(case.x, comm=comm, **case.options)
    given = wrong if comm.rank == comm.size - 1 else comm
    for x in (case.x, dm.Array(layout, comm=comm)):
        options = case.options if x is case.x else {}
        error, words = raised(comm, lambda x=x, o=options: dm.layout_of(x, comm=given, **o))
        assert error is (dm.errors.WrongType if wrong == "comm" else dm.errors.InvalidArgument)
        assert "comm is" in words


def test_our_arrays_go_out_as_partitioned(comm, rng):
    for words, grid in (("(block, *)", (comm.size, 1)), ("(*, block)", (1, comm.size))):
        layout = dm.BlockCyclic((7, 5), words, nprocs=comm.size)
        a = dm.Array(layout, "i4", ghost=1, comm=comm)
        table = a.__partitioned__
        assert table["shape"] == (7, 5) and table["partition_tiling"] == grid
        whole = np.zeros((7, 5), int)
        for position, part in table["partitions"].items():
            (owner,) = part["location"]
            assert position[words.index("block") > 1] == owner
            corner = zip(part["start"], part["shape"], strict=True)
            whole[tuple(slice(a, a + n) for a, n in corner)] += 1
            assert (part["data"] is not None) == (owner == comm.rank)
        assert (whole == 1).all()
        (mine,) = table["locals"]
        data = table["get"](table["partitions"][mine]["data"])
        data[...] = comm.rank
        assert (a.interior() == comm.rank).all() and data.shape == layout.local_shape(comm.rank)
        assert dm.layout_of(a) is layout
        again = foreign.Partitioned((1,), [], [], [], comm.rank, **table)
        b = np.zeros(layout.local_shape(comm.rank), "i4")
        dm.Mover(dm.redistribute(dm.layout_of(again, comm=comm), layout), again, b, comm=comm)()
        assert (b == comm.rank).all()
    with pytest.raises(dm.errors.Unsupported, match="grid of boxes"):
        cyclic = dm.BlockCyclic((21, 5), "(cyclic, *)", nprocs=comm.size)
        dm.Array(cyclic, comm=comm).__partitioned__  # noqa: B018 (a property that raises)
    for ends in ((4, 2), (2, 4)):  # an overlap, and a gap
        boxes = [[[0, 0], [4, ends[0]]], [[0, ends[1]], [4, 6]]]
        plan = dm.FloorPlan(boxes, [0, 0], comm.size)
        with pytest.raises(dm.errors.Unsupported, match="do not form a grid"):
            dm.Array(plan, comm=comm).__partitioned__  # noqa: B018 (a property that raises)


def described(layout, array):
    """An object with `__distributed_layout__` that NumPy converts by calling `array`."""

    class Described:
        __distributed_layout__ = dm.layouts.to_json(layout)

        def __array__(self, dtype=None, copy=None):
            return array()

    return Described()


def test_a_destination_that_would_be_a_copy_is_refused_on_all(comm):
    layout = dm.BlockCyclic(3 * comm.size, "(block)", nprocs=comm.size)
    plan = dm.redistribute(layout, layout)
    last, values = comm.rank == comm.size - 1, np.zeros(3)
    place = {"proc_grid_size": comm.size, "proc_grid_rank": comm.rank}
    block = {"dist_type": "b", "size": 3 * comm.size, "start": 3 * comm.rank, **place}
    block["stop"] = block["start"] + 3
    for wrong, right in (
        (described(layout, values.copy), described(layout, lambda: values)),
        (foreign.Exported([0.0] * 3, block), foreign.Exported(memoryview(values), block)),
    ):
        x = wrong if last else right
        error, words = raised(comm, lambda x=x: dm.Mover(plan, np.ones(3), x, comm=comm))
        assert error is dm.errors.InvalidArgument and "converted to a copy" in words
        values[:] = 0
        dm.Mover(plan, np.ones(3), right, comm=comm)()
        assert values.tolist() == [1, 1, 1]


def test_kinds_and_indices_of_dimensions_are_not_guessed(comm):
    place = {"proc_grid_size": comm.size, "proc_grid_rank": comm.rank, "size": 2 * comm.size}
    for dim, error in (
        (
            {"dist_type": "bc", "start": 2 * comm.rank, "stop": 2 * comm.rank + 2},
            dm.errors.Unsupported,
        ),
        (
            {"dist_type": "", "start": 2 * comm.rank, "stop": 2 * comm.rank + 2},
            dm.errors.Unsupported,
        ),
        ({"dist_type": "u", "indices": np.array([True, True])}, dm.errors.WrongType),
        ({"dist_type": "u", "indices": [0, 2 * comm.size]}, dm.errors.OutOfRange),
        ({"dist_type": "u", "indices": np.array([0, 2**64 - 1], "u8")}, dm.errors.OutOfRange),
    ):
        x = foreign.Exported(np.zeros(2), dim | place)
        assert raised(comm, lambda x=x: dm.layout_of(x, comm=comm))[0] is error


def test_layouts_of_this_library_are_compared_and_returned(comm):
    n = 2 * comm.size
    (own,) = dm.advanced.index_lists(n, np.arange(2 * comm.rank, 2 * comm.rank + 2), comm=comm)
    assert dm.layout_of(own, comm=comm) is own
    a = dm.Array(dm.BlockCyclic(n, "(block)", nprocs=comm.size), ghost=1, comm=comm)
    assert dm.layout_of(a, shape=n, comm=comm) is a.layout
    last = comm.rank == comm.size - 1
    for options, words in (({"ghosts": True}, "ghosts=True"), ({"shape": n + 1}, "leave shape")):
        said = options if last else {}
        error, message = raised(comm, lambda said=said: dm.layout_of(a, comm=comm, **said))
        assert error is dm.errors.InvalidArgument and words in message
    if comm.size > 1:
        mixed = dm.BlockCyclic(n, "(block)", nprocs=comm.size) if last else own
        assert raised(comm, lambda: dm.layout_of(mixed, comm=comm))[0] is dm.Mismatch
    if comm.rank == 0:  # without comm the others take no part
        assert dm.layout_of(a) is a.layout
        with pytest.raises(TypeError, match="bad"):
            dm.layout_of(a, bad=1)


def test_a_wrong_keyword_ends_the_call_of_all_without_comm(comm):
    said = {"bad": 1} if comm.rank == comm.size - 1 else {}
    error, words = raised(comm, lambda: dm.layout_of(foreign.IS(comm, [comm.rank]), **said))
    assert error is dm.errors.WrongType and "bad" in words


@pytest.mark.parametrize("attribute", ["layout", "placements"])
def test_what_an_object_raises_becomes_an_error(attribute):
    def fails(self):
        raise RuntimeError("not loaded")

    kind = type("Lazy", (), {attribute: property(fails), "device_mesh": 1})
    kind.__module__ = "torch.distributed"
    with pytest.raises(dm.errors.InvalidArgument, match="RuntimeError: not loaded"):
        dm.layout_of(kind())
    if attribute == "placements":
        with pytest.raises(dm.errors.InvalidArgument, match="RuntimeError: not loaded"):
            dm.advanced.UserArrays(kind())


@pytest.mark.parametrize("extent", [0, 1])
def test_arrays_of_few_elements(comm, extent):
    """Most processes, or all, hold nothing."""
    shape = (extent, 3)
    local = np.full((extent if comm.rank == 0 else 0, 3), 7.0)
    x = foreign.DistributedArray(comm, shape, 0, local)
    y = foreign.DistributedArray(comm, shape, 0, np.zeros(local.shape))
    layout = dm.layout_of(x)
    dm.Mover(dm.redistribute(layout, layout), x, y, comm=comm)()
    assert (y.local_array == 7).all() and math.prod(layout.domain.shape) == 3 * extent


def test_the_default_communicator_is_that_of_all_processes(comm):
    assert comm.size == MPI.COMM_WORLD.size
    pencil = foreign.Pencil((comm.size, 2), (comm.rank, 0), (1, 2))
    assert dm.layout_of(pencil).nprocs == comm.size
