// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of migrations of single elements, and of index lists made by all processes.
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "array_memory.hpp"
#include "casters.hpp"
#include "class_members.hpp"
#include "datamover/index_lists.hpp"
#include "datamover/migration.hpp"
#include "datamover/targets.hpp"
#include "errors.hpp"
#include "module.hpp"
#include "numpy_arrays.hpp"

namespace datamover::bindings {
namespace {

/// (address, element bytes, stride bytes, type, name of the type) of a column.
ElementColumn column_of(const nb::handle& described) {
    const nb::tuple t = nb::cast<nb::tuple>(described);
    return {reinterpret_cast<const void*>(nb::cast<std::uintptr_t>(t[0])),
            nb::cast<std::int64_t>(t[1]), nb::cast<std::int64_t>(t[2]),
            scalar_type_of(nb::cast<std::string>(t[3])), nb::cast<std::string>(t[4])};
}

std::vector<ElementColumn> columns_of(const nb::list& described) {
    std::vector<ElementColumn> columns;
    for (const nb::handle h : described) columns.push_back(column_of(h));
    return columns;
}

/// (address, bytes) of memory of the caller.
ElementBuffer buffer_of(const nb::handle& described) {
    const nb::tuple t = nb::cast<nb::tuple>(described);
    return {reinterpret_cast<std::byte*>(nb::cast<std::uintptr_t>(t[0])),
            nb::cast<std::int64_t>(t[1]),
            {}};
}

NumpyArray<std::uint8_t> bytes_of(ElementBuffer&& buffer) {
    auto* const data = reinterpret_cast<std::uint8_t*>(buffer.data);
    const auto bytes = static_cast<std::size_t>(buffer.bytes);
    return array_over(data, {bytes}, std::move(buffer));
}

nb::list arrays_of(std::vector<ElementBuffer>&& buffers) {
    nb::list arrays;
    for (ElementBuffer& buffer : buffers) arrays.append(bytes_of(std::move(buffer)));
    return arrays;
}

std::vector<ElementBuffer> buffers_of(const nb::object& described) {
    std::vector<ElementBuffer> buffers;
    for (const nb::handle h : described) buffers.push_back(buffer_of(h));
    return buffers;
}

template <class Carry>
nb::object carried(const nb::list& described, const nb::object& memory, Carry&& carry) {
    const auto columns = columns_of(described);
    if (memory.is_none()) return arrays_of(unlocked([&] { return carry(columns); }));
    const auto results = buffers_of(memory);
    unlocked([&] { carry(columns, results); });
    return nb::none();
}

ArrivedBy arrived_by(const std::string& name) {
    if (name.empty()) return ArrivedBy::any;
    if (name == "move") return ArrivedBy::move;
    if (name == "move_in_place") return ArrivedBy::move_in_place;
    throw Error(ErrorCode::invalid_argument,
                "after is \"" + name + "\", it must be \"move\" or \"move_in_place\"");
}

nb::dict counters_of(const Migration& migration) {
    const MigrationCounters c = migration.counters();
    return dict_of(
        "moves"_a = c.moves, "plan_bytes"_a = c.plan_bytes, "staged_bytes"_a = c.staged_bytes,
        "messages"_a = c.messages, "elems_kept"_a = c.elems_kept, "elems_sent"_a = c.elems_sent,
        "elems_dropped"_a = c.elems_dropped, "rounds"_a = c.rounds, "method"_a = c.method);
}

template <class Number>
using Values = nb::ndarray<const Number, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

TargetMap splitters_of(const nb::handle& array, std::int64_t nprocs) {
    const auto make = [&]<class Number>(const Values<Number>& values) {
        return TargetMap::splitters(
            std::vector<Number>(values.data(), values.data() + values.size()), nprocs);
    };
    Values<std::int64_t> integers;
    if (nb::try_cast(array, integers, false)) return make(integers);
    Values<std::uint64_t> naturals;
    if (nb::try_cast(array, naturals, false)) return make(naturals);
    return make(nb::cast<Values<double>>(array));
}

TargetMap map_of(const std::string& kind, const nb::tuple& parameters, std::int64_t nprocs) {
    if (kind == "modulo") return TargetMap::modulo(nprocs);
    if (kind == "block") return TargetMap::block(nb::cast<std::int64_t>(parameters[0]), nprocs);
    if (kind == "splitters") return splitters_of(parameters[0], nprocs);
    const CellBox box{
        nb::cast<std::vector<double>>(parameters[1]), nb::cast<std::vector<double>>(parameters[2]),
        nb::cast<std::vector<std::int64_t>>(parameters[3]), nb::cast<bool>(parameters[4])};
    const CellOrder order = cell_order_from_name(nb::cast<std::string>(parameters[0]));
    if (parameters[5].is_none()) return TargetMap::cells(box, order, nprocs);
    const Integers owners(parameters[5], "owners of cells");
    return TargetMap::cells(box, order, nprocs, owners.values());
}

void evaluate_targets(const TargetMap& map, const nb::tuple& described, std::uintptr_t result) {
    const ElementKeys keys{reinterpret_cast<const void*>(nb::cast<std::uintptr_t>(described[0])),
                           scalar_type_of(nb::cast<std::string>(described[1])),
                           nb::cast<std::int64_t>(described[2]),
                           nb::cast<std::int64_t>(described[3])};
    const auto count = nb::cast<std::int64_t>(described[4]);
    const Unlocked released;
    map.evaluate(keys, 0, count, reinterpret_cast<std::int64_t*>(result));
}

}  // namespace

void bind_migration(nb::module_& m) {
    // A plan that takes every element to its process.
    nb::class_<Migration>(m, "Distribution")
        .def(
            "__init__",
            [](Migration* self, std::uintptr_t comm, std::int64_t elems, std::uintptr_t address,
               const std::string& typestr, std::int64_t stride_bytes, std::int64_t per_elem,
               nb::object row_starts, std::int64_t max_bytes, const std::string& method,
               bool stable) {
                TargetList targets;
                targets.elems = elems;
                targets.targets_per_elem = per_elem;
                targets.data = reinterpret_cast<const void*>(address);
                targets.type = scalar_type_of(typestr);
                targets.stride_bytes = stride_bytes;
                std::vector<std::int64_t> rows;
                if (!row_starts.is_none()) {
                    const Integers starts(row_starts, "row starts");
                    rows.assign(starts.values().begin(), starts.values().end());
                    targets.row_starts = rows;
                }
                const Unlocked released;
                new (self) Migration(comm_at(comm), targets, {max_bytes, {method, stable}});
            },
            "comm_address"_a, "elems"_a, "address"_a, "typestr"_a, "stride_bytes"_a, "per_elem"_a,
            "row_starts"_a.none(), "max_bytes"_a, "method"_a, "stable"_a)
        // Elements that this process gives.
        .def_prop_ro("elems", &Migration::elems)
        // Elements that arrive here.
        .def_prop_ro("received", &Migration::received)
        // Elements to each rank.
        .def("send_counts", [](const Migration& d) { return array_of(d.send_counts()); })
        // Elements from each rank.
        .def("receive_counts", [](const Migration& d) { return array_of(d.receive_counts()); })
        // Moves columns. In `results`, what arrives goes to memory of (address, bytes) each;
        // without them it comes in pooled memory, which is returned.
        .def(
            "move",
            [](Migration& d, const nb::list& columns, const nb::object& results) {
                return carried(columns, results, [&](auto&... given) { return d.move(given...); });
            },
            "columns"_a, "results"_a = nb::none())
        // Begins the same.
        .def(
            "start",
            [](Migration& d, const nb::list& columns, const nb::object& results) {
                return carried(columns, results, [&](auto&... given) { return d.start(given...); });
            },
            "columns"_a, "results"_a = nb::none())
        // Begins as one that cannot.
        .def("start_refused", refusing(&Migration::start_refused), "code"_a, "message"_a,
             nb::call_guard<Unlocked>())
        // Whether what was started is complete.
        .def("test", &Migration::test, nb::call_guard<Unlocked>())
        // Completes what was started.
        .def("wait", &Migration::wait, "timeout_seconds"_a.none(), nb::call_guard<Unlocked>())
        // Between start and wait.
        .def_prop_ro("in_flight", &Migration::in_flight)
        // Moves one column in stable order, whatever was asked for.
        .def(
            "move_stably",
            [](Migration& d, const nb::object& described) {
                const ElementColumn column = column_of(described);
                auto results =
                    unlocked([&] { return d.move({&column, 1}, CarryOptions{"partition", true}); });
                return bytes_of(std::move(results.front()));
            },
            "column"_a)
        // Replaces the elements of a buffer by those that arrive.
        .def(
            "move_in_place",
            [](Migration& d, const nb::object& described, std::int64_t capacity_elems,
               const std::string& method, bool stable) {
                const ElementColumn buffer = column_of(described);
                const Unlocked released;
                d.move_in_place(buffer, capacity_elems, CarryOptions{method, stable});
            },
            "buffer"_a, "capacity_elems"_a, "method"_a, "stable"_a)
        // Takes values of received elements back to where the elements came from.
        .def(
            "reverse",
            [](Migration& d, const nb::list& described, const nb::list& memory,
               const std::string& op, const std::string& after) {
                const auto values = columns_of(described);
                const auto results = buffers_of(memory);
                const Op combine = op_from_name(op);
                const ArrivedBy by = arrived_by(after);
                const Unlocked released;
                d.reverse(values, results, combine, by);
            },
            "values"_a, "results"_a, "op"_a, "after"_a)
        // Takes part in what the others call as one that cannot; all throw. Collective.
        .def("refuse", refusing(&Migration::refuse), "code"_a, "message"_a,
             nb::call_guard<Unlocked>())
        // (method, in place, element bytes, seconds) of each sample. Collective.
        .def("measured_methods",
             [](const Migration& d) {
                 nb::list rows;
                 for (const MethodTime& t : unlocked([&] { return d.measured_methods(); }))
                     rows.append(nb::make_tuple(t.method, t.in_place, t.elem_bytes, t.seconds));
                 return rows;
             })
        // What "auto" takes. Collective.
        .def(
            "chosen_method",
            [](const Migration& d, std::int64_t elem_bytes, bool in_place) {
                const Unlocked released;
                return d.chosen_method(elem_bytes, in_place);
            },
            "elem_bytes"_a, "in_place"_a)
        // Pooled memory, as bytes.
        .def(
            "allocate",
            [](const Migration& d, std::int64_t bytes) { return bytes_of(d.allocate(bytes)); },
            "bytes"_a)
        // Elements and bytes of this process. Local.
        .def("counters", &counters_of);
    // A map from keys to target ranks.
    nb::class_<TargetMap>(m, "TargetMap")
        .def(
            "__init__",
            [](TargetMap* self, const std::string& kind, const nb::tuple& parameters,
               std::int64_t nprocs) { new (self) TargetMap(map_of(kind, parameters, nprocs)); },
            "kind"_a, "parameters"_a, "nprocs"_a)
        // Writes the target ranks of all keys to memory for as many int64.
        .def("evaluate", &evaluate_targets, "keys"_a, "result_address"_a);
}

}  // namespace datamover::bindings

// Python bindings: index lists of which each process passes its own.

namespace datamover::bindings {
namespace {

struct OwnLists {
    Point shape;
    std::vector<std::vector<std::int64_t>> lists;
    std::vector<Layout> partners;
};

std::vector<IndexList> make(std::uintptr_t comm, const OwnLists& own) {
    const Unlocked released;
    const std::vector<std::span<const std::int64_t>> mine(own.lists.begin(), own.lists.end());
    return index_lists(comm_at(comm), own.shape, mine, own.partners);
}

}  // namespace

/// Arguments are read first, before anything collective begins. If they are wrong, Python passes
/// the error to the other processes by refuse_index_lists.
void bind_index_lists(nb::module_& m) {
    // This process's lists, and the layouts that they meet.
    nb::class_<OwnLists>(m, "OwnLists")
        .def(
            "__init__",
            [](OwnLists* self, const Point& shape, const nb::list& lists,
               const std::vector<Layout>& partners) {
                std::vector<std::vector<std::int64_t>> read;
                for (nb::handle list : lists)
                    read.push_back(Integers(list, "indices of a list").to_vector());
                new (self) OwnLists{shape, std::move(read), partners};
            },
            "shape"_a, "lists"_a, "partners"_a)
        // The layouts. Collective.
        .def(
            "make", [](const OwnLists& own, std::uintptr_t comm) { return make(comm, own); },
            "comm_address"_a);
    // Takes part in a making of index lists as one that cannot. Collective.
    m.def(
        "refuse_index_lists",
        [](std::uintptr_t comm, const std::string& code, const std::string& message) {
            refuse_index_lists(comm_at(comm), Error(error_code_from_name(code), message));
        },
        "comm_address"_a, "code"_a, "message"_a, nb::call_guard<Unlocked>());
}

}  // namespace datamover::bindings
