// SPDX-License-Identifier: BSD-3-Clause
// Fuzzing of saved plans: any bytes are either rejected or a valid plan that answers all queries.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "datamover/error.hpp"
#include "datamover/explain.hpp"
#include "datamover/motion_plan.hpp"
#include "plan/section_cursor.hpp"
#include "plan/serial.hpp"
#include "relation/serial.hpp"

using namespace datamover;

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using Bytes = std::vector<std::uint8_t>;
using Elems = std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>;

constexpr std::int64_t most_processes = 16, most_blocks = 100, most_elems = 1000;

/// Whether what a layout says can be gone through block by block, or element by element.
bool is_small(const Layout& layout, bool by_element) {
    if (layout.nprocs() > most_processes || layout.num_blocks() > most_blocks) return false;
    if (const BlockCyclic* grid = layout.block_cyclic())
        for (int d = 0; d < grid->dims(); ++d)
            if (grid->shape()[d] / grid->block()[d] > most_blocks) return false;
    if (const FlatCyclic* flat = layout.flat_cyclic())
        if (flat->elems() / flat->block_elems() > most_blocks) return false;
    if (!by_element) return true;
    for (std::int64_t rank = 0; rank < layout.nprocs(); ++rank)
        if (layout.local_elems(rank) > most_elems) return false;
    return true;
}

/// Whether the ghosts of a term reach over few periods.
bool is_narrow(const PlanTerm& term) {
    const auto* halo = std::get_if<HaloExchange>(&term);
    for (int d = 0; halo && !halo->domain.empty() && d < halo->domain.dims(); ++d)
        if (std::max(halo->lower[d], halo->upper[d]) / halo->domain.extent(d) > 2) return false;
    return true;
}

/// An answer, or an error of the library's own: nothing else may come.
template <class Ask>
bool answered(Ask&& ask) {
    try {
        ask();
        return true;
    } catch (const Error&) {
        return false;
    }
}

void ask_for_parts(const MotionPlan& plan) {
    Elems sent, received;
    bool all = true;
    for (std::int64_t rank = 0; rank < plan.nprocs(); ++rank) {
        all &= answered([&] {
            for (const PeerPart& peer : plan.outgoing(rank))
                sent[{rank, peer.rank}] = peer.part.size();
        });
        all &= answered([&] {
            for (const PeerPart& peer : plan.incoming(rank))
                received[{peer.rank, rank}] = peer.part.size();
        });
    }
    if (all && sent != received) __builtin_trap();
}

void ask_for_sections(const MotionPlan& plan) {
    answered([&] {
        plan::SectionCursor cursor(plan);
        SectionCopy section;
        for (int i = 0; i < 1000 && cursor.next(section); ++i) {
        }
    });
}

void use(const MotionPlan& plan) {
    const MotionPlan again = MotionPlan::from_bytes(plan.to_bytes());
    if (!(again == plan) || plan::plan_digests(again) != plan::plan_digests(plan)) __builtin_trap();
    if (!(plan.reversed().reversed() == plan) || !(plan.adjoint().adjoint() == plan))
        __builtin_trap();
    const bool by_element = plan.source().index_list() || plan.destination().index_list();
    bool small = false;
    answered([&] {
        small = is_small(plan.source(), by_element) && is_small(plan.destination(), by_element) &&
                plan.size() < most_blocks;
        for (std::int64_t i = 0; small && i < plan.size(); ++i) small = is_narrow(plan[i]);
    });
    if (!small) return;
    ask_for_parts(plan);
    ask_for_parts(plan.adjoint());
    ask_for_sections(plan);
    answered([&] { plan.composed(plan.reversed(), 1000); });
    answered([&] { summarize_traffic(plan, 2); });
    answered([&] { traffic_matrix(plan, 4); });
    answered([&] { explain_rank(plan, 0, 8); });
}

/// Plans of all kinds to begin with.
const std::vector<Bytes>& good_plans() {
    static const std::vector<Bytes> plans = [] {
        const Layout rows = BlockCyclic({12, 10}, "(block, *)", 4);
        const Layout dealt = BlockCyclic({12, 10}, "(cyclic(2), cyclic)", 4);
        BlockCyclicOptions copies;
        copies.replicas = 2;
        copies.ranks = {3, 1, 0, 2};
        const Layout replicated = BlockCyclic({12, 10}, "(cyclic(5), *)", 4, copies);
        const FloorPlan tiles = FloorPlan::tiles(Region({0, 0}, {12, 10}), {5, 4}, 4, "cyclic");
        const FloorPlan shared({Region({0, 0}, {7, 10}), Region({6, 0}, {12, 10})}, {0, 1}, 4);
        const std::vector<std::int64_t> offsets{0, 3, 3, 5, 6}, indices{0, 4, 9, 119, 4, 17};
        const Layout lists = IndexList({12, 10}, offsets, indices);
        const Layout ranges = FlatCyclic({12, 10}, 7, 4, {2, 0, 1});
        const Layout uneven = FlatCyclic({11, 13, 7}, 11, 2);  // never repeats
        const Layout cubes = BlockCyclic({11, 13, 7}, "(cyclic(2), block, cyclic)", 2);
        MotionPlan by_hand(tiles, tiles);
        by_hand.add_section(0, Region({0, 0}, {2, 3}), 1, Region({0, 4}, {3, 6}), {1, 0});
        by_hand.add_section(0, Region({0, 0}, {2, 3}), 1, Region({0, 4}, {3, 6}));
        std::vector<Bytes> all;
        for (const MotionPlan& plan :
             {redistribute(rows, dealt), redistribute(dealt, tiles), redistribute(tiles, rows),
              redistribute(replicated, dealt), redistribute(shared, shared).adjoint(),
              redistribute(rows, lists), redistribute(lists, tiles, {}, true),
              redistribute(dealt, ranges), redistribute(ranges, tiles),
              redistribute(ranges, FlatCyclic({10, 12}, 12, 4), {1, 0}), by_hand,
              redistribute(uneven, cubes), redistribute(cubes, uneven).adjoint(),
              redistribute(uneven, FlatCyclic({7, 13, 11}, 13, 2), {2, 1, 0}),
              halo(tiles, {1, 2}, {3, 0}, Region({0, 0}, {12, 10}), {true, false}),
              halo(rows, {1, 1}, {1, 1}, {}, {}, false).reversed()})
            all.push_back(plan.to_bytes());
        return all;
    }();
    return plans;
}

}  // namespace

/// Mostly changes one word, since nearly all that a plan's bytes say is said in words.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
    std::mt19937_64 random(seed);
    if (size < 64 || random() % 64 == 0) {
        const Bytes& plan = good_plans()[random() % good_plans().size()];
        size = std::min(plan.size(), max_size);
        std::memcpy(data, plan.data(), size);
    }
    if (random() % 4 == 0 || size < 8) return LLVMFuzzerMutate(data, size, max_size);
    const std::size_t at = random() % (size / 8) * 8;
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, 8);
    switch (random() % 5) {
        case 0:
            word += random() % 9 - 4;
            break;
        case 1:
            word = random() % 13;
            break;
        case 2:
            word = (std::uint64_t{1} << random() % 64) - random() % 3;
            break;
        case 3:
            word = ~word;
            break;
        default:
            word = random();
    }
    std::memcpy(data + at, &word, 8);
    return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    // Magic and checksum are made right, so that what lies behind them is reached.
    Bytes bytes(data, data + size / 8 * 8);
    if (bytes.size() < 16) return 0;
    std::memcpy(bytes.data(), &plan::plan_magic, 8);
    const std::size_t end = bytes.size() - 8;
    const std::uint64_t checksum = serial_checksum(std::span(bytes).first(end));
    std::memcpy(bytes.data() + end, &checksum, 8);
    MotionPlan plan;
    try {
        plan = MotionPlan::from_bytes(bytes);
    } catch (const Error& e) {
        if (e.code() != ErrorCode::invalid_argument) __builtin_trap();
        return 0;
    }
    use(plan);
    return 0;
}
