// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of RelationCache and RecomputeModel.
#include "datamover/advanced/relation_cache.hpp"
#include "generated/plan_dicts.hpp"
#include "module.hpp"

namespace datamover::bindings {

namespace {

/// An empty hint ties nothing.
std::vector<std::int64_t> hint_words(const std::string& hint) {
    return hint.empty() ? std::vector<std::int64_t>{} : words_of(hint);
}

AddressRelation made_by(const std::function<nb::object()>& make) {
    const nb::object made = make();
    AddressRelation relation;
    if (!nb::try_cast(made, relation))
        throw make_error(ErrorCode::wrong_type, "make gave a ", nb::type_name(made.type()).c_str(),
                         ", it must give an AddressRelation");
    return relation;
}

}  // namespace

/** Python RelationCache
A cache of relations with a memory limit.

The least recently used ones are evicted first. Relations with the same hint belong to one operation
and are evicted together, because one of them is of little use without the others. An evicted
relation is created again when it is needed.

Parameters
----------
limit_bytes : int
    Maximum number of bytes of the encodings of all stored relations.

Raises
------
InvalidArgument
    The limit is negative.

Notes
-----
Source: the paper on compact address relations, section on discussion.

Examples
--------
>>> import numpy as np, datamover as dm
>>> def every(step):
...     addresses = np.arange(0, 1000 * step, step)
...     return dm.advanced.AddressRelation.from_pairs(addresses, np.arange(1000))
>>> cache = dm.advanced.RelationCache(limit_bytes=10_000)
>>> for _ in range(3):
...     third = cache.get("third", lambda: every(3), hint="row exchange")
>>> cache.statistics["hits"], cache.statistics["misses"]
(2, 1)
>>> cache.limit_bytes = 0
>>> cache.statistics["evictions"], cache.statistics["held_bytes"]
(1, 0)
*/
/** Python RelationCache.get
Return the relation of a key from the cache, or create it.

Parameters
----------
key : str
    Its unique key.
make : callable
    Makes the relation; it must give the same one every time. What it raises is passed on.
hint : str, optional
    Relations with the same hint are evicted together.

Returns
-------
AddressRelation
    One that alone exceeds the limit is returned but not kept.

Raises
------
WrongType
    `make` gives anything else.
*/
void bind_relation_cache(nb::module_& m) {
    Class<RelationCache>(m, "RelationCache")
        .def(nb::init<std::int64_t>(), "limit_bytes"_a)
        .def(
            "get",
            [](RelationCache& cache, const std::string& key,
               const std::function<nb::object()>& make, const std::string& hint) {
                return cache.get(words_of(key), [&] { return made_by(make); }, hint_words(hint));
            },
            "key"_a, "make"_a, "hint"_a = "",
            nb::sig("def get(self, key: str, make: collections.abc.Callable[[], AddressRelation], "
                    "hint: str = '') -> AddressRelation"))
        /// Forget the relations of a hint; returns their number.
        .def(
            "drop",
            [](RelationCache& cache, const std::string& hint) {
                return cache.drop(hint_words(hint));
            },
            "hint"_a)
        /// Remove all relations.
        .def("clear", &RelationCache::clear)
        /// The bound, in bytes. When it is lowered, what no longer fits leaves at once.
        .def_prop_rw(
            "limit_bytes", [](const RelationCache& c) { return c.statistics().limit_bytes; },
            &RelationCache::set_limit)
        /// Counts so far of hits, misses and evictions; relations and held_bytes now;
        /// limit_bytes.
        .def_prop_ro(
            "statistics", [](const RelationCache& c) { return as_dict(c.statistics()); },
            nb::sig("def statistics(self) -> dict[str, int]"))
        .def("__repr__", [](const RelationCache& cache) {
            const RelationCacheStatistics s = cache.statistics();
            return concat("<RelationCache of ", s.relations, " relations, ", s.held_bytes, " of ",
                          s.limit_bytes, " bytes>");
        });
}

// Python bindings of RecomputeModel. As RecomputeModel.

/** Python RecomputeModel
Model of when it is faster to keep a relation and decode it than to recompute it.

The paper's model for a relation of pairs that is put: data and destination addresses both enter the
message. Times are in seconds per element. `datamover bench model` measures the parameters.

Parameters
----------
instructions : float
    Integer instructions that the machine issues per second.
read_contiguous, read_random, write_contiguous : float
    Words (addresses or elements) read or written per second.
generate : float
    Instructions to compute one pair of addresses.
recompute, decode, encode : float
    Instructions per element of the loops that recompute, decode and store.

Raises
------
InvalidArgument
    A rate is not positive or a number of instructions negative.

Notes
-----
Source: the paper on compact address relations, its section on assembly models.

Examples
--------
>>> import datamover as dm
>>> model = dm.advanced.RecomputeModel(instructions=3e9, read_contiguous=1e9, read_random=2e8,
...                           write_contiguous=8e8, generate=30, recompute=4, decode=4, encode=4)
>>> model.decoding_pays, model.break_even_uses, round(model.ultimate_speedup, 2)
(True, 2, 1.74)
*/
void bind_recompute_model(nb::module_& m) {
    Class<RecomputeModel>(m, "RecomputeModel")
        .def(
            "__init__",
            [](RecomputeModel* self, double instructions, double read_contiguous,
               double read_random, double write_contiguous, double generate, double recompute,
               double decode, double encode) {
                new (self) RecomputeModel(
                    MachineRates{instructions, read_contiguous, read_random, write_contiguous},
                    LoopInstructions{generate, recompute, decode, encode});
            },
            nb::kw_only(), "instructions"_a, "read_contiguous"_a, "read_random"_a,
            "write_contiguous"_a, "generate"_a, "recompute"_a, "decode"_a, "encode"_a)
        /// Time to compute, read and write one element.
        .def_prop_ro("recompute_seconds", &RecomputeModel::recompute_seconds)
        /// Time to decode, read and write one element.
        .def_prop_ro("decode_seconds", &RecomputeModel::decode_seconds)
        /// Time per element and use of a relation that is used so often after it was made.
        ///
        /// Raises InvalidArgument for less than one use.
        .def("amortised_seconds", &RecomputeModel::amortised_seconds, "uses"_a)
        /// Instructions per pair above which decoding is quicker in the long run.
        .def_prop_ro("threshold_instructions", &RecomputeModel::threshold_instructions)
        /// Whether it ever pays to keep the relation.
        .def_prop_ro("decoding_pays", &RecomputeModel::decoding_pays)
        /// Uses after which making the relation has paid; None when it never does.
        .def_prop_ro("break_even_uses",
                     [](const RecomputeModel& model) -> std::optional<std::int64_t> {
                         const std::int64_t uses = model.break_even_uses();
                         if (uses == RecomputeModel::never) return std::nullopt;
                         return uses;
                     })
        /// How many times quicker decoding is in the end.
        .def_prop_ro("ultimate_speedup", &RecomputeModel::ultimate_speedup)
        .def("__repr__", [](const nb::handle& model) {
            return formatted(
                "<RecomputeModel: {:.3g} s to recompute, {:.3g} s to decode an element>",
                model.attr("recompute_seconds"), model.attr("decode_seconds"));
        });
}

}  // namespace datamover::bindings
