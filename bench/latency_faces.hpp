// SPDX-License-Identifier: BSD-3-Clause
// Blocks of a periodic box, their owners, and the ghosts that each gets from its neighbors.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace bench {

using Index = std::array<std::int64_t, 3>;

/// A box within a block's memory (ghosts included): where it begins and how far it extends.
struct Box {
    Index begin{};
    Index extent{};
    std::int64_t size() const { return extent[0] * extent[1] * extent[2]; }
};

/// One face (or edge, or corner): from the interior of a block into the ghosts of its neighbour.
struct Face {
    std::int64_t source_block = 0, destination_block = 0;
    int source_rank = 0, destination_rank = 0;
    int tag = 0;
    Box source, destination;
};

/// Cubic blocks of `edge` points with `width` layers of ghosts (at most `edge`); a process grid,
/// and on every process the same small grid of blocks. The last dimension is the contiguous one.
struct BlockGrid {
    std::int64_t edge = 16, width = 1;
    bool corners = false;  ///< 26 neighbours in place of six
    Index processes{1, 1, 1};
    Index blocks_per_process{1, 1, 1};

    std::int64_t stored_edge() const { return edge + 2 * width; }
    std::int64_t stored_elems() const { return stored_edge() * stored_edge() * stored_edge(); }
    /// From a block's first stored element to its first interior one.
    std::int64_t origin_elems() const { return offset_of({width, width, width}); }
    std::int64_t offset_of(const Index& stored) const {
        return (stored[0] * stored_edge() + stored[1]) * stored_edge() + stored[2];
    }
    Index blocks() const {
        return {processes[0] * blocks_per_process[0], processes[1] * blocks_per_process[1],
                processes[2] * blocks_per_process[2]};
    }
    std::int64_t num_blocks() const { return blocks()[0] * blocks()[1] * blocks()[2]; }
    Index coordinates(std::int64_t block) const {
        const Index n = blocks();
        return {block / (n[1] * n[2]), block / n[2] % n[1], block % n[2]};
    }
    std::int64_t block_at(const Index& c) const {
        const Index n = blocks();
        return (c[0] * n[1] + c[1]) * n[2] + c[2];
    }
    int owner(std::int64_t block) const {
        Index c = coordinates(block);
        for (int d = 0; d < 3; ++d) c[d] /= blocks_per_process[d];
        return static_cast<int>((c[0] * processes[1] + c[1]) * processes[2] + c[2]);
    }
    /// The neighbour towards a side (-1, 0 or 1 per dimension), across the periodic ends.
    std::int64_t neighbour(std::int64_t block, const Index& towards) const {
        Index c = coordinates(block);
        const Index n = blocks();
        for (int d = 0; d < 3; ++d) c[d] = (c[d] + towards[d] + n[d]) % n[d];
        return block_at(c);
    }
    /// Where the interior points that fill the ghosts towards a side begin, and these ghosts.
    std::int64_t source_begin(std::int64_t towards) const { return towards < 0 ? edge : width; }
    std::int64_t ghost_begin(std::int64_t towards) const {
        return towards < 0 ? 0 : (towards > 0 ? edge + width : width);
    }
    std::int64_t extent(std::int64_t towards) const { return towards == 0 ? edge : width; }

    /// All faces, in the same order on every process.
    std::vector<Face> faces() const {
        std::vector<Face> all;
        for (std::int64_t b = 0; b < num_blocks(); ++b)
            for (int side = 0; side < sides; ++side) {
                const Index towards{side / 9 - 1, side / 3 % 3 - 1, side % 3 - 1};
                const std::int64_t away =
                    std::abs(towards[0]) + std::abs(towards[1]) + std::abs(towards[2]);
                if (away == 1 || (away > 1 && corners)) all.push_back(face_into(b, towards));
            }
        return all;
    }

    /// The faces along one dimension alone, as wide as the ghosts of the later dimensions allow:
    /// exchanged for the last dimension, then the one before, then the first, they fill all ghosts.
    std::vector<Face> faces_along(int dim) const {
        std::vector<Face> all;
        for (std::int64_t b = 0; b < num_blocks(); ++b)
            for (const int step : {-1, 1}) {
                Index towards{0, 0, 0};
                towards[static_cast<std::size_t>(dim)] = step;
                Face& f = all.emplace_back(face_into(b, towards));
                for (auto d = static_cast<std::size_t>(dim) + 1; d < 3; ++d)
                    for (Box* box : {&f.source, &f.destination}) {
                        box->begin[d] = 0;
                        box->extent[d] = stored_edge();
                    }
            }
        return all;
    }

private:
    static constexpr int sides = 27;

    /// What fills the ghosts of block b towards a side.
    Face face_into(std::int64_t b, const Index& towards) const {
        Face f;
        f.destination_block = b;
        f.source_block = neighbour(b, towards);
        f.source_rank = owner(f.source_block);
        f.destination_rank = owner(b);
        f.tag = static_cast<int>(b * sides + (towards[0] + 1) * 9 + (towards[1] + 1) * 3 +
                                 towards[2] + 1);
        for (std::size_t d = 0; d < 3; ++d) {
            f.source.begin[d] = source_begin(towards[d]);
            f.destination.begin[d] = ghost_begin(towards[d]);
            f.source.extent[d] = f.destination.extent[d] = extent(towards[d]);
        }
        return f;
    }
};

/// How far apart rows and planes lie, in elements.
struct Spacing {
    std::int64_t row = 0, plane = 0;
};

template <int length>
void copy_short_rows(const Index& extent, const double* from, const Spacing& from_spacing,
                     double* to, const Spacing& to_spacing) {
    for (std::int64_t i = 0; i < extent[0]; ++i) {
        const double* row = from + i * from_spacing.plane;
        double* target = to + i * to_spacing.plane;
        for (std::int64_t j = 0; j < extent[1];
             ++j, row += from_spacing.row, target += to_spacing.row)
            for (int k = 0; k < length; ++k) target[k] = row[k];
    }
}

/// The copy loops of the hand-written contenders: rows by memcpy, or by a loop whose length the
/// compiler knows where they are as short as ghosts are wide.
inline void copy_box(const Index& extent, const double* from, const Spacing& from_spacing,
                     double* to, const Spacing& to_spacing) {
    switch (extent[2]) {
        case 1:
            return copy_short_rows<1>(extent, from, from_spacing, to, to_spacing);
        case 2:
            return copy_short_rows<2>(extent, from, from_spacing, to, to_spacing);
        case 3:
            return copy_short_rows<3>(extent, from, from_spacing, to, to_spacing);
        default:
            break;
    }
    for (std::int64_t i = 0; i < extent[0]; ++i)
        for (std::int64_t j = 0; j < extent[1]; ++j)
            std::memcpy(to + i * to_spacing.plane + j * to_spacing.row,
                        from + i * from_spacing.plane + j * from_spacing.row,
                        static_cast<std::size_t>(extent[2]) * 8);
}

/// The place of a box within a block whose stored edge is `edge`.
inline std::int64_t begin_of(const Box& box, std::int64_t edge) {
    return (box.begin[0] * edge + box.begin[1]) * edge + box.begin[2];
}

inline Spacing packed(const Box& box) {
    return {box.extent[2], box.extent[1] * box.extent[2]};
}

inline void pack(const double* block, std::int64_t edge, const Box& box, double* buffer) {
    copy_box(box.extent, block + begin_of(box, edge), {edge, edge * edge}, buffer, packed(box));
}

inline void unpack(const double* buffer, double* block, std::int64_t edge, const Box& box) {
    copy_box(box.extent, buffer, packed(box), block + begin_of(box, edge), {edge, edge * edge});
}

inline void copy_face(const double* from, double* to, std::int64_t edge, const Face& face) {
    const Spacing spacing{edge, edge * edge};
    copy_box(face.source.extent, from + begin_of(face.source, edge), spacing,
             to + begin_of(face.destination, edge), spacing);
}

}  // namespace bench
