// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of migrations of single elements, and of index lists made by all processes.
#include "datamover/index_lists.hpp"
#include "datamover/targets.hpp"
#include "generated/mover_dicts.hpp"
#include "module.hpp"

namespace nanobind::detail {

/// From (address, element bytes, stride bytes, type, name of the type).
template <>
struct type_caster<datamover::ElementColumn> {
    using Described =
        std::tuple<std::uintptr_t, std::int64_t, std::int64_t, std::string, std::string>;
    NB_TYPE_CASTER(datamover::ElementColumn, make_caster<Described>::Name)

    bool from_python(handle source, uint8_t flags, cleanup_list* list) noexcept {
        make_caster<Described> described;
        if (!described.from_python(source, flags, list)) return false;
        const auto [address, elem_bytes, stride_bytes, type, name] =
            described.operator cast_t<Described>();
        value = {reinterpret_cast<const void*>(address), elem_bytes, stride_bytes,
                 datamover::bindings::scalar_type_of(type), name};
        return true;
    }
};

/// From (address, bytes) of memory of the caller; to an array of bytes that keeps its memory.
template <>
struct type_caster<datamover::ElementBuffer> {
    using Described = std::pair<std::uintptr_t, std::int64_t>;
    NB_TYPE_CASTER(datamover::ElementBuffer, io_name("tuple[int, int]", "numpy.ndarray"))

    bool from_python(handle source, uint8_t flags, cleanup_list* list) noexcept {
        make_caster<Described> described;
        if (!described.from_python(source, flags, list)) return false;
        const auto [address, bytes] = described.operator cast_t<Described>();
        value = {reinterpret_cast<std::byte*>(address), bytes, {}};
        return true;
    }

    static handle from_cpp(datamover::ElementBuffer&& buffer, rv_policy,
                           cleanup_list* list) noexcept {
        auto* const data = reinterpret_cast<std::uint8_t*>(buffer.data);
        const auto bytes = static_cast<std::size_t>(buffer.bytes);
        using Array = datamover::bindings::NumpyArray<std::uint8_t>;
        Array array = datamover::bindings::array_over(data, {bytes}, std::move(buffer));
        return make_caster<Array>::from_cpp(array, rv_policy::automatic, list);
    }
};

}  // namespace nanobind::detail

namespace datamover::bindings {
namespace {

using Columns = std::vector<ElementColumn>;
using Buffers = std::vector<ElementBuffer>;

/// Carries columns to memory of the caller, or to memory that is returned.
template <class Carry>
std::optional<Buffers> carried(const Columns& columns, const std::optional<Buffers>& results,
                               Carry&& carry) {
    if (!results) return carry(columns);
    carry(columns, *results);
    return std::nullopt;
}

ArrivedBy arrived_by(const std::string& name) {
    if (name.empty()) return ArrivedBy::any;
    if (name == "move") return ArrivedBy::move;
    if (name == "move_in_place") return ArrivedBy::move_in_place;
    throw Error(ErrorCode::invalid_argument,
                "after is \"" + name + "\", it must be \"move\" or \"move_in_place\"");
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
    using Released = nb::call_guard<Unlocked>;
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
                    rows = Integers(row_starts, "row starts").to_vector();
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
            [](Migration& d, const Columns& columns, const std::optional<Buffers>& results) {
                return carried(columns, results, [&](auto&... given) { return d.move(given...); });
            },
            "columns"_a, "results"_a = nb::none(), Released())
        // Begins the same.
        .def(
            "start",
            [](Migration& d, const Columns& columns, const std::optional<Buffers>& results) {
                return carried(columns, results, [&](auto&... given) { return d.start(given...); });
            },
            "columns"_a, "results"_a = nb::none(), Released())
        // Begins as one that cannot.
        .def("start_refused", refusing(&Migration::start_refused), "code"_a, "message"_a,
             nb::call_guard<Unlocked>())
        // Whether what was started is complete.
        .def("test", &Migration::test, Released())
        // Completes what was started.
        .def("wait", &Migration::wait, "timeout_seconds"_a.none(), Released())
        // Between start and wait.
        .def_prop_ro("in_flight", &Migration::in_flight)
        // Moves one column in stable order, whatever was asked for.
        .def(
            "move_stably",
            [](Migration& d, const ElementColumn& column) {
                return std::move(d.move({&column, 1}, CarryOptions{"partition", true}).front());
            },
            "column"_a, Released())
        // Replaces the elements of a buffer by those that arrive.
        .def(
            "move_in_place",
            [](Migration& d, const ElementColumn& buffer, std::int64_t capacity_elems,
               const std::string& method, bool stable) {
                d.move_in_place(buffer, capacity_elems, CarryOptions{method, stable});
            },
            "buffer"_a, "capacity_elems"_a, "method"_a, "stable"_a, Released())
        // Takes values of received elements back to where the elements came from.
        .def(
            "reverse",
            [](Migration& d, const Columns& values, const Buffers& results, const std::string& op,
               const std::string& after) {
                d.reverse(values, results, op_from_name(op), arrived_by(after));
            },
            "values"_a, "results"_a, "op"_a, "after"_a, Released())
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
        .def("chosen_method", &Migration::chosen_method, "elem_bytes"_a, "in_place"_a, Released())
        // Pooled memory, as bytes.
        .def("allocate", &Migration::allocate, "bytes"_a)
        // Elements and bytes of this process. Local.
        .def("counters", [](const Migration& d) { return as_dict(d.counters()); });
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

std::vector<IndexList> make(const OwnLists& own, std::uintptr_t comm) {
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
        .def("make", &make, "comm_address"_a, nb::call_guard<Unlocked>());
    // Takes part in a making of index lists as one that cannot. Collective.
    m.def(
        "refuse_index_lists",
        [](std::uintptr_t comm, const std::string& code, const std::string& message) {
            refuse_index_lists(comm_at(comm), Error(error_code_from_name(code), message));
        },
        "comm_address"_a, "code"_a, "message"_a, nb::call_guard<Unlocked>());
}

}  // namespace datamover::bindings
