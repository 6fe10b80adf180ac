# SPDX-License-Identifier: BSD-3-Clause
"""Random layouts and arrays of the tests, and the expected location of their elements.

Layouts are drawn from a generator that is the same on every process; the memory of one process
(padding, order, strides) from one of its own. The value of an element is its global index.
"""

import os

import numpy as np

import datamover as dm
from datamover.mpi import core

NODE_SIZE = int(os.environ.get("DATAMOVER_NODE_SIZE", "0"))
DTYPES = ["f8", "i4", "u1", "i2", "c16", "f4", ">i8", "S3", "S24", [("a", "u1"), ("b", "f8")]]
NUMBER_DTYPES = ["f8", "i4", "u1", "i2", "f4", "i8", "u4", "c8", "c16"]


def shape(rng, dims=None, elems=3000):
    """A random shape of at most about `elems` elements."""
    dims = dims or int(rng.integers(1, 5))
    longest = max(2, int(elems ** (1 / dims)))
    return tuple(int(n) for n in rng.integers(1, longest + 1, dims))


def block_cyclic(rng, shape, nprocs):
    """A random block-cyclic layout: grid, blocks, offsets, order of the grid, ranks."""
    words, grid, left = [], [], nprocs
    for extent in shape:
        kind = rng.choice(["*", "block", "cyclic", "cyclic(k)"])
        p = 1 if kind == "*" else int(rng.integers(1, left + 1))
        left //= p
        grid.append(p)
        words.append(f"cyclic({rng.integers(1, extent + 1)})" if kind == "cyclic(k)" else kind)
    ranks, replicas = None, 1
    if rng.random() < 0.3:
        replicas = int(rng.integers(1, left + 1))
    if rng.random() < 0.3:
        ranks = [int(r) for r in rng.permutation(nprocs)[: np.prod(grid) * replicas]]
    return dm.BlockCyclic(
        shape,
        f"({', '.join(words)})",
        nprocs,
        grid=grid,
        first_process=[int(rng.integers(0, p)) for p in grid],
        grid_order=str(rng.choice(["C", "F"])),
        ranks=ranks,
        replicas=replicas,
    )


def floor_plan(rng, shape, nprocs):
    """A random floor plan that covers a shape: tiles, splits, or overlapping boxes."""
    domain = dm.Region((0,) * len(shape), shape)
    kind = rng.choice(["tiles", "splits", "overlapping"])
    if kind == "tiles":
        tile = [int(rng.integers(max(1, n // 4), n + 1)) for n in shape]
        return dm.FloorPlan.tiles(domain, tile, nprocs, str(rng.choice(["block", "cyclic"])))
    if kind == "splits":
        splits = [sorted({int(x) for x in rng.integers(1, n, 2)}) if n > 1 else [] for n in shape]
        return dm.FloorPlan.from_splits(domain, splits, nprocs)
    boxes = [domain]
    for _ in range(int(rng.integers(1, 5))):
        lo = [int(rng.integers(0, n)) for n in shape]
        boxes.append(
            dm.Region(lo, [int(rng.integers(a + 1, n + 1)) for a, n in zip(lo, shape, strict=True)])
        )
    rng.shuffle(boxes)
    return dm.FloorPlan(boxes, rng.integers(0, nprocs, len(boxes)).tolist(), nprocs)


def index_list(rng, shape, nprocs):
    """Random index lists: every index, some twice, also in one list, in any order."""
    n = int(np.prod(shape))
    owner = rng.integers(0, nprocs, n)
    lists = [rng.permutation(np.flatnonzero(owner == r)) for r in range(nprocs)]
    for r in range(nprocs):
        lists[r] = rng.permutation(np.r_[lists[r], rng.integers(0, n, 3)])
    return dm.IndexList(shape, lists)


def targets(rng, shape, nprocs):
    """Where single elements lie after each went to a random target, some to two or twice to one."""
    n = int(np.prod(shape))
    first = rng.integers(0, nprocs, n)
    second = np.where(rng.random(n) < 0.1, rng.integers(0, nprocs, n), -1)
    lists = [np.r_[np.flatnonzero(first == r), np.flatnonzero(second == r)] for r in range(nprocs)]
    return dm.IndexList(shape, lists)


def flat_cyclic(rng, shape, nprocs):
    """Ranges of the flattened array: of few elements, of rows, or of much of it; some owners."""
    n, row = int(np.prod(shape)), shape[-1]
    longest = int(rng.choice([5, row + 2, n + 1]))
    elems = int(rng.integers(1, longest)) * (row if rng.random() < 0.3 else 1)
    owners = None
    if rng.random() < 0.5:
        owners = rng.permutation(nprocs)[: int(rng.integers(1, nprocs + 1))].tolist()
    return dm.FlatCyclic(shape, elems, nprocs, owners=owners)


def uneven_shape(rng):
    """Many rows of few elements, all extents prime."""
    return (*(int(n) for n in rng.choice([17, 19, 23], 2)), int(rng.choice([3, 5, 7])))


def uneven_ranges(rng, shape, nprocs):
    """Ranges of a prime number of elements: with the rows of `uneven_shape` nothing repeats."""
    owners = rng.permutation(nprocs)[: int(rng.integers(max(1, nprocs - 1), nprocs + 1))].tolist()
    return dm.FlatCyclic(shape, int(rng.choice([11, 19, 29, 37, 41])), nprocs, owners=owners)


KINDS = {
    "block_cyclic": block_cyclic,
    "floor_plan": floor_plan,
    "index_list": index_list,
    "targets": targets,
    "flat_cyclic": flat_cyclic,
}


def layout(rng, shape, nprocs):
    """A random layout of any kind."""
    return KINDS[str(rng.choice(list(KINDS)))](rng, shape, nprocs)


def scattered_boxes(rng, dims, nprocs):
    """A floor plan with holes and overlaps, that begins anywhere."""
    lo = rng.integers(-6, 7, dims) + rng.integers(0, 6, (int(rng.integers(1, 7)), 1, dims))
    regions = np.concatenate([lo, lo + rng.integers(0, 7, lo.shape)], axis=1)
    return dm.FloorPlan(regions, rng.integers(0, nprocs, len(regions)), nprocs)


def sparse_lists(rng, dims, nprocs):
    """Index lists that hold some elements of an array, some of them several times."""
    shape = tuple(int(n) for n in rng.integers(1, 9, dims))
    n, share = int(np.prod(shape)), rng.uniform(0.05, 0.7)
    return dm.IndexList(
        shape, [rng.permutation(np.flatnonzero(rng.random(n) < share)) for _ in range(nprocs)]
    )


def layout_anywhere(rng, dims, nprocs):
    """A random layout whose domain begins and ends anywhere."""
    if rng.random() < 0.7:
        return (scattered_boxes if rng.random() < 0.7 else sparse_lists)(rng, dims, nprocs)
    return layout(rng, tuple(int(n) for n in rng.integers(1, 9, dims)), nprocs)


def indices_in(layout, rank):
    """For each block of a rank: its number and the global index of each element, as tuples."""
    for block in layout.blocks_of(rank):
        if isinstance(layout, dm.FloorPlan):
            region = layout.region(block)
            grid = np.indices(region.shape) + np.reshape(region.lo, (-1, *(1,) * region.dims))
        elif isinstance(layout, dm.BlockCyclic):
            grid = np.stack(np.meshgrid(*layout.global_indices(rank), indexing="ij"))
        else:
            flat = np.asarray(layout.indices_of(rank))
            grid = np.stack(np.unravel_index(flat, layout.shape))
        shape = grid.shape[1:]
        yield block, shape, [tuple(map(int, index)) for index in grid.reshape(len(grid), -1).T]


def indices_of_blocks(layout, rank):
    """For each block of a rank: its number and what indexes its elements in a global array."""
    for block in layout.blocks_of(rank):
        if isinstance(layout, dm.BlockCyclic):
            yield block, np.ix_(*layout.global_indices(rank))
        elif isinstance(layout, dm.FloorPlan):
            yield block, layout.region(block).slices()
        else:
            yield block, np.unravel_index(np.asarray(layout.indices_of(rank)), layout.shape)


def block_shape(layout, rank, block):
    """The shape of a block's local array."""
    if isinstance(layout, dm.BlockCyclic):
        return tuple(layout.local_shape(rank))
    if isinstance(layout, dm.FloorPlan):
        return tuple(layout.region(block).shape)
    return (len(layout.indices_of(rank)),)


class Poisoned:
    """Memory for an array of random order, padding, steps and directions, full of one byte."""

    BYTE = 0xA5

    def __init__(self, rng, shape, dtype):
        dtype = np.dtype(dtype)
        steps = [int(rng.choice([1, 1, 2, -1, -2])) for _ in shape]
        padded = [n * abs(s) + int(rng.integers(0, 3)) for n, s in zip(shape, steps, strict=True)]
        order = rng.permutation(len(shape))
        self._bytes = np.full(int(np.prod(padded)) * dtype.itemsize, self.BYTE, "u1")
        is_array = np.zeros_like(self._bytes)

        def array_in(memory, dtype):
            base = memory.view(dtype).reshape([padded[d] for d in order])
            base = base.transpose(np.argsort(order))[tuple(slice(None, None, s) for s in steps)]
            return base[tuple(slice(0, n) for n in shape)]

        self.array = array_in(self._bytes, dtype)
        opaque = np.dtype(f"V{dtype.itemsize}")
        array_in(is_array, opaque)[...] = np.ones(dtype.itemsize, "u1").view(opaque)[0]
        self._is_padding = is_array == 0

    def assert_padding_untouched(self):
        assert (self._bytes[self._is_padding] == self.BYTE).all()


class Ghosts:
    """The ghosts around a block of a library array, full of one byte."""

    def __init__(self, block, depth):
        self._block = block
        self._here = np.ones(block.shape, bool)
        self._here[tuple(slice(depth, n - depth) for n in block.shape)] = False
        self._poison = bytes([Poisoned.BYTE]) * block.dtype.itemsize
        block[self._here] = np.frombuffer(self._poison, block.dtype)[0]

    def assert_padding_untouched(self):
        assert self._block[self._here].tobytes() == self._poison * int(self._here.sum())


class Part:
    """One process's blocks of a layout, in any memory, and poison around them."""

    def __init__(self, comm, rng, local_rng, layout, dtype, library=None):
        self.layout, self.rank = layout, comm.rank
        library = bool(rng.integers(0, 2)) if library is None else library
        order, ghost = str(rng.choice(["C", "F"])), int(rng.integers(0, 3))
        if library:
            self.arrays = dm.Array(layout, dtype, order=order, ghost=ghost, comm=comm)
            self.blocks = {b: self.arrays.interior(b) for b in self.arrays.blocks}
            self._around = [Ghosts(self.arrays[b], ghost) for b in self.arrays.blocks]
        else:
            shapes = {b: block_shape(layout, comm.rank, b) for b in layout.blocks_of(comm.rank)}
            memory = {b: Poisoned(local_rng, shape, dtype) for b, shape in shapes.items()}
            self.blocks = {b: m.array for b, m in memory.items()}
            self.arrays = dict(self.blocks)
            self._around = list(memory.values())

    def fill(self, whole):
        """Set every element to that of a global array."""
        for block, index in indices_of_blocks(self.layout, self.rank):
            self.blocks[block][...] = whole[index]

    def assert_holds(self, whole):
        """Every element is that of a global array, and nothing around them has changed."""
        for block, index in indices_of_blocks(self.layout, self.rank):
            np.testing.assert_array_equal(self.blocks[block], whole[index])
        for around in self._around:
            around.assert_padding_untouched()


def numbered(shape, dtype):
    """A global array of its indices; what they do not fit into tells most of them apart."""
    dtype = np.dtype(dtype)
    numbers = np.arange(np.prod(shape, dtype=int))
    if dtype.kind in "iufc":
        if dtype.itemsize == 1:
            numbers = (numbers * 0x9E3779B1 >> 9) % 127
        return numbers.astype(dtype).reshape(shape)
    raw = (numbers[:, None] * 7 + np.arange(dtype.itemsize)).astype("u1") % 251 + 1
    return np.ascontiguousarray(raw).view(dtype).reshape(shape)


def max_bytes(rng, nprocs):
    """No limit, or one that leaves each message few elements at a time."""
    least = 2 * max(1, nprocs - 1) * 192
    return None if rng.random() < 0.4 else int(least * rng.uniform(1, 6))


def transports(*without):
    """List "auto" and the names of all transports but some, in order of preference."""
    return ["auto", *(name for name in core().transports() if name not in without)]


def impossible(plan, transport):
    """Whether a forced transport must be refused: it needs one node, the plan crosses nodes."""
    return core().transports().get(transport, False) and crosses_nodes(plan)


def crosses_nodes(plan):
    """Whether any pair of the plan lies on two pretend nodes."""
    if not NODE_SIZE:
        return False
    nodes = np.arange(plan.nprocs) // NODE_SIZE
    return any(
        nodes[peer] != nodes[rank]
        for rank in range(plan.nprocs)
        for peer in plan.outgoing(rank, nodes)
    )
