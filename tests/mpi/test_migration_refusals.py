# SPDX-License-Identifier: BSD-3-Clause
"""Errors in distributions: raised on all processes if one raises them, and none waits forever."""

import numpy as np
import pytest

import datamover as dm

RAGGED = [[1, 2], [3]]


class Stubborn:
    """What NumPy cannot make an array of."""

    def __repr__(self):
        return "stubborn"

    def __array__(self, *_, **__):
        raise RuntimeError("no array of me")

    def __len__(self):
        raise RuntimeError("no length of me")


def refused(comm, guilty, call, good, bad, kinds=dm.Error):
    """One process calls with `bad`, which raises everywhere; then all go on with `good`."""
    mine = comm.rank == guilty
    with pytest.raises(BaseException) as caught:
        call(bad if mine else good)
    assert isinstance(caught.value, kinds if mine else dm.Error)
    return caught.value


GUILTY = pytest.mark.parametrize("guilty", [0, -1])


@GUILTY
@pytest.mark.parametrize(
    "bad",
    [
        RAGGED,
        ([0, 1, 2], RAGGED),
        (RAGGED, [0, 0]),
        ([0, 1.5, 2], [0, 0]),
        "ab",
        None,
        Stubborn(),
        np.array(["x", "y"]),
        [[]],
        ([0, 2**63], [0, 0]),
        (np.uint64([0, 2**63]), [0, 0]),
        (1, 2, 3),
        ([0.0, 1.0, 2.0], [0, 0]),
        [2**70, 0],
        np.ma.masked,
    ],
    ids=str,
)
def test_targets(comm, guilty, bad):
    guilty %= comm.size
    refused(comm, guilty, lambda t: dm.Migration(t, comm=comm), [0, 0], bad)
    elements = np.arange(2)
    refused(comm, guilty, lambda t: dm.migrate(elements, t, comm=comm), [0, 0], bad)
    refused(comm, guilty, lambda t: dm.migrate(elements, lambda _: t, comm=comm), [0, 0], bad)
    assert len(dm.migrate(elements, [comm.rank, -1], comm=comm)) == 1


def test_what_stands_in_a_wrong_place_is_told_where_it_belongs(comm):
    box = dm.targets.grid(((0, 0), (1, 1)), (2, 2))
    with pytest.raises(dm.errors.WrongType, match=r"map\.ranks\(elements, nprocs\)"):
        dm.Migration(box, comm=comm)
    with pytest.raises(dm.errors.WrongType, match="are a function"):
        dm.Migration(lambda positions: positions, comm=comm)
    d = dm.Migration([comm.rank, comm.rank], comm=comm)
    p, v = np.arange(2.0), np.arange(2)
    for second in (v, [v], {"v": v}):
        with pytest.raises(dm.errors.InvalidArgument, match="as one list, tuple or mapping"):
            d.reverse(p, second)
    home = d.reverse({"p": p, "v": v})
    assert home["p"].tolist() == [0, 1] and home["v"].tolist() == [0, 1]


@GUILTY
@pytest.mark.parametrize(
    "bad",
    [
        {"method": "pigeon"},
        {"method": 7},
        {"method": None},
        {"method": ["sort"]},
        {"max_bytes": "1M"},
        {"max_bytes": 1.5},
        {"max_bytes": 0},
        {"max_bytes": -1},
        {"max_bytes": 2**63},
        {"stable": np.zeros(2)},
    ],
    ids=str,
)
def test_options(comm, guilty, bad):
    guilty %= comm.size
    refused(comm, guilty, lambda o: dm.Migration([0, 0], comm=comm, **o), {}, bad)
    refused(comm, guilty, lambda o: dm.migrate([1, 2], [0, 0], comm=comm, **o), {}, bad)


@GUILTY
@pytest.mark.parametrize(
    "bad",
    [
        RAGGED,
        np.zeros(3),
        5,
        None,
        Stubborn(),
        np.zeros(2, object),
        np.zeros((2, 0)),
        "no",
        [np.zeros(2), np.zeros(3)],
        {"a": RAGGED},
    ],
    ids=str,
)
def test_columns_and_values(comm, guilty, bad):
    guilty %= comm.size
    d = dm.Migration([comm.rank, comm.rank], comm=comm)
    good = np.zeros(2)
    for call in (d.move, d.reverse):
        refused(comm, guilty, call, good, bad)
    refused(comm, guilty, lambda e: dm.migrate(e, [comm.rank] * 2, comm=comm), good, bad)
    np.testing.assert_array_equal(d.move(np.arange(2.0)), np.arange(2.0))


@GUILTY
def test_no_columns(comm, guilty):
    """All may move no column at all; one process alone may not."""
    guilty %= comm.size
    d = dm.Migration([comm.rank, comm.rank], comm=comm)
    for call in (d.move, d.reverse):
        assert call({}) == {}
        if comm.size > 1:
            refused(comm, guilty, call, np.zeros(2), {})


@GUILTY
@pytest.mark.parametrize(
    "bad",
    [
        5,
        "out",
        RAGGED,
        np.zeros(1),
        np.zeros(4)[::2],
        np.zeros(2, int),
        np.zeros((2, 2)),
        [],
        [np.zeros(2), np.zeros(2)],
        {"x": np.zeros(2)},
        Stubborn(),
        np.zeros(()),
        [5],
        [None],
    ],
    ids=str,
)
def test_out(comm, guilty, bad):
    guilty %= comm.size
    d = dm.Migration([comm.rank, comm.rank], comm=comm)
    values = np.arange(2.0)
    for call in (d.move, d.reverse):
        refused(comm, guilty, lambda o, call=call: call(values, out=o), np.zeros(2), bad)
    refused(
        comm,
        guilty,
        lambda o: dm.migrate(values, [comm.rank] * 2, out=o, comm=comm),
        np.zeros(2),
        bad,
    )
    np.testing.assert_array_equal(d.reverse(values), values)


@GUILTY
def test_read_only_memory(comm, guilty):
    guilty %= comm.size
    d = dm.Migration([comm.rank, comm.rank], comm=comm)
    closed = np.zeros(2)
    closed.flags.writeable = False
    refused(comm, guilty, lambda o: d.move(np.arange(2.0), out=o), np.zeros(2), closed)
    refused(comm, guilty, d.move_in_place, np.zeros(2), closed)


@GUILTY
@pytest.mark.parametrize(
    "bad",
    [
        5,
        None,
        RAGGED,
        Stubborn(),
        np.zeros(()),
        np.zeros(1),
        np.zeros(4)[::2],
        np.zeros(2, object),
        [1.0, 2.0],
    ],
    ids=str,
)
def test_buffers(comm, guilty, bad):
    guilty %= comm.size
    d = dm.Migration([comm.rank, comm.rank], comm=comm)
    error = refused(comm, guilty, d.move_in_place, np.zeros(2), bad)
    assert "buffer" in str(error) or "dtype object" in str(error)
    with pytest.raises(dm.Error):
        d.move_in_place(np.zeros(2), stable=np.zeros(2) if comm.rank == guilty else False)
    np.testing.assert_array_equal(d.move_in_place(np.arange(3.0)), np.arange(2.0))


@GUILTY
@pytest.mark.parametrize(
    "raised",
    [
        KeyboardInterrupt(),
        SystemExit(3),
        GeneratorExit(),
        ValueError("v"),
        MemoryError(),
        dm.Timeout("t"),
        RecursionError("r"),
        StopIteration(),
    ],
    ids=repr,
)
def test_what_a_callback_raises(comm, guilty, raised):
    """The process itself raises what ends a program; the others hear an error."""
    guilty %= comm.size

    def target(elements):
        if comm.rank == guilty:
            raise raised
        return np.zeros(len(elements), int)

    ends = not isinstance(raised, Exception)
    kind = type(raised) if ends and comm.rank == guilty else dm.Error
    with pytest.raises(kind):
        dm.migrate(np.arange(4), target, comm=comm)
    moved = dm.migrate(np.arange(4), np.full(4, comm.rank), comm=comm)
    np.testing.assert_array_equal(moved, np.arange(4))


@GUILTY
def test_maps(comm, guilty):
    """Keys and parameters that one process gets wrong."""
    guilty %= comm.size
    unit = ((0, 0), (1, 1))
    good = dm.targets.grid(unit, (2, 2))
    owners = np.zeros(4, int)
    for bad in (
        dm.targets.grid(unit, (2, 0)),
        dm.targets.hilbert(unit, (2, 2), np.full(4, comm.size)),
        dm.targets.grid(unit, (2, 2), owners[:3]),
        dm.targets.modulo(),
        dm.targets.splitters(np.arange(comm.size + 3)),
        dm.targets.grid(unit, (2, 2), key="where"),
    ):
        structured = bad.key == "where"
        elements = np.zeros(3, [("pos", "f8", 2)]) if structured else np.full((3, 2), 0.5)
        refused(comm, guilty, lambda m, e=elements: dm.migrate(e, m, comm=comm), good, bad)
