# SPDX-License-Identifier: BSD-3-Clause
"""Does every kind of failure have its exception class, in Python's terms too?"""

import inspect
import pickle
import pydoc
import subprocess
import sys

import pytest

import datamover as dm

KINDS = [
    (dm.InvalidArgument, ValueError, "invalid_argument"),
    (dm.OutOfRange, IndexError, "out_of_range"),
    (dm.WrongType, TypeError, "wrong_type"),
    (dm.Mismatch, ValueError, "mismatch"),
    (dm.NoMemory, MemoryError, "no_memory"),
    (dm.IoError, OSError, "io"),
    (dm.MpiError, RuntimeError, "mpi"),
    (dm.PeerFailed, RuntimeError, "peer_failed"),
    (dm.Timeout, TimeoutError, "timeout"),
    (dm.InvalidState, RuntimeError, "invalid_state"),
    (dm.Unsupported, NotImplementedError, "unsupported"),
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
    with pytest.raises(dm.InvalidArgument, match="not a positive integer") as caught:
        dm.BlockCyclic((4,), "(cyclic(0))", nprocs=2)
    assert caught.value.code == "invalid_argument"
    with pytest.raises(dm.OutOfRange):
        dm.BlockCyclic((4,), "(cyclic(1))", nprocs=2).owner(7)
    with pytest.raises(dm.Unsupported):
        lists = dm.IndexList(3, [[0, 1, 2]])
        dm.MotionPlan(lists, lists).copy(0, dm.Region(0, 1), 0, dm.Region(0, 1))


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
        (lambda a: dm.halo(a, 1, colours="2"), "colours is '2'"),
        (lambda a: dm.axis_halo(a, 1, "x"), "axis is 'x'"),
        (lambda a: dm.panel_broadcast("a", dm.Region(0, 1), 0), "must be a layout"),
        (lambda a: dm.panel_broadcast(a, None, 0), "region is None"),
        (lambda a: dm.panel_broadcast(a, dm.Region(0, 1), 0.5), "along is 0.5"),
        (lambda a: dm.prolongation(a, a, 2, partial=2), "partial is 2"),
        (lambda a: dm.restriction(a, 3, 2), "must be a layout"),
        (lambda a: dm.dense_memory("a", 0, 8), "must be a layout"),
        (lambda a: dm.dense_memory(a, "0", 8), "rank is '0'"),
        (lambda a: dm.dense_memory(a, 0, 8, ghost="1"), "ghost is '1'"),
        (lambda a: dm.copy(b"1", bytearray(1), op=3), "op is 3"),
    ],
)
def test_wrong_kinds_of_arguments_of_functions_are_one_sentence(call, words):
    with pytest.raises(dm.WrongType, match=words) as caught:
        call(dm.BlockCyclic((4,), "(block)", nprocs=2))
    assert "\n" not in str(caught.value)


def test_importing_the_package_loads_neither_mpi_nor_numpy():
    code = """
import sys, datamover as dm
assert "numpy" not in sys.modules
rows = dm.BlockCyclic((8, 8), "(block, *)", nprocs=4)
dm.redistribute(rows, rows).relation(0, 0).describe()
loaded = {"mpi4py", "datamover._mover", "rich", "matplotlib", "zarr"} & set(sys.modules)
assert not loaded, loaded
assert {"XArray", "Mover", "move", "explain"} <= set(dir(dm)) and dm.__version__
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_what_is_shown_of_the_package_is_what_is_for_users():
    names = {name for name in dir(dm) if not name.startswith("__")}
    assert names == {*dm.__all__, "files"} - {"__version__"}
    names = {name for name in dir(dm.files) if not name.startswith("__")}
    assert names == set(dm.files.__all__)
    shown = list(inspect.signature(dm.Mover).parameters)
    assert shown[:3] == ["plan", "source", "destination"] and shown[-1] == "comm"
    words = pydoc.plain(pydoc.render_doc(dm.Mover))
    assert "plan: 'MotionPlan', source: 'Arrays'" in words and "*given" not in words


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dm.nothing
