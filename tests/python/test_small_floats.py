# SPDX-License-Identifier: BSD-3-Clause
"""Floats of 8 and 16 bits: converted and combined as by NumPy and ml_dtypes."""

import itertools

import numpy as np
import pytest

import datamover as dm
from datamover.arrays import number_name

ml_dtypes = pytest.importorskip("ml_dtypes")
SMALL = [
    np.dtype(np.float16),
    np.dtype(ml_dtypes.bfloat16),
    np.dtype(ml_dtypes.float8_e4m3fn),
    np.dtype(ml_dtypes.float8_e5m2),
]
WIDE = [np.dtype(name) for name in ("f4", "f8", "c8", "c16")]
INTEGERS = [np.dtype(name) for name in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]
UFUNCS = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


def every(dtype):
    """All values of a small type."""
    count = 1 << (8 * dtype.itemsize)
    return np.arange(count, dtype=f"u{dtype.itemsize}").view(dtype)


def around(dtype, wide):
    """Numbers at, beside and half-way between the values of a small type, and beyond them."""
    with np.errstate(all="ignore"):
        known = np.unique(every(dtype).astype("f8"))
        known = known[np.isfinite(known)]
        halves = (known[1:] + known[:-1]) / 2
        numbers = np.concatenate([known, halves, known * 1.5, [0.0, -0.0]]).astype(wide)
        ends = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-30, 464.0, 465.0], dtype=wide)
        return np.concatenate(
            [numbers, np.nextafter(numbers, np.inf), np.nextafter(numbers, -np.inf), ends]
        ).astype(wide)


def converted(a, dtype):
    """What `copy` makes of an array, in another order than it has."""
    b = np.zeros(len(a), dtype)
    dm.advanced.copy(a[::-1], b[::-1])
    index = np.random.default_rng(0).permutation(len(a))
    c = np.zeros(len(a), dtype)
    dm.advanced.AddressRelation.from_pairs(index, index, elem_bytes=(a.itemsize, c.itemsize)).copy(
        a, c
    )
    assert same(b, c)
    return b


def same(a, b):
    """Equal numbers with equal signs; any NaN equals any other."""
    if a.dtype.kind == "c":
        return same(a.real, b.real) and same(a.imag, b.imag)
    if a.dtype.kind in "iub":
        return np.array_equal(a, b)
    with np.errstate(all="ignore"):
        a, b = a.astype("f8"), b.astype("f8")
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(
        np.signbit(a)[~np.isnan(a)], np.signbit(b)[~np.isnan(b)]
    )


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_every_value_becomes_the_same_number(dtype):
    values = every(dtype)
    with np.errstate(all="ignore"):
        for other in WIDE + SMALL + [np.dtype(bool)]:
            assert same(converted(values, other), values.astype(other)), other


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_numbers_are_rounded_to_the_nearest_and_ties_to_even(dtype):
    with np.errstate(all="ignore"):
        for wide in ("f4", "f8"):
            numbers = around(dtype, wide)
            assert same(converted(numbers, dtype), numbers.astype(dtype)), wide
            complexes = numbers.astype({"f4": "c8", "f8": "c16"}[wide])
            complexes.imag = 1
            assert same(converted(complexes, dtype), numbers.astype(dtype)), complexes.dtype


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_integers_and_booleans_both_ways(dtype):
    random = np.random.default_rng(1)
    for kind in INTEGERS:
        limits = np.iinfo(kind)
        numbers = random.integers(limits.min, limits.max, 2000, kind, endpoint=True)
        numbers[:1000] >>= random.integers(0, 8 * kind.itemsize, 1000).astype(kind)
        with np.errstate(all="ignore"):
            assert same(converted(numbers, dtype), numbers.astype(dtype)), kind
            values = every(dtype)
            fits = np.abs(values.astype("f8")) <= 127
            if kind.kind == "u":
                fits &= values.astype("f8") > -1
            assert same(converted(values[fits], kind), values[fits].astype(kind)), kind
    truth = random.integers(0, 2, 100).astype(bool)
    assert same(converted(truth, dtype), truth.astype(dtype))


@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_combines_as_numpy_does(dtype, op):
    random = np.random.default_rng(2)
    values = every(dtype)
    if dtype.itemsize == 1:
        a, b = (x.copy() for x in np.array(list(itertools.product(values, values)), dtype).T)
    else:
        a, b = random.choice(values, 60_000), random.choice(values, 60_000)
        with np.errstate(all="ignore"):
            near = a[:20_000].astype("f4") * random.uniform(0.5, 2, 20_000)
            b[:20_000] = near.astype(dtype)
    with np.errstate(all="ignore"):
        expected = UFUNCS[op](b, a)
        in_order, listed = b.copy(), b.copy()
        dm.advanced.copy(a, in_order, op=op)
        index = random.permutation(len(a))
        dm.advanced.AddressRelation.from_pairs(index, index, elem_bytes=dtype.itemsize).copy(
            a, listed, op=op
        )
    if op in ("min", "max"):  # which of two zeros it is, NumPy leaves open
        zero = expected.astype("f4") == 0
        assert (in_order[zero].astype("f4") == 0).all()
        a, b, expected, in_order, listed = (x[~zero] for x in (a, b, expected, in_order, listed))
        assert same(in_order, expected)
        assert same(listed, expected)
        return
    assert same(in_order, expected)
    assert same(listed, expected)


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_sums_at_repeated_destinations(dtype):
    random = np.random.default_rng(3)
    a = random.integers(1, 3, 200).astype(dtype)
    at = random.integers(0, 40, 200)
    b, expected = np.zeros(40, dtype), np.zeros(40, dtype)
    dm.advanced.AddressRelation.from_pairs(np.arange(200), at, elem_bytes=dtype.itemsize).copy(
        a, b, op="add"
    )
    for value, k in zip(a, at, strict=True):
        expected[k] += value
    assert same(b, expected)


def test_they_are_numbers_of_arrays_too():
    assert [number_name(d) for d in SMALL] == [
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
    ]
    assert number_name(np.dtype(">f2")) == "opaque"
    assert number_name(np.dtype("V2")) == "opaque"


def test_bytes_of_the_same_width_are_no_numbers():
    with pytest.raises(dm.errors.WrongType, match="not possible"):
        dm.advanced.copy(np.zeros(3, "V2"), np.zeros(3, ml_dtypes.bfloat16))
    with pytest.raises(dm.errors.WrongType, match="e4m3fn"):
        dm.advanced.copy(np.zeros(3, ml_dtypes.float8_e4m3), np.zeros(3, "f4"))


@pytest.mark.parametrize("op", [None, "add"])
@pytest.mark.parametrize("to", ["?", "i1", "u1", "f8", "float8_e5m2", "float8_e4m3fn"])
@pytest.mark.parametrize("of", ["?", "i1", "u1", "f8", "float8_e5m2", "float8_e4m3fn"])
def test_a_message_is_converted_as_a_copy(of, to, op):
    of, to = (np.dtype(getattr(ml_dtypes, t) if "_" in t else t) for t in (of, to))
    if of == "u1" and to.itemsize == 1 and to.kind not in "biu":
        pytest.skip("bytes, as which answers come")
    relation = dm.advanced.AddressRelation.from_pairs([0, 2], [3, 1], (of.itemsize, to.itemsize))
    a = np.array([1, 0, 2, 1]).astype(of)
    copied, scattered = (np.ones(4, to) for _ in range(2))
    relation.copy(a, copied, op=op)
    relation.scatter(relation.gather(a), scattered, op=op)
    assert scattered.tolist() == copied.tolist()


@pytest.mark.parametrize("dtype", ["S1", "?", "i1", "float8_e5m2", "float8_e4m3fn"])
def test_an_answer_of_one_byte_elements_arrives_as_it_is(dtype):
    dtype = np.dtype(getattr(ml_dtypes, dtype) if "_" in dtype else dtype)
    relation = dm.advanced.AddressRelation.from_pairs([0, 2], [3, 1], elem_bytes=1)
    a, got = np.array([1, 0, 1, 0]).astype(dtype), np.zeros(4, dtype)
    relation.scatter(dm.advanced.AddressRelation.answer_get(relation.get_request(), a), got)
    assert got[[3, 1]].tolist() == a[[0, 2]].tolist()
