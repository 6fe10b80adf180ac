// SPDX-License-Identifier: BSD-3-Clause
// Folding of repeated strided rows into nests, and of regular relations into products.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "encodings.hpp"
#include "geometry/checked.hpp"
#include "product_builder.hpp"

namespace datamover {

/// Folds equal, equally spaced rows into nests, those into larger nests, and so on, without
/// changing the order. O(1) memory, O(rows) time.
class NestFolder {
public:
    /// Calls emit(const Nest&) whenever a nest cannot grow any more.
    template <class Emit>
    void push(const StridedRun& run, Emit&& emit) {
        Nest nest{run.start, {}};
        if (run.elems > 1) nest.axes.push_back({{run.elems, run.step}});
        push_at(0, nest, emit);
    }

    template <class Emit>
    void finish(Emit&& emit) {
        for (std::size_t level = 0; level < levels_.size(); ++level) flush(level, emit);
    }

private:
    static constexpr std::size_t level_count = 6;
    struct Group {
        Nest first;
        LoopAxis along{0, {}};
    };

    /// A stride times its count has to fit 64 bits.
    static bool is_near(AddressPair distance) {
        const auto fits = [](std::int64_t d) {
            return -largest_address <= d && d <= largest_address;
        };
        return fits(distance.source) && fits(distance.destination);
    }

    static bool extend(Group& g, const Nest& nest) {
        const AddressPair distance = nest.start - g.first.start;
        if (!is_near(distance) || nest.axes != g.first.axes) return false;
        if (g.along.count == 1)
            g.along.stride = distance;
        else if (distance != g.along.count * g.along.stride)
            return false;
        ++g.along.count;
        return true;
    }

    template <class Emit>
    void push_at(std::size_t level, Nest& nest, Emit&& emit) {
        if (level == levels_.size()) {
            fold_axes(nest.axes);
            emit(std::as_const(nest));
            return;
        }
        Group& g = levels_[level];
        if (g.along.count > 0 && extend(g, nest)) return;
        flush(level, emit);
        g = {std::move(nest), {1, {}}};
    }

    template <class Emit>
    void flush(std::size_t level, Emit&& emit) {
        Group& g = levels_[level];
        if (g.along.count == 0) return;
        Nest whole = std::move(g.first);
        if (g.along.count > 1) whole.axes.insert(whole.axes.begin(), {g.along});
        g.along.count = 0;
        push_at(level + 1, whole, emit);
    }

    std::array<Group, level_count> levels_;
};

/// Folds rows into a product while they come; gives up when there are more nests than `most_nests`,
/// and fewer than `least_elems` elements in each.
class ProductFolder {
public:
    static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

    explicit ProductFolder(AddressPair elem_bytes, std::int64_t most_nests = unlimited,
                           std::int64_t least_elems = unlimited)
        : product_(elem_bytes), most_nests_(most_nests), least_elems_(least_elems) {}

    /// False when it has given up.
    bool push(const StridedRun& run) {
        if (!given_up_) folder_.push(run, [&](const Nest& nest) { keep(nest); });
        return !given_up_;
    }
    /// The product, or nullptr.
    std::shared_ptr<ProductStorage> finish() {
        if (!given_up_) folder_.finish([&](const Nest& nest) { keep(nest); });
        return given_up_ ? nullptr : product_.finish();
    }

private:
    void keep(const Nest& nest) {
        product_.append(nest);
        given_up_ = given_up_ || (product_.nests() > most_nests_ &&
                                  product_.elems() / product_.nests() < least_elems_);
    }

    ProductBuilder product_;
    NestFolder folder_;
    std::int64_t most_nests_, least_elems_;
    bool given_up_ = false;
};

}  // namespace datamover
