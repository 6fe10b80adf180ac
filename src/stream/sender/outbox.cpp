// SPDX-License-Identifier: BSD-3-Clause
// Storing, sending and releasing the messages for each receiving process, and their packing. All
// received values are checked against limits.
#include "stream/sender/outbox.hpp"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <tuple>

#include "geometry/make_error.hpp"
#include "plan/part_chunks.hpp"

namespace datamover::stream {
namespace {

/// Where so much is kept, it is looked what of it was taken: with more, messages leave the
/// processor's caches before their memory is used again.
constexpr std::uint64_t hearing_bytes = 1 << 18;

/// A consumer that takes none of a message for so long has failed.
constexpr std::chrono::minutes stalled_time{10};
/// What the sending program sends of a message to another machine itself: a thread takes more time
/// to be woken than this takes to be sent, and finds it in the caches of another processor. Within
/// a machine, where what is packed is best sent from the caches at once, it sends all that goes.
constexpr std::uint64_t most_sent_at_once = 1 << 20;
/// The program waits so long for the thread to have sent a short message.
constexpr std::chrono::microseconds turn_time{50};
/// What the system keeps of short messages, and of others, where it only copies them to another
/// process: more than that goes out of the processor's caches before it is received.
constexpr int kept_of_short = 320 << 10, kept_of_long = 512 << 10;
constexpr std::uint64_t long_bytes = 1 << 19;
/// Of such messages both ends have more in hand than their caches hold: to wait for each other
/// rarely is worth more. Best is what the system finds by itself, which is lost where it was ever
/// told.
constexpr int kept_of_very_long = 2 << 20;
constexpr std::uint64_t very_long_bytes = 2 << 20;
/// Where several processes send, a receiving one reads what others sent meanwhile: a message that
/// the system does not take whole has its sender sleep, and woken, as often as the receiver.
constexpr std::uint64_t very_long_bytes_of_several = 1 << 19;
/// What is read of grants at once.
constexpr std::size_t read_bytes = 1 << 12;

/// A message has at most about so many pieces.
constexpr std::int64_t most_pieces = 1 << 10;

}  // namespace

MemoryPtr Box::memory(std::size_t bytes) {
    if (bytes_kept() >= hearing_bytes) tell(News::hears);
    return pool_->take(bytes);
}

void Box::put(std::uint64_t place, std::uint32_t array, MemoryPtr message, std::int64_t number) {
    const std::lock_guard telling(telling_);
    {
        const std::lock_guard lock(lock_);
        if (has_ended_) return;
        kept_bytes_ += message->bytes().size();
        kept_.emplace(count_++, KeptMessage{place, array, std::move(message), number});
    }
    for (const auto& [pathway, reader] : readers_) reader->tell(News::packs);
}

void Box::tell(News news) {
    const std::lock_guard telling(telling_);
    for (const auto& [pathway, reader] : readers_) reader->tell(news);
}

void Box::forget(std::uint64_t begin, std::uint64_t end) {
    decltype(kept_) forgotten;  // goes back to its pool without the lock
    const std::lock_guard lock(lock_);
    for (auto at = kept_.begin(); at != kept_.end();) {
        const auto entry = at++;
        if (entry->second.place < begin || entry->second.place >= end) continue;
        kept_bytes_ -= entry->second.message->bytes().size();
        forgotten.insert(kept_.extract(entry));
    }
}

Box::Next Box::next(std::uint64_t number, std::uint64_t may) {
    const std::lock_guard lock(lock_);
    const auto found = kept_.lower_bound(number);
    if (found == kept_.end()) return {std::max(number, count_), std::nullopt};
    if (found->second.place >= may) return {found->first, std::nullopt, true};
    return {found->first, found->second};
}

void Box::add(DataSender* reader, int pathway, bool is_local) {
    const std::lock_guard telling(telling_);
    const std::lock_guard lock(lock_);
    if (!readers_.emplace(pathway, reader).second)
        throw make_error(ErrorCode::io, "pathway ", pathway,
                         " of the process is connected already");
    if (is_local) pool_->share();
    if (has_ended_) reader->end();
}

void Box::remove(DataSender* reader) {
    const std::lock_guard telling(telling_);
    const std::lock_guard lock(lock_);
    std::erase_if(readers_, [reader](const auto& entry) { return entry.second == reader; });
    if (!readers_.empty()) return;
    has_ended_ = true;
    pool_->end();  // before messages go back to it: a receiving process may still read them
    kept_.clear();
    kept_bytes_ = 0;
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

DataSender::DataSender(const Connection& connection, Box& box, int pathway, int pathways,
                       SendingHabits habits, std::atomic<std::uint64_t>& bytes_sent,
                       TakenCall taken)
    : connection_(connection),
      box_(box),
      loops_back_(connection.loops_back()),
      stays_here_(loops_back_ || connection.is_local()),
      most_at_once_(stays_here_ ? std::numeric_limits<std::uint64_t>::max() : most_sent_at_once),
      pathway_(pathway),
      pathways_(connection_.is_local() ? 1 : pathways),
      habits_(habits),
      wake_(true),
      taken_call_(std::move(taken)),
      bytes_sent_(bytes_sent) {
    box_.add(this, pathway, connection_.is_local());
}

DataSender::~DataSender() {
    box_.remove(this);
}

/// The lock, soon; none where the thread has it for longer. What the thread sends that the program
/// could have sent goes on in the thread for as long as the program does not get its turn.
std::unique_lock<std::mutex> DataSender::entered() {
    std::unique_lock lock(lock_, std::try_to_lock);
    if (lock || sends_long_) return lock;
    const Clock::time_point end = Clock::now() + turn_time;
    while (!lock.try_lock() && Clock::now() < end) ::sched_yield();
    return lock;
}

void DataSender::sends_more() {
    std::unique_lock lock = entered();
    if (!lock) return wake_.set();  // its thread may not have seen the message
    program_left_ = Clock::now();
    if (sending_ && !is_sent()) return;  // its thread goes on with that, then looks
    send_what_goes(most_at_once_);
    if (rests_ && waits_ && hear_grants()) send_what_goes(most_at_once_);
    if ((sending_ && !waits_for_packing()) || (rests_ && waits_)) wake_.set();
    tell_taken(std::move(lock));
}

void DataSender::tell(News news) {
    try {
        if (news == News::packs) return sends_more();
        if (news == News::leaves) program_left_ = long_ago;
        std::unique_lock lock(lock_, std::defer_lock);
        // What was taken may not have been let go of yet by the thread that has sent it.
        if (news == News::frees) return lock.lock();
        const bool is_here = lock.try_lock();
        if (news == News::hears && is_here && rests_) {
            hear_grants();
            tell_taken(std::move(lock));
        }
        if (news == News::leaves && (!is_here || rests_))
            wake_.set();  // its thread may not have seen it
    } catch (...) {
        end();
    }
}

void DataSender::end() {
    program_left_ = long_ago;
    connection_.end();
    wake_.set();  // its thread finds it so, and says why
}

void DataSender::serve() {
    const std::chrono::milliseconds patience{patience_milliseconds};
    while (true) {
        std::unique_lock lock(lock_);
        if (wrong_) throw *wrong_;
        send_what_goes(std::numeric_limits<std::uint64_t>::max());
        const bool awaits_room = sending_ && !waits_for_packing();
        // To be woken for what a receiving process says takes more time than to send a short
        // message.
        rests_ = habits_.may_hear_later && !sending_ && !waits_ &&
                 program_left_.load() > Clock::now() - patience;
        const int socket = rests_ ? -1 : connection_.socket();
        const short events = awaits_room ? POLLIN | POLLOUT : POLLIN;
        const std::chrono::milliseconds time = rests_        ? patience
                                               : awaits_room ? stalled_time
                                                             : std::chrono::milliseconds(-1);
        lock.unlock();
        wake_.wait(socket, events, time);
        lock.lock();
        if (awaits_room && sending_ && Clock::now() - taken_ > stalled_time)
            throw Error(ErrorCode::timeout,
                        "the other end of the connection accepted no data in time");
        if (rests_) continue;
        hear_grants();
        tell_taken(std::move(lock));
    }
}

/// Tells what has been said to be taken.
void DataSender::tell_taken(std::unique_lock<std::mutex> lock) {
    const std::uint64_t taken = said_taken_;
    if (std::exchange(told_taken_, taken) == taken || !taken_call_) return;
    lock.unlock();  // whoever is told has a lock of their own
    taken_call_(taken);
}

/// Whether anything has come.
bool DataSender::hear_grants() {
    std::array<std::byte, read_bytes> room;
    const auto come = connection_.receive(room);
    if (!come) return false;
    if (wrong_) return true;
    grants_.insert(grants_.end(), room.begin(), room.begin() + *come);
    try {
        std::span<const std::byte> rest = grants_;
        for (; rest.size() >= sizeof(Grant); rest = rest.subspan(sizeof(Grant)))
            obey(header_at<Grant>(rest));
        grants_.erase(grants_.begin(), grants_.end() - static_cast<std::ptrdiff_t>(rest.size()));
    } catch (const Error& error) {
        wrong_ = error;
        wake_.set();  // the thread ends the connection
    }
    return true;
}

void DataSender::obey(const Grant& grant) {
    if (grant.alone > 1)
        throw make_error(ErrorCode::io, "received a grant that is malformed: ", grant.alone);
    said_taken_ = std::max(said_taken_, grant.taken);
    box_.forget(0, grant.taken);
    if (grant.may <= may_) return;
    // Those between were dropped: this process has only not heard of it yet.
    if (grant.alone != 0) box_.forget(may_, grant.may - 1);
    may_ = grant.may;
}

/// Sends until there is no more to be sent now, or the system takes no more, or what comes next is
/// longer than `most` or not packed yet: then `sending_` stays.
void DataSender::send_what_goes(std::uint64_t most) {
    if (wrong_) return;
    while (sending_ || begin_next()) {
        if (sending_->end - sending_->at > most) return;
        while (!is_sent()) {
            const std::size_t count = connection_.send_now(header_, body_, file_.get());
            if (count == 0) return;
            const std::size_t of_header = std::min(count, header_.size());
            header_ = header_.subspan(of_header);
            body_ = body_.subspan(count - of_header);
            file_ = Descriptor(-1);
            taken_ = Clock::now();
        }
        if (sending_->at == sending_->end)
            sending_.reset();
        else if (!begin_chunk())
            return;
    }
}

bool DataSender::waits_for_packing() const {
    return sending_ && is_sent() && sending_->at < sending_->end &&
           sending_->at >= sending_->kept.message->packed();
}

/// False where there is nothing to send now.
bool DataSender::begin_next() {
    Box::Next next = box_.next(next_, may_);
    next_ = next.number;
    waits_ = next.is_to_come;
    if (!next.kept) return false;
    ++next_;
    const std::uint64_t bytes = next.kept->message->bytes().size();
    sending_.emplace(Sending{*std::move(next.kept)});
    std::tie(sending_->at, sending_->end) = share_of(bytes, pathway_, pathways_);
    sending_->is_shared = connection_.is_local() && sending_->kept.message->is_segment();
    sends_long_ = sending_->end - sending_->at > most_sent_at_once;
    taken_ = Clock::now();
    if (loops_back_) limit_kept(sending_->end - sending_->at);
    return true;
}

void DataSender::limit_kept(std::uint64_t bytes) {
    const std::uint64_t least_very_long =
        habits_.is_one_of_several ? very_long_bytes_of_several : very_long_bytes;
    if (bytes >= least_very_long && kept_limit_ == 0) return;
    const int limit = bytes < long_bytes        ? kept_of_short
                      : bytes < least_very_long ? kept_of_long
                                                : kept_of_very_long;
    if (std::exchange(kept_limit_, limit) != limit) connection_.limit_kept(limit);
}

/// False where no more of the message has been packed.
bool DataSender::begin_chunk() {
    const KeptMessage& kept = sending_->kept;
    const std::uint64_t at = sending_->at;
    const std::uint64_t end = std::min<std::uint64_t>(sending_->end, kept.message->packed());
    if (end <= at) return false;
    const std::uint64_t bytes = std::min(chunk_bytes, end - at);
    const std::span<const std::byte> chunk = kept.message->bytes().subspan(at, bytes);
    ChunkHeader header{.checksum = memory::crc32c(chunk),
                       .array = kept.array,
                       .place = kept.place,
                       .offset = at,
                       .bytes = bytes,
                       .number = kept.number};
    if (sending_->is_shared) {
        header.magic = ChunkHeader::shared_magic;
        header.segment = kept.message->number();
        header.position = at;
        // The segment is handed over when it is used first.
        if (known_segments_.insert(header.segment).second)
            file_ = Descriptor(kept.message->open_for_reading());
    }
    sealed_ = sealed(header);
    header_ = bytes_of_header(sealed_);
    body_ = sending_->is_shared ? std::span<const std::byte>() : chunk;
    sending_->at += bytes;
    bytes_sent_ += bytes;
    return true;
}

Outgoing::Outgoing(int peer, AddressRelation whole)
    : peer_(peer),
      bytes_(whole.size() * whole.source_elem_bytes()),
      shapes_{std::move(whole)},
      parts_{{0, 0, bytes_}} {}

Outgoing::Outgoing(int peer, const PairPart& part, const plan::RelationSide& from,
                   const plan::RelationSide& message)
    : peer_(peer), bytes_(part.size() * from.elem_bytes) {
    if (bytes_ <= least_bytes) {
        shapes_.push_back(plan::compile(part, from, message));
        parts_.push_back({0, 0, bytes_});
        return;
    }
    const std::int64_t most_elems =
        std::max({std::int64_t{1}, most_bytes / from.elem_bytes, part.size() / most_pieces});
    const plan::ChunkedPart chunked = plan::cut_into_chunks(
        part, most_elems, plan::MessageOrder::row_major, plan::ChunkForm::ranges);
    for (const PairPart& shape : chunked.shapes)
        shapes_.push_back(plan::compile(shape, from, message));
    for (const plan::PartChunk& chunk : chunked.chunks)
        parts_.push_back({chunk.shape,
                          plan::shift_bytes(chunked, chunk, Side::source, *from.memory),
                          chunked.shape_elems[chunk.shape] * from.elem_bytes});
}

void Outgoing::bind(SourceMemory source, const MemoryPtr& message,
                    std::vector<Piece>& pieces) const {
    std::size_t begin = 0;
    for (const auto& [shape, shift_bytes, bytes] : parts_) {
        const AddressBounds from{source.bounds.begin_bytes - shift_bytes,
                                 source.bounds.end_bytes - shift_bytes};
        const std::size_t end = begin + static_cast<std::size_t>(bytes);
        pieces.push_back({peer_, message, begin, end,
                          shapes_[shape].bind_gather(source.data + shift_bytes, from,
                                                     message->bytes().data() + begin, {0, bytes})});
        begin = end;
    }
}

Outbox::Outbox(int pathways, SendingHabits habits) : pathways_(pathways), habits_(habits) {
    if (pathways < 1 || pathways > max_pathways)
        throw make_error(ErrorCode::invalid_argument, "pathways is ", pathways,
                         "; it must be 1 to ", max_pathways);
}

void Outbox::open(const std::string& key, int nprocs) {
    Boxes boxes;
    for (int rank = 0; rank < nprocs; ++rank) boxes.push_back(std::make_shared<Box>());
    const std::lock_guard lock(lock_);
    boxes_.emplace(key, std::move(boxes));
}

void Outbox::pack(const std::string& key, std::uint64_t place, std::uint32_t array,
                  std::span<const Outgoing> outgoing, SourceMemory source, std::int64_t number) {
    const Boxes boxes = boxes_of(key);
    std::vector<Outgoing::Piece> pieces;
    // All that can fail.
    for (const Outgoing& one : outgoing) {
        Box& box = *boxes.at(static_cast<std::size_t>(one.peer()));
        one.bind(source, box.memory(static_cast<std::size_t>(one.bytes())), pieces);
    }
    for (const auto& [peer, message, begin, end, pack_piece] : pieces) {
        Box& box = *boxes[static_cast<std::size_t>(peer)];
        pack_piece();
        message->set_packed(end);
        if (begin == 0)
            box.put(place, array, message, number);
        else
            box.tell(News::packs);
    }
}

void Outbox::tell(News news) {
    for (const auto& box : all_boxes()) box->tell(news);
}

void Outbox::forget_steps(const std::string& key, std::int64_t begin, std::int64_t end) {
    for (const auto& box : boxes_of(key))
        box->forget(static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end));
}

void Outbox::end(const std::string& key) {
    for (const auto& box : boxes_of(key)) box->end_all();
}

void Outbox::forget(const std::string& key) {
    const Boxes boxes = boxes_of(key);
    {
        const std::lock_guard lock(lock_);
        boxes_.erase(key);
    }
    for (const auto& box : boxes) box->end_all();
}

void Outbox::serve(const Connection& connection, const std::string& key, std::int64_t rank,
                   std::int64_t pathway, TakenCall taken) {
    if (pathway < 0 || pathway >= pathways_)
        throw make_error(ErrorCode::io, "the connection names pathway ", pathway,
                         ", which the stream does not have");
    const Boxes boxes = boxes_of(key);
    if (boxes.empty())
        throw Error(ErrorCode::io, "the connection names a consumer that is unknown or has left");
    if (rank < 0 || rank >= static_cast<std::int64_t>(boxes.size()))
        throw make_error(ErrorCode::io, "the connection names process ", rank,
                         ", which the consumer does not have");
    DataSender(connection, *boxes[static_cast<std::size_t>(rank)], static_cast<int>(pathway),
               pathways_, habits_, bytes_sent_, std::move(taken))
        .serve();
}

Outbox::Boxes Outbox::boxes_of(const std::string& key) {
    const std::lock_guard lock(lock_);
    const auto found = boxes_.find(key);
    return found != boxes_.end() ? found->second : Boxes();
}

std::vector<std::string> Outbox::keys() {
    const std::lock_guard lock(lock_);
    std::vector<std::string> names;
    for (const auto& [key, boxes] : boxes_) names.push_back(key);
    return names;
}

Outbox::Boxes Outbox::all_boxes() {
    const std::lock_guard lock(lock_);
    Boxes all;
    for (const auto& [key, boxes] : boxes_) all.insert(all.end(), boxes.begin(), boxes.end());
    return all;
}

void Outbox::free_all() {
    for (const auto& box : all_boxes()) {
        box->tell(News::frees);
        box->forget(0, std::numeric_limits<std::uint64_t>::max());
        box->free_unused();
    }
}

void Outbox::free_unused() {
    for (const auto& box : all_boxes()) box->free_unused();
}

std::uint64_t Outbox::bytes_kept() {
    std::uint64_t bytes = 0;
    for (const auto& box : all_boxes()) bytes += box->bytes_kept();
    return bytes;
}

std::uint64_t Outbox::bytes_held() {
    std::uint64_t bytes = 0;
    for (const auto& box : all_boxes()) bytes += box->bytes_held();
    return bytes;
}

}  // namespace datamover::stream
