// SPDX-License-Identifier: BSD-3-Clause
// Oracle of layouts: the process that holds each element, found by enumerating all elements. It
// includes random layouts, the arrays of all processes in one place, and the execution of plans
// between them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "datamover/layout.hpp"
#include "datamover/memory_layout.hpp"
#include "datamover/motion_plan.hpp"
#include "plan/compile.hpp"
#include "region_oracle.hpp"

namespace datamover::layout_oracle {

using region_oracle::Coordinates;
using region_oracle::expect_error;
using region_oracle::Random;

inline std::int64_t from_environment(const char* name, std::int64_t otherwise) {
    const char* text = std::getenv(name);
    return text ? std::strtoll(text, nullptr, 10) : otherwise;
}

/// Number of random cases: `usual`, or as many times more as a longer run asks for.
inline std::int64_t cases(std::int64_t usual) {
    return usual * from_environment("DATAMOVER_TEST_CASES", 1);
}

/// Case number `i`, other ones where a longer run draws anew.
inline std::uint64_t seed_of(std::int64_t i) {
    return static_cast<std::uint64_t>(i + 1'000'000 * from_environment("DATAMOVER_TEST_SEED", 0));
}

enum class Kind { block_cyclic, floor_plan, index_list, flat_cyclic, uneven_ranges };

inline std::string kind_name(Kind kind) {
    return kind == Kind::block_cyclic  ? "BlockCyclic"
           : kind == Kind::floor_plan  ? "FloorPlan"
           : kind == Kind::index_list  ? "IndexList"
           : kind == Kind::flat_cyclic ? "FlatCyclic"
                                       : "UnevenRanges";
}

inline Layout random_block_cyclic(Random& random, const Point& shape, std::int64_t nprocs) {
    BlockCyclicOptions options;
    options.grid.emplace();
    std::string words;
    std::int64_t left = nprocs;
    for (int d = 0; d < shape.dims(); ++d) {
        const std::int64_t word = random.integer(0, 3);
        const std::int64_t p = word == 0 ? 1 : random.integer(1, left);
        left /= p;
        const std::string name[] = {"*", "block", "cyclic",
                                    "cyclic(" + std::to_string(random.integer(1, 5)) + ")"};
        words += (d > 0 ? ", " : "") + name[word];
        options.grid->push_back(p);
        options.first_process.push_back(random.integer(0, p - 1));
    }
    options.column_major_grid = random.chance(50);
    if (random.chance(30)) options.replicas = random.integer(1, left);
    if (random.chance(30)) {
        std::vector<std::int64_t> ranks(static_cast<std::size_t>(nprocs));
        std::iota(ranks.begin(), ranks.end(), 0);
        for (std::size_t i = ranks.size(); i > 1; --i)
            std::swap(ranks[i - 1], ranks[static_cast<std::size_t>(
                                        random.integer(0, static_cast<std::int64_t>(i) - 1))]);
        std::int64_t positions = options.replicas;
        for (const std::int64_t p : *options.grid) positions *= p;
        ranks.resize(static_cast<std::size_t>(positions));
        options.ranks = ranks;
    }
    return BlockCyclic(shape, "(" + words + ")", nprocs, options);
}

/// Tiles, or boxes that overlap, of which one is the whole shape.
inline Layout random_floor_plan(Random& random, const Point& shape, std::int64_t nprocs) {
    const Region whole = Region::from_shape(shape);
    if (random.chance(50)) {
        Point tile = shape;
        for (int d = 0; d < shape.dims(); ++d) tile[d] = random.integer(1, shape[d]);
        return FloorPlan::tiles(whole, tile, nprocs, random.chance(50) ? "cyclic" : "block");
    }
    std::vector<Region> regions;
    Map owners;
    const std::int64_t place_of_whole = random.integer(0, 4);
    for (std::int64_t i = 0; i < 5; ++i) {
        Point lo = shape, hi = shape;
        for (int d = 0; d < shape.dims(); ++d) {
            lo[d] = random.integer(0, shape[d] - 1);
            hi[d] = random.integer(lo[d] + 1, shape[d]);
        }
        regions.push_back(i == place_of_whole ? whole : Region(lo, hi));
        owners.push_back(random.integer(0, nprocs - 1));
    }
    return FloorPlan(regions, owners, nprocs);
}

/// Each index in some list, some twice, also in one list, each list in random order.
inline Layout random_index_list(Random& random, const Point& shape, std::int64_t nprocs) {
    std::vector<std::vector<std::int64_t>> lists(static_cast<std::size_t>(nprocs));
    for (std::int64_t i = 0; i < shape.product(); ++i) {
        const std::int64_t first = random.integer(0, nprocs - 1);
        lists[static_cast<std::size_t>(first)].push_back(i);
        const std::int64_t second = random.integer(0, 5 * nprocs);
        if (second < nprocs) lists[static_cast<std::size_t>(second)].push_back(i);
    }
    std::vector<std::int64_t> offsets{0}, indices;
    for (auto& list : lists) {
        for (std::size_t i = list.size(); i > 1; --i)
            std::swap(list[i - 1], list[static_cast<std::size_t>(
                                       random.integer(0, static_cast<std::int64_t>(i) - 1))]);
        indices.insert(indices.end(), list.begin(), list.end());
        offsets.push_back(static_cast<std::int64_t>(indices.size()));
    }
    return IndexList(shape, offsets, indices);
}

/// Some of the ranks or all, in any order; ranges of one element, of some rows, or of everything.
inline Layout random_flat_cyclic(Random& random, const Point& shape, std::int64_t nprocs) {
    std::vector<std::int64_t> owners(static_cast<std::size_t>(nprocs));
    std::iota(owners.begin(), owners.end(), 0);
    for (std::size_t i = owners.size(); i > 1; --i)
        std::swap(
            owners[i - 1],
            owners[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(i) - 1))]);
    owners.resize(static_cast<std::size_t>(random.integer(1, nprocs)));
    if (random.chance(30)) owners.clear();
    const std::int64_t elems = shape.product(), row = shape[shape.dims() - 1];
    const std::int64_t lengths[] = {random.integer(1, 4), random.integer(1, elems),
                                    row * random.integer(1, 3), random.integer(1, row + 1)};
    return FlatCyclic(shape, lengths[random.integer(0, 3)], nprocs, owners);
}

/// Ranges of a prime number of elements, dealt to all ranks or to all but one.
inline Layout random_uneven_ranges(Random& random, const Point& shape, std::int64_t nprocs) {
    constexpr std::array primes{5, 7, 11, 19, 23, 29, 31, 37, 41};
    std::vector<std::int64_t> owners;
    for (std::int64_t rank = nprocs - 1; rank > 0 && random.chance(90); --rank)
        owners.push_back(rank);
    return FlatCyclic(shape, primes[static_cast<std::size_t>(random.integer(0, 8))], nprocs,
                      owners);
}

inline Layout random_layout(Random& random, Kind kind, const Point& shape, std::int64_t nprocs) {
    switch (kind) {
        case Kind::block_cyclic:
            return random_block_cyclic(random, shape, nprocs);
        case Kind::floor_plan:
            return random_floor_plan(random, shape, nprocs);
        case Kind::index_list:
            return random_index_list(random, shape, nprocs);
        case Kind::flat_cyclic:
            return random_flat_cyclic(random, shape, nprocs);
        case Kind::uneven_ranges:
            return random_uneven_ranges(random, shape, nprocs);
    }
    return {};
}

inline Point random_shape(Random& random, int dims) {
    return random.point(dims, 1, dims == 1 ? 60 : dims == 2 ? 14 : 7);
}

/// Many rows of few elements: with ranges whose length shares no factor with that of the rows,
/// nothing repeats.
inline Point random_uneven_shape(Random& random, int dims) {
    constexpr std::array extents{17, 19, 23, 20}, rows{3, 5, 7, 13};
    Point shape = Point::filled(dims, rows[static_cast<std::size_t>(random.integer(0, 3))]);
    for (int d = 0; d < 2 && d < dims; ++d)
        shape[d] = extents[static_cast<std::size_t>(random.integer(0, 3))];
    return shape;
}

/// One element of one block: where in the block, and which one of the whole array.
struct Element {
    std::int64_t block;
    Coordinates local, global;
};

/// Grid coordinate and local index along one dimension, from HPF's definition.
struct Dealt {
    std::int64_t coordinate, local;
};
inline Dealt dealt(std::int64_t index, std::int64_t block, std::int64_t procs, std::int64_t first) {
    const std::int64_t course = index / block;
    return {(course + first) % procs, course / procs * block + index % block};
}

inline Element dealt_element(const BlockCyclic& layout, const Coordinates& global) {
    Element e{0, global, global};
    Coordinates at = global;
    for (std::size_t d = 0; d < global.size(); ++d) {
        const int k = static_cast<int>(d);
        const Dealt to =
            dealt(global[d], layout.block()[k], layout.grid()[k], layout.first_process()[k]);
        at[d] = to.coordinate;
        e.local[d] = to.local;
    }
    for (std::size_t i = 0; i < at.size(); ++i) {
        const std::size_t d = layout.column_major_grid() ? at.size() - 1 - i : i;
        e.block = e.block * layout.grid()[static_cast<int>(d)] + at[d];
    }
    return e;
}

inline std::int64_t flat_of(const Coordinates& index, const Coordinates& shape) {
    std::int64_t flat = 0;
    for (std::size_t d = 0; d < index.size(); ++d) flat = flat * shape[d] + index[d];
    return flat;
}

inline Coordinates index_of(std::int64_t flat, const Coordinates& shape) {
    Coordinates index(shape.size());
    for (std::size_t d = shape.size(); d-- > 0;) {
        index[d] = flat % shape[d];
        flat /= shape[d];
    }
    return index;
}

/// All elements of all blocks (interiors), ascending by block.
inline std::vector<Element> elements_of(const Layout& layout) {
    std::vector<Element> elements;
    if (const BlockCyclic* dealt_out = layout.block_cyclic()) {
        const Coordinates shape = dealt_out->shape().to_vector();
        region_oracle::for_each_between(
            Coordinates(shape.size(), 0), shape, [&](const Coordinates& p) {
                const Element first = dealt_element(*dealt_out, p);
                for (std::int64_t r = 0; r < dealt_out->replicas(); ++r)
                    elements.push_back(
                        {first.block + r * dealt_out->grid().product(), first.local, first.global});
            });
        std::stable_sort(elements.begin(), elements.end(),
                         [](const Element& a, const Element& b) { return a.block < b.block; });
    } else if (const FloorPlan* plan = layout.floor_plan()) {
        for (std::int64_t block = 0; block < plan->num_blocks(); ++block) {
            const Region region = plan->region(block);
            region_oracle::for_each_between(region.lo().to_vector(), region.hi().to_vector(),
                                            [&](const Coordinates& p) {
                                                Coordinates local = p;
                                                for (std::size_t d = 0; d < p.size(); ++d)
                                                    local[d] -= region.lo()[static_cast<int>(d)];
                                                elements.push_back({block, local, p});
                                            });
        }
    } else if (const FlatCyclic* flat = layout.flat_cyclic()) {
        std::vector<std::int64_t> next(static_cast<std::size_t>(flat->num_blocks()), 0);
        for (std::int64_t i = 0; i < flat->elems(); ++i) {
            const std::int64_t block = i / flat->block_elems() % flat->num_blocks();
            elements.push_back({block,
                                {next[static_cast<std::size_t>(block)]++},
                                index_of(i, flat->shape().to_vector())});
        }
        std::stable_sort(elements.begin(), elements.end(),
                         [](const Element& a, const Element& b) { return a.block < b.block; });
    } else {
        const IndexList* lists = layout.index_list();
        for (std::int64_t rank = 0; rank < lists->nprocs(); ++rank) {
            std::int64_t position = 0;
            for (const std::int64_t i : lists->indices_of(rank))
                elements.push_back({rank, {position++}, index_of(i, lists->shape().to_vector())});
        }
    }
    return elements;
}

/// The local arrays of all processes, of 4-byte elements.
struct World {
    Layout layout;
    std::vector<MemoryLayout> memory;
    std::vector<std::vector<std::int32_t>> data;

    /// The element at a local index of a block.
    std::int32_t& at(std::int64_t block, const Coordinates& local) {
        const auto rank = static_cast<std::size_t>(layout.owner(block));
        const BlockMemory* m = memory[rank].find(block);
        std::int64_t address = m->offset_bytes;
        for (std::size_t d = 0; d < local.size(); ++d)
            address += local[d] * m->strides_bytes[static_cast<int>(d)];
        return data[rank].at(static_cast<std::size_t>(address / 4));
    }
};

inline constexpr std::int32_t untouched = -1;

/// Every process's blocks, in random element orders, all elements untouched.
inline World make_world(Random& random, const Layout& layout, const Point& ghosts = {}) {
    World world{layout, {}, {}};
    for (std::int64_t rank = 0; rank < layout.nprocs(); ++rank) {
        const auto order = random.chance(50) ? ElementOrder::row_major : ElementOrder::column_major;
        world.memory.push_back(dense_memory(layout, rank, 4, order, ghosts, ghosts));
        world.data.emplace_back(static_cast<std::size_t>(world.memory.back().end_bytes / 4),
                                untouched);
    }
    return world;
}

/// Sets every element to the flat number of its global index, which must be below 2^31.
inline void fill_with_indices(World& world) {
    const Coordinates shape = world.layout.domain().hi().to_vector();
    for (const Element& e : elements_of(world.layout))
        world.at(e.block, e.local) = static_cast<std::int32_t>(flat_of(e.global, shape));
}

enum class Way { direct, message };

/// What the plan says, pair by pair: straight between the arrays, or through a message that the
/// source assembles from what it knows and the destination takes apart from what it knows.
inline void carry_out(const MotionPlan& plan, World& from, World& to, Way way,
                      plan::MessageOrder order = plan::MessageOrder::row_major) {
    const auto side = [](const World& world, std::int64_t rank) {
        return plan::RelationSide{&world.layout, &world.memory[static_cast<std::size_t>(rank)], 4,
                                  rank};
    };
    const plan::RelationSide no_memory{nullptr, nullptr, 4, 0};
    for (std::int64_t receiver = 0; receiver < plan.nprocs(); ++receiver) {
        for (const PeerPart& peer : plan.incoming(receiver)) {
            const auto& source = from.data[static_cast<std::size_t>(peer.rank)];
            auto& destination = to.data[static_cast<std::size_t>(receiver)];
            if (way == Way::direct) {
                plan::compile(peer.part, side(from, peer.rank), side(to, receiver), order)
                    .kernel()(source.data(), destination.data());
                continue;
            }
            const PairPart sent = plan.part(peer.rank, receiver);
            ASSERT_EQ(sent.size(), peer.part.size());
            std::vector<std::int32_t> message(static_cast<std::size_t>(sent.size()), -9);
            plan::compile(sent, side(from, peer.rank), no_memory, order)
                .kernel()(source.data(), message.data());
            plan::compile(peer.part, no_memory, side(to, receiver), order)
                .kernel()(message.data(), destination.data());
        }
    }
}

}  // namespace datamover::layout_oracle
