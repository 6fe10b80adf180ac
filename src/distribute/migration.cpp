// SPDX-License-Identifier: BSD-3-Clause
// Migrations of single elements: each element goes to its target process, and results come
// back.
#include "datamover/migration.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "agreement.hpp"
#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "methods.hpp"
#include "target_codes.hpp"

namespace datamover {
namespace {

using distribute::State;

State& bound(const std::shared_ptr<State>& state) {
    if (!state) throw Error(ErrorCode::invalid_state, "the migration was made without arguments");
    return *state;
}

/// It may be in flight on one process alone, as others have waited for it: collective calls tell.
void check_idle(const State& s) {
    if (s.started)
        throw Error(ErrorCode::invalid_state,
                    "a move of this migration is in flight; wait for it first");
}

void check_room(const State& s, std::int64_t needed_elems, std::int64_t has_bytes,
                std::int64_t elem_bytes) {
    const std::int64_t has_elems = has_bytes / elem_bytes;
    if (has_elems < needed_elems)
        throw make_error(ErrorCode::mismatch, "process ", s.rank(), " receives ", needed_elems,
                         " elements, its buffer has room for ", has_elems);
}

void check_memory(const State& s, const void* data, std::int64_t elems, const char* what) {
    if (elems > 0 && !data)
        throw make_error(ErrorCode::invalid_argument, elems, " elements of process ", s.rank(),
                         " are in no memory: the address of ", what, " is null");
}

/// Whatever is laid out for all columns together has a size of 64 bits.
void check_sizes(const State& s, std::span<const ElementColumn> columns) {
    constexpr std::int64_t line_bytes = 64;
    const std::int64_t most = std::max({s.received(), s.elems, s.codes.entries});
    std::int64_t bytes = 0;
    for (const ElementColumn& c : columns) {
        if (c.elem_bytes < 1)
            throw make_error(ErrorCode::wrong_type, "elements must have at least one byte, not ",
                             c.elem_bytes);
        bytes = geometry::add(bytes, c.elem_bytes);
    }
    geometry::multiply(2, geometry::add(geometry::multiply(bytes, most),
                                        line_bytes * static_cast<std::int64_t>(s.nprocs())));
}

/// Throws where columns of `elems` elements cannot become results of `result_elems` elements.
void check_columns(const State& s, std::span<const ElementColumn> columns, std::int64_t elems,
                   std::span<const ElementBuffer> results, std::int64_t result_elems) {
    if (columns.size() != results.size())
        throw make_error(ErrorCode::mismatch, columns.size(), " columns and ", results.size(),
                         " results");
    check_sizes(s, columns);
    for (std::size_t c = 0; c < columns.size(); ++c) {
        check_memory(s, columns[c].data, elems, "a column");
        distribute::check_addresses(columns[c].data, elems, columns[c].stride_bytes,
                                    columns[c].elem_bytes);
        check_room(s, result_elems, results[c].bytes, columns[c].elem_bytes);
        check_memory(s, results[c].data, result_elems, "a result");
    }
    const auto error = distribute::overlapping(columns, elems, results, result_elems, s.rank());
    if (error) throw *error;
}

/// Columns of a dense kind may leave out their stride.
std::vector<ElementColumn> with_strides(std::span<const ElementColumn> columns) {
    std::vector<ElementColumn> full(columns.begin(), columns.end());
    for (ElementColumn& c : full)
        if (c.stride_bytes == ElementColumn::dense) c.stride_bytes = c.elem_bytes;
    return full;
}

/// The method of a name; null for "auto". Throws invalid_argument for a name that is none.
const distribute::Method* method_of(const std::string& name) {
    const distribute::Method* method = distribute::find_method(name);
    if (!method && name != "auto")
        throw make_error(ErrorCode::invalid_argument, "unknown method \"", name,
                         "\"; known are auto, ", distribute::method_names());
    return method;
}

/// Throws where a method cannot carry this.
void check_method(const State& s, const std::string& name, std::span<const ElementColumn> columns,
                  bool in_place) {
    const distribute::Method* method = method_of(name);
    if (!method) return;
    if (in_place && !method->move_in_place)
        throw make_error(ErrorCode::unsupported, name, " cannot move elements in place");
    if (!in_place && s.limit_bytes > 0 && !method->bounded)
        throw make_error(ErrorCode::unsupported, name,
                         " keeps to max_bytes in place only; take another method");
    if (!method->reaches) return;
    const std::int64_t most = std::max({s.received(), s.elems, s.codes.entries});
    if (!method->reaches(most))
        throw make_error(ErrorCode::unsupported, name, " cannot move ", most,
                         " elements with the counts of this MPI");
    for (const ElementColumn& c : columns)
        if (c.elem_bytes > std::numeric_limits<int>::max())
            throw make_error(ErrorCode::unsupported, name, " cannot move elements of ",
                             c.elem_bytes, " bytes");
}

/// What a move is carried by; the same on all processes, since columns are. Collective for "auto".
std::string resolved(const State& s, distribute::NodeSlot& slot, const std::string& name,
                     std::span<const ElementColumn> columns, bool in_place) {
    if (name != "auto") return name;
    // Only ours moves several columns together, or keeps to each process's own limit.
    if (s.limit_bytes > 0 || columns.size() != 1) return "partition";
    return distribute::method_times(s, slot).fastest(columns.front().elem_bytes, in_place);
}

void begin_move(State& s, const std::string& method) {
    s.last_move.staged_bytes = s.last_move.messages = s.last_move.rounds = 0;
    s.counters.method = method;
    ++s.counters.moves;
}

/// A slot for a call that all processes have agreed on. Collective; throws what kept any of them
/// from taking part.
distribute::SlotClaim agreed(State& s, const distribute::LocalError& mine,
                             const distribute::Call& call) {
    distribute::SlotClaim claim(s.channel);
    distribute::Agreement(s, claim.slot(), mine, call).reach();
    return claim;
}

/// Moves columns into what `results_for` gives for them. Collective.
template <class ResultsFor>
void move_into(State& s, std::span<const ElementColumn> columns,
               const std::optional<CarryOptions>& given, ResultsFor&& results_for) {
    const CarryOptions how = given.value_or(s.options.carry);
    std::vector<ElementColumn> full;
    std::span<const ElementBuffer> results;
    const auto mine = distribute::local_error_of(*s.group, [&] {
        check_idle(s);
        full = with_strides(columns);
        check_method(s, how.method, full, false);
        results = results_for(full);
        check_columns(s, full, s.elems, results, s.received());
    });
    const auto claim = agreed(s, mine, {"move", how, s.number, columns});
    const std::string method = resolved(s, claim.slot(), how.method, full, false);
    begin_move(s, method);
    // Without being asked for, no method takes an order of its own.
    const bool stable = how.stable || method != how.method;
    distribute::move(*method_of(method), s, claim.slot(), {full, results}, stable);
    distribute::Delivery delivery;
    if (!stable && method == "sort") delivery = {method};
    s.orders.record(ArrivedBy::move, delivery);
}

/// Begins a move, and waits for nobody, unless the operation that was begun as many before as there
/// may be in flight is not complete: then for that. All processes begin theirs in the same order.
void start_move(State& s, distribute::StartArguments arguments) {
    s.channel->check_room();
    begin_move(s, "partition");
    s.started = std::make_shared<distribute::StartedMove>(s, distribute::SlotClaim(s.channel),
                                                          std::move(arguments));
}

/// Pooled memory for what arrives of columns.
std::vector<ElementBuffer> allocated_results(const Migration& migration,
                                             std::span<const ElementColumn> columns) {
    std::vector<ElementBuffer> results;
    for (const ElementColumn& c : columns)
        results.push_back(migration.allocate(migration.received() * c.elem_bytes));
    return results;
}

/// Ends the move in flight where `work` says so, or it fails; after a timeout it is still there.
template <class Work>
void ending_a_move(State& s, const char* call, Work&& work) {
    if (!s.started) throw make_error(ErrorCode::invalid_state, call, " was called without start");
    const auto end = [&] {
        if (!s.started->in_flight()) s.started.reset();
    };
    try {
        work(*s.started);
    } catch (...) {
        end();
        throw;
    }
    end();
    if (!s.started) s.orders.record(ArrivedBy::move, {});
}

}  // namespace

Migration::State::State(mpi::ProcessGroupPtr of_group,
                        std::shared_ptr<distribute::NodeChannel> of_channel,
                        distribute::NodeSlot& slot, const TargetList& targets,
                        const MigrationOptions& given)
    : group(std::move(of_group)),
      channel(std::move(of_channel)),
      number(channel->next_migration()),
      options(given),
      elems(targets.elems),
      per_elem(targets.targets_per_elem) {
    const auto mine = distribute::local_error_of(*group, [&] {
        if (options.max_bytes < 0)
            throw make_error(ErrorCode::invalid_argument, "max_bytes is ", options.max_bytes);
        method_of(options.carry.method);
        row_starts.assign(targets.row_starts.begin(), targets.row_starts.end());
        auto [found, counts] =
            distribute::read_targets(targets, rank(), nprocs(), memory::SegmentPool::of_process());
        codes = std::move(found);
        dropped = counts.back();
        counts.pop_back();
        send_counts = std::move(counts);
    });
    if (distribute::Agreement(*this, slot, mine, {"construction", options.carry},
                              options.max_bytes > 0)
            .reach_with_counts()) {
        constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
        limit_bytes = -group->maximum({options.max_bytes > 0 ? -options.max_bytes : -none}).front();
    }
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

Migration::Migration(MPI_Comm comm, const TargetList& targets, const MigrationOptions& options) {
    auto group = mpi::ProcessGroup::of(comm);
    auto channel =
        mpi::notifying_shortage(*group, [&] { return distribute::NodeChannel::of(*group); });
    const distribute::SlotClaim claim(channel);
    state_ = std::make_shared<State>(std::move(group), std::move(channel), claim.slot(), targets,
                                     options);
}

std::int64_t Migration::elems() const {
    return bound(state_).elems;
}
std::int64_t Migration::received() const {
    return bound(state_).received();
}
std::span<const std::int64_t> Migration::send_counts() const {
    return bound(state_).send_counts;
}
std::span<const std::int64_t> Migration::receive_counts() const {
    return bound(state_).recv_counts;
}
MigrationCounters Migration::counters() const {
    const State& s = bound(state_);
    MigrationCounters counters = s.counters;
    counters.plan_bytes += s.orders.kept_bytes();
    counters.staged_bytes = s.last_move.staged_bytes;
    counters.messages = s.last_move.messages;
    counters.rounds = s.last_move.rounds;
    return counters;
}

ElementBuffer Migration::allocate(std::int64_t bytes) const {
    bound(state_);  // throws where it is not
    const auto memory = memory::SegmentPool::of_process().allocate(bytes);
    return {memory->data, bytes, memory};
}

void Migration::move(std::span<const ElementColumn> columns, std::span<const ElementBuffer> results,
                     const std::optional<CarryOptions>& given) {
    move_into(bound(state_), columns, given, [&](const auto&) { return results; });
}

std::vector<ElementBuffer> Migration::move(std::span<const ElementColumn> columns,
                                           const std::optional<CarryOptions>& given) {
    State& s = bound(state_);
    std::vector<ElementBuffer> results;
    move_into(s, columns, given, [&](const std::vector<ElementColumn>& full) {
        check_sizes(s, full);
        results = allocated_results(*this, full);
        return std::span<const ElementBuffer>(results);
    });
    return results;
}

void Migration::move_in_place(void* data, std::int64_t elem_bytes, std::int64_t capacity_elems,
                              const std::optional<CarryOptions>& how) {
    move_in_place(ElementColumn{data, elem_bytes}, capacity_elems, how);
}

void Migration::move_in_place(const ElementColumn& buffer, std::int64_t capacity_elems,
                              const std::optional<CarryOptions>& given) {
    State& s = bound(state_);
    const CarryOptions how = given.value_or(CarryOptions{s.options.carry.method, false});
    const std::int64_t bytes = buffer.elem_bytes;
    bool beyond_limit = false;
    const auto mine = distribute::local_error_of(*s.group, [&] {
        check_idle(s);
        if (!s.all_elems().rows.one_each())
            throw Error(ErrorCode::unsupported,
                        "elements with several targets cannot move in place");
        check_sizes(s, {&buffer, 1});
        check_method(s, how.method, {&buffer, 1}, true);
        if (buffer.stride_bytes != ElementColumn::dense && buffer.stride_bytes != bytes)
            throw Error(ErrorCode::invalid_argument,
                        "elements that move in place must lie one behind the other");
        check_memory(s, buffer.data, std::max(s.elems, s.received()), "the buffer");
        if (capacity_elems < s.received()) check_room(s, s.received(), capacity_elems, 1);
        beyond_limit = s.limit_bytes > 0 && distribute::in_place_bytes(s, bytes) > s.limit_bytes;
    });
    const distribute::SlotClaim claim(s.channel);
    const bool limited =
        distribute::Agreement(s, claim.slot(), mine, {"move in place", how, s.number, {&buffer, 1}},
                              beyond_limit)
            .reach();
    std::string method = resolved(s, claim.slot(), how.method, {&buffer, 1}, true);
    bool stable = how.stable;
    if (method == "partition" && limited) method = "alltoallv";
    // Without being asked for, other methods keep the order among those that stay as ours does.
    if (method != how.method && method != "partition") stable = true;
    begin_move(s, method);
    // The buffer holds the elements to send, even if fewer may arrive.
    const distribute::Buffer whole{static_cast<std::byte*>(const_cast<void*>(buffer.data)), bytes,
                                   std::max(capacity_elems, s.elems),
                                   distribute::scratch_elems(s, bytes)};
    distribute::exchange(*method_of(method), s, claim.slot(), whole, stable);
    distribute::Delivery delivery;
    if (!stable) delivery = {method, true};
    if (!stable && method != "partition")
        delivery = {method, true, whole.capacity_elems, whole.scratch_elems, s.counters.moves};
    s.orders.record(ArrivedBy::move_in_place, delivery);
}

void Migration::reverse(std::span<const ElementColumn> values,
                        std::span<const ElementBuffer> results, Op op, ArrivedBy by) {
    State& s = bound(state_);
    std::vector<ElementColumn> full;
    distribute::Delivery delivery;
    const auto mine = distribute::local_error_of(*s.group, [&] {
        check_idle(s);
        full = with_strides(values);
        check_columns(s, full, s.received(), results, s.elems);
        for (const ElementColumn& c : full) {
            const std::int64_t scalar = scalar_bytes(c.type);
            if (op != Op::replace && (scalar == 0 || c.elem_bytes % scalar != 0))
                throw make_error(ErrorCode::wrong_type, "elements of ", c.elem_bytes,
                                 " bytes cannot be combined as ", scalar_name(c.type),
                                 "; what is combined are numbers, of this byte order");
        }
        delivery = s.orders.chosen(by);
    });
    const auto claim = agreed(s, mine, {"reverse", {"partition", true}, s.number, values, op, by});
    const auto& places = s.orders.places(s, claim.slot(), delivery);
    begin_move(s, "partition");
    distribute::carry_back(s, claim.slot(), {{full, results}, op, places});
}

void Migration::reverse(const ElementColumn& values, const ElementBuffer& result, Op op,
                        ArrivedBy by) {
    reverse({&values, 1}, {&result, 1}, op, by);
}

void Migration::start(std::span<const ElementColumn> columns,
                      std::span<const ElementBuffer> results) {
    State& s = bound(state_);
    check_idle(s);
    distribute::StartArguments arguments;
    arguments.local_error = distribute::local_error_of(*s.group, [&] {
        const std::string& method = s.options.carry.method;
        if (method != "auto" && method != "partition")
            throw make_error(ErrorCode::unsupported,
                             "start moves by partition, this migration was made for ", method);
        arguments.columns = with_strides(columns);
        check_columns(s, arguments.columns, s.elems, results, s.received());
        arguments.results.assign(results.begin(), results.end());
    });
    start_move(s, std::move(arguments));
}

std::vector<ElementBuffer> Migration::start(std::span<const ElementColumn> columns) {
    State& s = bound(state_);
    check_idle(s);
    std::vector<ElementBuffer> results;
    try {
        check_sizes(s, with_strides(columns));
        results = allocated_results(*this, columns);
    } catch (...) {
        start_refused(mpi::current_error(*s.group));
        return {};
    }
    start(columns, results);
    return results;
}

void Migration::start_refused(const Error& error) {
    State& s = bound(state_);
    check_idle(s);
    start_move(s, {{error, {}}, {}, {}});
}

bool Migration::test() {
    State& s = bound(state_);
    bool complete = false;
    ending_a_move(s, "test", [&](distribute::StartedMove& move) { complete = move.test(); });
    return complete;
}

void Migration::wait(std::optional<double> timeout_seconds) {
    ending_a_move(bound(state_), "wait",
                  [&](distribute::StartedMove& move) { move.wait(timeout_seconds); });
}

bool Migration::in_flight() const {
    return bound(state_).started != nullptr;
}

void Migration::refuse(const Error& error) {
    State& s = bound(state_);
    agreed(s, {error, {}}, {"refusal", s.options.carry, s.number});
}

std::vector<MethodTime> Migration::measured_methods() const {
    State& s = bound(state_);
    const auto claim = agreed(s, {}, {"explanation", s.options.carry, s.number});
    if (s.options.carry.method != "auto") return {};
    return distribute::method_times(s, claim.slot()).times;
}

std::string Migration::chosen_method(std::int64_t elem_bytes, bool in_place) const {
    State& s = bound(state_);
    const auto mine = distribute::local_error_of(*s.group, [&] {
        if (elem_bytes < 1)
            throw make_error(ErrorCode::invalid_argument, "elem_bytes is ", elem_bytes,
                             "; it must be at least 1");
    });
    const auto claim = agreed(s, mine, {"explanation", s.options.carry, s.number});
    const ElementColumn column{nullptr, elem_bytes};
    return resolved(s, claim.slot(), s.options.carry.method, {&column, 1}, in_place);
}

}  // namespace datamover
