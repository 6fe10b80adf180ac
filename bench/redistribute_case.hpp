// SPDX-License-Identifier: BSD-3-Clause
// Cases of block-cyclic redistribution, computed in the simplest way: block by block.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace bench {

using Extents = std::vector<std::int64_t>;

/// A block-cyclic array over the first processes of a row-major grid, and where its section begins.
struct Side {
    Extents shape, block, grid, first_process, section_begin;

    int dims() const { return static_cast<int>(shape.size()); }
    std::int64_t processes() const;
    /// Grid coordinates of a rank; empty when it is outside the grid.
    Extents coordinates(int rank) const;
    /// Extents of a rank's local array; zeros outside the grid.
    Extents local_shape(int rank) const;
    std::int64_t local_elems(int rank) const;
    /// Number of indices along dimension d of the processes at a coordinate.
    std::int64_t local_extent(int d, std::int64_t coordinate) const;
    std::int64_t owner(int d, std::int64_t index) const {
        return (index / block[at(d)] + first_process[at(d)]) % grid[at(d)];
    }
    std::int64_t local(int d, std::int64_t index) const {
        return index / block[at(d)] / grid[at(d)] * block[at(d)] + index % block[at(d)];
    }
    static std::size_t at(int d) { return static_cast<std::size_t>(d); }
};

/// A redistribution of doubles: `extent` elements from the section of `source` to that of
/// `destination`, whose dimension k is the source's dimension axes[k].
struct Case {
    std::string name;
    bool column_major = true;
    Side source, destination;
    Extents extent;  ///< in dimensions of the source
    std::vector<int> axes;

    std::int64_t bytes() const;
    /// Steps, in elements, between neighbours along each dimension of a local array.
    Extents strides(const Extents& local_shape) const;
};

/// Reads a file of cases as the harness writes them: name, order (C or F), number of dimensions;
/// shape, block, grid, first process and section of the source, the same of the destination;
/// extents and axes. Throws runtime_error when the file is not like that.
std::vector<Case> read_cases(const std::string& path);
/// Reads the next one; nothing at the end.
std::optional<Case> read_case(std::istream& in);

/// `length` neighbouring positions of the source that meet those of the destination.
struct Run {
    std::int64_t source, destination, length;
};

/// Along destination dimension k, what the processes at two grid coordinates have in common.
std::vector<Run> common_runs(const Case& c, int k, std::int64_t source_coordinate,
                             std::int64_t destination_coordinate);

/// One dimension of what goes from one process to another.
struct PairAxis {
    std::vector<Run> runs;
    std::int64_t source_stride = 0, destination_stride = 0;  ///< elements
    std::int64_t size() const;
};

/// The dimensions of what goes from one process to another, the destination's slowest first; empty
/// when nothing does.
std::vector<PairAxis> pair_axes(const Case& c, int from, int to);

/// Element values by which a wrong place is seen: the source's element is its global index.
void fill_source(const Case& c, int rank, double* local);
void clear_destination(const Case& c, int rank, double* local);
bool destination_right(const Case& c, int rank, const double* local);

}  // namespace bench
