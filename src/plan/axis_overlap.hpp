// SPDX-License-Identifier: BSD-3-Clause
// Number of indices shared by source and destination coordinates along one dimension.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "geometry/checked.hpp"

namespace datamover::plan {

/// One dimension of a block-cyclic layout, counted from the lower end of the section that moves:
/// position t (0 <= t < extent) lies at coordinate ((t + lo) / block + first) mod coordinates.
struct BlockCyclicAxis {
    std::int64_t block = 1;
    std::int64_t coordinates = 1;
    std::int64_t first = 0;  ///< coordinate that has the first block
    std::int64_t lo = 0;     ///< index where the section begins

    std::int64_t coordinate_at(std::int64_t t) const {
        return ((t + lo) / block + first) % coordinates;
    }
    /// How many positions of its block lie before t, and how many behind it.
    std::int64_t before_in_block(std::int64_t t) const { return (t + lo) % block; }
    std::int64_t behind_in_block(std::int64_t t) const { return block - 1 - (t + lo) % block; }
    /// Where the block that holds t ends, or the largest integer.
    std::int64_t block_end(std::int64_t t) const {
        return geometry::bounded_add(t, behind_in_block(t) + 1);
    }
    /// The length of a round of blocks, or the largest integer.
    std::int64_t period() const { return geometry::bounded_multiply(block, coordinates); }
    /// Number of positions in [0, t) that lie at a coordinate below `upper` (0 .. coordinates).
    std::int64_t below(std::int64_t t, std::int64_t upper) const;
};

/// What the pairs of coordinates of one dimension share. The coordinates of all dimensions together
/// give the pairs of processes: numbers of messages and their sizes are products over dimensions.
class AxisOverlap {
public:
    /// The cost follows the number of blocks within one common period where those are at most
    /// `max_walked_blocks` (10^8: about two seconds), else the number of coordinates where one side
    /// has one block each. Throws unsupported where neither holds.
    AxisOverlap(const BlockCyclicAxis& source, const BlockCyclicAxis& destination,
                std::int64_t extent, std::int64_t max_walked_blocks = 100'000'000);

    /// Positions that two coordinates share. O(1) for small grids, else O(blocks of a coordinate).
    std::int64_t shared(std::int64_t source, std::int64_t destination) const;
    /// Positions that two half-open ranges of coordinates share.
    std::int64_t shared(std::int64_t source_begin, std::int64_t source_end,
                        std::int64_t destination_begin, std::int64_t destination_end) const;
    /// Positions of the section at a coordinate.
    std::int64_t source_elems(std::int64_t coordinate) const;
    std::int64_t destination_elems(std::int64_t coordinate) const;
    /// Number of coordinates of the other side with which a coordinate shares something.
    std::int64_t source_peers(std::int64_t c) const { return source_peers_[to_index(c)]; }
    std::int64_t destination_peers(std::int64_t c) const { return destination_peers_[to_index(c)]; }
    /// Number of pairs of coordinates for each number (> 0) of shared positions.
    const std::map<std::int64_t, std::int64_t>& sizes() const { return sizes_; }

private:
    static std::size_t to_index(std::int64_t i) { return static_cast<std::size_t>(i); }
    void count_by_walking(std::int64_t common_period);
    void count_by_intervals(bool swapped);

    BlockCyclicAxis source_, destination_;
    std::int64_t extent_ = 0;
    std::vector<std::int64_t> source_peers_, destination_peers_;
    std::map<std::int64_t, std::int64_t> sizes_;
    std::vector<std::int64_t> dense_;  ///< shared counts of all pairs where the grids are small
};

}  // namespace datamover::plan
