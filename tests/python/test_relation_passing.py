# SPDX-License-Identifier: BSD-3-Clause
"""put and get: move the same as send and receive; ambiguous or corrupt messages are rejected."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import datamover as dm

ENCODINGS = ["pairs", "blocks", "runs", "dictionary", "product", "offsets"]
MOST = 40
COMBINED = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


@st.composite
def pairs(draw, unique=True):
    """Sources of any kind and as many destinations, which may repeat if that is allowed."""
    destination = draw(st.lists(st.integers(0, MOST - 1), unique=unique, max_size=MOST))
    n = len(destination)
    source = draw(st.lists(st.integers(0, MOST - 1), min_size=n, max_size=n))
    return np.array(source, dtype=np.int64), np.array(destination, dtype=np.int64)


@given(pairs(), st.sampled_from(ENCODINGS), st.sampled_from(["f8", "i2", "u1", "c16", "i4,f8"]))
def test_put_and_get_move_what_indexing_moves(at, encoding, dtype):
    source, destination = at
    a = np.arange(MOST * np.dtype(dtype).itemsize, dtype="u1").view(dtype)
    expected = np.zeros(MOST, dtype)
    expected[destination] = a[source]
    relation = dm.advanced.AddressRelation.from_pairs(source, destination, a.itemsize).encode(
        encoding
    )
    put = np.zeros(MOST, dtype)
    dm.advanced.AddressRelation.accept_put(relation.put_message(a), put)
    assert put.tobytes() == expected.tobytes()
    answer = dm.advanced.AddressRelation.answer_get(relation.get_request(), a)
    assert answer.tobytes() == a[source].tobytes()
    got = np.zeros(MOST, dtype)
    relation.scatter(answer, got)
    assert got.tobytes() == expected.tobytes()


@given(pairs(unique=False), st.sampled_from(ENCODINGS), st.sampled_from(sorted(COMBINED)))
def test_repeated_destinations_need_an_operation(at, encoding, op):
    source, destination = at
    repeats = len(np.unique(destination)) < len(destination)
    relation = dm.advanced.AddressRelation.from_pairs(source, destination).encode(encoding)
    assert relation.destinations_repeat == repeats
    assert not relation.source_half().destinations_repeat
    assert relation.destination_half().destinations_repeat == repeats
    a = np.random.default_rng(1).integers(1, 3, MOST).astype(float)
    b = np.random.default_rng(2).integers(1, 3, MOST).astype(float)
    expected = b.copy()
    COMBINED[op].at(expected, destination, a[source])
    copied, scattered, put = b.copy(), b.copy(), b.copy()
    relation.copy(a, copied, op=op)
    relation.scatter(relation.gather(a), scattered, op=op)
    dm.advanced.AddressRelation.accept_put(relation.put_message(a), put, op=op)
    for result in (copied, scattered, put):
        np.testing.assert_array_equal(result, expected)
    if repeats:
        for call in (
            lambda: relation.copy(a, b),
            lambda: relation.scatter(a[source], b),
            lambda: dm.advanced.AddressRelation.accept_put(relation.put_message(a), b),
        ):
            before = b.copy()
            with pytest.raises(dm.errors.InvalidArgument):
                call()
            np.testing.assert_array_equal(b, before)


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 4)), min_size=1, max_size=3),
    st.sampled_from([1, 2, 8]),
)
def test_overlapping_elements_repeat_too(axes, elem_bytes):
    """Byte strides below the size of an element let neighbours overlap in part."""
    at = np.zeros(1, dtype=np.int64)
    for stride, count in axes:
        at = (at[:, None] + stride * np.arange(count)).ravel()
    gaps = np.diff(np.sort(at))
    relation = dm.advanced.AddressRelation.from_byte_pairs(
        np.arange(len(at)) * elem_bytes, at, elem_bytes
    )
    assert relation.destinations_repeat == bool((gaps < elem_bytes).any())


@given(st.data())
def test_redistributions_do_not_repeat(data):
    def drawn():
        words = st.sampled_from(["*", "block", "cyclic", "cyclic(2)", "cyclic(3)"])
        return f"({data.draw(words)}, {data.draw(words)})"

    nprocs = data.draw(st.integers(1, 4))
    shape = data.draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    plan = dm.redistribute(
        dm.BlockCyclic(shape, drawn(), nprocs), dm.BlockCyclic(shape, drawn(), nprocs)
    )
    for source in range(nprocs):
        for destination in range(nprocs):
            relation = plan.relation(source, destination)
            at = relation.to_pairs()[1]
            assert len(np.unique(at)) == len(at) and not relation.destinations_repeat


@given(pairs(), st.data())
def test_changed_messages_are_refused_and_nothing_is_written(at, data):
    source, destination = at
    assume(len(source))
    a = np.arange(1.0, MOST + 1)
    relation = dm.advanced.AddressRelation.from_pairs(source, destination)
    put, request = bytearray(relation.put_message(a)), bytearray(relation.get_request())
    b = np.zeros(MOST)
    short = np.zeros(int(destination.max()))
    with pytest.raises(dm.errors.OutOfRange):
        dm.advanced.AddressRelation.accept_put(put, short)
    with pytest.raises(dm.errors.OutOfRange):
        dm.advanced.AddressRelation.answer_get(request, a[: source.max()])
    assert not short.any()
    cut = data.draw(st.integers(0, len(put) - 1))
    with pytest.raises(dm.errors.InvalidArgument):
        dm.advanced.AddressRelation.accept_put(put[:cut], b)
    # The elements are anything; all before them is guarded.
    guarded = len(put) - 8 * len(source)
    put[data.draw(st.integers(0, guarded - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(dm.errors.InvalidArgument):
        dm.advanced.AddressRelation.accept_put(put, b)
    request[data.draw(st.integers(0, len(request) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(dm.errors.InvalidArgument):
        dm.advanced.AddressRelation.answer_get(request, a)
    assert not b.any()


def test_messages_of_other_elements_are_refused():
    relation = dm.advanced.AddressRelation.from_pairs([0, 1], [1, 0])
    message = relation.put_message(np.ones(2))
    for call, error in [
        (
            lambda: dm.advanced.AddressRelation.accept_put(message, np.zeros(8, "f4")),
            dm.errors.WrongType,
        ),
        (
            lambda: dm.advanced.AddressRelation.accept_put(message, bytes(16)),
            dm.errors.InvalidArgument,
        ),
        (
            lambda: dm.advanced.AddressRelation.accept_put(message, np.zeros(2), op="sub"),
            dm.errors.InvalidArgument,
        ),
        (lambda: relation.put_message(np.ones(1)), dm.errors.OutOfRange),
        (lambda: relation.put_message(np.ones(4, "f4")), dm.errors.WrongType),
        (
            lambda: dm.advanced.AddressRelation.answer_get(message, np.ones(2)),
            dm.errors.InvalidArgument,
        ),
        (
            lambda: dm.advanced.AddressRelation.accept_put(np.ones((2, 2)), np.ones(2)),
            dm.errors.WrongType,
        ),
    ]:
        with pytest.raises(error):
            call()


class TestCache:
    @given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60))
    def test_keeps_what_fits_and_makes_the_rest_again(self, uses):
        """Relations of 16 elements each as pairs: 256 bytes; four fit."""
        made = []

        def make(key):
            made.append(key)
            at = np.random.default_rng(key).permutation(16)
            return dm.advanced.AddressRelation.from_pairs(at, np.arange(16)).encode("pairs")

        cache, held = dm.advanced.RelationCache(1024), []
        hits = evictions = 0
        for key, clears in uses:
            relation = cache.get(str(key), lambda key=key: make(key))
            expected = np.random.default_rng(key).permutation(16) * 8
            np.testing.assert_array_equal(relation.to_pairs()[0], expected)
            hits += key in held
            held = [key, *(k for k in held if k != key)]
            evictions += len(held) > 4
            held = held[:4]
            if clears and key == 0:
                cache.clear()
                held = []
        assert cache.statistics == {
            "hits": hits,
            "misses": len(uses) - hits,
            "evictions": evictions,
            "relations": len(held),
            "held_bytes": 256 * len(held),
            "limit_bytes": 1024,
        }
        assert len(made) == len(uses) - hits

    def test_relations_of_one_hint_leave_together(self):
        def make():
            return dm.advanced.AddressRelation.from_pairs(
                np.arange(16)[::-1], np.arange(16)
            ).encode("pairs")

        cache = dm.advanced.RelationCache(limit_bytes=4 * 256)
        for key in "ab":
            cache.get(key, make, hint="halo")
        for key in "cd":
            cache.get(key, make, hint="rows")
        cache.get("e", make)
        assert (cache.statistics["relations"], cache.statistics["evictions"]) == (3, 2)
        assert cache.drop("rows") == 2 and cache.drop("rows") == 0
        assert cache.statistics["held_bytes"] == 256
        assert repr(cache) == "<RelationCache of 1 relations, 256 of 1024 bytes>"
        cache.limit_bytes = 255
        assert cache.statistics["relations"] == 0 and cache.limit_bytes == 255
        assert len(cache.get("f", make)) == 16 and cache.statistics["relations"] == 0

    def test_errors_pass_through_and_nothing_is_kept(self):
        cache = dm.advanced.RelationCache(1000)
        with pytest.raises(ZeroDivisionError):
            cache.get("a", lambda: 1 / 0)
        with pytest.raises(dm.errors.WrongType, match="NoneType"):
            cache.get("a", lambda: None)
        assert cache.statistics["relations"] == 0
        for call in (
            lambda: dm.advanced.RelationCache(-1),
            lambda: setattr(cache, "limit_bytes", -1),
        ):
            with pytest.raises(dm.errors.InvalidArgument):
                call()


RATES = {
    "instructions": 3e9,
    "read_contiguous": 1e9,
    "read_random": 2e8,
    "write_contiguous": 8e8,
}
LOOPS = {"generate": 30.0, "recompute": 4.0, "decode": 4.0, "encode": 4.0}
positive = st.floats(1e3, 1e12)
counts = st.floats(0, 1e4)


@given(
    st.builds(dict, **dict.fromkeys(RATES, positive)),
    st.builds(dict, **dict.fromkeys(LOOPS, counts)),
)
def test_model_is_the_papers(rates, loops):
    """Equations of the paper, written once more, and their consequences."""
    model = dm.advanced.RecomputeModel(**rates, **loops)
    i, rc, rr, wc = rates.values()
    g, au, ac, o = loops.values()
    recompute = (g + au) / i + 1 / rr + 2 / wc
    decode = ac / i + 2 / rc + 1 / rr + 2 / wc
    assert repr(model).startswith(
        f"<RecomputeModel: {model.recompute_seconds:.3g} s to recompute, "
    )
    assert model.recompute_seconds == pytest.approx(recompute)
    assert model.decode_seconds == pytest.approx(decode)
    assert model.amortised_seconds(3) == pytest.approx((g / i + 2 / wc + o / i) / 3 + decode)
    assert model.ultimate_speedup == pytest.approx(recompute / decode)
    assert model.decoding_pays == (g > model.threshold_instructions)
    uses = model.break_even_uses
    if uses is None:
        assert not model.decoding_pays or recompute - decode < 1e-9 * recompute
    elif uses < 10**12:
        assert model.amortised_seconds(uses) <= recompute * (1 + 1e-9)
        if uses > 1:
            assert model.amortised_seconds(uses - 1) >= recompute * (1 - 1e-9)


@pytest.mark.parametrize("name", [*RATES, *LOOPS])
def test_model_refuses_what_makes_no_sense(name):
    with pytest.raises(dm.errors.InvalidArgument):
        dm.advanced.RecomputeModel(**(RATES | LOOPS | {name: -1.0}))
    with pytest.raises(dm.errors.InvalidArgument):
        dm.advanced.RecomputeModel(**RATES, **LOOPS).amortised_seconds(0)
