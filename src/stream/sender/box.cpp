// SPDX-License-Identifier: BSD-3-Clause
// Boxes: storing, sending and releasing the messages for one receiving process.
#include "stream/sender/box.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "geometry/make_error.hpp"

namespace datamover::stream {

namespace {

/// Where so much is kept, it is looked what of it was taken: with more, messages leave the
/// processor's caches before their memory is used again.
constexpr std::uint64_t hearing_bytes = 1 << 18;

}  // namespace

Message::Message(std::size_t bytes)
    : own_(own_bytes(bytes)), bytes_(own_.get(), bytes), packed_(bytes) {}

MessagePtr Box::memory(std::size_t bytes) {
    bool as_segment = false;
    bool may_have_more = false;
    {
        const std::lock_guard lock(lock_);
        may_have_more = kept_bytes_ >= hearing_bytes;
    }
    if (may_have_more) hear();
    {
        const std::lock_guard lock(lock_);
        keeps_memory_ = true;
        if (MessagePtr unused = take_unused(bytes)) return unused;
        if (MessagePtr bare = take_bare(bytes)) return bare;
        as_segment = takes_segments(bytes);
        segments_ += as_segment;
    }
    if (as_segment) {
        if (auto segment = Segment::make(bytes))
            return std::make_shared<const Message>(std::move(segment));
        const std::lock_guard lock(lock_);
        --segments_;
    }
    return std::make_shared<const Message>(bytes);
}

MessagePtr Box::take_unused(std::size_t bytes) {
    const auto found = unused_.find(bytes);
    if (found == unused_.end()) return nullptr;
    std::vector<MessagePtr>& unused = found->second;
    // Private memory gives way to segments as soon as the receiver can read those.
    if (takes_segments(bytes))
        std::erase_if(unused, [](const MessagePtr& m) { return m->segment() == nullptr; });
    // One that was dropped while a connection sent it is still being read.
    // What was given back last is in the processor's caches.
    const auto free = std::find_if(unused.rbegin(), unused.rend(),
                                   [](const MessagePtr& m) { return m.use_count() == 1; });
    if (free == unused.rend()) return nullptr;
    MessagePtr message = std::move(*free);
    unused.erase(std::next(free).base());
    return message;
}

/// A segment of this size whose memory was given back, with memory again; null for none.
MessagePtr Box::take_bare(std::size_t bytes) {
    const auto found = bare_.find(bytes);
    if (found == bare_.end() || found->second.empty()) return nullptr;
    MessagePtr message = std::move(found->second.back());
    if (!message->segment()->reserve()) {
        found->second.back() = std::move(message);
        return nullptr;
    }
    found->second.pop_back();
    return message;
}

void Box::free_unused() {
    const std::lock_guard lock(lock_);
    keeps_memory_ = false;
    free_what_nobody_reads();
}

void Box::free_what_nobody_reads() {
    for (auto& [bytes, unused] : unused_) {
        std::vector<MessagePtr>* bare = nullptr;
        try {
            bare = &bare_[bytes];
            bare->reserve(bare->size() + unused.size());
        } catch (const std::bad_alloc&) {  // those of this length keep their memory
            continue;
        }
        for (MessagePtr& message : unused) {
            if (message->segment() == nullptr || message.use_count() > 1) continue;
            message->segment()->give_memory_back();
            bare->push_back(std::move(message));
        }
        // What a connection still reads stays until it gives that back.
        std::erase_if(unused, [](const MessagePtr& message) {
            return message == nullptr || message->segment() == nullptr;
        });
    }
}

bool Box::takes_segments(std::size_t bytes) const {
    return shares_memory_ && bytes >= Segment::least_bytes &&
           segments_ < Segment::max_of_connection;
}

void Box::put(std::uint64_t place, std::uint32_t array, MessagePtr message, std::int64_t number) {
    const std::lock_guard telling(telling_);
    {
        const std::lock_guard lock(lock_);
        if (has_ended_) return;
        kept_bytes_ += message->bytes().size();
        kept_.emplace(count_++, KeptMessage{place, array, std::move(message), number});
    }
    for (const auto& [pathway, reader] : readers_) reader->sends_more();
}

void Box::go_on(bool is_whole) {
    const std::lock_guard telling(telling_);
    for (const auto& [pathway, reader] : readers_) reader->sends_on(is_whole);
}

void Box::hear() {
    const std::lock_guard telling(telling_);
    for (const auto& [pathway, reader] : readers_) reader->hears();
}

void Box::leave() {
    const std::lock_guard telling(telling_);
    for (const auto& [pathway, reader] : readers_) reader->leaves();
}

void Box::drop(std::uint64_t place) {
    forget([place](const KeptMessage& kept) { return kept.place == place; });
}

void Box::advance(std::uint64_t taken) {
    forget([taken](const KeptMessage& kept) { return kept.place < taken; });
}

void Box::forget(const std::function<bool(const KeptMessage&)>& which) {
    const std::lock_guard lock(lock_);
    for (auto at = kept_.begin(); at != kept_.end();) {
        if (!which(at->second)) {
            ++at;
            continue;
        }
        MessagePtr& message = at->second.message;
        const std::size_t bytes = message->bytes().size();
        kept_bytes_ -= bytes;
        unused_[bytes].push_back(std::move(message));
        at = kept_.erase(at);
    }
}

Box::Next Box::next(std::uint64_t number, std::uint64_t may,
                    const std::optional<std::set<std::uint64_t>>& alone) {
    const std::lock_guard lock(lock_);
    for (auto at = kept_.lower_bound(number); at != kept_.end(); ++at) {
        const KeptMessage& kept = at->second;
        if (kept.place >= may) return {at->first, std::nullopt, true};
        if (!alone || alone->contains(kept.place)) return {at->first, kept};
    }
    return {std::max(number, count_), std::nullopt};
}

void Box::give_back(MessagePtr&& message) {
    const std::lock_guard lock(lock_);
    MessagePtr(std::move(message)).reset();
    if (!keeps_memory_) free_what_nobody_reads();
}

void Box::add(BoxReader* reader, int pathway, bool is_local) {
    const std::lock_guard telling(telling_);
    const std::lock_guard lock(lock_);
    if (!readers_.emplace(pathway, reader).second)
        throw make_error(ErrorCode::io, "pathway ", pathway,
                         " of the process is connected already");
    shares_memory_ = shares_memory_ || is_local;
    if (has_ended_) reader->end();
}

void Box::remove(BoxReader* reader) {
    const std::lock_guard telling(telling_);
    const std::lock_guard lock(lock_);
    std::erase_if(readers_, [reader](const auto& entry) { return entry.second == reader; });
    if (!readers_.empty()) return;
    has_ended_ = true;
    shares_memory_ = false;
    // Not given back page by page: a process that still reads a segment would find it empty.
    kept_.clear();
    kept_bytes_ = 0;
    unused_.clear();
    bare_.clear();
}

void Box::end_all() {
    const std::lock_guard lock(lock_);
    has_ended_ = true;
    for (const auto& [pathway, reader] : readers_) reader->end();
}

std::uint64_t Box::bytes_kept() {
    const std::lock_guard lock(lock_);
    return kept_bytes_;
}

std::uint64_t Box::bytes_held() {
    std::uint64_t bytes = bytes_kept();
    const std::lock_guard lock(lock_);
    for (const auto& [size, unused] : unused_) bytes += size * unused.size();
    return bytes;
}

}  // namespace datamover::stream
