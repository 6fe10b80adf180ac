// SPDX-License-Identifier: BSD-3-Clause
// Pair programs: what a process does in a round for one direction of a pair.
#include "pair_program.hpp"

#include <algorithm>
#include <utility>

#include "memory/cache_lines.hpp"

namespace datamover::transport {
namespace {

/// Elements of the next array start at a multiple of this in a message.
constexpr std::int64_t array_alignment_bytes = 16;
/// Kernels are named in a report only up to here.
constexpr std::size_t most_kernel_text = 160;

bool same_memory(const MemoryLayout* a, const MemoryLayout* b) {
    return a == b || (a && b && *a == *b);
}

/// Whether two motions need the same relations: they may then differ in the arrays' addresses.
bool alike(const ArrayMotion& a, const ArrayMotion& b) {
    if (a.part != b.part || a.order != b.order || !(a.update == b.update)) return false;
    return std::ranges::all_of(both_sides, [&](Side s) {
        return a.side[s].elem_bytes == b.side[s].elem_bytes &&
               same_memory(a.side[s].memory, b.side[s].memory);
    });
}

AddressRelation compiled(const PairPart& part, const ArrayMotion& motion) {
    return plan::compile(part, motion.side.source, motion.side.destination, motion.order);
}

}  // namespace

class ProgramBuilder {
public:
    explicit ProgramBuilder(std::span<const ArrayMotion> motions) : motions_(motions) {}

    PairProgram messages(const ChunkRules& rules) {
        rules_ = rules;
        program_.array_side_ =
            motions_.front().side.source.memory ? Side::source : Side::destination;
        for (const ArrayMotion& motion : motions_) {
            count(motion);
            append_messages(motion);
        }
        end_chunk();
        find_what_is_in_place();
        return finish();
    }

    PairProgram copies() {
        for (const ArrayMotion& motion : motions_) {
            count(motion);
            program_.copies_.push_back({compile(motion).units.front(), motion.base});
        }
        return finish();
    }

private:
    /// What has been made for one motion, for others like it.
    struct Compiled {
        const ArrayMotion* motion;
        std::vector<std::size_t> units;         ///< per shape
        std::vector<std::int64_t> shape_bytes;  ///< per shape, in the message
        std::vector<std::size_t> shapes;        ///< per chunk of the part
        std::vector<std::int64_t> shift_bytes;  ///< per chunk of the part, in the array
    };

    void count(const ArrayMotion& motion) {
        const std::int64_t elems = motion.part->size();
        program_.figures_.elems += elems;
        program_.figures_.bytes += elems * motion.side.source.elem_bytes;
    }

    std::size_t add_unit(AddressRelation relation, const ArrayMotion& motion, bool runs) {
        program_.figures_.relation_bytes += relation.nbytes();
        PairProgram::Unit unit{std::move(relation), {}};
        if (runs) unit.kernel = unit.relation.kernel(motion.update);
        program_.units_.push_back(std::move(unit));
        return program_.units_.size() - 1;
    }

    const plan::RelationSide& array(const ArrayMotion& motion) const {
        return motion.side[program_.array_side_];
    }
    const plan::RelationSide& message(const ArrayMotion& motion) const {
        return motion.side[other(program_.array_side_)];
    }

    /// Cuts the part of a motion and compiles the shapes of its chunks.
    const Compiled& compile(const ArrayMotion& motion) {
        const auto known = std::ranges::find_if(
            compiled_, [&](const Compiled& c) { return alike(*c.motion, motion); });
        if (known != compiled_.end()) return *known;
        Compiled made{&motion, {}, {}, {}, {}};
        const std::int64_t elem_bytes = message(motion).elem_bytes, elems = motion.part->size();
        if (rules_.most_bytes == 0 || elems * elem_bytes <= rules_.most_bytes) {
            made.units.push_back(add_unit(compiled(*motion.part, motion), motion, rules_.runs));
            made.shape_bytes.push_back(elems * elem_bytes);
            made.shapes.push_back(0);
            made.shift_bytes.push_back(0);
            return compiled_.emplace_back(std::move(made));
        }
        const plan::ChunkedPart cut = plan::cut_into_chunks(
            *motion.part, std::max<std::int64_t>(1, rules_.most_bytes / elem_bytes), motion.order,
            rules_.form);
        for (std::size_t s = 0; s < cut.shapes.size(); ++s) {
            made.units.push_back(add_unit(compiled(cut.shapes[s], motion), motion, rules_.runs));
            made.shape_bytes.push_back(cut.shape_elems[s] * elem_bytes);
        }
        for (const plan::PartChunk& c : cut.chunks) {
            made.shapes.push_back(c.shape);
            made.shift_bytes.push_back(
                plan::shift_bytes(cut, c, program_.array_side_, *array(motion).memory));
        }
        return compiled_.emplace_back(std::move(made));
    }

    void append_messages(const ArrayMotion& motion) {
        const Compiled& c = compile(motion);
        std::byte* base = motion.base[program_.array_side_];
        for (std::size_t i = 0; i < c.shapes.size(); ++i) {
            const std::int64_t bytes = c.shape_bytes[c.shapes[i]];
            std::int64_t offset_bytes =
                i == 0 ? memory::rounded_up(open_.bytes, array_alignment_bytes) : open_.bytes;
            if (!rules_.merges ||
                (rules_.most_bytes > 0 && offset_bytes + bytes > rules_.most_bytes)) {
                end_chunk();
                offset_bytes = 0;
            }
            program_.segments_.push_back(
                {c.units[c.shapes[i]], base + c.shift_bytes[i], offset_bytes});
            open_.bytes = offset_bytes + bytes;
        }
    }

    void end_chunk() {
        open_.end = program_.segments_.size();
        if (open_.end > open_.first) program_.chunks_.push_back(open_);
        open_ = {open_.end, open_.end, 0, nullptr};
    }

    /// A chunk is in place where its segments lie in memory as they do in the message.
    void find_what_is_in_place() {
        const Side side = program_.array_side_;
        const bool plain = std::ranges::all_of(
            motions_, [](const ArrayMotion& m) { return m.update.is_plain_copy(); });
        if (!plain) return;
        for (PairProgram::Chunk& chunk : program_.chunks_) {
            std::byte *begin = nullptr, *end = nullptr;
            for (std::size_t i = chunk.first; i < chunk.end; ++i) {
                const PairProgram::Segment& s = program_.segments_[i];
                const AddressRelation& r = program_.units_[s.unit].relation;
                if (!r.contiguous(side)) return;
                const AddressBounds bounds = r.bounds(side);
                std::byte* const at = s.array + bounds.begin_bytes;
                if (i == chunk.first) begin = end = at;
                // What a message has between its arrays would be received into what lies there.
                if (at != end || at - begin != s.message_offset_bytes) return;
                end = s.array + bounds.end_bytes;
            }
            chunk.in_place = begin;
        }
    }

    PairProgram finish() {
        if (!program_.units_.empty()) {
            program_.figures_.encoding = encoding_name(program_.units_.front().relation.encoding());
            program_.figures_.kernel = rules_.runs ? kernel_text() : "";
        }
        return std::move(program_);
    }

    std::string kernel_text() const {
        std::string text;
        for (const PairProgram::Unit& unit : program_.units_) {
            const std::string more = unit.kernel.describe();
            if (text.find(more) != std::string::npos) continue;
            text += (text.empty() ? "" : ", ") + more;
            if (text.size() <= most_kernel_text) continue;
            return text.substr(0, most_kernel_text) + " …";
        }
        return text;
    }

    std::span<const ArrayMotion> motions_;
    ChunkRules rules_;
    PairProgram program_;
    std::vector<Compiled> compiled_;
    PairProgram::Chunk open_;
};

PairProgram PairProgram::for_messages(std::span<const ArrayMotion> motions,
                                      const ChunkRules& rules) {
    return ProgramBuilder(motions).messages(rules);
}

PairProgram PairProgram::for_copies(std::span<const ArrayMotion> motions) {
    return ProgramBuilder(motions).copies();
}

std::int64_t PairProgram::most_chunk_bytes() const {
    std::int64_t most = 0;
    for (const Chunk& chunk : chunks_) most = std::max(most, chunk.bytes);
    return most;
}

bool PairProgram::all_in_place() const {
    return std::ranges::all_of(chunks_,
                               [](const Chunk& chunk) { return chunk.in_place != nullptr; });
}

bool PairProgram::packs_as(const PairProgram& other) const {
    const auto same_piece = [](const MemoryPiece& a, const MemoryPiece& b) {
        return a.data == b.data && a.bytes == b.bytes;
    };
    const auto pieces_of = [](const PairProgram& program, const Segment& s) {
        return program.units_[s.unit].relation.pieces(program.array_side_, s.array);
    };
    // Segment by segment, because a message may have gaps between them.
    const auto same_segment = [&](const Segment& mine, const Segment& theirs) {
        return mine.message_offset_bytes == theirs.message_offset_bytes &&
               std::ranges::equal(pieces_of(*this, mine), pieces_of(other, theirs), same_piece);
    };
    return std::ranges::equal(chunks_, other.chunks_, {}, &Chunk::bytes, &Chunk::bytes) &&
           std::ranges::equal(segments_, other.segments_, same_segment);
}

void PairProgram::pack(std::size_t chunk, std::byte* message) const {
    for (std::size_t i = chunks_[chunk].first; i < chunks_[chunk].end; ++i) {
        const Segment& s = segments_[i];
        units_[s.unit].kernel(s.array, message + s.message_offset_bytes);
    }
}

void PairProgram::unpack(std::size_t chunk, const std::byte* message) const {
    for (std::size_t i = chunks_[chunk].first; i < chunks_[chunk].end; ++i) {
        const Segment& s = segments_[i];
        units_[s.unit].kernel(message + s.message_offset_bytes, s.array);
    }
}

std::vector<PairProgram::ArrayPiece> PairProgram::arrays(std::size_t chunk) const {
    std::vector<ArrayPiece> all;
    for (std::size_t i = chunks_[chunk].first; i < chunks_[chunk].end; ++i)
        all.push_back({&units_[segments_[i].unit].relation, segments_[i].array});
    return all;
}

std::vector<MemoryPiece> PairProgram::pieces(std::size_t chunk) const {
    std::vector<MemoryPiece> all;
    for (const auto& [relation, base] : arrays(chunk)) {
        const auto more = relation->pieces(array_side_, base);
        all.insert(all.end(), more.begin(), more.end());
    }
    return all;
}

void PairProgram::copy() const {
    for (const Copy& c : copies_) units_[c.unit].kernel(c.base.source, c.base.destination);
}

std::vector<MemoryPiece> PairProgram::copied_pieces(Side side) const {
    std::vector<MemoryPiece> all;
    for (const Copy& c : copies_) {
        const auto more = units_[c.unit].relation.pieces(side, c.base[side]);
        all.insert(all.end(), more.begin(), more.end());
    }
    return all;
}

}  // namespace datamover::transport
