// SPDX-License-Identifier: BSD-3-Clause
// Which faces does each block of a periodic box send to which neighbour, and who owns the blocks?
#pragma once

#include <array>
#include <cstdint>
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

/// One face: from the interior of a block into the ghosts of its neighbour.
struct Face {
    std::int64_t source_block = 0, destination_block = 0;
    int source_rank = 0, destination_rank = 0;
    int tag = 0;
    Box source, destination;
};

/// Cubic blocks of `edge` points with one layer of ghosts; a process grid, and on every process
/// the same small grid of blocks.
struct BlockGrid {
    std::int64_t edge = 16;
    Index processes{1, 1, 1};
    Index blocks_per_process{1, 1, 1};

    std::int64_t stored_edge() const { return edge + 2; }
    std::int64_t stored_elems() const { return stored_edge() * stored_edge() * stored_edge(); }
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
    /// Neighbouring point's block across the periodic ends.
    std::int64_t neighbour(std::int64_t block, int dim, int step) const {
        Index c = coordinates(block);
        c[dim] = (c[dim] + step + blocks()[dim]) % blocks()[dim];
        return block_at(c);
    }

    /// All faces, in the same order on every process.
    std::vector<Face> faces() const {
        std::vector<Face> all;
        for (std::int64_t b = 0; b < num_blocks(); ++b)
            for (int dim = 0; dim < 3; ++dim)
                for (const int step : {-1, 1}) all.push_back(face_into(b, dim, step));
        return all;
    }

private:
    /// What fills the ghosts of block b on the side `step` of dimension `dim`.
    Face face_into(std::int64_t b, int dim, int step) const {
        Face f;
        f.destination_block = b;
        f.source_block = neighbour(b, dim, step);
        f.source_rank = owner(f.source_block);
        f.destination_rank = owner(b);
        f.tag = static_cast<int>(b * 6 + dim * 2 + (step > 0 ? 1 : 0));
        f.source.begin = f.destination.begin = {1, 1, 1};
        f.source.extent = f.destination.extent = {edge, edge, edge};
        f.source.extent[dim] = f.destination.extent[dim] = 1;
        f.source.begin[dim] = step < 0 ? edge : 1;
        f.destination.begin[dim] = step < 0 ? 0 : edge + 1;
        return f;
    }
};

/// The copy loops of the hand-written contenders: rows by memcpy where a face has rows, else one
/// element per row.
inline void pack(const double* block, std::int64_t edge, const Box& box, double* buffer) {
    for (std::int64_t i = box.begin[0]; i < box.begin[0] + box.extent[0]; ++i) {
        const double* from = block + (i * edge + box.begin[1]) * edge + box.begin[2];
        if (box.extent[2] == 1) {
            for (std::int64_t j = 0; j < box.extent[1]; ++j) *buffer++ = from[j * edge];
            continue;
        }
        for (std::int64_t j = 0; j < box.extent[1]; ++j, buffer += box.extent[2])
            std::memcpy(buffer, from + j * edge, static_cast<std::size_t>(box.extent[2]) * 8);
    }
}

inline void unpack(const double* buffer, double* block, std::int64_t edge, const Box& box) {
    for (std::int64_t i = box.begin[0]; i < box.begin[0] + box.extent[0]; ++i) {
        double* to = block + (i * edge + box.begin[1]) * edge + box.begin[2];
        if (box.extent[2] == 1) {
            for (std::int64_t j = 0; j < box.extent[1]; ++j) to[j * edge] = *buffer++;
            continue;
        }
        for (std::int64_t j = 0; j < box.extent[1]; ++j, buffer += box.extent[2])
            std::memcpy(to + j * edge, buffer, static_cast<std::size_t>(box.extent[2]) * 8);
    }
}

inline void copy_face(const double* from, double* to, std::int64_t edge, const Face& face) {
    const Box &s = face.source, &d = face.destination;
    for (std::int64_t i = 0; i < s.extent[0]; ++i)
        for (std::int64_t j = 0; j < s.extent[1]; ++j) {
            const double* row =
                from + ((s.begin[0] + i) * edge + s.begin[1] + j) * edge + s.begin[2];
            double* target = to + ((d.begin[0] + i) * edge + d.begin[1] + j) * edge + d.begin[2];
            if (s.extent[2] == 1)
                *target = *row;
            else
                std::memcpy(target, row, static_cast<std::size_t>(s.extent[2]) * 8);
        }
}

}  // namespace bench
