// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of explanations of plans. As dicts of numbers and NumPy arrays, dressed in
// explain.py.
#include "datamover/explain.hpp"

#include <utility>
#include <vector>

#include "class_members.hpp"
#include "errors.hpp"
#include "numpy_arrays.hpp"

namespace datamover::bindings {

namespace {

nb::dict pairs_of(PairTable&& table) {
    std::vector<std::uint8_t> encoding;
    for (const Encoding e : table.encoding) encoding.push_back(static_cast<std::uint8_t>(e));
    return dict_of("source"_a = array_of(std::move(table.source)),
                   "destination"_a = array_of(std::move(table.destination)),
                   "elems"_a = array_of(std::move(table.elems)),
                   "encoding"_a = array_of(std::move(encoding)),
                   "relation_bytes"_a = array_of(std::move(table.relation_bytes)));
}

// Copies of the plans: without Python's lock another thread may edit the program's own.
nb::dict traffic_of(MotionPlan plan, std::int64_t node_size) {
    auto s = unlocked([&] { return summarize_traffic(plan, node_size); });
    std::vector<std::int64_t> size_elems, size_messages;
    for (const auto& size : s.sizes) {
        size_elems.push_back(size.elems);
        size_messages.push_back(size.messages);
    }
    return dict_of("sent_elems"_a = array_of(std::move(s.sent_elems)),
                   "received_elems"_a = array_of(std::move(s.received_elems)),
                   "kept_elems"_a = array_of(std::move(s.kept_elems)),
                   "sent_messages"_a = array_of(std::move(s.sent_messages)),
                   "received_messages"_a = array_of(std::move(s.received_messages)),
                   "size_elems"_a = array_of(std::move(size_elems)),
                   "size_messages"_a = array_of(std::move(size_messages)),
                   "smallest_elems"_a = s.smallest_elems, "largest_elems"_a = s.largest_elems,
                   "shared_messages"_a = s.shared_messages, "shared_elems"_a = s.shared_elems,
                   "p2p_messages"_a = s.p2p_messages, "p2p_elems"_a = s.p2p_elems,
                   "nodes_known"_a = s.nodes_known);
}

nb::dict all_pairs(MotionPlan plan, std::int64_t elem_bytes) {
    return pairs_of(unlocked([&] { return explain_pairs(plan, elem_bytes); }));
}

nb::tuple pairs_of_rank(MotionPlan plan, std::int64_t rank, std::int64_t elem_bytes) {
    auto part = unlocked([&] { return explain_rank(plan, rank, elem_bytes); });
    return nb::make_tuple(pairs_of(std::move(part.outgoing)), pairs_of(std::move(part.incoming)));
}

nb::tuple matrix_of(MotionPlan plan, std::int64_t max_groups) {
    auto m = unlocked([&] { return traffic_matrix(plan, max_groups); });
    return nb::make_tuple(array_of(std::move(m.bounds)), array_of(std::move(m.elems)));
}

nb::tuple describe_layouts(const MotionPlan& plan) {
    return nb::make_tuple(plan.source().describe(), plan.destination().describe());
}

nb::list encoding_names() {
    nb::list names;
    for (int e = 0; e <= static_cast<int>(Encoding::offsets); ++e)
        names.append(encoding_name(static_cast<Encoding>(e)));
    return names;
}

}  // namespace

void bind_explain(nb::module_& m) {
    // Counts of elements summed over all processes, and arrays by rank.
    m.def("summarize_traffic", &traffic_of, "plan"_a, "node_size"_a = 0);
    // Arrays with an entry for each pair of processes with something to move.
    m.def("explain_pairs", &all_pairs, "plan"_a, "elem_bytes"_a);
    // The same of what one process sends, and of what it receives.
    m.def("explain_rank", &pairs_of_rank, "plan"_a, "rank"_a, "elem_bytes"_a);
    // Bounds of groups of ranks, and the elements from group to group (flat, row-major).
    m.def("traffic_matrix", &matrix_of, "plan"_a, "max_groups"_a = 64);
    m.def("describe_layouts", &describe_layouts, "plan"_a);
    m.def("encoding_names", &encoding_names);  // by their number
}

}  // namespace datamover::bindings
