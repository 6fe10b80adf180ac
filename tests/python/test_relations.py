# SPDX-License-Identifier: BSD-3-Clause
"""Relations: move the same elements as NumPy's indexing, in every encoding."""

import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.lib.stride_tricks import sliding_window_view

import datamover as dm
from datamover import _plan
from datamover.array_copy import lies_on_itself

ENCODINGS = ["pairs", "blocks", "runs", "dictionary", "product", "offsets"]
MOST = 60
UFUNCS = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


@st.composite
def addresses(draw):
    """Sources of any kind and as many destinations that do not repeat."""
    destination = draw(st.lists(st.integers(0, MOST - 1), unique=True, max_size=MOST))
    if draw(st.booleans()):
        start, step = draw(st.integers(0, 9)), draw(st.integers(1, 3))
        destination = list(range(start, MOST, step))[: len(destination)]
    source = draw(
        st.lists(st.integers(0, MOST - 1), min_size=len(destination), max_size=len(destination))
    )
    if draw(st.booleans()):
        source = [(i * 2) % MOST for i in range(len(destination))]
    return np.array(source, dtype=np.int64), np.array(destination, dtype=np.int64)


def values(dtype, seed=0):
    raw = np.random.default_rng(seed).integers(1, 100, MOST)
    if np.dtype(dtype).names:
        return np.array([(v, v / 3) for v in raw], dtype=dtype)
    if np.dtype(dtype).kind == "M":
        return raw.astype("i8").view(dtype)
    return raw.astype(dtype)


class TestRelation:
    @given(addresses(), st.sampled_from(ENCODINGS), st.sampled_from([1, 3, 4, 8]))
    def test_every_encoding_holds_the_pairs(self, pairs, encoding, elem_bytes):
        source, destination = pairs
        relation = dm.advanced.AddressRelation.from_pairs(source, destination, elem_bytes).encode(
            encoding
        )
        assert relation.encoding == encoding or not len(relation)
        assert len(relation) == len(source) and relation.nbytes >= 0
        a, b = relation.to_pairs()
        np.testing.assert_array_equal(a, source * elem_bytes)
        np.testing.assert_array_equal(b, destination * elem_bytes)
        runs = relation.runs()
        assert runs.shape == (len(runs), 3) and runs[:, 2].sum() == len(source)
        if len(source):
            assert relation.source_bounds == (a.min(), a.max() + elem_bytes)
            assert relation.destination_bounds == (b.min(), b.max() + elem_bytes)
        again = dm.advanced.AddressRelation.from_byte_pairs(a, b, elem_bytes)
        assert again.to_pairs()[0].tolist() == a.tolist()

    @given(
        addresses(),
        st.sampled_from(ENCODINGS),
        st.sampled_from(["f8", "f4", "i2", "u1", "c16", "M8[s]", "f2", ">i4", "i4,f8", "S3"]),
    )
    def test_moves_what_numpy_indexing_moves(self, pairs, encoding, dtype):
        source, destination = pairs
        a, b = values(dtype), values(dtype, seed=1)
        relation = dm.advanced.AddressRelation.from_pairs(source, destination, a.itemsize).encode(
            encoding
        )
        expected = b.copy()
        expected[destination] = a[source]
        copied, scattered = b.copy(), b.copy()
        relation.copy(a, copied)
        np.testing.assert_array_equal(copied, expected)
        message = relation.gather(a)
        assert message.dtype == a.dtype
        np.testing.assert_array_equal(message, a[source])
        relation.scatter(message, scattered)
        np.testing.assert_array_equal(scattered, expected)
        buffer = np.zeros(MOST, dtype=dtype)
        assert relation.gather(a, buffer) is buffer
        np.testing.assert_array_equal(buffer[: len(source)], a[source])

    @given(
        addresses(),
        st.sampled_from(sorted(UFUNCS)),
        st.sampled_from(["f8", "f4", "i8", "u2"]),
        st.sampled_from(["f8", "i4", "c16"]),
    )
    def test_combines_and_converts_as_numpy_does(self, pairs, op, dtype, source_dtype):
        source, destination = pairs
        assume(np.can_cast(source_dtype, dtype, "same_kind"))
        a, b = values(source_dtype), values(dtype, seed=1)
        sizes = (a.itemsize, b.itemsize)
        relation = dm.advanced.AddressRelation.from_pairs(source, destination, sizes)
        expected = b.copy()
        expected[destination] = UFUNCS[op](expected[destination], a[source].astype(dtype))
        copied, scattered = b.copy(), b.copy()
        relation.copy(a, copied, op=op)
        np.testing.assert_array_equal(copied, expected)
        relation.scatter(relation.gather(a), scattered, op=op)
        np.testing.assert_array_equal(scattered, expected)
        relation.copy(a, copied)
        expected[destination] = a[source]
        np.testing.assert_array_equal(copied, expected)

    @given(addresses())
    def test_halves_join_to_the_whole(self, pairs):
        source, destination = pairs
        relation = dm.advanced.AddressRelation.from_pairs(source, destination, 8)
        first, second = relation.source_half(), relation.destination_half()
        assert first.to_pairs()[1].tolist() == (np.arange(len(source)) * 8).tolist()
        assert second.to_pairs()[0].tolist() == (np.arange(len(source)) * 8).tolist()
        joined = dm.advanced.AddressRelation.join(first, second)
        assert [x.tolist() for x in joined.to_pairs()] == [x.tolist() for x in relation.to_pairs()]
        back = relation.reversed().to_pairs()
        assert [x.tolist() for x in back[::-1]] == [x.tolist() for x in relation.to_pairs()]

    @given(addresses())
    def test_orders(self, pairs):
        relation = dm.advanced.AddressRelation.from_pairs(*pairs, elem_bytes=1)
        by_destination = relation.ordered_by_destination().to_pairs()
        by_source = relation.ordered_by_source().to_pairs()
        assert (np.diff(by_destination[1]) > 0).all() and (np.diff(by_source[0]) >= 0).all()
        expected = sorted(zip(*map(np.ndarray.tolist, pairs), strict=True))
        for a, b in (by_destination, by_source):
            assert sorted(zip(a.tolist(), b.tolist(), strict=True)) == expected

    @given(addresses(), st.sampled_from(ENCODINGS))
    def test_goes_through_bytes_and_pickles(self, pairs, encoding):
        relation = dm.advanced.AddressRelation.from_pairs(*pairs).encode(encoding)
        data = relation.to_bytes()
        for again in (
            dm.advanced.AddressRelation.from_bytes(data),
            dm.advanced.AddressRelation.from_bytes(bytearray(data)),
            pickle.loads(pickle.dumps(relation)),
        ):
            assert again.encoding == relation.encoding and again.nbytes == relation.nbytes
            assert [x.tolist() for x in again.to_pairs()] == [
                x.tolist() for x in relation.to_pairs()
            ]

    @given(addresses())
    def test_iovec_names_the_bytes_in_order(self, pairs):
        source, destination = pairs
        a = np.arange(MOST, dtype="u1")
        relation = dm.advanced.AddressRelation.from_pairs(source, destination, 1)
        for side, index in (("source", source), ("destination", destination)):
            pieces = relation.iovec(a, side)
            assert pieces.shape == (len(pieces), 2)
            start = a.__array_interface__["data"][0]
            read = [a[p - start : p - start + n] for p, n in pieces]
            assert np.concatenate([*read, a[:0]]).tolist() == index.tolist()
            np.testing.assert_array_equal(relation.iovec(start, side), pieces)

    def test_any_buffer_will_do(self):
        relation = dm.advanced.AddressRelation.from_pairs([0, 2], [1, 0], elem_bytes=2)
        out = bytearray(b"......")
        relation.copy(b"abcdef", out)
        assert out == b"efab.."
        relation.copy(memoryview(b"uvwxyz"), memoryview(out)[2:])
        assert out == b"efyzuv"
        assert relation.gather(b"abcdef").tobytes() == b"abef"
        as_numbers = np.zeros(3, "i2")
        relation.scatter(b"abcd", as_numbers)
        assert as_numbers.tobytes() == b"cdab\0\0"

    @pytest.mark.parametrize("op", ["add", "multiply", "min", "max"])
    def test_bare_bytes_are_combined_as_elements_of_the_destination(self, op):
        relation = dm.advanced.AddressRelation.from_pairs([0, 2], [3, 1])
        a, right = np.arange(10.0, 14.0), np.full(4, 11.0)
        relation.copy(a, right, op=op)
        answer = dm.advanced.AddressRelation.answer_get(relation.get_request(), a)
        for message in (answer, answer.tobytes()):
            got = np.full(4, 11.0)
            relation.scatter(message, got, op=op)
            assert got.tolist() == right.tolist()

    def test_bare_bytes_are_not_converted(self):
        relation = dm.advanced.AddressRelation.from_pairs([0, 2], [3, 1], elem_bytes=(8, 4))
        a, got = np.arange(10.0, 14.0), np.zeros(4, "f4")
        answer = dm.advanced.AddressRelation.answer_get(relation.get_request(), a)
        with pytest.raises(dm.errors.WrongType, match=r"not converted.*8 bytes.*of 4"):
            relation.scatter(answer, got)
        relation.scatter(answer.view("f8"), got)
        assert got.tolist() == [0, 12, 0, 10]

    def test_addresses_count_from_the_first_element_of_a_view(self):
        a = np.arange(10)
        relation = dm.advanced.AddressRelation.from_byte_pairs([0, -8, -16], [0, 8, 16], 8)
        out = np.zeros(3, int)
        relation.copy(a[::-1], out)
        assert out.tolist() == [9, 8, 7]
        with pytest.raises(dm.errors.OutOfRange):
            relation.copy(a, out)

    @pytest.mark.parametrize(
        ("source", "destination", "error"),
        [
            (np.zeros(9), np.zeros(9), dm.errors.OutOfRange),
            (np.zeros(10), np.zeros(4), dm.errors.OutOfRange),
            (np.zeros(10, "f4"), np.zeros(10), dm.errors.WrongType),
            (np.zeros(10), np.zeros(10, "f4"), dm.errors.WrongType),
            (np.zeros(10), bytes(80), dm.errors.InvalidArgument),
            (np.zeros(10, object), np.zeros(10), dm.errors.WrongType),
            (np.zeros(10), np.zeros(10, "M8[s]"), dm.errors.WrongType),
            (np.zeros(10), np.zeros(10, ">f8"), dm.errors.WrongType),
            ("text", np.zeros(10), dm.errors.WrongType),
            (np.zeros(10), None, TypeError),
            (np.zeros(10), np.float64(1), dm.errors.InvalidArgument),
        ],
    )
    def test_bad_memory_is_refused_before_anything_is_written(self, source, destination, error):
        relation = dm.advanced.AddressRelation.from_pairs([0, 9, 2], [0, 1, 4])
        source = np.ones_like(source) if isinstance(source, np.ndarray) else source
        before = np.array(destination, copy=True)
        with pytest.raises(error):
            relation.copy(source, destination)
        assert (np.array(destination) == before).all()

    def test_unsigned_indices_do_not_wrap_round(self):
        last = np.array([2**64 - 1], "u8")
        a, b = np.arange(5.0), np.zeros(5)
        for call in [
            lambda: dm.advanced.copy(a, b, source_index=[0], destination_index=last),
            lambda: dm.advanced.copy(a, b, source_index=last, destination_index=[0]),
            lambda: dm.advanced.AddressRelation.from_pairs(last, [0]),
            lambda: dm.IndexList((5,), [last]),
        ]:
            with pytest.raises(dm.errors.OutOfRange, match=str(2**64 - 1)):
                call()
        assert (b == 0).all()

    def test_a_message_too_short_is_refused_before_any_work(self):
        n = 1 << 40
        rows = dm.BlockCyclic((n,), "(cyclic(3))", 2)
        relation = dm.redistribute(rows, dm.BlockCyclic((n,), "(cyclic(5))", 2)).relation(0, 1)
        for call in [
            lambda: relation.scatter(np.zeros(9), np.zeros(9)),
            lambda: relation.gather(np.zeros(9), np.zeros(9)),
        ]:
            with pytest.raises(dm.errors.OutOfRange, match="too few"):
                call()

    def test_bad_messages_are_refused(self):
        relation = dm.advanced.AddressRelation.from_pairs([0, 9, 2], [0, 1, 4])
        frozen = np.zeros(5)
        frozen.flags.writeable = False
        for call, error in [
            (lambda: relation.gather(np.zeros(9)), dm.errors.OutOfRange),
            (lambda: relation.gather(np.zeros(10), np.zeros(2)), dm.errors.OutOfRange),
            (lambda: relation.gather(np.zeros(10), frozen), dm.errors.InvalidArgument),
            (lambda: relation.scatter(np.zeros(2), np.zeros(5)), dm.errors.OutOfRange),
            (lambda: relation.scatter(np.zeros(3), frozen), dm.errors.InvalidArgument),
            (
                lambda: relation.scatter(np.zeros(3), np.zeros(5), op="sub"),
                dm.errors.InvalidArgument,
            ),
            (lambda: relation.copy(b"x" * 80, np.zeros(5), op="add"), dm.errors.WrongType),
            (lambda: relation.iovec(np.zeros(9)), dm.errors.OutOfRange),
            (lambda: relation.iovec(np.zeros(10), "both"), dm.errors.InvalidArgument),
        ]:
            with pytest.raises(error):
                call()

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (([0, 1], [0]), dm.Mismatch),
            (([0, -1], [0, 1]), dm.errors.InvalidArgument),
            (([0, 1], [0, 1], 0), dm.errors.InvalidArgument),
            (([0.5], [1]), dm.errors.WrongType),
            (([0], [1], (8, 8, 8)), dm.errors.InvalidArgument),
        ],
    )
    def test_bad_addresses_are_refused(self, arguments, error):
        with pytest.raises(error):
            dm.advanced.AddressRelation.from_pairs(*arguments)

    @pytest.mark.parametrize("elem_bytes", [np.int64(4), (4, 4), [np.uint8(4), 4]])
    def test_sizes_of_elements_are_any_integers(self, elem_bytes):
        relation = dm.advanced.AddressRelation.from_pairs([0], [1], elem_bytes)
        assert relation.source_elem_bytes == relation.destination_elem_bytes == 4

    @pytest.mark.parametrize("elem_bytes", [1.5, "a", (8, "x"), np.float64(8)], ids=str)
    def test_sizes_of_elements_that_are_none(self, elem_bytes):
        with pytest.raises(dm.errors.WrongType, match="elem_bytes must be integers"):
            dm.advanced.AddressRelation.from_pairs([0], [1], elem_bytes)

    @pytest.mark.parametrize("elem_bytes", [2**63, (2**63, 2**63), [8], (8, 8, 8), []], ids=str)
    def test_sizes_of_elements_that_make_no_sense(self, elem_bytes):
        with pytest.raises((dm.errors.OutOfRange, dm.errors.InvalidArgument)):
            dm.advanced.AddressRelation.from_pairs([0], [1], elem_bytes)

    def test_bad_words_and_bytes_are_refused(self):
        relation = dm.advanced.AddressRelation.from_pairs([0, 1], [0, 1])
        with pytest.raises(dm.errors.InvalidArgument):
            relation.encode("zip")
        data = relation.to_bytes()
        for bad in (b"", data[:-1], data + b"x", b"x" * len(data)):
            with pytest.raises(dm.errors.InvalidArgument):
                dm.advanced.AddressRelation.from_bytes(bad)
        with pytest.raises(dm.Mismatch):
            dm.advanced.AddressRelation.join(
                relation, dm.advanced.AddressRelation.from_pairs([0], [0])
            )

    def test_compact_relations_do_not_grow_with_the_array(self):
        sizes = set()
        for n in (1024, 1_048_576):
            rows = dm.BlockCyclic((n, n), "(block, *)", nprocs=4)
            columns = dm.BlockCyclic((n, n), "(*, block)", nprocs=4)
            relation = dm.redistribute(rows, columns).relation(0, 3)
            assert relation.encoding == "product" and len(relation) == (n // 4) ** 2
            sizes.add(relation.nbytes)
        assert len(sizes) == 1 and sizes.pop() <= 512


@st.composite
def views(draw, dtype, shape):
    """A view of a larger array with the given shape: axes permuted, steps of any sign."""
    axes = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([-2, -1, 1, 3])) for _ in shape]
    base = np.random.default_rng(draw(st.integers(0, 99))).integers(
        1, 100, [shape[a] * abs(steps[a]) for a in axes]
    )
    view = base.astype(dtype).transpose(np.argsort(axes))
    return view[(..., *(slice(None, None, step) for step in steps))]


shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)


class TestCopy:
    @given(shapes, st.data())
    def test_is_numpys_assignment(self, shape, data):
        dtype = data.draw(st.sampled_from(["f8", "i4", "u1", "c16", "f2", "i4,f8"]))
        simple = "i4" if dtype == "i4,f8" else dtype
        a, b = data.draw(views(simple, shape)), data.draw(views(simple, shape))
        if dtype != simple:
            a, b = (np.array(x.astype(dtype)) for x in (a, b))
        dm.advanced.copy(a, b)
        np.testing.assert_array_equal(b, a)

    @given(shapes, st.data())
    def test_touches_nothing_between_the_elements(self, shape, data):
        a = data.draw(views("i8", shape))
        base = np.full([2 * n + 1 for n in shape], -1)
        view = base[(..., *(slice(None, 2 * n, 2) for n in shape))]
        expected = base.copy()
        expected[(..., *(slice(None, 2 * n, 2) for n in shape))] = a
        dm.advanced.copy(a, view)
        np.testing.assert_array_equal(base, expected)

    @pytest.mark.parametrize("seed", range(40))
    def test_rows_around_the_caches_go_where_others_do(self, seed):
        random = np.random.default_rng(seed)
        dtype = np.dtype(str(random.choice(["u1", "f4", "f8", "V16"])))
        shape = (*random.integers(1, 6, random.integers(0, 4)), random.integers(1, 400))
        wide = tuple(n + random.integers(0, 3) for n in shape)
        nbytes = int(np.prod(wide)) * dtype.itemsize
        memory = np.frombuffer(random.bytes(nbytes + 64), "u1").copy()
        expected = memory.copy()
        begin = int(random.integers(0, 65))
        backwards = int(random.choice([1, -1]))
        into = []
        for all_bytes in (memory, expected):
            whole = all_bytes[begin : begin + nbytes].view(dtype).reshape(wide)
            into.append(whole[tuple(map(slice, shape))][::backwards])
        source = np.frombuffer(random.bytes(into[0].nbytes), dtype).reshape(shape)
        _plan.copy_strided(source, into[0], around_caches=True)
        into[1][...] = source
        np.testing.assert_array_equal(memory, expected)

    def test_rows_around_the_caches_are_refused_as_others_are(self):
        a = np.arange(1000.0)
        frozen = np.zeros(1000)
        frozen.flags.writeable = False
        twice = np.lib.stride_tricks.as_strided(np.zeros(500), (2, 500), (0, 8))
        for source, destination, error in [
            (a, np.zeros(999), dm.Mismatch),
            (a, frozen, dm.errors.InvalidArgument),
            (a.reshape(2, 500), twice, dm.errors.InvalidArgument),
        ]:
            with pytest.raises(error):
                _plan.copy_strided(source, destination, around_caches=True)
            assert not destination.any()
        converted = np.zeros(1000, "i8")
        _plan.copy_strided(a, converted, around_caches=True)
        np.testing.assert_array_equal(converted, a)
        _plan.copy_strided(np.zeros((3, 0, 200)), np.zeros((3, 0, 200)), around_caches=True)

    @given(shapes, st.sampled_from(sorted(UFUNCS)), st.data())
    def test_combines_and_converts_as_numpy_does(self, shape, op, data):
        a, b = data.draw(views("i4", shape)), data.draw(views("f8", shape))
        expected = UFUNCS[op](b, a.astype("f8"))
        dm.advanced.copy(a, b, op=op)
        np.testing.assert_array_equal(b, expected)
        dm.advanced.copy(a, b)
        np.testing.assert_array_equal(b, a)

    def test_source_may_be_broadcast_and_read_only(self):
        b = np.zeros((3, 4))
        dm.advanced.copy(np.broadcast_to(np.arange(4.0), (3, 4)), b)
        np.testing.assert_array_equal(b, [[0, 1, 2, 3]] * 3)

    def test_memory_of_other_kinds(self):
        out = bytearray(3)
        dm.advanced.copy(b"abc", out)
        dm.advanced.copy(memoryview(b"xyz")[:2], memoryview(out)[1:])
        assert out == b"axy"
        for wrong in (3, [1, 2], None):
            with pytest.raises(dm.errors.WrongType):
                dm.advanced.copy(np.zeros(2), wrong)

    def test_interleaved_views_do_not_overlap(self):
        a = np.arange(10)
        dm.advanced.copy(a[::2], a[1::2])
        assert a.tolist() == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]

    def test_refuses_what_makes_no_sense(self):
        a = np.arange(12.0)
        frozen = np.zeros(3)
        frozen.flags.writeable = False
        for source, destination, error in [
            (a[:3], a[2:5], dm.errors.InvalidArgument),
            (a[::-1], a, dm.errors.InvalidArgument),
            (a[:3], np.zeros(4), dm.Mismatch),
            (a[:3], np.zeros((3, 1)), dm.Mismatch),
            (a[:3], frozen, dm.errors.InvalidArgument),
            (
                a[:3],
                np.lib.stride_tricks.as_strided(np.zeros(1), (3,), (0,)),
                dm.errors.InvalidArgument,
            ),
            (
                a[:6].reshape(3, 2),
                sliding_window_view(np.zeros(4), 2, writeable=True),
                dm.errors.InvalidArgument,
            ),
            (a[:3], np.zeros(3, "M8[s]"), dm.errors.WrongType),
            (a[:3].astype(object), np.zeros(3), dm.errors.WrongType),
        ]:
            before = destination.copy()
            with pytest.raises(error):
                dm.advanced.copy(source, destination)
            np.testing.assert_array_equal(destination, before)
        with pytest.raises(dm.errors.InvalidArgument):
            dm.advanced.copy(a[:3], np.zeros(3), op="average")

    @given(
        hnp.array_shapes(min_dims=1, max_dims=3, max_side=5),
        st.sampled_from([None, *sorted(UFUNCS)]),
        st.data(),
    )
    def test_rows_that_are_chosen_are_numpys(self, shape, op, data):
        n = data.draw(st.integers(0, 8))
        a, b = data.draw(views("i4", shape)), data.draw(views("f8", shape))
        rows = st.integers(-shape[0], shape[0] - 1)
        chosen = np.array(data.draw(st.lists(rows, min_size=n, max_size=n)), dtype=int)
        at = np.array(data.draw(st.lists(rows, min_size=n, max_size=n)), dtype=int)
        repeats = len(np.unique(at % shape[0])) < n
        expected = b.copy()
        if op is None:
            expected[at] = a[chosen]
        else:
            UFUNCS[op].at(expected, at, a[chosen])
        if op is None and repeats:
            before = b.copy()
            with pytest.raises(dm.errors.InvalidArgument):
                dm.advanced.copy(a, b, source_index=chosen, destination_index=at)
            np.testing.assert_array_equal(b, before)
            return
        dm.advanced.copy(a, b, op=op, source_index=chosen, destination_index=at)
        np.testing.assert_array_equal(b, expected)

    def test_choices_that_make_no_sense_are_refused(self):
        a, b = np.ones((3, 2)), np.zeros((3, 2))
        for options, error in [
            ({"source_index": [3]}, dm.errors.OutOfRange),
            ({"destination_index": [0, -4, 1]}, dm.errors.OutOfRange),
            ({"source_index": [0, 1]}, dm.Mismatch),
            ({"source_index": [0.5, 1, 2]}, dm.errors.WrongType),
            ({"source_index": [[0, 1, 2]]}, dm.errors.WrongType),
        ]:
            with pytest.raises(error):
                dm.advanced.copy(a, b, **options)
        with pytest.raises(dm.errors.InvalidArgument):
            dm.advanced.copy(np.array(1.0), np.array(2.0), source_index=[0])
        for source, destination in [([1.0, 2.0], b), (b, [1.0, 2.0]), (b"abc", b), (3, b)]:
            with pytest.raises(dm.errors.WrongType):
                dm.advanced.copy(source, destination, source_index=[0])
        assert not b.any()


class TestBound:
    @given(addresses(), st.sampled_from(ENCODINGS), st.sampled_from(["f8", "i2", "c16", "S3"]))
    def test_moves_what_the_relation_moves_each_time(self, pairs, encoding, dtype):
        source, destination = pairs
        a, b = values(dtype), values(dtype, seed=1)
        relation = dm.advanced.AddressRelation.from_pairs(
            source, destination, elem_bytes=a.itemsize
        ).encode(encoding)
        message, c = np.zeros(len(source), dtype), b.copy()
        copy, gather = relation.bind(a, b), relation.bind(a, buffer=message)
        scatter = relation.bind(destination=c, buffer=message)
        for seed in range(3):
            a[:] = values(dtype, seed=seed)
            expected = b.copy()
            expected[destination] = a[source]
            assert copy() is None
            gather()
            scatter()
            assert np.array_equal(b, expected)
            assert np.array_equal(message, a[source])
            assert np.array_equal(c, expected)
        assert len(copy) == len(source) and copy.source is a and copy.destination is b

    def test_keeps_relation_and_arrays_alive(self):
        b = np.zeros(3)
        move = dm.advanced.AddressRelation.from_pairs([2, 0, 1], range(3)).bind(np.arange(3.0), b)
        move()
        assert b.tolist() == [2, 0, 1]
        view = bytearray(16)
        move = dm.advanced.AddressRelation.from_pairs([0], [1]).bind(np.array([1.5]), view)
        with pytest.raises(BufferError):
            view.clear()
        move()
        assert np.frombuffer(view)[1] == 1.5

    def test_combines_and_converts(self):
        b = np.ones(4, "f4")
        add = dm.advanced.AddressRelation.from_pairs([0, 1], [3, 3], elem_bytes=(2, 4)).bind(
            np.array([5, 6], "i2"), b, op="add"
        )
        add()
        add()
        assert b.tolist() == [1, 1, 1, 23]

    def test_takes_two_of_three(self):
        relation = dm.advanced.AddressRelation.from_pairs([0, 1], [1, 0])
        a, b, c = np.zeros(2), np.zeros(2), np.zeros(2)
        for given_ones in ({}, {"source": a}, {"source": a, "destination": b, "buffer": c}):
            with pytest.raises(
                dm.errors.InvalidArgument, match="two of source, destination and buffer"
            ):
                relation.bind(**given_ones)
        with pytest.raises(dm.errors.InvalidArgument, match="only filled"):
            relation.bind(source=a, buffer=c, op="add")
        for wrong in ({"source": a[:1], "destination": b}, {"source": a, "buffer": c[:1]}):
            with pytest.raises(dm.errors.OutOfRange):
                relation.bind(**wrong)
        c.flags.writeable = False
        with pytest.raises(dm.errors.InvalidArgument, match="read-only"):
            relation.bind(a, c)
        with pytest.raises(dm.errors.WrongType):
            relation.bind(a.astype("f4"), b)


class TestLimits:
    def test_a_relation_of_few_bytes_and_many_elements(self):
        repeated = dm.advanced.AddressRelation.from_pairs(
            np.zeros(1 << 16, int), np.arange(1 << 16)
        )
        data = repeated.to_bytes()
        assert len(data) < 200
        with pytest.raises(
            dm.errors.OutOfRange, match="65536 elements, where at most 1000 are taken"
        ):
            dm.advanced.AddressRelation.from_bytes(data, max_elements=1000)
        assert len(dm.advanced.AddressRelation.from_bytes(data, max_elements=1 << 16)) == 1 << 16

    def test_answers_are_bounded(self):
        repeated = dm.advanced.AddressRelation.from_pairs(
            np.zeros(1 << 16, int), np.arange(1 << 16)
        )
        request, source = repeated.get_request(), np.array([7.0])
        with pytest.raises(dm.errors.OutOfRange, match="at most"):
            dm.advanced.AddressRelation.answer_get(request, source)
        with pytest.raises(dm.errors.InvalidArgument, match="negative"):
            dm.advanced.AddressRelation.answer_get(request, source, max_bytes=-1)
        answer = dm.advanced.AddressRelation.answer_get(request, source, max_bytes=8 << 16)
        assert (answer.view("f8") == 7).all() and len(answer) == 8 << 16

    @pytest.mark.parametrize("far", [2**62, -(2**62), 2**63 - 1])
    def test_addresses_that_64_bits_cannot_compute_with(self, far):
        for pair in (([0, far], [0, 1]), ([0, 1], [0, far])):
            with pytest.raises(dm.errors.InvalidArgument, match=str(far)):
                dm.advanced.AddressRelation.from_pairs(*pair)
            with pytest.raises(dm.errors.InvalidArgument, match=str(far)):
                dm.advanced.AddressRelation.from_byte_pairs(*pair)


@given(
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    st.tuples(*[st.integers(-12, 12)] * 3),
    st.sampled_from(["u1", "u2", "u4"]),
)
def test_what_lies_on_itself_against_counting(shape, strides, dtype):
    """Every byte of every element is counted; a destination is refused where one is of two."""
    strides = strides[: len(shape)]
    memory = np.zeros(200, "u1")
    array = np.ndarray(shape, dtype, memory, 100, strides)
    first_bytes = sum(np.ogrid[[slice(n) for n in shape]][d] * s for d, s in enumerate(strides))
    used = np.add.outer(np.broadcast_to(first_bytes, shape), np.arange(array.itemsize))
    meets = len(np.unique(used)) < used.size
    assert lies_on_itself(array) == meets
    if meets:
        with pytest.raises(dm.errors.InvalidArgument):
            dm.advanced.copy(np.ones(shape, dtype), array)
        assert not memory.any()
