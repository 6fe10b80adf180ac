// SPDX-License-Identifier: BSD-3-Clause
// Pair programs: what a process does in a round for one direction of a pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "datamover/advanced/address_relation.hpp"
#include "datamover/side.hpp"
#include "plan/compile.hpp"
#include "plan/part_chunks.hpp"

namespace datamover::transport {

/// What a pair moves of one array: what goes where, and in which memories. A side without memory is
/// the message; without a base too.
struct ArrayMotion {
    const PairPart* part = nullptr;
    PerSide<plan::RelationSide> side;
    PerSide<std::byte*> base;
    ElementUpdate update;
    plan::MessageOrder order = plan::MessageOrder::row_major;
};

/// How messages are cut.
struct ChunkRules {
    std::int64_t most_bytes = 0;  ///< of a chunk (at least one element); 0: one chunk
    plan::ChunkForm form = plan::ChunkForm::ranges;
    bool merges = true;  ///< small pieces share a chunk; else each has its own
    bool runs = true;    ///< makes kernels; else only pieces() or arrays() will be asked for
};

/// What a program moves, for explain.
struct ProgramFigures {
    std::int64_t elems = 0;
    std::int64_t bytes = 0;  ///< in the source's elements
    std::string encoding;
    std::int64_t relation_bytes = 0;
    std::string kernel;
};

/// The work of one process for one direction of a pair, over one or several arrays: compiled once,
/// run any number of times. Both processes of a pair cut their messages in the same way, since the
/// cut follows from the plan and the rules alone. Running allocates nothing.
class PairProgram {
public:
    PairProgram() = default;
    /// Between arrays of this process and messages: one side of each motion is the message.
    static PairProgram for_messages(std::span<const ArrayMotion> motions, const ChunkRules& rules);
    /// Between arrays that this process can both reach.
    static PairProgram for_copies(std::span<const ArrayMotion> motions);

    std::size_t chunks() const { return chunks_.size(); }
    std::int64_t chunk_bytes(std::size_t chunk) const { return chunks_[chunk].bytes; }
    std::int64_t most_chunk_bytes() const;
    /// From the arrays into the message of a chunk, and back.
    void pack(std::size_t chunk, std::byte* message) const;
    void unpack(std::size_t chunk, const std::byte* message) const;
    /// Where the elements of a chunk lie as they are in its message: then it needs no packing. Null
    /// where they do not.
    std::byte* in_place(std::size_t chunk) const { return chunks_[chunk].in_place; }
    /// Whether that is so for all chunks.
    bool all_in_place() const;
    /// Of programs that pack: whether both make the same messages out of the same elements.
    /// O(runs).
    bool packs_as(const PairProgram& other) const;
    /// What a chunk moves of each array, in the order of its message: one side of the relation is
    /// the message.
    struct ArrayPiece {
        const AddressRelation* relation;
        std::byte* base;
    };
    std::vector<ArrayPiece> arrays(std::size_t chunk) const;
    /// The side of these relations that is not the message.
    Side array_side() const { return array_side_; }
    /// The memory of the arrays that a chunk touches, in the order of its message.
    std::vector<MemoryPiece> pieces(std::size_t chunk) const;

    /// Straight between the arrays.
    void copy() const;
    /// The memory that copies touch on one side, in the same order on both.
    std::vector<MemoryPiece> copied_pieces(Side side) const;

    const ProgramFigures& figures() const { return figures_; }

private:
    /// A part of a chunk: one array, one kernel.
    struct Segment {
        std::size_t unit = 0;  ///< of units_
        std::byte* array = nullptr;
        std::int64_t message_offset_bytes = 0;
    };
    struct Chunk {
        std::size_t first = 0, end = 0;  ///< segments
        std::int64_t bytes = 0;
        std::byte* in_place = nullptr;
    };
    struct Copy {
        std::size_t unit = 0;
        PerSide<std::byte*> base;
    };
    /// A relation and its loops; the same for all chunks of one shape and arrays alike.
    struct Unit {
        AddressRelation relation;
        CopyKernel kernel;
    };
    friend class ProgramBuilder;

    Side array_side_ = Side::source;
    std::vector<Unit> units_;
    std::vector<Segment> segments_;
    std::vector<Chunk> chunks_;
    std::vector<Copy> copies_;
    ProgramFigures figures_;
};

}  // namespace datamover::transport
