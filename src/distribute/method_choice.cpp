// SPDX-License-Identifier: BSD-3-Clause
// Choice of the implementation that carries a migration with method "auto".
#include "migration_state.hpp"

#include <mpi.h>

#include <algorithm>
#include <limits>

#include "methods.hpp"

namespace datamover::distribute {
namespace {

constexpr std::int64_t sample_bytes = std::int64_t{1} << 18;
constexpr std::int64_t sampled_elem_bytes[] = {4, 64};
/// Elements below this count as small.
constexpr std::int64_t large_elem_bytes = 16;
/// The first turn finds memory and connections; it does not count.
constexpr int turns = 6;
/// Another method is taken where it is faster than ours by more than chance.
constexpr double clearly_faster = 0.9;
/// Ours first. "alltoallw" has to name each element to MPI, and "sort" sends elements several
/// times: they are there to be compared with.
const std::vector<std::string> candidates = {"partition", "alltoallv", "sendrecv"};

template <class Work>
double fastest_turn(Work&& work) {
    double best = std::numeric_limits<double>::max();
    for (int turn = 0; turn < turns; ++turn) {
        const double begin = MPI_Wtime();
        work();
        if (turn > 0) best = std::min(best, MPI_Wtime() - begin);
    }
    return best;
}

/// Whether a method works for any number of elements.
bool suffices(const Method& method, bool in_place) {
    return (!in_place || method.move_in_place) &&
           (!method.reaches || method.reaches(std::numeric_limits<std::int64_t>::max()));
}

void measure(const State& of, NodeSlot& slot, std::int64_t elem_bytes, bool in_place,
             MethodTimes& all) {
    const std::int64_t elems = sample_bytes / elem_bytes, rank = of.rank(), nprocs = of.nprocs();
    TargetList list;
    list.elems = elems;
    list.evaluate = [&](std::int64_t first, std::int64_t count, std::int64_t* targets) {
        for (std::int64_t i = first; i < first + count; ++i)
            *targets++ = !in_place ? i % nprocs : i % 8 == 0 ? i / 8 % nprocs : rank;
    };
    State s(of.group, of.channel, slot, list, {});
    // Room for what arrives, which may be a little more than what is given.
    std::vector<std::byte> data(2 * sample_bytes);
    const ElementColumn column{data.data(), elem_bytes, elem_bytes};
    const auto memory =
        memory::SegmentPool::of_process().allocate(in_place ? 0 : s.received() * elem_bytes);
    const ElementBuffer result{memory->data, memory->bytes, memory};
    const Buffer buffer{data.data(), elem_bytes, 2 * elems, scratch_elems(s, elem_bytes)};
    for (const std::string& name : candidates) {
        const Method& method = *find_method(name);
        if (!suffices(method, in_place)) continue;
        const double seconds = fastest_turn([&] {
            if (in_place)
                exchange(method, s, slot, buffer, name != candidates.front());
            else
                move(method, s, slot, {{&column, 1}, {&result, 1}}, true);
        });
        all.times.push_back({name, in_place, elem_bytes, seconds});
    }
}

}  // namespace

const std::string& MethodTimes::fastest(std::int64_t elem_bytes, bool in_place) const {
    const std::int64_t sampled = sampled_elem_bytes[elem_bytes < large_elem_bytes ? 0 : 1];
    const auto seconds_of = [&](const std::string& method) {
        double seconds = 0;
        for (const MethodTime& time : times)
            if (time.method == method && time.in_place == in_place &&
                (in_place || time.elem_bytes == sampled))
                seconds += time.seconds;
        return seconds;
    };
    const std::string* best = &candidates.front();
    double best_seconds = clearly_faster * seconds_of(*best);
    for (const std::string& method : candidates)
        if (const double seconds = seconds_of(method); seconds > 0 && seconds < best_seconds) {
            best = &method;
            best_seconds = seconds;
        }
    return *best;
}

const MethodTimes& method_times(const State& state, NodeSlot& slot) {
    return *state.group->extension<MethodTimes>([&] {
        auto measured = std::make_shared<MethodTimes>();
        if (std::ssize(state.group->node().ranks) == state.nprocs()) return measured;
        for (const std::int64_t bytes : sampled_elem_bytes) {
            measure(state, slot, bytes, false, *measured);
            measure(state, slot, bytes, true, *measured);
        }
        // On all processes those of the slowest one.
        constexpr double nanoseconds = 1e9;
        std::vector<std::int64_t> times_ns;
        for (const MethodTime& time : measured->times)
            times_ns.push_back(static_cast<std::int64_t>(time.seconds * nanoseconds));
        times_ns = state.group->maximum(std::move(times_ns));
        for (std::size_t i = 0; i < times_ns.size(); ++i)
            measured->times[i].seconds = static_cast<double>(times_ns[i]) / nanoseconds;
        return measured;
    });
}

}  // namespace datamover::distribute
