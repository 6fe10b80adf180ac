// SPDX-License-Identifier: BSD-3-Clause
// How does every single element get to the process that is named for it, and how does it come back?
#include "datamover/distribution.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "distribution_state.hpp"
#include "paper_methods.hpp"

namespace datamover {
namespace {

using distribute::State;

State& bound(const std::shared_ptr<State>& state) {
    if (!state)
        throw Error(ErrorCode::invalid_state, "the distribution was made without arguments");
    return *state;
}

/// All throw the error of the lowest process that has one, or none does.
void agree(State& s, const std::optional<Error>& mine) {
    if (distribute::anybody(s, mine.has_value())) s.group->agree(mine);
}

std::optional<Error> too_small(const State& s, std::int64_t has_elems) {
    if (has_elems >= s.received()) return {};
    return Error(ErrorCode::mismatch, "process " + std::to_string(s.rank()) + " receives " +
                                          std::to_string(s.received()) +
                                          " elements, its buffer has room for " +
                                          std::to_string(has_elems));
}

std::optional<Error> wrong_columns(const State& s, std::span<const ElementColumn> columns,
                                   std::span<const ElementBuffer> results) {
    if (columns.size() != results.size())
        return Error(ErrorCode::mismatch, std::to_string(columns.size()) + " columns and " +
                                              std::to_string(results.size()) + " results");
    for (std::size_t c = 0; c < columns.size(); ++c) {
        if (columns[c].elem_bytes < 1)
            return Error(ErrorCode::wrong_type, "elements must have at least one byte");
        if (auto e = too_small(s, results[c].bytes / columns[c].elem_bytes)) return e;
    }
    return {};
}

/// Columns of a dense kind may leave out their stride.
std::vector<ElementColumn> with_strides(std::span<const ElementColumn> columns) {
    std::vector<ElementColumn> full(columns.begin(), columns.end());
    for (ElementColumn& c : full)
        if (c.stride_bytes == 0) c.stride_bytes = c.elem_bytes;
    return full;
}

void carry_all(State& s, std::span<const ElementColumn> columns,
               std::span<const ElementBuffer> results) {
    const auto full = with_strides(columns);
    s.counters.staged_bytes = s.counters.messages = s.counters.rounds = 0;
    for (std::size_t c = 0; c < full.size(); c += distribute::letter_columns) {
        const std::size_t n = std::min(distribute::letter_columns, full.size() - c);
        distribute::carry(s, {std::span(full).subspan(c, n), results.subspan(c, n)});
    }
    ++s.counters.moves;
}

}  // namespace

Distribution::Distribution(MPI_Comm comm, const TargetList& targets,
                           const DistributionOptions& options)
    : state_(std::make_shared<State>()) {
    State& s = *state_;
    s.group = mpi::ProcessGroup::of(comm);
    s.channel = distribute::NodeChannel::of(*s.group);
    s.options = options;
    s.elems = targets.elems;
    s.per_elem = targets.targets_per_elem;
    s.row_starts.assign(targets.row_starts.begin(), targets.row_starts.end());
    std::optional<Error> mine;
    try {
        auto [codes, counts] =
            distribute::read_targets(targets, s.rank(), s.nprocs(), s.group->pool());
        s.codes = std::move(codes);
        s.dropped = counts.back();
        counts.pop_back();
        s.send_counts = std::move(counts);
        if (options.max_bytes < 0)
            throw Error(ErrorCode::invalid_argument,
                        "max_bytes is " + std::to_string(options.max_bytes));
    } catch (const Error& e) {
        mine = e;
    }
    if (distribute::exchange_counts(s, mine.has_value())) s.group->agree(mine);
    s.data_tag = s.group->next_tag();
    s.recv_starts.assign(s.recv_counts.size() + 1, 0);
    std::partial_sum(s.recv_counts.begin(), s.recv_counts.end(), s.recv_starts.begin() + 1);
    const auto me = static_cast<std::size_t>(s.rank());
    s.counters.elems_kept = s.send_counts[me];
    s.counters.elems_dropped = s.dropped;
    s.counters.elems_sent =
        std::accumulate(s.send_counts.begin(), s.send_counts.end(), std::int64_t{0}) -
        s.send_counts[me];
    s.counters.plan_bytes =
        s.codes.entries * s.codes.width_bytes +
        static_cast<std::int64_t>(sizeof(std::int64_t)) *
            static_cast<std::int64_t>(3 * s.recv_counts.size() + s.row_starts.size());
}

std::int64_t Distribution::elems() const {
    return bound(state_).elems;
}
std::int64_t Distribution::received() const {
    return bound(state_).received();
}
std::span<const std::int64_t> Distribution::send_counts() const {
    return bound(state_).send_counts;
}
std::span<const std::int64_t> Distribution::receive_counts() const {
    return bound(state_).recv_counts;
}
DistributionCounters Distribution::counters() const {
    return bound(state_).counters;
}

ElementBuffer Distribution::allocate(std::int64_t bytes) const {
    State& s = bound(state_);
    const auto memory = s.group->pool().allocate(bytes);
    s.channel->remember(memory);
    return {memory->data, bytes, memory};
}

void Distribution::move(std::span<const ElementColumn> columns,
                        std::span<const ElementBuffer> results) {
    State& s = bound(state_);
    agree(s, wrong_columns(s, columns, results));
    carry_all(s, columns, results);
}

std::vector<ElementBuffer> Distribution::move(std::span<const ElementColumn> columns) {
    State& s = bound(state_);
    std::vector<ElementBuffer> results;
    for (const ElementColumn& c : columns) results.push_back(allocate(s.received() * c.elem_bytes));
    carry_all(s, columns, results);
    return results;
}

void Distribution::move_in_place(void* data, std::int64_t elem_bytes, std::int64_t capacity_elems) {
    State& s = bound(state_);
    std::optional<Error> mine = too_small(s, capacity_elems);
    if (!s.deal().rows.one_each())
        mine = Error(ErrorCode::unsupported, "elements with several targets cannot move in place");
    if (elem_bytes < 1) mine = Error(ErrorCode::wrong_type, "elements must have at least one byte");
    agree(s, mine);
    s.counters.staged_bytes = s.counters.messages = 0;
    distribute::carry_in_place(s, static_cast<std::byte*>(data), elem_bytes);
    ++s.counters.moves;
}

void Distribution::reverse(const ElementColumn& values, const ElementBuffer& result, Op op,
                           ScalarType type) {
    State& s = bound(state_);
    std::optional<Error> mine;
    const std::int64_t scalar = scalar_bytes(type);
    if (values.elem_bytes < 1)
        mine = Error(ErrorCode::wrong_type, "elements must have at least one byte");
    else if (op != Op::replace && (scalar == 0 || values.elem_bytes % scalar != 0))
        mine = Error(ErrorCode::wrong_type,
                     std::string("elements of ") + std::to_string(values.elem_bytes) +
                         " bytes cannot be combined as " + scalar_name(type));
    else if (result.bytes < s.elems * values.elem_bytes)
        mine = Error(ErrorCode::mismatch, "process " + std::to_string(s.rank()) + " has " +
                                              std::to_string(s.elems) +
                                              " elements, its result has room for " +
                                              std::to_string(result.bytes / values.elem_bytes));
    agree(s, mine);
    s.counters.staged_bytes = s.counters.messages = 0;
    distribute::carry_back(s, with_strides({&values, 1}).front(), result.data, op, type);
    ++s.counters.moves;
}

void Distribution::move_by(const std::string& method, const ElementColumn& column,
                           const ElementBuffer& result) {
    State& s = bound(state_);
    std::optional<Error> mine = wrong_columns(s, {&column, 1}, {&result, 1});
    const distribute::PaperMethod carrier = distribute::paper_method(method);
    if (!carrier)
        mine = Error(ErrorCode::invalid_argument, "unknown method \"" + method + "\"; known are " +
                                                      distribute::paper_method_names());
    agree(s, mine);
    s.counters.staged_bytes = s.counters.messages = 0;
    carrier(s, with_strides({&column, 1}).front(), result.data);
    ++s.counters.moves;
}

}  // namespace datamover
