// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of AddressRelation: making relations, and looking at them.
#include "generated/plan_dicts.hpp"
#include "module.hpp"

namespace datamover::bindings {
namespace {

/// Size of an element on both sides: one number, or a pair of numbers.
std::pair<std::int64_t, std::int64_t> both_sizes(nb::handle elem_bytes) {
    std::int64_t bytes = 0;
    if (nb::isinstance<nb::int_>(elem_bytes) && nb::try_cast(elem_bytes, bytes))
        return {bytes, bytes};
    const bool several = nb::isinstance<nb::sequence>(elem_bytes);
    const auto sizes = Integers(elem_bytes, "elem_bytes").to_vector();
    if (!several && sizes.size() == 1) return {sizes[0], sizes[0]};
    if (sizes.size() != 2)
        throw Error(
            ErrorCode::invalid_argument,
            "elem_bytes must be one number, or one for the source and one for the destination");
    return {sizes[0], sizes[1]};
}

using Sizes = std::variant<std::int64_t, std::pair<std::int64_t, std::int64_t>>;

/// A relation from addresses in any array-like objects.
template <auto make>
AddressRelation made_from(Given<ArrayLike> source, Given<ArrayLike> destination,
                          Given<Sizes> elem_bytes) {
    const auto [from, to] = both_sizes(elem_bytes);
    return make(Integers(source, "source addresses").to_vector(),
                Integers(destination, "destination addresses").to_vector(), from, to);
}

std::pair<NumpyArray<std::int64_t>, NumpyArray<std::int64_t>> to_pairs(
    const AddressRelation& relation, std::int64_t max_elems) {
    relation.check_expandable(max_elems);
    std::vector<std::int64_t> source, destination;
    {
        Unlocked release;
        relation.to_pairs(source, destination);
    }
    return {array_of(std::move(source)), array_of(std::move(destination))};
}

NumpyArray<std::int64_t> runs(const AddressRelation& relation, std::int64_t max_elems) {
    relation.check_expandable(max_elems);
    std::vector<std::int64_t> rows;
    relation.for_each_run([&](std::int64_t source, std::int64_t destination, std::int64_t elems) {
        rows.insert(rows.end(), {source, destination, elems});
    });
    const std::size_t n = rows.size() / 3;
    return array_of(std::move(rows), {n, 3});
}

/** Python AddressRelation.from_pairs
A relation from element addresses, in the order given.

The encoding is chosen by size and predicted speed. Takes time in the number of pairs.

Parameters
----------
source, destination : (n,) array of int
    Element addresses, at least 0: element source[k] goes to element destination[k].
elem_bytes : int or (int, int)
    Size of an element; of the source and of the destination where they differ.

Raises
------
Mismatch
    There are more sources than destinations, or fewer.
InvalidArgument
    An address is negative, or an element size not positive.
WrongType
    The addresses are not integers.
*/
/** Python AddressRelation.join
The k-th source of one half goes to the k-th destination of another.

Raises Mismatch when they hold different numbers of elements.
*/
/** Python AddressRelation.encode
The same pairs in the same order, stored in another encoding.

Takes time and memory in the number of elements.

Parameters
----------
encoding : {"pairs", "blocks", "runs", "dictionary", "product", "offsets"}
    The encoding. Each can store any relation.
max_elems : int
    Maximum number of elements, because a short encoding may represent very many. Does not apply
    if they are already stored as products.

Raises
------
InvalidArgument
    On another word, or beyond `max_elems` elements.
*/
void bind_making(Class<AddressRelation>& c) {
    c.def_static("from_pairs", &made_from<&AddressRelation::from_pairs>, "source"_a,
                 "destination"_a, "elem_bytes"_a = 8)
        /// The same from byte addresses, as `to_pairs` gives them; they may be negative.
        .def_static("from_byte_pairs", &made_from<&AddressRelation::from_byte_pairs>, "source"_a,
                    "destination"_a, "elem_bytes"_a = 8)
        .def_static("join", &AddressRelation::join, "source_half"_a, "destination_half"_a)
        .def(
            "encode",
            [](const AddressRelation& relation, const std::string& encoding,
               std::int64_t max_elems) {
                return relation.encode(encoding_from_name(encoding), max_elems);
            },
            "encoding"_a, "max_elems"_a = AddressRelation::most_expanded)
        /// The same sources, going to 0, 1, 2, …: assembly of a message.
        .def("source_half", &AddressRelation::source_half, "message_elem_bytes"_a = 0)
        /// 0, 1, 2, … going to the same destinations: disassembly of a message.
        .def("destination_half", &AddressRelation::destination_half, "message_elem_bytes"_a = 0)
        /// The same pairs, ordered by source address; at most `max_elems` of them, else
        /// InvalidArgument.
        .def("ordered_by_source", &AddressRelation::ordered_by_source,
             "max_elems"_a = AddressRelation::most_expanded)
        /// The same pairs, ordered by destination address; at most `max_elems` of them, else
        /// InvalidArgument.
        .def("ordered_by_destination", &AddressRelation::ordered_by_destination,
             "max_elems"_a = AddressRelation::most_expanded)
        /// Source and destination exchanged.
        .def("reversed", &AddressRelation::reversed);
}

nb::dict explain(const AddressRelation& relation, std::int64_t most_elems) {
    const EncodingChoice choice = explain_encoding(relation, most_elems);
    nb::dict candidates;
    for (const EncodingEstimate& e : choice.estimates) {
        candidates[encoding_name(e.encoding)] =
            dict_of("nbytes"_a = e.nbytes, "decode_seconds"_a = e.decode_seconds);
    }
    const bool same_size = relation.source_elem_bytes() == relation.destination_elem_bytes();
    return dict_of("encoding"_a = encoding_name(choice.chosen), "reason"_a = choice.reason,
                   "kernel"_a = same_size ? relation.kernel().describe() : "conversion",
                   "candidates"_a = candidates);
}

void bind_costs(nb::module_& m) {
    m.def(
        "decoding_costs", [] { return as_dict(decoding_costs()); },
        nb::sig("def decoding_costs() -> dict[str, float]"),
        "The costs, in nanoseconds, that encodings are chosen by in this process.");
    m.def(
        "set_decoding_costs",
        [](double pair, double block, double symbol, double offset, double byte,
           double tolerated_slowness) {
            set_decoding_costs({pair, block, symbol, offset, byte, tolerated_slowness});
        },
        nb::kw_only(), "pair"_a, "block"_a, "symbol"_a, "offset"_a, "byte"_a,
        "tolerated_slowness"_a,
        "Set the costs that encodings are chosen by in this process, in nanoseconds.");
}

template <Side side>
std::pair<std::int64_t, std::int64_t> bounds_on(const AddressRelation& relation) {
    return {relation.bounds(side).begin_bytes, relation.bounds(side).end_bytes};
}

/** Python AddressRelation.explain
Which encoding was chosen, why, and what the others would cost.

Parameters
----------
max_elems : int
    Every encoding is tried, which takes time and memory in the number of elements; where the
    relation has more than these, none is.

Returns
-------
dict
    `encoding`, `reason`, `kernel` (the loops of a plain copy) and `candidates`: per encoding its
    `nbytes` and predicted `decode_seconds` beyond moving the bytes, empty where none was tried.
    The prediction uses the costs
    that `datamover bench model` measured on this machine, if it did.

Examples
--------
>>> import numpy as np, datamover as dm
>>> index = np.random.default_rng(0).permutation(1000)
>>> found = dm.advanced.AddressRelation.from_pairs(index, np.arange(1000)).explain()
>>> found["encoding"], found["candidates"]["pairs"]["nbytes"]
('offsets', 16000)
*/
void bind_looking(Class<AddressRelation>& c) {
    c.def("__len__", &AddressRelation::size)
        /// Name of the encoding.
        .def_prop_ro("encoding",
                     [](const AddressRelation& r) { return encoding_name(r.encoding()); })
        /// Bytes that the encoding occupies.
        .def_prop_ro("nbytes", &AddressRelation::nbytes)
        /// Size of a source element.
        .def_prop_ro("source_elem_bytes", &AddressRelation::source_elem_bytes)
        /// Size of a destination element.
        .def_prop_ro("destination_elem_bytes", &AddressRelation::destination_elem_bytes)
        /// The lowest source address in bytes, and one past the highest.
        .def_prop_ro("source_bounds", &bounds_on<Side::source>)
        /// The lowest destination address in bytes, and one past the highest.
        .def_prop_ro("destination_bounds", &bounds_on<Side::destination>)
        /// Whether the sources are one ascending run: nothing to assemble.
        .def_prop_ro("source_contiguous", &AddressRelation::source_contiguous)
        /// Whether the destinations are one ascending run: nothing to disassemble.
        .def_prop_ro("destination_contiguous", &AddressRelation::destination_contiguous)
        /// All pairs in order: two int64 arrays of byte addresses, of sources and destinations.
        /// Beyond `max_elems` of them, InvalidArgument.
        .def("to_pairs", &to_pairs, "max_elems"_a = AddressRelation::most_expanded)
        /// Maximal runs that are contiguous on both sides, in order: an (n, 3) array (int64) of
        /// source and destination byte address and number of elements. Takes time in the number
        /// of elements; beyond `max_elems` of them, InvalidArgument.
        .def("runs", &runs, "max_elems"_a = AddressRelation::most_expanded)
        /// Whether elements have the same destination: only an `op` makes sense then.
        .def_prop_ro("destinations_repeat", &AddressRelation::destinations_repeat)
        /// The loops that a plain copy takes.
        .def("describe", [](const AddressRelation& r) { return r.kernel().describe(); })
        .def("explain", &explain, "max_elems"_a = std::int64_t{1} << 24,
             nb::sig("def explain(self, max_elems: int = 16777216) -> dict[str, typing.Any]"))
        .def("__repr__", [](const AddressRelation& r) {
            return concat("<AddressRelation of ", r.size(), " elements, ",
                          encoding_name(r.encoding()), " in ", r.nbytes(), " bytes>");
        });
}

}  // namespace

/** Python AddressRelation
An ordered set of pairs of source and destination addresses.

Stored compactly, in one of six encodings, and decoded while copying. Immutable and cheap to copy.
Its order is that of a message. Made by `MotionPlan.relation`, or from arrays of addresses by
`from_pairs`.

Notes
-----
The encodings and their names in the paper on compact address relations: pairs (AAPAIR), blocks
(AABLK), runs (DMRLE), dictionary (DMRLEC); product and offsets are ours.

Examples
--------
>>> import numpy as np, datamover as dm
>>> index = np.arange(0, 1000, 4)
>>> every_fourth = dm.advanced.AddressRelation.from_pairs(index, np.arange(250))
>>> len(every_fourth), every_fourth.encoding, every_fourth.nbytes < 200
(250, 'product', True)
>>> values, picked = np.arange(1000.0), np.zeros(250)
>>> every_fourth.copy(values, picked)
>>> picked[:4]
array([ 0.,  4.,  8., 12.])
>>> every_fourth.reversed().copy(picked, values, op="add")
>>> values[4]
np.float64(8.0)
*/
void bind_relation(nb::module_& m) {
    Class<AddressRelation> c(m, "AddressRelation");
    bind_making(c);
    bind_costs(m);
    bind_relation_copies(m, c);
    bind_looking(c);
    bind_relation_messages(c);
}

}  // namespace datamover::bindings
