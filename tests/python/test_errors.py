# SPDX-License-Identifier: BSD-3-Clause
"""Exception classes: each kind of failure has one, derived from the matching Python class."""

import inspect
import pickle
import pydoc
import subprocess
import sys

import numpy as np
import pytest

import datamover as dm

KINDS = [
    (dm.errors.InvalidArgument, ValueError, "invalid_argument"),
    (dm.errors.OutOfRange, IndexError, "out_of_range"),
    (dm.errors.WrongType, TypeError, "wrong_type"),
    (dm.Mismatch, ValueError, "mismatch"),
    (dm.errors.NoMemory, MemoryError, "no_memory"),
    (dm.errors.IoFailed, OSError, "io"),
    (dm.errors.MpiFailed, RuntimeError, "mpi"),
    (dm.PeerFailed, RuntimeError, "peer_failed"),
    (dm.Timeout, TimeoutError, "timeout"),
    (dm.errors.InvalidState, RuntimeError, "invalid_state"),
    (dm.errors.Unsupported, NotImplementedError, "unsupported"),
]


@pytest.mark.parametrize(("kind", "usual", "code"), KINDS)
def test_each_code_has_a_class_that_is_also_a_usual_one(kind, usual, code):
    assert issubclass(kind, dm.Error)
    assert issubclass(kind, usual)
    assert kind.code == code
    assert dm.errors.class_of(code) is kind
    error = kind("what was wrong")
    assert str(error) == "what was wrong"
    assert type(pickle.loads(pickle.dumps(error))) is kind


def test_an_unknown_code_is_an_error_all_the_same():
    assert dm.errors.class_of("of a later version") is dm.Error


def test_errors_of_the_core_come_as_the_class_of_their_code():
    with pytest.raises(dm.errors.InvalidArgument, match="not a positive integer") as caught:
        dm.BlockCyclic((4,), "(cyclic(0))", nprocs=2)
    assert caught.value.code == "invalid_argument"
    with pytest.raises(dm.errors.OutOfRange):
        dm.BlockCyclic((4,), "(cyclic(1))", nprocs=2).owner(7)
    with pytest.raises(dm.errors.Unsupported):
        lists = dm.IndexList(3, [[0, 1, 2]])
        dm.MotionPlan(lists, lists).add_section(0, dm.Region(0, 1), 0, dm.Region(0, 1))


def test_an_interrupt_while_an_error_is_raised_stays_one(monkeypatch):
    def interrupted(code):
        raise KeyboardInterrupt

    monkeypatch.setattr(dm.errors, "class_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dm.BlockCyclic((4,), "(cyclic(1))", nprocs=2).owner(7)


def test_arguments_of_a_wrong_kind_are_type_errors():
    for bad in (("4", 4), (4.5, 5), ([[1]], [2])):
        with pytest.raises(TypeError):
            dm.Region(*bad)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a: dm.redistribute(3, a), "a int was given, it must be a layout"),
        (lambda a: dm.redistribute(a, "(block)"), "a str was given, it must be a layout"),
        (lambda a: dm.redistribute(a, a, axes="ab"), "axes is 'ab'"),
        (lambda a: dm.redistribute(a, a, source_region=(0, 4)), r"source_region is \(0, 4\)"),
        (lambda a: dm.redistribute(a, a, destination_region=4), "destination_region is 4"),
        (lambda a: dm.redistribute(a, a, partial="no"), "partial is 'no'"),
        (lambda a: dm.halo(a, 1, corners="no"), "corners is 'no'"),
        (lambda a: dm.halo(a, 1, colors="2"), "colors is '2'"),
        (lambda a: dm.advanced.axis_halo(a, 1, "x"), "axis is 'x'"),
        (lambda a: dm.advanced.panel_broadcast("a", dm.Region(0, 1), 0), "must be a layout"),
        (lambda a: dm.advanced.panel_broadcast(a, None, 0), "region is None"),
        (lambda a: dm.advanced.panel_broadcast(a, dm.Region(0, 1), 0.5), "along is 0.5"),
        (lambda a: dm.advanced.prolongation(a, a, 2, partial=2), "partial is 2"),
        (lambda a: dm.advanced.restriction(a, 3, 2), "must be a layout"),
        (lambda a: dm.advanced.dense_memory("a", 0, 8), "must be a layout"),
        (lambda a: dm.advanced.dense_memory(a, "0", 8), "rank is '0'"),
        (lambda a: dm.advanced.dense_memory(a, 0, 8, ghost="1"), "ghost is '1'"),
        (lambda a: dm.advanced.copy(b"1", bytearray(1), op=3), "op=3 is not supported"),
    ],
)
def test_wrong_kinds_of_arguments_of_functions_are_one_sentence(call, words):
    with pytest.raises(dm.errors.WrongType, match=words) as caught:
        call(dm.BlockCyclic((4,), "(block)", nprocs=2))
    assert "\n" not in str(caught.value)


BOX = dm.Region(0, 4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dm.Region("a", 4), "lo is 'a', it must be an integer or a sequence of integers"),
        (
            lambda: dm.Region((0, 0), None),
            r"hi is None; it is Region\(lo: int \| Sequence\[int\], hi",
        ),
        (lambda: dm.Region((0, 0), (4, 4.5)), r"hi is \(4, 4.5\), it must be an integer or"),
        (lambda: dm.Region(0, [["x" * 99]]), "hi is a list, it must be an integer or a sequence"),
        (lambda: dm.Region.from_shape("4"), "shape is '4'"),
        (lambda: dm.Region.empty_region(2.0), "dims is 2.0, it must be an integer"),
        (lambda: dm.BlockCyclic(None, "(block)", 2), "shape is None"),
        (lambda: dm.BlockCyclic(4, ("block",), 2), r"distribution is \('block',\), .* a string"),
        (lambda: dm.BlockCyclic(4, "(block)", "2"), "nprocs is '2', it must be an integer"),
        (lambda: dm.BlockCyclic(4, "(block)", 2.0), "nprocs is 2.0, it must be an integer"),
        (lambda: dm.BlockCyclic(4, "(block)", np.ones(2, int)), r"nprocs is array\(\[1, 1\]\)"),
        (lambda: dm.BlockCyclic(4, "(block)", 2, grid="2"), "grid is '2'"),
        (lambda: dm.BlockCyclic(4, "(block)", 2, first_process=0.5), "first_process is 0.5"),
        (lambda: dm.BlockCyclic(4, "(block)", 2, grid_order=None), "grid_order is None"),
        (lambda: dm.BlockCyclic(4, "(block)", 2, replicas=None), "replicas is None"),
        (lambda: dm.BlockCyclic.from_scalapack([1] * 9, 2.5, 4), "grid is 2.5"),
        (lambda: dm.BlockCyclic.from_scalapack([1] * 9, (2, 2), None), "nprocs= is missing"),
        (lambda: dm.IndexList(None, [[0]]), "shape is None"),
        (lambda: dm.IndexList(4, 5), "lists is 5, it must be a sequence of arrays"),
        (lambda: dm.IndexList(4, None), "lists is None"),
        (lambda: dm.FlatCyclic("ab", 2, 2), "shape is 'ab'"),
        (lambda: dm.FlatCyclic(4, 2.5, 2), "block_elems is 2.5"),
        (lambda: dm.FlatCyclic(4, 2, None), "nprocs= is missing"),
        (lambda: dm.FlatCyclic.of_bytes(4, "8", "f8", 2), "block_bytes is '8'"),
        (lambda: dm.FlatCyclic.of_bytes(4, 8, None, 2), "dtype is None"),
        (
            lambda: dm.FloorPlan(None, [0]),
            r"regions is None; it is .*\(regions: Sequence\[Region\]",
        ),
        (lambda: dm.FloorPlan("ab", [0, 1]), "regions is 'ab'"),
        (lambda: dm.FloorPlan([BOX, 5], [0, 0]), r"regions\[1\] is 5, it must be a Region"),
        (lambda: dm.FloorPlan([BOX], None), "owners is None"),
        (lambda: dm.FloorPlan([BOX], [0], nprocs="x"), "nprocs is 'x'"),
        (lambda: dm.FloorPlan([BOX], [0]).with_owners([0], 1.5), "nprocs is 1.5"),
        (lambda: dm.FloorPlan.uniform("x", 2, 2), "domain is 'x', it must be a Region or a shape"),
        (lambda: dm.FloorPlan.uniform(BOX, "x", 2), "grid is 'x'"),
        (lambda: dm.FloorPlan.uniform(BOX, 2, None), "nprocs= is missing"),
        (lambda: dm.FloorPlan.tiles(None, 2, 2), "domain is None"),
        (lambda: dm.FloorPlan.tiles(BOX, None, 2), "tile is None"),
        (lambda: dm.FloorPlan.tiles(BOX, 2, 2, mapping=3), "mapping is 3, it must be a string"),
        (lambda: dm.FloorPlan.from_splits(BOX, [2], 2), r"splits is \[2\], .* a list of integers"),
        (lambda: dm.FloorPlan.from_splits(BOX, [[2]], 2.0), "nprocs is 2.0"),
        (lambda: dm.FloorPlan.bisected(BOX, ["a"]), r"weights is \['a'\], .* a list of numbers"),
        (lambda: dm.advanced.BlockMemory(0, 0, "a", BOX), "strides_bytes is 'a'"),
        (
            lambda: dm.advanced.BlockMemory(0, 0, 8, (0, 4)),
            r"valid is \(0, 4\), it must be a Region",
        ),
        (
            lambda: dm.advanced.MemoryLayout([5], 0, 8),
            r"blocks is \[5\], .* a sequence of BlockMemory",
        ),
    ],
)
def test_what_layouts_are_made_of_is_named_where_its_type_is_wrong(call, words):
    with pytest.raises(dm.errors.WrongType, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: dm.BlockCyclic(4, "(block)", 2**70),
            dm.errors.OutOfRange,
            "nprocs does not fit 64 bits",
        ),
        (lambda: dm.BlockCyclic(2**70, "(block)", 2), dm.errors.OutOfRange, "does not fit 64 bits"),
        (
            lambda: dm.BlockCyclic(4, "\ud800", 2),
            dm.errors.InvalidArgument,
            "which is not valid text",
        ),
        (
            lambda: dm.IndexList(8, [np.array([1, 2], "O"), [0]]),
            dm.errors.WrongType,
            "of dtype object",
        ),
        (
            lambda: dm.IndexList(8, [np.array([-(2**63), 2**64], "O"), [0]]),
            dm.errors.OutOfRange,
            f"contain {2**64}, which does not fit 64 bits",
        ),
        (lambda: dm.Region.empty_region(2**40), dm.errors.InvalidArgument, "dimensions"),
        (lambda: dm.Region.empty_region(-(2**70)), dm.errors.OutOfRange, "dims does not fit"),
    ],
)
def test_what_layouts_are_made_of_may_be_too_large(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_memory_that_is_not_there_is_an_error_of_the_library():
    """Also where it is the standard library that finds none."""
    code = """
import resource
import numpy as np, datamover as dm
index = np.random.default_rng(0).permutation(1 << 22)
dm.advanced.AddressRelation.from_pairs(index[:100], index[:100])
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (16 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    dm.advanced.AddressRelation.from_pairs(index, index)
except dm.errors.NoMemory as error:
    print(error.code)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert ended.stdout.decode().strip() == "no_memory", ended.stderr.decode()


def test_importing_the_package_loads_neither_mpi_nor_numpy():
    code = """
import sys, datamover as dm
assert "numpy" not in sys.modules
rows = dm.BlockCyclic((8, 8), "(block, *)", nprocs=4)
dm.redistribute(rows, rows).relation(0, 0).describe()
loaded = {"mpi4py", "datamover._mover", "rich", "matplotlib", "zarr"} & set(sys.modules)
assert not loaded, loaded
assert {"Array", "Mover", "move", "explain"} <= set(dir(dm)) and dm.__version__
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_what_is_shown_of_the_package_is_what_is_for_users():
    names = {name for name in dir(dm) if not name.startswith("__")}
    assert names == {*dm.__all__} - {"__version__"}
    names = {name for name in dir(dm.files) if not name.startswith("__")}
    assert names == set(dm.files.__all__)
    shown = list(inspect.signature(dm.Mover).parameters)
    assert shown[:3] == ["plan", "source", "destination"] and shown[-1] == "comm"
    words = pydoc.plain(pydoc.render_doc(dm.Mover))
    assert "source: 'Arrays'" in words and "*given" not in words


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dm.nothing
