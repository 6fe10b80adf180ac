// SPDX-License-Identifier: BSD-3-Clause
// What runs at every position of a nest's outer axes: loops, lists and updates of elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "axis_loop.hpp"
#include "copy_program.hpp"
#include "geometry/make_error.hpp"

namespace datamover {

/// Of rows that are updated, so many elements at a time are gone through together: enough for the
/// loop along one.
constexpr std::int64_t update_tile_columns = 64;

/// Two plain loops around pieces of a fixed number of bytes.
struct ShapeLeaf {
    ShapeLoop loop;
    LoopShape shape;
    const char* name;

    void operator()(const char* s, char* d) const { loop(shape, s, d); }
    std::string describe() const { return concat(name, shape.bytes, " B"); }
};

/// Outer axes around a leaf: leaf(source, destination) runs at each of their positions.
template <class Leaf>
class NestStep final : public CopyStep {
public:
    NestStep(AddressPair start, const std::vector<NestAxis>& outer, Leaf leaf)
        : start_(start), outer_(outer.begin(), outer.end()), leaf_(std::move(leaf)) {}

    void run(const char* source, char* destination) const override {
        source += start_.source;
        destination += start_.destination;
        if (outer_.empty())
            leaf_(source, destination);
        else
            walk_axes(outer_, 0, source, destination, leaf_);
    }
    std::string describe() const override { return leaf_.describe(); }
    std::optional<LoopCall> only_call() const override {
        if constexpr (std::is_same_v<Leaf, ShapeLeaf>)
            if (outer_.empty()) return LoopCall{leaf_.loop, leaf_.shape, start_};
        return std::nullopt;
    }

private:
    AddressPair start_;
    std::vector<AxisLoop> outer_;
    Leaf leaf_;
};

/// Short contiguous pieces listed for one period.
struct PiecesLeaf {
    std::vector<Block> pieces;
    std::vector<Block> tail;
    LoopAxis periods;

    void operator()(const char* s, char* d) const {
        const PiecesLoop loop = copy_loops().pieces;
        loop({pieces.data(), static_cast<std::int64_t>(pieces.size()), periods}, s, d);
        if (!tail.empty()) loop({tail.data(), static_cast<std::int64_t>(tail.size())}, s, d);
    }
    std::string describe() const { return concat("listed pieces, ", pieces.size(), " per period"); }
};

/// Single elements listed for one period.
struct ElementsLeaf {
    PairsLoop loop;
    AddressLists at;
    AddressLists tail;
    LoopAxis periods;

    void operator()(const char* s, char* d) const {
        for (std::int64_t p = 0; p < periods.count; ++p)
            run(at, s + p * periods.stride.source, d + p * periods.stride.destination);
        run(tail, s, d);
    }
    std::string describe() const {
        return concat("listed elements, ", at.source.size(), " per period");
    }

private:
    void run(const AddressLists& list, const char* s, char* d) const {
        loop(list.source.data(), list.destination.data(),
             static_cast<std::int64_t>(list.source.size()), s, d);
    }
};

/// Calls visit(source, destination, positions of the outer block, of the inner one) for every block
/// of one axis by every block of the other.
template <class Visit>
void for_each_block_pair(const AxisLoop& outer, const AxisLoop& inner, const char* s, char* d,
                         Visit&& visit) {
    outer.for_each_block(s, d, [&](const char* so, char* to, std::int64_t outers) {
        inner.for_each_block(so, to, [&](const char* si, char* di, std::int64_t inners) {
            visit(si, di, outers, inners);
        });
    });
}

/// Two axes with blocks: two plain loops along the blocks of one by those of the other.
struct TilesLeaf {
    ShapeLeaf tile;
    AxisLoop outer;
    AxisLoop inner;

    void operator()(const char* s, char* d) const {
        const auto run = [&](const char* si, char* di, std::int64_t outers, std::int64_t inners) {
            LoopShape l = tile.shape;
            l.outer.count = outers;
            l.inner.count = inners;
            tile.loop(l, si, di);
        };
        for_each_block_pair(outer, inner, s, d, run);
    }
    std::string describe() const { return tile.describe(); }
};

/// Rows of elements that are updated, the destination's fastest axis along them.
struct UpdateLeaf {
    ElementMover mover;
    AxisLoop along;

    void operator()(const char* s, char* d) const {
        along.for_each_block(s, d, [&](const char* si, char* di, std::int64_t n) {
            mover.update(si, along.stride.source, di, along.stride.destination, n);
        });
    }
    std::string describe() const { return mover.describe(); }
};

/// Several such rows at once, along an axis that neither side walks together with them.
struct UpdateTilesLeaf {
    ElementMover mover;
    AxisLoop rows;
    AxisLoop along;

    void operator()(const char* s, char* d) const {
        const auto run = [&](const char* si, char* di, std::int64_t count, std::int64_t n) {
            for (std::int64_t i = 0; i < n; i += update_tile_columns)
                update(si + i * along.stride.source, di + i * along.stride.destination, count,
                       std::min(n - i, update_tile_columns));
        };
        for_each_block_pair(rows, along, s, d, run);
    }
    std::string describe() const { return "tiles, " + mover.describe(); }

private:
    void update(const char* s, char* d, std::int64_t count, std::int64_t n) const {
        for (std::int64_t r = 0; r < count; ++r)
            mover.update(s + r * rows.stride.source, along.stride.source,
                         d + r * rows.stride.destination, along.stride.destination, n);
    }
};

}  // namespace datamover
