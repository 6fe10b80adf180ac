// SPDX-License-Identifier: BSD-3-Clause
// Folding of repeated strided rows into nests.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "encodings.hpp"
#include "geometry/checked.hpp"

namespace datamover {

/// Folds equal, equally spaced rows into nests, those into larger nests, and so on, without
/// changing the order. O(1) memory, O(rows) time.
class NestFolder {
public:
    /// Calls emit(const Nest&) whenever a nest cannot grow any more.
    template <class Emit>
    void push(const StridedRun& run, Emit&& emit) {
        Nest nest{run.source, run.destination, {}};
        if (run.elems > 1)
            nest.axes.push_back({run.elems, run.source_step, run.destination_step, nullptr});
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
        std::int64_t count = 0;
        std::int64_t source_step = 0;
        std::int64_t destination_step = 0;
    };

    static bool same_shape(const Nest& a, const Nest& b) {
        if (a.axes.size() != b.axes.size()) return false;
        for (std::size_t i = 0; i < a.axes.size(); ++i)
            if (a.axes[i].count != b.axes[i].count ||
                a.axes[i].source_stride != b.axes[i].source_stride ||
                a.axes[i].destination_stride != b.axes[i].destination_stride)
                return false;
        return true;
    }

    static bool is_near(std::int64_t distance) {
        return -largest_address <= distance && distance <= largest_address;
    }

    static bool extend(Group& g, const Nest& nest) {
        const std::int64_t ds = nest.source - g.first.source;
        const std::int64_t dd = nest.destination - g.first.destination;
        // A stride times its count has to fit 64 bits.
        if (!is_near(ds) || !is_near(dd) || !same_shape(g.first, nest)) return false;
        if (g.count == 1) {
            g.source_step = ds;
            g.destination_step = dd;
        } else if (ds != g.count * g.source_step || dd != g.count * g.destination_step) {
            return false;
        }
        ++g.count;
        return true;
    }

    template <class Emit>
    void push_at(std::size_t level, const Nest& nest, Emit&& emit) {
        if (level == levels_.size()) {
            emit(nest);
            return;
        }
        Group& g = levels_[level];
        if (g.count > 0 && extend(g, nest)) return;
        flush(level, emit);
        g.first = nest;
        g.count = 1;
    }

    template <class Emit>
    void flush(std::size_t level, Emit&& emit) {
        Group& g = levels_[level];
        if (g.count == 0) return;
        Nest whole = std::move(g.first);
        if (g.count > 1)
            whole.axes.insert(whole.axes.begin(),
                              {g.count, g.source_step, g.destination_step, nullptr});
        g.count = 0;
        push_at(level + 1, whole, emit);
    }

    std::array<Group, level_count> levels_;
};

}  // namespace datamover
