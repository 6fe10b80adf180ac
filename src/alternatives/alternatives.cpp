// SPDX-License-Identifier: BSD-3-Clause
// The table of the alternatives, and how one is run.
#include "alternatives.hpp"

#include "geometry/make_error.hpp"

namespace datamover::alternatives {
namespace {

constexpr Alternative all[] = {
    {"alltoallv", carry_by_alltoallv, exchange_by_alltoallv, true},
    {"alltoallw", carry_by_alltoallw, nullptr, true},
    {"sendrecv", carry_by_sendrecv, nullptr, true},
    {"sort", carry_by_sort, exchange_by_sort, false},
};

}  // namespace

void move(const Alternative& how, State& s, NodeSlot& slot, const ColumnTransfer& transfer,
          bool stable) {
    distribute::propagating_errors(s, [&] { how.move(s, slot, transfer, stable); });
}

void exchange(const Alternative& how, State& s, NodeSlot& slot, const Buffer& buffer, bool stable) {
    distribute::propagating_errors(s, [&] { how.move_in_place(s, slot, buffer, stable); });
}

const Alternative* find(const std::string& name) {
    for (const Alternative& one : all)
        if (name == one.name) return &one;
    return nullptr;
}

std::string names() {
    std::string listed;
    for (const Alternative& one : all) listed += concat(listed.empty() ? "" : ", ", one.name);
    return listed;
}

}  // namespace datamover::alternatives
