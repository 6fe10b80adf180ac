# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of other libraries, which export them by DLPack, in place of NumPy arrays."""

import gc

import ml_dtypes
import numpy as np
import pytest
from exporters import KEPT, OldTensor, Refusing, Stale, Tensor
from mpi4py import MPI

import datamover as dm
from datamover.dlpack import array_of

COMM = MPI.COMM_SELF
NUMBERS = ["b1", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"]
#: Codes of dlpack.h for the floats that NumPy does not have.
SMALL = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12, "float8_e4m3fnuz": 11}


def random_view(rng, dtype):
    """An array of any shape, strides and dtype."""
    shape = rng.integers(0, 4, rng.integers(0, 4))
    whole = rng.integers(0, 100, 3 * shape + 1).astype(dtype)
    steps = [
        slice(int(rng.integers(0, 2)), None, int(rng.choice([-2, -1, 1, 2, 3]))) for _ in shape
    ]
    view = whole[tuple(steps)]
    return view.transpose(rng.permutation(view.ndim)) if view.ndim else whole.reshape(())


@pytest.mark.parametrize("kind", [Tensor, OldTensor])
def test_views_have_the_same_memory_whatever_the_strides(kind):
    rng = np.random.default_rng(1)
    for _ in range(200):
        numbers = random_view(rng, rng.choice(NUMBERS))
        view = array_of(kind(numbers), "x")
        assert type(view) is np.ndarray and view.dtype == numbers.dtype
        assert np.array_equal(view, numbers) and view.flags.writeable is (kind is Tensor)
        assert numbers.size == 0 or np.shares_memory(view, numbers)
        if numbers.size:
            assert view.strides == numbers.strides


def test_the_library_frees_its_tensor_when_the_last_view_is_gone():
    tensor = Tensor(np.arange(6.0).reshape(2, 3))
    view = array_of(tensor, "x")
    row = view[1]
    del view
    gc.collect()
    assert tensor.deleted == []
    assert row.tolist() == [3, 4, 5]
    del row
    gc.collect()
    assert len(tensor.deleted) == 1


@pytest.mark.parametrize("word", SMALL)
def test_small_floats_come_as_those_of_ml_dtypes(word):
    dtype = np.dtype(getattr(ml_dtypes, word))
    numbers = np.array([[1, -2, 0.5], [0, 4, 8]]).astype(dtype)
    bits = numbers.view(f"u{dtype.itemsize}")
    view = array_of(Tensor(bits, code=SMALL[word]), "x")
    assert view.dtype == dtype and np.shares_memory(view, bits)
    assert (view.astype("f4") == numbers.astype("f4")).all()
    moved = np.zeros((2, 3), "f4")
    if word in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        dm.advanced.copy(Tensor(bits, code=SMALL[word]), moved)
        assert (moved == numbers.astype("f4")).all()


def rows(n, k):
    return dm.BlockCyclic((n, k), "(block, *)", nprocs=1)


def test_movers_read_and_write_tensors_in_place():
    a, b = np.arange(12.0).reshape(3, 4), np.zeros((4, 3))
    plan = dm.redistribute(rows(3, 4), rows(4, 3), axes=(1, 0))
    mover = dm.Mover(plan, Tensor(a), Tensor(b), comm=COMM)
    gc.collect()
    mover()
    assert (b == a.T).all()
    c = np.zeros((4, 3), "f4")
    mover.rebind({0: Tensor(a + 1)}, {0: Tensor(c)})
    mover()
    assert (c == a.T + 1).all()


@pytest.mark.parametrize("kind", [Tensor, OldTensor])
def test_read_only_tensors_are_sources_only(kind):
    a, b = kind(np.arange(4.0)), np.zeros(4)
    a.numbers.flags.writeable = False
    one = dm.BlockCyclic(4, "(block)", nprocs=1)
    dm.Mover(dm.redistribute(one, one), a, b, comm=COMM)()
    dm.advanced.copy(a, b, op="add")
    assert b.tolist() == [0, 2, 4, 6]
    with pytest.raises(dm.errors.InvalidArgument, match="read-only"):
        dm.Mover(dm.redistribute(one, one), b, a, comm=COMM)
    with pytest.raises(dm.errors.InvalidArgument, match="read-only"):
        dm.advanced.copy(b, a)
    with pytest.raises(dm.errors.InvalidArgument, match="writable"):
        dm.migrate(b, target=np.zeros(4, int), out=a, comm=COMM)
    assert a.numbers.tolist() == [0, 1, 2, 3]


def test_particles_and_their_targets_are_tensors():
    positions, numbers = np.arange(8.0).reshape(4, 2), np.arange(4)
    targets = np.array([0, -1, 0, 0])
    d = dm.Migration(Tensor(targets), comm=COMM)
    x, n = d.move([Tensor(positions), Tensor(numbers)])
    assert x.tolist() == positions[[0, 2, 3]].tolist() and n.tolist() == [0, 2, 3]
    out = np.zeros((3, 2))
    d.move(Tensor(positions), out=Tensor(out))
    assert (out == x).all()
    home = np.full((4, 2), 9.0)
    d.reverse(Tensor(out * 2), out=Tensor(home), after="move")
    assert home.tolist() == [[0, 2], [0, 0], [8, 10], [12, 14]]
    buffer = np.arange(4.0)
    dm.Migration(targets, method="partition", comm=COMM).move_in_place(Tensor(buffer), stable=True)
    assert buffer[:3].tolist() == [0, 2, 3]
    named = dm.migrate({"x": Tensor(positions), "to": Tensor(targets)}, target="to", comm=COMM)
    assert named["x"].tolist() == x.tolist()


def test_files_are_written_from_tensors_and_read_into_them(tmp_path):
    a, b = np.arange(6.0).reshape(2, 3), np.zeros((2, 3))
    path = tmp_path / "state.zarr"
    state = {"a": (Tensor(a), rows(2, 3)), "same": (Tensor(a * 2), None)}
    dm.save(path, state, comm=COMM)
    same = dm.load(path, {"a": (Tensor(b), rows(2, 3)), "same": None}, comm=COMM)["same"]
    assert (b == a).all() and (same == a * 2).all()


def test_streams_send_tensors():
    numbers = np.arange(6.0).reshape(2, 3)
    with (
        dm.Stream("tcp://127.0.0.1:0", queue_steps=3, consumers=1) as out,
        dm.stream.connect(out.address) as source,
    ):
        steps = source.steps({"u": rows(2, 3)})
        for step in range(2):
            out.send("u", Tensor(numbers + step), layout=rows(2, 3))
        assert [(next(steps)[1]["u"] - numbers).max() for _ in range(2)] == [0, 1]


class Copied(Tensor):
    """A tensor that its library exports with the flag of a copy."""

    def __dlpack__(self, **_):
        capsule = self.capsule(versioned=True)
        [*KEPT.values()][-1][1][3] |= np.uint64(2)
        return capsule


class Wrong(Tensor):
    """A tensor that is exported without an address, or with a number that is too large."""

    def __dlpack__(self, **_):
        capsule = self.capsule(versioned=True)
        _, words, shape, strides, _ = [*KEPT.values()][-1]
        if self.version[1] == 0:
            words[4] = 0
        else:
            (shape if self.version[1] == 1 else strides)[0] = 2**62
        return capsule


REFUSED = {
    "no address": (Wrong(np.zeros(3)), dm.errors.InvalidArgument, "at address 0 "),
    "a huge shape": (
        Wrong(np.zeros(3), version=(1, 1)),
        dm.errors.InvalidArgument,
        r"shape \(4611686018427387904,\)",
    ),
    "a huge stride": (
        Wrong(np.zeros(3), version=(1, 2)),
        dm.errors.InvalidArgument,
        r"strides \(36893488147419103232,\)",
    ),
    "a copy": (Copied(np.zeros(3)), dm.errors.InvalidArgument, "as a copy.*the array itself"),
    "a device": (
        Tensor(np.zeros(3), device=(2, 1)),
        dm.errors.Unsupported,
        "CUDA 1.*copy it to the CPU",
    ),
    "an unknown device": (
        Tensor(np.zeros(3), device=(99, 0)),
        dm.errors.Unsupported,
        "DLPack device 99",
    ),
    "a later version": (Tensor(np.zeros(3), version=(2, 0)), dm.errors.Unsupported, "DLPack 2.0"),
    "vectors": (Tensor(np.zeros(3), lanes=2), dm.errors.WrongType, "2 lanes"),
    "an opaque type": (Tensor(np.zeros(3), code=3), dm.errors.WrongType, "DLPack type 3"),
    "a float of 8 bits": (Tensor(np.zeros(3, "u1"), code=2), dm.errors.WrongType, "8 bits"),
    "a refusal": (Refusing(np.zeros(3)), dm.errors.InvalidArgument, "use tensor.detach"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_moved_is_refused_with_the_reason(case):
    tensor, error, words = REFUSED[case]
    other = np.zeros(3)
    one = dm.BlockCyclic(3, "(block)", nprocs=1)
    for call in (
        lambda: dm.advanced.copy(tensor, other),
        lambda: dm.advanced.copy(other, tensor),
        lambda: dm.Mover(dm.redistribute(one, one), tensor, other, comm=COMM),
        lambda: dm.Mover(dm.redistribute(one, one), other, tensor, comm=COMM),
        lambda: dm.migrate(tensor, target=np.zeros(3, int), comm=COMM),
        lambda: dm.advanced.UserArrays({0: tensor}),
    ):
        with pytest.raises(error, match=words):
            call()
    assert tensor.deleted == []


def test_a_capsule_that_was_used_is_refused():
    tensor = Stale(np.arange(3.0))
    view = array_of(tensor, "source")
    with pytest.raises(dm.errors.InvalidArgument, match=r"source.*used before"):
        array_of(tensor, "source")
    assert view.tolist() == [0, 1, 2]


def test_a_library_that_would_copy_is_asked_for_the_array_itself():
    class Choosing(Tensor):
        def __dlpack__(self, *, max_version=None, copy=None):
            exported = self if copy is False else Tensor(self.numbers.copy())
            return exported.capsule(versioned=True)

    tensor = Choosing(np.zeros(3))
    dm.advanced.copy(np.ones(3), tensor)
    assert tensor.numbers.tolist() == [1, 1, 1]


def test_what_is_no_capsule_is_refused():
    class Strange(Tensor):
        def __dlpack__(self, **_):
            return 7

    with pytest.raises(dm.errors.InvalidArgument, match="not one: 7"):
        array_of(Strange(np.zeros(2)), "source")
