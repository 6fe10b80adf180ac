// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of explanations of plans. As dicts of numbers and NumPy arrays, dressed in
// explain.py.
#include "datamover/explain.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <utility>
#include <vector>

#include "errors.hpp"
#include "numpy_arrays.hpp"

namespace nb = nanobind;

namespace {

using datamover::MotionPlan;
using datamover::bindings::array_of;
using datamover::bindings::unlocked;

nb::dict dict_of(datamover::PairTable&& table) {
    std::vector<std::uint8_t> encoding;
    encoding.reserve(table.encoding.size());
    for (const datamover::Encoding e : table.encoding)
        encoding.push_back(static_cast<std::uint8_t>(e));
    nb::dict d;
    d["source"] = array_of(std::move(table.source));
    d["destination"] = array_of(std::move(table.destination));
    d["elems"] = array_of(std::move(table.elems));
    d["encoding"] = array_of(std::move(encoding));
    d["relation_bytes"] = array_of(std::move(table.relation_bytes));
    return d;
}

// Copies of the plans: without Python's lock another thread may edit the program's own.
nb::dict summarize_traffic(MotionPlan plan, std::int64_t node_size) {
    auto s = unlocked([&] { return datamover::summarize_traffic(plan, node_size); });
    std::vector<std::int64_t> size_elems, size_messages;
    for (const auto& size : s.sizes) {
        size_elems.push_back(size.elems);
        size_messages.push_back(size.messages);
    }
    nb::dict d;
    d["sent_elems"] = array_of(std::move(s.sent_elems));
    d["received_elems"] = array_of(std::move(s.received_elems));
    d["kept_elems"] = array_of(std::move(s.kept_elems));
    d["sent_messages"] = array_of(std::move(s.sent_messages));
    d["received_messages"] = array_of(std::move(s.received_messages));
    d["size_elems"] = array_of(std::move(size_elems));
    d["size_messages"] = array_of(std::move(size_messages));
    d["smallest_elems"] = s.smallest_elems;
    d["largest_elems"] = s.largest_elems;
    d["shared_messages"] = s.shared_messages;
    d["shared_elems"] = s.shared_elems;
    d["p2p_messages"] = s.p2p_messages;
    d["p2p_elems"] = s.p2p_elems;
    d["nodes_known"] = s.nodes_known;
    return d;
}

nb::dict explain_pairs(MotionPlan plan, std::int64_t elem_bytes) {
    return dict_of(unlocked([&] { return datamover::explain_pairs(plan, elem_bytes); }));
}

nb::tuple explain_rank(MotionPlan plan, std::int64_t rank, std::int64_t elem_bytes) {
    auto part = unlocked([&] { return datamover::explain_rank(plan, rank, elem_bytes); });
    return nb::make_tuple(dict_of(std::move(part.outgoing)), dict_of(std::move(part.incoming)));
}

nb::tuple traffic_matrix(MotionPlan plan, std::int64_t max_groups) {
    auto m = unlocked([&] { return datamover::traffic_matrix(plan, max_groups); });
    return nb::make_tuple(array_of(std::move(m.bounds)), array_of(std::move(m.elems)));
}

nb::tuple describe_layouts(const MotionPlan& plan) {
    return nb::make_tuple(plan.source().describe(), plan.destination().describe());
}

nb::list encoding_names() {
    nb::list names;
    for (int e = 0; e <= static_cast<int>(datamover::Encoding::offsets); ++e)
        names.append(datamover::encoding_name(static_cast<datamover::Encoding>(e)));
    return names;
}

}  // namespace

void bind_explain(nb::module_& m) {
    m.def(
        "summarize_traffic", &summarize_traffic, nb::arg("plan"), nb::arg("node_size") = 0,
        "A plan summed over all processes, as a dict of counts (in elements) and arrays by rank.");
    m.def(
        "explain_pairs", &explain_pairs, nb::arg("plan"), nb::arg("elem_bytes"),
        "All pairs of processes with something to move, as a dict of arrays with an entry a pair.");
    m.def("explain_rank", &explain_rank, nb::arg("plan"), nb::arg("rank"), nb::arg("elem_bytes"),
          "What one process sends and what it receives: two dicts of arrays.");
    m.def("traffic_matrix", &traffic_matrix, nb::arg("plan"), nb::arg("max_groups") = 64,
          "Bounds of groups of ranks, and the elements from group to group (flat, row-major).");
    m.def("describe_layouts", &describe_layouts, nb::arg("plan"),
          "Source and destination layout, each in a line of words.");
    m.def("encoding_names", &encoding_names, "The names of the encodings by their number.");
}
