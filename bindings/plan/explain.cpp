// SPDX-License-Identifier: BSD-3-Clause
// Python bindings of explanations of plans. As dicts of numbers and NumPy arrays, dressed in
// explain.py.
#include "generated/plan_dicts.hpp"
#include "module.hpp"

namespace datamover::bindings {

namespace {

nb::dict pairs_of(PairTable&& table) {
    std::vector<std::uint8_t> encoding;
    for (const Encoding e : table.encoding) encoding.push_back(static_cast<std::uint8_t>(e));
    nb::dict pairs = as_dict(std::move(table));
    pairs["encoding"] = array_of(std::move(encoding));
    return pairs;
}

// Copies of the plans: without Python's lock another thread may edit the program's own.
nb::dict traffic_of(MotionPlan plan, std::int64_t node_size) {
    auto s = unlocked([&] { return summarize_traffic(plan, node_size); });
    std::vector<std::int64_t> size_elems, size_messages;
    for (const auto& size : s.sizes) {
        size_elems.push_back(size.elems);
        size_messages.push_back(size.messages);
    }
    nb::dict summary = as_dict(std::move(s));
    summary["size_elems"] = array_of(std::move(size_elems));
    summary["size_messages"] = array_of(std::move(size_messages));
    return summary;
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
