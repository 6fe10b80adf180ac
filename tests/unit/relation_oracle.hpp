// SPDX-License-Identifier: BSD-3-Clause
// Oracle of relations: random relations, and their moves by brute force.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "datamover/advanced/address_relation.hpp"
#include "relation/copy_loops.hpp"

namespace relation_oracle {

using datamover::AddressRelation;
using datamover::AxisRun;
using datamover::AxisTable;
using datamover::Encoding;
using datamover::Product;
using datamover::ProductAxis;
using Addresses = std::vector<std::int64_t>;
using Engine = std::mt19937_64;

inline constexpr Encoding all_encodings[] = {Encoding::pairs,   Encoding::blocks,
                                             Encoding::runs,    Encoding::dictionary,
                                             Encoding::product, Encoding::offsets};

inline std::int64_t between(Engine& random, std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

/// The meeting positions of one dimension in the order of the table.
struct Positions {
    Addresses source;
    Addresses destination;
};

inline Positions positions_of(const AxisTable& table) {
    Positions p;
    table.for_each_block([&](std::int64_t s, std::int64_t d, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
            p.source.push_back(s + i);
            p.destination.push_back(d + i);
        }
    });
    return p;
}

/// A table whose positions never repeat on either side: runs one behind the other, with gaps.
inline AxisTable random_table(Engine& random, int most_runs = 3) {
    std::int64_t s = between(random, 0, 5);
    std::int64_t d = between(random, 0, 5);
    auto list = [&](std::int64_t number) {
        std::vector<AxisRun> runs;
        for (std::int64_t i = 0; i < number; ++i) {
            AxisRun r;
            r.length = between(random, 1, 9);
            r.count = between(random, 0, 2) == 0 ? between(random, 1, 6) : 1;
            r.source_step = r.count > 1 ? r.length + between(random, 0, 4) : 0;
            r.destination_step = r.count > 1 ? r.length + between(random, 0, 4) : 0;
            r.source = s;
            r.destination = d;
            s += (r.count - 1) * r.source_step + r.length + between(random, 0, 3);
            d += (r.count - 1) * r.destination_step + r.length + between(random, 0, 3);
            runs.push_back(r);
        }
        return runs;
    };
    const std::int64_t s0 = s;
    const std::int64_t d0 = d;
    std::vector<AxisRun> runs = list(between(random, 1, most_runs));
    const std::int64_t periods = between(random, 0, 3) == 0 ? 1 : between(random, 1, 7);
    const std::int64_t source_period = s - s0;
    const std::int64_t destination_period = d - d0;
    s = s0 + periods * source_period;
    d = d0 + periods * destination_period;
    std::vector<AxisRun> tail = list(between(random, 0, 2));
    return AxisTable(runs, periods, source_period, destination_period, tail);
}

/// Positions after the last one of a side.
inline std::int64_t extent(const Addresses& positions) {
    return *std::max_element(positions.begin(), positions.end()) + 1;
}

struct Case {
    AddressRelation relation;
    Addresses source;       ///< expected byte addresses, in order
    Addresses destination;  ///< expected byte addresses, in order, all different
    std::int64_t source_bytes = 0;
    std::int64_t destination_bytes = 0;
};

/// A product of random tables with the axes permuted on either side and some of them mirrored.
inline Case random_product(Engine& random, std::int64_t source_elem, std::int64_t destination_elem,
                           int most_axes = 3, std::int64_t most_elems = 3000) {
    std::vector<AxisTable> tables;
    std::vector<Positions> positions;
    std::int64_t elems = 1;
    for (std::int64_t k = between(random, 0, most_axes); k > 0; --k) {
        AxisTable table = random_table(random);
        if (elems * table.size() > most_elems) continue;
        elems *= table.size();
        positions.push_back(positions_of(table));
        tables.push_back(std::move(table));
    }
    const auto axes = static_cast<std::int64_t>(tables.size());
    auto strides = [&](bool of_source, std::int64_t elem, std::int64_t& offset,
                       std::int64_t& bytes) {
        std::vector<std::size_t> order(static_cast<std::size_t>(axes));
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::shuffle(order.begin(), order.end(), random);
        Addresses stride(order.size());
        std::int64_t next = elem;
        offset = between(random, 0, 3) * elem;
        bytes = offset + elem;
        for (std::size_t k : order) {
            const Addresses& p = of_source ? positions[k].source : positions[k].destination;
            const std::int64_t e = extent(p);
            const bool mirrored = between(random, 0, 4) == 0;
            stride[k] = mirrored ? -next : next;
            if (mirrored) offset += (e - 1) * next;
            bytes += (e - 1) * next;
            next *= e + between(random, 0, 2);
        }
        return stride;
    };
    Case c;
    Product product;
    const Addresses ss = strides(true, source_elem, product.source_offset_bytes, c.source_bytes);
    const Addresses ds =
        strides(false, destination_elem, product.destination_offset_bytes, c.destination_bytes);
    c.source = {product.source_offset_bytes};
    c.destination = {product.destination_offset_bytes};
    for (std::size_t k = 0; k < tables.size(); ++k) {
        product.axes.push_back({std::make_shared<AxisTable>(tables[k]), ss[k], ds[k]});
        Addresses s;
        Addresses d;
        for (std::size_t i = 0; i < c.source.size(); ++i)
            for (std::size_t j = 0; j < positions[k].source.size(); ++j) {
                s.push_back(c.source[i] + positions[k].source[j] * ss[k]);
                d.push_back(c.destination[i] + positions[k].destination[j] * ds[k]);
            }
        c.source = std::move(s);
        c.destination = std::move(d);
    }
    c.relation = AddressRelation::from_products({product}, source_elem, destination_elem);
    return c;
}

/// Arbitrary sources (repeats allowed) to all different destinations, with regular stretches.
inline Case random_pairs(Engine& random, std::int64_t source_elem, std::int64_t destination_elem,
                         std::int64_t most = 400) {
    Case c;
    const std::int64_t n = between(random, 0, most);
    const std::int64_t space = 2 * n + 1;
    Addresses source(static_cast<std::size_t>(n));
    Addresses destination(static_cast<std::size_t>(space));
    std::iota(destination.begin(), destination.end(), std::int64_t{0});
    if (between(random, 0, 1) == 0) std::shuffle(destination.begin(), destination.end(), random);
    destination.resize(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < source.size(); ++i)
        source[i] = i > 0 && between(random, 0, 4) > 0
                        ? std::clamp<std::int64_t>(source[i - 1] + 1, 0, space - 1)
                        : between(random, 0, space - 1);
    c.relation = AddressRelation::from_pairs(source, destination, source_elem, destination_elem);
    for (std::size_t i = 0; i < source.size(); ++i) {
        c.source.push_back(source[i] * source_elem);
        c.destination.push_back(destination[i] * destination_elem);
    }
    c.source_bytes = space * source_elem;
    c.destination_bytes = space * destination_elem;
    return c;
}

inline std::vector<char> random_bytes(Engine& random, std::int64_t n) {
    std::vector<char> bytes(static_cast<std::size_t>(n));
    for (char& b : bytes) b = static_cast<char>(random());
    return bytes;
}

/// Copies the pieces of a shape one by one.
inline void copy_plainly(const datamover::LoopShape& l, const char* source, char* destination) {
    for (std::int64_t p = 0; p < l.planes.count; ++p)
        for (std::int64_t o = 0; o < l.outer.count; ++o)
            for (std::int64_t i = 0; i < l.inner.count; ++i) {
                const datamover::AddressPair at =
                    p * l.planes.stride + o * l.outer.stride + i * l.inner.stride;
                std::memcpy(destination + at.destination, source + at.source,
                            static_cast<std::size_t>(l.bytes));
            }
}

/// What a plain copy of the case leaves in `destination`.
inline void move_by_hand(const Case& c, std::int64_t elem, const char* source, char* destination) {
    for (std::size_t i = 0; i < c.source.size(); ++i)
        std::memcpy(destination + c.destination[i], source + c.source[i],
                    static_cast<std::size_t>(elem));
}

}  // namespace relation_oracle
