// SPDX-License-Identifier: BSD-3-Clause
// How is planned what comes of an array, and how are its messages taken apart?
#include "stream/incoming_array.hpp"

#include "geometry/make_error.hpp"
#include "plan/compile.hpp"
#include "stream/plan_between.hpp"

namespace datamover::stream {

IncomingArray::IncomingArray(const KnownArray& known, const WantedArray& wanted, int rank)
    : name_(known.name),
      type_(known.type),
      wanted_(wanted.layout),
      rank_(rank),
      plan_(plan_between(known.layout, wanted.layout)) {
    if (!wanted.dtype.empty() && ArrayType::of_text(wanted.dtype).text != type_.text)
        throw make_error(ErrorCode::wrong_type, "array '", name_, "' has dtype ", type_.text,
                         ", the array here ", wanted.dtype);
    for (const PeerPart& peer : plan_.incoming(rank)) {
        std::int64_t bytes = 0;
        if (__builtin_mul_overflow(peer.part.size(), type_.elem_bytes, &bytes))
            throw Error(ErrorCode::out_of_range, "a message of more than 2^63 bytes");
        sizes_[static_cast<int>(peer.rank)] = static_cast<std::uint64_t>(bytes);
    }
}

void IncomingArray::unpack(const Messages& messages, const DestinationMemory& destination) {
    if (!memory_ || !(*memory_ == *destination.memory)) {
        memory_.reset();
        relations_.clear();
        const plan::RelationSide to{&plan_.destination(), destination.memory, type_.elem_bytes,
                                    rank_};
        for (const PeerPart& peer : plan_.incoming(rank_)) {
            const plan::RelationSide message{&plan_.source(), nullptr, type_.elem_bytes, peer.rank};
            relations_.emplace_back(static_cast<int>(peer.rank),
                                    plan::compile(peer.part, message, to));
        }
        memory_ = *destination.memory;
    }
    for (const auto& [producer, relation] : relations_) {
        const auto bytes = messages.at(producer)->bytes();
        const AddressBounds all{0, static_cast<std::int64_t>(bytes.size())};
        relation.bind_scatter(bytes.data(), all, destination.data, destination.bounds)();
    }
}

}  // namespace datamover::stream
