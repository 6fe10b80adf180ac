// SPDX-License-Identifier: BSD-3-Clause
// The transports "p2p" and "datatype": the chunks of pairs by point-to-point MPI. They are packed,
// unless a chunk is stored in memory as in the message, or ("datatype") MPI packs it by a derived
// datatype made from the relation. What is converted or combined on the way is always packed.
//
// Receives are posted and messages sent in the order of the chunks, which MPI keeps. A pair has a
// few buffers, used in turn: nobody waits for anything but a buffer of its own, so no order of
// processes can lock.
#include <algorithm>
#include <utility>

#include "memory/cache_lines.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"
#include "plan/part_chunks.hpp"
#include "transport.hpp"

namespace datamover::transport {
namespace {

/// Messages of one pair under way at the same time where no buffers are needed.
constexpr std::size_t unbuffered_width = 4;

/// How long messages are at the most. The receiver takes one apart while the sender puts the next
/// one together, which pays most where each of them has one of the two to do; a process that has
/// both loses what the calls take. On one machine MPI hands short messages over at once, also with
/// its own few bytes before them, and takes longer ones out of the sender's memory, which is better
/// for much, and where nothing is packed (measured, docs/decisions/0011).
std::int64_t longest_message(const BindContext& context, const Pair& pair) {
    if (context.options.chunk_bytes > 0) return context.chunk_bytes;
    const bool near = context.group->node().is_on_machine(pair.peer);
    const std::int64_t bytes = context.message_bytes(pair);
    const std::int64_t quick_bytes =
        context.packs ? mpi::quick_total_bytes : mpi::quick_unpacked_total_bytes;
    if (near && context.one_way && bytes <= quick_bytes)
        return std::min(context.chunk_bytes, mpi::quick_message_bytes);
    if (!context.packs) return context.chunk_bytes;
    if (near && !context.one_way)
        return plan::pipelined_piece_bytes(bytes, context.chunk_bytes, mpi::two_way_message_bytes);
    return plan::pipelined_piece_bytes(bytes, context.chunk_bytes);
}

/// One direction of one pair.
struct ChunkMessages {
    int peer = 0;
    bool sends = false;
    PairProgram program;
    memory::AllocationPtr buffers;  ///< none where the arrays themselves are sent and received
    std::int64_t buffer_bytes = 0;
    std::size_t width = 1;                   ///< messages that may be under way
    std::size_t first_active = 0;            ///< of this pair's `width` places among the requests
    bool mpi_packs = false;                  ///< told by datatypes where elements lie
    std::vector<mpi::ByteMessage> messages;  ///< per chunk
    std::vector<std::size_t> chunk_at;       ///< per place; `none` where it is free
    std::size_t posted = 0, completed = 0;

    static constexpr auto none = static_cast<std::size_t>(-1);

    bool complete() const { return completed == program.chunks(); }
    /// The message of a chunk that occupies a place.
    std::byte* message(std::size_t chunk, std::size_t place) const {
        if (mpi_packs) return static_cast<std::byte*>(MPI_BOTTOM);
        if (!buffers) return program.in_place(chunk);
        return buffers->data + static_cast<std::int64_t>(place) * buffer_bytes;
    }
};

/// The elements of a chunk in the arrays, counted from MPI_BOTTOM, in the order of the message.
mpi::ByteMessage elements_of(const PairProgram& program, std::size_t chunk) {
    // One list for all arrays: MPI looks at each level of a datatype for every element.
    std::vector<mpi::PlacedDatatype> parts;
    for (const auto& [relation, base] : program.arrays(chunk)) {
        const std::int64_t start = mpi::displacement_of(base);
        for (auto& part : relation_in_words(*relation, program.array_side(), base))
            parts.push_back({start + part.displacement_bytes, std::move(part.type)});
    }
    mpi::Datatype all = mpi::sequence(std::move(parts));
    all.commit();
    return mpi::ByteMessage(std::move(all));
}

class MessageTransport final : public Transport {
public:
    /// `datatypes`: MPI is told by a datatype where the elements of a chunk lie, if they move
    /// unchanged.
    MessageTransport(const BindContext& context, const std::vector<Pair>& pairs, bool datatypes)
        : group_(context.group), comm_(group_->comm()), tag_(context.tag()), datatypes_(datatypes) {
        for (const bool sends : {false, true})
            for (const Pair& pair : pairs)
                if (pair.sends() == sends) add(context, pair);
        requests_.assign(pair_at_.size());
    }

    ~MessageTransport() override {
        for (std::size_t i = 0; i < pair_at_.size(); ++i)
            if (!requests_.free(i)) group_->abandon(pairs_[pair_at_[i]].buffers);
    }

    void start() override {
        for (ChunkMessages& pair : pairs_) pair.posted = pair.completed = 0;
        complete_ = 0;
        for (ChunkMessages& pair : pairs_) post(pair);
    }

    Progress progress() override {
        const auto ended = requests_.ended();
        for (const int number : ended) end(static_cast<std::size_t>(number));
        if (complete_ == pairs_.size()) return Progress::complete;
        return !ended.empty() ? Progress::some : Progress::none;
    }

    /// Chunks are short enough for MPI to carry them by itself.
    bool needs_polls() const override { return datatypes_; }

private:
    bool waits_for(std::size_t i) const override { return !pairs_[i].complete(); }

    void add(const BindContext& context, const Pair& pair) {
        ChunkMessages made;
        made.peer = mpi::to_int(pair.peer, "rank");
        made.sends = pair.sends();
        // MPI cuts what it is told by a datatype, and needs no kernels of ours.
        const bool by_datatype = datatypes_ && pair.plain_copy();
        ChunkRules rules;
        rules.runs = !by_datatype;
        if (!by_datatype) rules.most_bytes = longest_message(context, pair);
        made.program = context.message_program(pair, rules);
        const bool in_place = made.program.all_in_place();
        const bool is_packed = !in_place && !by_datatype;
        const auto most = is_packed ? static_cast<std::size_t>(context.buffers) : unbuffered_width;
        made.width = std::min(most, std::max<std::size_t>(1, made.program.chunks()));
        made.chunk_at.assign(made.width, ChunkMessages::none);
        if (is_packed) {
            made.buffer_bytes = memory::whole_lines(made.program.most_chunk_bytes());
            made.buffers = memory::SegmentPool::allocate_private(
                made.buffer_bytes * static_cast<std::int64_t>(made.width));
            extra_bytes_ += made.buffers->bytes;
        }
        made.mpi_packs = by_datatype && !in_place;
        for (std::size_t chunk = 0; chunk < made.program.chunks(); ++chunk)
            made.messages.push_back(made.mpi_packs
                                        ? elements_of(made.program, chunk)
                                        : mpi::ByteMessage(made.program.chunk_bytes(chunk)));
        made.first_active = pair_at_.size();
        pair_at_.insert(pair_at_.end(), made.width, pairs_.size());
        MoverPair& line = add_line(context, pair, made.program);
        if (line.kernel.empty()) line.kernel = "MPI's own";
        pairs_.push_back(std::move(made));
    }

    /// Posts chunks, in order, as long as the next one's place is free.
    void post(ChunkMessages& pair) {
        while (pair.posted < pair.program.chunks()) {
            const std::size_t place = pair.posted % pair.width;
            if (pair.chunk_at[place] != ChunkMessages::none) return;
            const std::size_t chunk = pair.posted, at = pair.first_active + place;
            std::byte* const memory = pair.message(chunk, place);
            const mpi::ByteMessage& message = pair.messages[chunk];
            if (pair.sends && pair.buffers) pair.program.pack(chunk, memory);
            requests_.begin(at, pair.sends, memory, message.count(), message.type(), pair.peer,
                            tag_, comm_);
            pair.chunk_at[place] = pair.posted++;
        }
    }

    void end(std::size_t active) {
        ChunkMessages& pair = pairs_[pair_at_[active]];
        const std::size_t place = active - pair.first_active;
        if (!pair.sends && pair.buffers)
            pair.program.unpack(pair.chunk_at[place], pair.message(pair.chunk_at[place], place));
        pair.chunk_at[place] = ChunkMessages::none;
        ++pair.completed;
        complete_ += pair.complete();
        post(pair);
    }

    mpi::ProcessGroupPtr group_;
    MPI_Comm comm_;
    int tag_;
    bool datatypes_;                    ///< else packed, and cut into chunks
    std::vector<ChunkMessages> pairs_;  ///< receives before sends
    mpi::Requests requests_;            ///< per place of every pair
    std::vector<std::size_t> pair_at_;  ///< whose place it is
    std::size_t complete_ = 0;          ///< pairs that are through in this round
};

}  // namespace

extern const TransportKind p2p_kind{
    .name = "p2p",
    .memory = MessageMemory::buffers,
    .takes = AcceptedOption::chunk_bytes,
    .sends_messages = true,
    .pays = wherever_it_can,
    .reason =
        [](const PairFacts& facts) {
            if (!facts.why_not_shared.empty()) return facts.why_not_shared;
            return std::string(facts.same_node ? "there is no shared memory for it"
                                               : "on another node");
        },
    .bind = bound_as<MessageTransport, false>,
};

extern const TransportKind datatype_kind{
    .name = "datatype",
    .memory = MessageMemory::buffers,
    .sends_messages = true,
    .reason = always("MPI packs"),
    .bind = bound_as<MessageTransport, true>,
};

}  // namespace datamover::transport
