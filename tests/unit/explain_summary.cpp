// SPDX-License-Identifier: BSD-3-Clause
// Sums over all processes: agree with a check of every element's owners.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include "datamover/error.hpp"
#include "datamover/explain.hpp"

namespace datamover {
namespace {

using std::int64_t;
using PairElems = std::map<std::pair<int64_t, int64_t>, int64_t>;

PairElems count_elements(const BlockCyclic& source, const Region& source_region,
                         const BlockCyclic& destination, const Region& destination_region,
                         const std::vector<int>& axes) {
    PairElems pairs;
    destination_region.for_each([&](const Point& to) {
        Point from = source_region.lo();
        for (int k = 0; k < to.dims(); ++k)
            from[axes[static_cast<std::size_t>(k)]] += to[k] - destination_region.lo()[k];
        ++pairs[{source.owner_of(from), destination.owner_of(to)}];
    });
    return pairs;
}

TrafficSummary summarize(const PairElems& pairs, int64_t nprocs, int64_t node_size) {
    TrafficSummary s;
    const std::vector<int64_t> zeros(static_cast<std::size_t>(nprocs), 0);
    s.sent_elems = s.received_elems = s.kept_elems = s.sent_messages = s.received_messages = zeros;
    std::map<int64_t, int64_t> sizes;
    for (const auto& [pair, n] : pairs) {
        const auto from = static_cast<std::size_t>(pair.first);
        const auto to = static_cast<std::size_t>(pair.second);
        if (from == to) {
            s.kept_elems[from] += n;
            continue;
        }
        s.sent_elems[from] += n, s.received_elems[to] += n;
        ++s.sent_messages[from], ++s.received_messages[to];
        ++sizes[n];
        const bool near = pair.first / node_size == pair.second / node_size;
        (near ? s.shared_messages : s.p2p_messages) += 1;
        (near ? s.shared_elems : s.p2p_elems) += n;
    }
    for (const auto& [elems, messages] : sizes) s.sizes.push_back({elems, messages});
    if (!sizes.empty()) {
        s.smallest_elems = sizes.begin()->first;
        s.largest_elems = sizes.rbegin()->first;
    }
    return s;
}

void expect_equal(const TrafficSummary& a, const TrafficSummary& b) {
    EXPECT_EQ(a.sent_elems, b.sent_elems);
    EXPECT_EQ(a.received_elems, b.received_elems);
    EXPECT_EQ(a.kept_elems, b.kept_elems);
    EXPECT_EQ(a.sent_messages, b.sent_messages);
    EXPECT_EQ(a.received_messages, b.received_messages);
    EXPECT_EQ(a.sizes, b.sizes);
    EXPECT_EQ(a.smallest_elems, b.smallest_elems);
    EXPECT_EQ(a.largest_elems, b.largest_elems);
    EXPECT_EQ(a.shared_messages, b.shared_messages);
    EXPECT_EQ(a.shared_elems, b.shared_elems);
    EXPECT_EQ(a.p2p_messages, b.p2p_messages);
    EXPECT_EQ(a.p2p_elems, b.p2p_elems);
}

/// A random redistribution with everything that a block-cyclic layout may have.
class ExplainRandom : public ::testing::TestWithParam<unsigned> {
protected:
    std::mt19937 random{GetParam()};
    int64_t pick(int64_t lo, int64_t hi) {
        return std::uniform_int_distribution<int64_t>(lo, hi)(random);
    }
    BlockCyclic layout(const Point& shape, int64_t nprocs) {
        static const char* const words[] = {"block", "cyclic", "cyclic(2)", "cyclic(5)", "*"};
        std::string text;
        BlockCyclicOptions options;
        std::vector<int64_t> grid;
        int64_t left = nprocs;
        for (int d = 0; d < shape.dims(); ++d) {
            const auto word = static_cast<std::size_t>(pick(0, 4));
            text += (d == 0 ? "(" : ", ") + std::string(words[word]);
            grid.push_back(word == 4 ? 1 : pick(1, std::max<int64_t>(left, 1)));
            left /= grid.back();
            options.first_process.push_back(pick(0, grid.back() - 1));
        }
        options.grid = grid;
        options.column_major_grid = pick(0, 1) == 1;
        if (pick(0, 3) == 0) {
            std::vector<int64_t> ranks;
            for (int64_t r = 0; r < nprocs; ++r) ranks.push_back(r);
            std::shuffle(ranks.begin(), ranks.end(), random);
            int64_t positions = 1;
            for (const int64_t g : grid) positions *= g;
            ranks.resize(static_cast<std::size_t>(positions));
            options.ranks = ranks;
        }
        return BlockCyclic(shape, text + ")", nprocs, options);
    }
};

TEST_P(ExplainRandom, SumsAgreeWithEveryElement) {
    const int dims = static_cast<int>(pick(1, 3));
    const int64_t nprocs = pick(1, 13), node_size = pick(1, 5);
    std::vector<int> axes;
    Point source_shape = Point::filled(dims, 0), destination_shape = source_shape;
    Point lo_s = source_shape, lo_d = source_shape, extent_s = source_shape,
          extent_d = source_shape;
    for (int d = 0; d < dims; ++d) axes.push_back(d);
    std::shuffle(axes.begin(), axes.end(), random);
    for (int k = 0; k < dims; ++k) {
        const int d = axes[static_cast<std::size_t>(k)];
        extent_d[k] = extent_s[d] = pick(1, dims == 1 ? 90 : 13);
        lo_d[k] = pick(0, 4), lo_s[d] = pick(0, 4);
        destination_shape[k] = lo_d[k] + extent_d[k] + pick(0, 3);
        source_shape[d] = lo_s[d] + extent_s[d] + pick(0, 3);
    }
    const BlockCyclic source = layout(source_shape, nprocs);
    const BlockCyclic destination = layout(destination_shape, nprocs);
    const Region from(lo_s, lo_s + extent_s), to(lo_d, lo_d + extent_d);
    const MotionPlan plan = redistribute(source, from, destination, to, axes);
    const PairElems pairs = count_elements(source, from, destination, to, axes);
    const TrafficSummary truth = summarize(pairs, nprocs, node_size);
    expect_equal(summarize_traffic(plan, node_size), truth);

    const int64_t max_groups = pick(1, nprocs);
    const TrafficMatrix m = traffic_matrix(plan, max_groups);
    ASSERT_EQ(m.groups(), max_groups);
    std::vector<int64_t> elems(static_cast<std::size_t>(max_groups * max_groups), 0);
    for (const auto& [pair, n] : pairs) {
        const auto group = [&](int64_t rank) {
            int64_t g = 0;
            while (m.bounds[static_cast<std::size_t>(g) + 1] <= rank) ++g;
            return g;
        };
        elems[static_cast<std::size_t>(group(pair.first) * max_groups + group(pair.second))] += n;
    }
    EXPECT_EQ(m.elems, elems);

    const PairTable table = explain_pairs(plan, 8);
    PairElems listed;
    for (std::size_t i = 0; i < table.source.size(); ++i)
        listed[{table.source[i], table.destination[i]}] = table.elems[i];
    EXPECT_EQ(listed, pairs);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExplainRandom, ::testing::Range(0u, 150u));

TEST(Explain, FloorPlansGoThroughTheirParts) {
    const Region domain = Region::from_shape({12, 9});
    const FloorPlan source = FloorPlan::uniform(domain, {4, 1}, 4);
    const FloorPlan destination = FloorPlan::tiles(domain, {5, 4}, 4, "cyclic");
    PairElems pairs;
    domain.for_each([&](const Point& p) {
        const Region here(p, p + Point{1, 1});
        ++pairs[{source.owner(source.find(here)[0]), destination.owner(destination.find(here)[0])}];
    });
    expect_equal(summarize_traffic(redistribute(source, destination), 2), summarize(pairs, 4, 2));
}

TEST(Explain, AMillionProcessesAreSummedFromTheTables) {
    const int64_t n = 1'000'000;
    const BlockCyclic rows({n, 4096}, "(block, *)", n),
        tiles({n, 4096}, "(cyclic(64), cyclic(64))", n);
    const TrafficSummary s = summarize_traffic(redistribute(rows, tiles), 4);
    int64_t sent = 0, kept = 0, received = 0;
    for (const int64_t e : s.sent_elems) sent += e;
    for (const int64_t e : s.kept_elems) kept += e;
    for (const int64_t e : s.received_elems) received += e;
    EXPECT_EQ(sent + kept, n * 4096);
    EXPECT_EQ(received, sent);
    EXPECT_EQ(s.shared_elems + s.p2p_elems, sent);
    EXPECT_EQ(s.largest_elems, 4096 / std::min<int64_t>(64, tiles.grid()[1]));
}

TEST(Explain, SaysWhatIsWrongWithItsArguments) {
    const BlockCyclic a({8}, "(block)", 2), b({8}, "(cyclic)", 2);
    const MotionPlan plan = redistribute(a, b);
    const auto code = [](auto&& call) {
        try {
            call();
        } catch (const Error& e) {
            return e.code();
        }
        return ErrorCode{};
    };
    EXPECT_EQ(code([&] { summarize_traffic(plan, -1); }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([&] { traffic_matrix(plan, 0); }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([&] { explain_pairs(plan, 0); }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([&] { explain_rank(plan, 2, 8); }), ErrorCode::out_of_range);
    EXPECT_EQ(code([&] { explain_rank(plan, 0, 0); }), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace datamover
