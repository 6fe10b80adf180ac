// SPDX-License-Identifier: BSD-3-Clause
// Hand-written loops that fill ghosts between the processes of a node.
#include "halo_loops.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace bench {

void Meeting::wait(std::atomic<std::int64_t> ExchangeCounters::* count) const {
    constexpr int polls_before_yield = 1000;
    for (const int p : peers_) {
        const auto& theirs = all_[static_cast<std::size_t>(p)]->*count;
        for (int polls = 0; theirs.load(std::memory_order_acquire) < round_; ++polls)
            if (polls >= polls_before_yield) sched_yield();
    }
}

namespace {

using Loop = std::function<void()>;

/// Copies within the process need not wait for others.
template <class Piece>
struct Work {
    std::vector<Piece> own, with_peers;
};

template <class Piece, class Copy>
Loop in_a_meeting(Meeting& meeting, Work<Piece> pieces, Copy copy) {
    return [&meeting, copy, work = std::make_shared<Work<Piece>>(std::move(pieces))] {
        meeting.enter();
        for (const Piece& p : work->own) copy(p);
        meeting.wait_for_peers();
        for (const Piece& p : work->with_peers) copy(p);
        meeting.leave();
    };
}

/// A face after the other: those that this process gets (pull) or sends (push).
Loop by_faces(const SharedBlocks& blocks, Meeting& meeting, const std::vector<Face>& faces,
              bool pull) {
    Work<Face> work;
    for (const Face& f : faces)
        if ((pull ? f.destination_rank : f.source_rank) == blocks.rank)
            (f.source_rank == f.destination_rank ? work.own : work.with_peers).push_back(f);
    return in_a_meeting(
        meeting, std::move(work), [blocks, e = blocks.grid.stored_edge()](const Face& f) {
            copy_face(blocks.at(f.source_block), blocks.at(f.destination_block), e, f);
        });
}

/// All faces towards one side, of all blocks, before those towards the next.
std::vector<Face> side_after_side(std::vector<Face> faces) {
    const auto side = [](const Face& f) { return std::pair(f.destination.begin, f.tag); };
    std::sort(faces.begin(), faces.end(),
              [&](const Face& a, const Face& b) { return side(a) < side(b); });
    return faces;
}

/// Rows of a block whose ghosts lie towards the same side but for the contiguous dimension, with
/// both ends: from the three neighbours in that dimension. Beside rows of the interior, `middle` is
/// null, since they are there.
struct Rows {
    std::int64_t planes = 0, rows = 0;
    double* to = nullptr;
    const double *low = nullptr, *middle = nullptr, *high = nullptr;
};

Rows rows_towards(const SharedBlocks& blocks, std::int64_t block, std::int64_t i, std::int64_t j) {
    const BlockGrid& grid = blocks.grid;
    const auto from = [&](std::int64_t k) -> const double* {
        return blocks.at(grid.neighbour(block, {i, j, k})) +
               grid.offset_of({grid.source_begin(i), grid.source_begin(j), grid.source_begin(k)});
    };
    double* to = blocks.at(block) + grid.offset_of({grid.ghost_begin(i), grid.ghost_begin(j), 0});
    const bool inner = i == 0 && j == 0;
    return {grid.extent(i), grid.extent(j), to, from(-1), inner ? nullptr : from(0), from(1)};
}

bool within_process(const SharedBlocks& blocks, std::int64_t block, std::int64_t i,
                    std::int64_t j) {
    for (const int k : {-1, 0, 1})
        if (blocks.grid.owner(blocks.grid.neighbour(block, {i, j, k})) != blocks.rank) return false;
    return true;
}

/// Row `at` (its offset from the first), with `width` ghosts at both ends; 0: as wide as said.
template <int width>
void copy_row(const Rows& r, std::int64_t at, std::int64_t edge, std::int64_t wide) {
    const std::int64_t w = width > 0 ? width : wide;
    double* to = r.to + at;
    for (std::int64_t k = 0; k < w; ++k) to[k] = r.low[at + k];
    if (r.middle) std::memcpy(to + w, r.middle + at, static_cast<std::size_t>(edge) * 8);
    for (std::int64_t k = 0; k < w; ++k) to[w + edge + k] = r.high[at + k];
}

template <int width>
Loop by_rows(const SharedBlocks& blocks, Meeting& meeting) {
    Work<Rows> work;
    const BlockGrid& grid = blocks.grid;
    for (std::int64_t b = 0; b < grid.num_blocks(); ++b)
        for (int side = 0; side < 9 && grid.owner(b) == blocks.rank; ++side) {
            const std::int64_t i = side / 3 - 1, j = side % 3 - 1;
            (within_process(blocks, b, i, j) ? work.own : work.with_peers)
                .push_back(rows_towards(blocks, b, i, j));
        }
    const std::int64_t e = grid.stored_edge();
    return in_a_meeting(meeting, std::move(work),
                        [e, edge = grid.edge, wide = grid.width](const Rows& r) {
                            for (std::int64_t i = 0; i < r.planes; ++i)
                                for (std::int64_t j = 0; j < r.rows; ++j)
                                    copy_row<width>(r, (i * e + j) * e, edge, wide);
                        });
}

/// One pass through each block, in the order of its memory.
template <int width>
Loop by_sweep(const SharedBlocks& blocks, Meeting& meeting) {
    struct Block {
        std::array<Rows, 9> towards;
        bool own = true;
    };
    Work<Block> work;
    const BlockGrid& grid = blocks.grid;
    for (std::int64_t b = 0; b < grid.num_blocks(); ++b) {
        if (grid.owner(b) != blocks.rank) continue;
        Block block;
        for (int side = 0; side < 9; ++side) {
            const std::int64_t i = side / 3 - 1, j = side % 3 - 1;
            block.towards[static_cast<std::size_t>(side)] = rows_towards(blocks, b, i, j);
            block.own = block.own && within_process(blocks, b, i, j);
        }
        (block.own ? work.own : work.with_peers).push_back(block);
    }
    const std::int64_t e = grid.stored_edge();
    return in_a_meeting(
        meeting, std::move(work), [e, edge = grid.edge, wide = grid.width](const Block& block) {
            for (std::size_t i = 0; i < 3; ++i)
                for (std::int64_t plane = 0; plane < block.towards[3 * i].planes; ++plane)
                    for (std::size_t j = 0; j < 3; ++j) {
                        const Rows& r = block.towards[3 * i + j];
                        for (std::int64_t row = 0; row < r.rows; ++row)
                            copy_row<width>(r, (plane * e + row) * e, edge, wide);
                    }
        });
}

template <int width>
void add_row_loops(std::vector<std::pair<std::string, Loop>>& loops, const SharedBlocks& blocks,
                   Meeting& meeting) {
    loops.emplace_back("loop:rows_pull", by_rows<width>(blocks, meeting));
    loops.emplace_back("loop:sweep_pull", by_sweep<width>(blocks, meeting));
}

}  // namespace

std::vector<std::pair<std::string, Loop>> halo_loops(const SharedBlocks& blocks, Meeting& meeting) {
    const std::vector<Face> faces = blocks.grid.faces();
    std::vector<std::pair<std::string, Loop>> loops;
    loops.emplace_back("loop:faces_pull", by_faces(blocks, meeting, faces, true));
    loops.emplace_back("loop:faces_push", by_faces(blocks, meeting, faces, false));
    loops.emplace_back("loop:sides_pull", by_faces(blocks, meeting, side_after_side(faces), true));
    switch (blocks.grid.width) {
        case 1:
            add_row_loops<1>(loops, blocks, meeting);
            break;
        case 2:
            add_row_loops<2>(loops, blocks, meeting);
            break;
        case 3:
            add_row_loops<3>(loops, blocks, meeting);
            break;
        default:
            add_row_loops<0>(loops, blocks, meeting);
    }
    return loops;
}

}  // namespace bench
