// SPDX-License-Identifier: BSD-3-Clause
// How does every single element get to the process that is named for it, and how does it come back?
#include "datamover/distribution.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "distribution_state.hpp"
#include "method_choice.hpp"
#include "mpi/all_to_all.hpp"
#include "mpi/checked_call.hpp"
#include "alternatives/alternatives.hpp"

namespace datamover {
namespace {

using distribute::State;

State& bound(const std::shared_ptr<State>& state) {
    if (!state)
        throw Error(ErrorCode::invalid_state, "the distribution was made without arguments");
    return *state;
}

/// The sizes of all processes' elements differ: who has which?
[[noreturn]] void refuse_sizes(const State& s, std::int64_t elem_bytes) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(s.nprocs()));
    mpi::check(
        MPI_Allgather(&elem_bytes, 1, MPI_INT64_T, all.data(), 1, MPI_INT64_T, s.group->comm()),
        "MPI_Allgather");
    for (std::size_t r = 1; r < all.size(); ++r)
        if (all[r] != all[0])
            throw Error(ErrorCode::mismatch, "process 0 moves elements of " +
                                                 std::to_string(all[0]) + " bytes, process " +
                                                 std::to_string(r) + " of " +
                                                 std::to_string(all[r]) + " bytes");
    throw Error(ErrorCode::mismatch,
                "processes move columns of different element sizes, or in different ways");
}

/// Two bits of a notice's number are taken otherwise.
constexpr std::uint64_t signature_limit = std::uint64_t{1} << 60;

/// All throw the error of the lowest process that has one, or none does; likewise where `sizes`
/// (bytes of the elements of each column) or the way to move them differ. True when anybody has to
/// keep to a limit.
bool agree(State& s, const std::optional<Error>& mine, std::span<const std::int64_t> sizes,
           const std::string& way, bool limited = false) {
    std::uint64_t signature = std::hash<std::string>()(way);
    std::int64_t sum = 0;
    for (const std::int64_t bytes : sizes) {
        signature = signature * 1000003 + static_cast<std::uint64_t>(bytes);
        sum += bytes;
    }
    const auto all = distribute::exchange_notices(
        s, {mine.has_value(), limited, static_cast<std::int64_t>(signature % signature_limit)});
    if (all.failed) s.group->agree(mine);
    if (all.differ) refuse_sizes(s, sum);
    return all.limited;
}

std::string way_of(const CarryOptions& how) {
    return how.method + (how.stable ? " stable" : "");
}

std::vector<std::int64_t> sizes_of(std::span<const ElementColumn> columns) {
    std::vector<std::int64_t> sizes;
    for (const ElementColumn& c : columns) sizes.push_back(c.elem_bytes);
    return sizes;
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

/// Why a method cannot carry this.
std::optional<Error> wrong_method(const State& s, const std::string& name, bool in_place) {
    if (name == "auto" || name == "partition") return {};
    const alternatives::Alternative* method = alternatives::find(name);
    if (!method)
        return Error(ErrorCode::invalid_argument, "unknown method \"" + name +
                                                      "\"; known are auto, partition, " +
                                                      alternatives::names());
    if (in_place && !method->move_in_place)
        return Error(ErrorCode::unsupported, name + " cannot move elements in place");
    if (!in_place && s.limit_bytes > 0 && !method->bounded)
        return Error(ErrorCode::unsupported,
                     name + " keeps to max_bytes in place only; take another method");
    const std::int64_t most = std::max({s.received(), s.elems, s.codes.entries});
    const bool reaches = name == "alltoallw" ? most <= std::numeric_limits<int>::max()
                                             : mpi::all_to_all_reaches(most);
    if (name != "sendrecv" && !reaches)
        return Error(ErrorCode::unsupported, name + " cannot move " + std::to_string(most) +
                                                 " elements with the counts of this MPI");
    return {};
}

/// What a move is carried by; the same on all processes, since columns are. Collective for "auto".
std::string resolved(const State& s, const std::string& name, std::span<const std::int64_t> sizes,
                     bool in_place) {
    if (name != "auto") return name;
    // Only ours moves several columns together, or keeps to each process's own limit.
    if (s.limit_bytes > 0 || sizes.size() != 1) return "partition";
    return distribute::method_times(s.group).fastest(sizes.front(), in_place);
}

void begin_move(State& s, const std::string& method) {
    s.counters.staged_bytes = s.counters.messages = s.counters.rounds = 0;
    s.counters.method = method;
    ++s.counters.moves;
}

void carry_all(State& s, const std::string& name, bool stable,
               std::span<const ElementColumn> columns, std::span<const ElementBuffer> results) {
    const auto full = with_strides(columns);
    const std::string method = resolved(s, name, sizes_of(columns), false);
    begin_move(s, method);
    if (const auto* paper = alternatives::find(method)) {
        for (std::size_t c = 0; c < full.size(); ++c)
            paper->move(s, full[c], results[c].data, stable);
        return;
    }
    for (std::size_t c = 0; c < full.size(); c += distribute::letter_columns) {
        const std::size_t n = std::min(distribute::letter_columns, full.size() - c);
        distribute::carry(s, {std::span(full).subspan(c, n), results.subspan(c, n)});
    }
}

}  // namespace

Distribution::State::State(mpi::ProcessGroupPtr of_group, const TargetList& targets,
                           const DistributionOptions& given)
    : group(std::move(of_group)),
      channel(distribute::NodeChannel::of(*group)),
      options(given),
      elems(targets.elems),
      per_elem(targets.targets_per_elem),
      row_starts(targets.row_starts.begin(), targets.row_starts.end()) {
    std::optional<Error> mine;
    try {
        if (options.max_bytes < 0)
            throw Error(ErrorCode::invalid_argument,
                        "max_bytes is " + std::to_string(options.max_bytes));
        auto [found, counts] = distribute::read_targets(targets, rank(), nprocs(), group->pool());
        codes = std::move(found);
        dropped = counts.back();
        counts.pop_back();
        send_counts = std::move(counts);
    } catch (const Error& e) {
        mine = e;
    }
    const auto all = distribute::exchange_counts(*this, {mine.has_value(), options.max_bytes > 0});
    if (all.failed) group->agree(mine);
    if (all.limited) {
        constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
        limit_bytes = -group->maximum({options.max_bytes > 0 ? -options.max_bytes : -none}).front();
    }
    data_tag = group->next_tag();
    recv_starts.assign(recv_counts.size() + 1, 0);
    std::partial_sum(recv_counts.begin(), recv_counts.end(), recv_starts.begin() + 1);
    const auto me = static_cast<std::size_t>(rank());
    counters.elems_kept = send_counts[me];
    counters.elems_dropped = dropped;
    counters.elems_sent = codes.entries - dropped - send_counts[me];
    counters.plan_bytes = codes.entries * codes.width_bytes +
                          static_cast<std::int64_t>(sizeof(std::int64_t)) *
                              static_cast<std::int64_t>(3 * recv_counts.size() + row_starts.size());
}

Distribution::Distribution(MPI_Comm comm, const TargetList& targets,
                           const DistributionOptions& options)
    : state_(std::make_shared<State>(mpi::ProcessGroup::of(comm), targets, options)) {}

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
                        std::span<const ElementBuffer> results, const CarryOptions& how) {
    State& s = bound(state_);
    std::optional<Error> mine = wrong_columns(s, columns, results);
    if (!mine) mine = wrong_method(s, how.method, false);
    agree(s, mine, sizes_of(columns), way_of(how));
    carry_all(s, how.method, how.stable, columns, results);
}

std::vector<ElementBuffer> Distribution::move(std::span<const ElementColumn> columns,
                                              const CarryOptions& how) {
    State& s = bound(state_);
    std::vector<ElementBuffer> results;
    std::optional<Error> mine = wrong_method(s, how.method, false);
    try {
        for (const ElementColumn& c : columns)
            results.push_back(allocate(s.received() * c.elem_bytes));
        if (!mine) mine = wrong_columns(s, columns, results);
    } catch (const Error& e) {
        mine = e;
    }
    agree(s, mine, sizes_of(columns), way_of(how));
    carry_all(s, how.method, how.stable, columns, results);
    return results;
}

void Distribution::move_in_place(void* data, std::int64_t elem_bytes, std::int64_t capacity_elems,
                                 const CarryOptions& how) {
    State& s = bound(state_);
    std::optional<Error> mine = wrong_method(s, how.method, true);
    if (!mine) mine = too_small(s, capacity_elems);
    if (!s.deal().rows.one_each())
        mine = Error(ErrorCode::unsupported, "elements with several targets cannot move in place");
    if (elem_bytes < 1) mine = Error(ErrorCode::wrong_type, "elements must have at least one byte");
    const std::int64_t needed = distribute::in_place_bytes(s, elem_bytes);
    const bool limited = agree(s, mine, {&elem_bytes, 1}, way_of(how) + " in place",
                               s.limit_bytes > 0 && needed > s.limit_bytes);
    std::string method = resolved(s, how.method, {&elem_bytes, 1}, true);
    bool stable = how.stable;
    if (method == "partition" && limited) method = "alltoallv";
    // Without being asked for, other methods keep the order among those that stay as ours does.
    if (method != how.method && method != "partition") stable = true;
    begin_move(s, method);
    auto* buffer = static_cast<std::byte*>(data);
    if (const auto* paper = alternatives::find(method))
        paper->move_in_place(s, buffer, elem_bytes, capacity_elems, stable);
    else
        distribute::carry_in_place(s, buffer, elem_bytes, stable);
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
    agree(s, mine, {&values.elem_bytes, 1}, "back");
    begin_move(s, "partition");
    const ElementColumn column = with_strides({&values, 1}).front();
    const auto carry = s.limit_bytes > 0 ? distribute::carry_back_bounded : distribute::carry_back;
    carry(s, column, result.data, op, type);
}

void Distribution::refuse(const Error& error) {
    agree(bound(state_), error, {}, {});
}

std::vector<MethodTime> Distribution::measured_methods() const {
    return distribute::method_times(bound(state_).group).times;
}

std::string Distribution::chosen_method(std::int64_t elem_bytes, bool in_place) const {
    return resolved(bound(state_), "auto", {&elem_bytes, 1}, in_place);
}

}  // namespace datamover
