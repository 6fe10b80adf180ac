# SPDX-License-Identifier: BSD-3-Clause
"""`explain`: agrees with an enumeration of every element of the plan."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import datamover as dm
from datamover.explanation_tables import as_tables


def owners(layout):
    """The rank of every element of a block-cyclic layout."""
    owner = np.empty(layout.shape, np.int64)
    for rank in range(layout.nprocs):
        owner[np.ix_(*layout.global_indices(rank))] = rank
    return owner


def traffic(before, after, nprocs, elem_bytes):
    """Bytes from every rank to every rank."""
    table = np.zeros((nprocs, nprocs), np.int64)
    np.add.at(table, (before.ravel(), after.ravel()), elem_bytes)
    return table


@st.composite
def cases(draw):
    dims = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 12)) for _ in range(dims))
    words = st.sampled_from(["block", "cyclic", "cyclic(2)", "cyclic(3)", "*"])
    before, after = ("(" + ",".join(draw(words) for _ in range(dims)) + ")" for _ in range(2))
    axes = tuple(draw(st.permutations(range(dims))))
    return shape, before, after, axes, draw(st.integers(1, 7)), draw(st.integers(1, 4))


@given(cases())
def test_it_counts_what_every_element_does(case):
    shape, before, after, axes, nprocs, node_size = case
    source = dm.BlockCyclic(shape, before, nprocs=nprocs)
    destination = dm.BlockCyclic(tuple(shape[a] for a in axes), after, nprocs=nprocs)
    plan = dm.redistribute(source, destination, axes=axes)
    e = dm.explain(plan, elem_bytes=4, node_size=node_size)

    table = traffic(owners(source).transpose(axes), owners(destination), nprocs, 4)
    kept = np.diag(table)
    sent = table - np.diag(kept)
    assert (e.messages, e.moved_bytes, e.kept_bytes) == ((sent > 0).sum(), sent.sum(), kept.sum())
    assert e.largest_bytes == sent.max()
    assert e.smallest_bytes == (sent[sent > 0].min() if sent.any() else 0)
    sizes, counts = np.unique(sent[sent > 0], return_counts=True)
    assert e.sizes == list(zip(sizes.tolist(), counts.tolist(), strict=True))
    for name, per_rank in (
        ("sent", sent.sum(1)),
        ("received", sent.sum(0)),
        ("kept", kept),
        ("messages sent", (sent > 0).sum(1)),
        ("messages received", (sent > 0).sum(0)),
    ):
        load = e.loads[name]
        assert load.maximum == per_rank.max() == per_rank[load.rank]
        assert load.mean == pytest.approx(per_rank.mean())

    node = np.arange(nprocs) // node_size
    near = node[:, None] == node[None, :]
    assert e.carriers["shared"].bytes == sent[near].sum()
    assert e.carriers["p2p"].messages == (sent[~near] > 0).sum()
    listed = np.zeros_like(table)
    listed[e.pairs.source, e.pairs.destination] = e.pairs.bytes
    np.testing.assert_array_equal(listed, table)
    assert sum(r.relations for r in e.relations) == len(e.pairs)


def test_one_rank_lists_its_peers():
    source = dm.BlockCyclic((12, 10), "(block, *)", nprocs=4)
    destination = dm.BlockCyclic((12, 10), "(cyclic, cyclic(2))", nprocs=4)
    e = dm.explain(dm.redistribute(source, destination), rank=2)
    table = traffic(owners(source), owners(destination), 4, 8)
    assert e.pairs is None
    assert dict(zip(e.outgoing.destination.tolist(), e.outgoing.bytes.tolist(), strict=True)) == {
        r: b for r, b in enumerate(table[2].tolist()) if b
    }
    assert dict(zip(e.incoming.source.tolist(), e.incoming.bytes.tolist(), strict=True)) == {
        r: b for r, b in enumerate(table[:, 2].tolist()) if b
    }


def test_a_halo_goes_only_to_neighbours():
    plan = dm.halo(dm.FloorPlan.uniform(dm.Region((0,), (40,)), (4,), 4), 2)
    e = dm.explain(plan, elem_bytes=1)
    assert (e.messages, e.moved_bytes, e.smallest_bytes, e.largest_bytes) == (6, 12, 2, 2)
    assert set(zip(e.pairs.source.tolist(), e.pairs.destination.tolist(), strict=True)) == {
        (0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2),
    }  # fmt: skip


def test_a_million_processes():
    n = 1_000_000
    source = dm.BlockCyclic((n, n), "(block, *)", nprocs=n)
    destination = dm.BlockCyclic((n, n), "(*, block)", nprocs=n)
    e = dm.explain(dm.redistribute(source, destination), node_size=4)
    assert e.messages == n * (n - 1)
    assert e.moved_bytes == 8 * n * (n - 1) and e.kept_bytes == 8 * n
    assert e.carriers["shared"].messages == 3 * n
    one = dm.explain(
        dm.redistribute(
            dm.BlockCyclic((4096, 4096), "(block, *)", nprocs=n),
            dm.BlockCyclic((4096, 4096), "(cyclic(64), cyclic(64))", nprocs=n),
        ),
        rank=1234,
    )
    assert len(one.outgoing) == 64 and int(one.outgoing.bytes.sum()) == 4096 * 8


def test_json_holds_the_same_and_tables_print():
    source = dm.BlockCyclic((9, 9), "(block, *)", nprocs=3)
    e = dm.explain(dm.redistribute(source, dm.BlockCyclic((9, 9), "(*, block)", nprocs=3)))
    plain = json.loads(e.dumps())
    assert plain["moved_bytes"] == e.moved_bytes and plain["messages"] == 6
    assert plain["pairs"]["bytes"] == e.pairs.bytes.tolist()
    assert plain["loads"]["sent"]["imbalance"] == 1.0
    assert set(plain["pairs"]["encoding"]) == {"product"}
    assert "6 messages" in str(e) and "shared (same node)" in str(e)


def text_of(before, after, shape, nprocs, **options):
    layouts = (dm.BlockCyclic(shape, words, nprocs=nprocs) for words in (before, after))
    return str(dm.explain(dm.redistribute(*layouts), **options))


def test_what_stays_is_not_sent():
    shown = text_of("(block,*)", "(*,block)", (12, 12), 3, rank=1)
    assert "\nRank 1 sends 256 bytes to 2 processes, keeps 128 bytes\n" in shown
    assert "\nRank 1 receives 256 bytes from 2 processes, keeps 128 bytes\n" in shown
    assert "\nRank 0 sends nothing, keeps 40 bytes\n" in text_of("*", "*", (5,), 2, rank=0)


def test_who_gets_nothing_has_a_line_and_no_table():
    shown = text_of("(block)", "(*)", (10,), 4, rank=3)
    assert "Rank 3 sends 8 bytes to 1 process\n" in shown
    assert shown.rstrip().endswith("\nRank 3 receives nothing")
    nothing = dm.MotionPlan(*[dm.BlockCyclic((9,), "(block)", nprocs=9)] * 2)
    assert str(dm.explain(nothing)).rstrip().endswith("\nPairs: none")


def test_one_of_something_is_singular():
    shown = text_of("(block, *)", "(*, block)", (1, 1), 2, elem_bytes=1, node_size=1)
    assert "2 processes, elements of 1 byte\n" in shown
    assert "moves 0 bytes in 0 messages; 1 byte stays where it is\n" in shown
    assert "\nTransport (1 process per node)\n" in shown
    assert "\nBytes from (row) to (column)\n" in shown  # in one line, though the table is narrow
    assert "1 process, elements of 8 bytes\n" in text_of("(block)", "(*)", (4,), 1)


def test_sizes_that_round_to_the_same_are_said_once():
    assert "in 20 messages of about 320.0 kB;" in text_of("(block)", "(cyclic(7))", (10**6,), 5)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"rank": 3}, dm.errors.OutOfRange),
        ({"rank": -1}, dm.errors.OutOfRange),
        ({"elem_bytes": 0}, dm.errors.InvalidArgument),
        ({"node_size": 0}, dm.errors.InvalidArgument),
        ({"elem_bytes": "8"}, dm.errors.WrongType),
        ({"elem_bytes": None}, dm.errors.WrongType),
        ({"rank": 1.5}, dm.errors.WrongType),
        ({"node_size": "2"}, dm.errors.WrongType),
    ],
)
def test_wrong_arguments(arguments, error):
    layout = dm.BlockCyclic((9,), "(block)", nprocs=3)
    with pytest.raises(error):
        dm.explain(dm.redistribute(layout, layout), **arguments)


def test_what_is_no_plan_is_said_in_a_line():
    with pytest.raises(
        dm.errors.WrongType, match="a BlockCyclic was given, it must be a MotionPlan"
    ):
        dm.explain(dm.BlockCyclic((9,), "(block)", nprocs=3))


def test_equal_pairs_are_one_line():
    layouts = [dm.BlockCyclic((12, 12), d, nprocs=4) for d in ("(block, *)", "(*, block)")]
    e = dm.explain(dm.redistribute(*layouts), elem_bytes=1)
    assert "All pairs equal: each process sends 9 bytes to each other one" in str(e)
    uneven = dm.BlockCyclic((13, 12), "(block, *)", nprocs=4)
    e = dm.explain(dm.redistribute(uneven, dm.BlockCyclic((13, 12), "(*, block)", nprocs=4)))
    assert "All pairs equal" not in str(e) and "from (row) to (column)" in str(e)


def test_encodings_are_shown_on_request():
    layouts = [dm.BlockCyclic((64, 12), d, nprocs=12) for d in ("(block, *)", "(*, cyclic(5))")]
    for rank in (None, 1):
        e = dm.explain(dm.redistribute(*layouts), rank=rank)
        for verbose in (False, True):
            console = Console(width=80, color_system=None)
            with console.capture() as capture:
                console.print(as_tables(e, verbose=verbose))
            assert ("encoding" in capture.get()) is verbose
            assert "(64,12) on grid (12,1)\n" in capture.get()
