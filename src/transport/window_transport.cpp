// SPDX-License-Identifier: BSD-3-Clause
// The transports "get" and "put": one-sided operations of MPI. On request only.
//
// One side of a pair, the host, has memory attached to a window; the other, the caller, reads or
// writes it. For each chunk the host tells the address where it is, or may be put ("ready"), and
// the caller answers with an empty message when it has been moved ("done"). Both kinds of messages
// come in the order of the chunks. So hosts decide alone whether a chunk lies in the array or in a
// buffer, and nobody accesses memory of one who has not started.
//
// A put is complete at the host only after a flush, which blocks until the host's MPI has answered.
// So it is called when a word that was read from there after the put has come: then it has nothing
// to wait for, also where the host has died or computes meanwhile.
#include <algorithm>
#include <span>
#include <utility>

#include "geometry/make_error.hpp"
#include "memory/cache_lines.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"
#include "mpi/window.hpp"
#include "transport.hpp"

namespace datamover::transport {
namespace {

/// Chunks of one pair under way at the same time where no buffers are needed.
constexpr std::size_t unbuffered_window_width = 8;
/// More of arrays is not attached: MPI may have a limit, and buffers need some.
constexpr std::size_t most_regions_of_arrays = 16;
constexpr std::int64_t address_bytes = sizeof(std::int64_t);

/// What a chunk on its way waits for next.
enum class Stage {
    idle,
    listening,  ///< for the other side's message
    moving,
    probing,   ///< a put's
    settling,  ///< the flush of a put
    moved,     ///< to be told after those before it
    telling,
};

/// Room for a chunk on its way, and its two requests: what this process tells, and what it waits
/// for.
struct Place {
    std::size_t pair = 0, chunk = 0;
    Stage stage = Stage::idle;
    std::byte* buffer = nullptr;  ///< null: straight from or into the array
    int open = 0;                 ///< of a host's two requests, those that have not ended

    bool is_moving() const { return stage == Stage::moving || stage == Stage::probing; }
    std::byte* memory(const PairProgram& program) const {
        return buffer ? buffer : program.in_place(chunk);
    }
};

/// One direction of one pair.
struct WindowPair {
    std::int64_t peer = 0;
    int target = 0;  ///< the peer's rank in the window
    bool sends = false, hosts = false;
    PairProgram program;
    /// `width` places; before they are made, as many as there may be where buffers are needed.
    std::size_t first_place = 0, width = 1;
    std::size_t posted = 0, moved = 0, completed = 0;

    bool complete() const { return completed == program.chunks(); }
};

/// What MPI may look at while a round is under way.
struct WindowMemory {
    memory::AllocationPtr hosted, own;  ///< buffers that callers access, and those of callers
    std::vector<memory::AllocationPtr> arrays;
    std::vector<std::shared_ptr<const void>> attached;
    struct Words {
        std::int64_t sent = 0, received = 0, probed = 0;
    };
    std::vector<Words> words;  ///< per place
};

/// All chunks where they lie behind each other in an array, or nothing.
std::span<const std::byte> span_in_place(const PairProgram& program) {
    const std::byte* const begin = program.in_place(0);
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < program.chunks(); ++i) {
        if (!begin || program.in_place(i) != begin + bytes) return {};
        bytes += program.chunk_bytes(i);
    }
    return {begin, static_cast<std::size_t>(bytes)};
}

/// Whether what goes either way lies in the library's memory as in the messages, which then is
/// kept. An array of the user's would go when the user says, also while MPI, after a failure, still
/// reads or writes it: one-sided operations cannot be cancelled.
bool keep_array(const PairProgram& program, WindowMemory& memory) {
    for (std::size_t i = 0; i < program.chunks(); ++i) {
        const std::byte* begin = program.in_place(i);
        if (!begin) return false;
        auto kept = memory::SegmentPool::of_process().find(begin, begin + program.chunk_bytes(i));
        if (!kept) return false;
        if (memory.arrays.empty() || memory.arrays.back() != kept)
            memory.arrays.push_back(std::move(kept));
    }
    return true;
}

/// Attaches an array where all chunks lie behind each other, and MPI does.
bool attach_array(const PairProgram& program, WindowMemory& memory, mpi::Window& window) {
    const auto span = span_in_place(program);
    if (span.empty() || window.regions() >= most_regions_of_arrays) return false;
    auto attached = window.attach(span.data(), std::ssize(span));
    if (!attached) return false;
    memory.attached.push_back(std::move(attached));
    return true;
}

class WindowTransport final : public Transport {
public:
    /// `puts`: the sender writes, else the receiver reads.
    WindowTransport(const BindContext& context, const std::vector<Pair>& pairs, bool puts)
        : group_(context.group),
          puts_(puts),
          ready_tag_(context.tag()),
          memory_(std::make_shared<WindowMemory>()) {
        for (const Pair& pair : pairs) {
            WindowPair made;
            made.peer = pair.peer;
            made.sends = pair.sends();
            made.hosts = pair.sends() != puts_;
            made.width = static_cast<std::size_t>(context.buffers);
            made.program = context.message_program(pair, {context.chunk_bytes});
            add_line(context, pair, made.program);
            pairs_.push_back(std::move(made));
        }
    }

    ~WindowTransport() override {
        for (std::size_t i = 0; i < places_.size(); ++i) {
            is_in_flight_ |= !requests_.free(2 * i);
            // One-sided operations can neither be cancelled nor their requests freed.
            is_in_flight_ |= places_[i].is_moving() || !requests_.free(2 * i + 1);
        }
        if (!is_in_flight_) return;
        group_->abandon(memory_);
        if (!window_) return;
        window_->spoil();
        for (const Place& place : places_)
            if (puts_ && place.is_moving()) window_->end_writing(pairs_[place.pair].target);
    }

    void all_have_bound() override {
        // A process has no pair with itself here, and some MPIs make no window for one process.
        if (group_->size() == 1) return;
        const mpi::GroupWindow& known = mpi::window_of(*group_);
        window_ = known.window;
        for (WindowPair& pair : pairs_)
            pair.target = known.ranks[static_cast<std::size_t>(pair.peer)];
        mpi::collectively(*group_, [&] { prepare(); });
    }

    void start() override {
        complete_ = 0;
        is_in_flight_ = !pairs_.empty();
        for (WindowPair& pair : pairs_) {
            pair.posted = pair.moved = pair.completed = 0;
            post(pair);
        }
    }

    Progress progress() override {
        const auto ended = requests_.ended();
        for (const int number : ended) end(static_cast<std::size_t>(number));
        const bool settled = puts_ && settle();
        if (complete_ == pairs_.size()) {
            is_in_flight_ = false;
            return Progress::complete;
        }
        return !ended.empty() || settled ? Progress::some : Progress::none;
    }

    bool needs_polls() const override { return true; }

private:
    bool waits_for(std::size_t i) const override { return !pairs_[i].complete(); }

    /// Attaches arrays and buffers, makes places.
    void prepare() {
        std::vector<std::int64_t> buffer_bytes;  // per pair; 0: in place
        std::int64_t hosted_bytes = 0, own_bytes = 0;
        for (WindowPair& pair : pairs_) {
            const bool direct = keep_array(pair.program, *memory_) &&
                                (!pair.hosts || attach_array(pair.program, *memory_, *window_));
            pair.width = std::clamp<std::size_t>(pair.program.chunks(), 1,
                                                 direct ? unbuffered_window_width : pair.width);
            buffer_bytes.push_back(direct ? 0
                                          : memory::whole_lines(pair.program.most_chunk_bytes()));
            (pair.hosts ? hosted_bytes : own_bytes) +=
                buffer_bytes.back() * static_cast<std::int64_t>(pair.width);
        }
        if (own_bytes > 0) memory_->own = memory::SegmentPool::allocate_private(own_bytes);
        if (hosted_bytes > 0) {
            memory::AllocationPtr& hosted = memory_->hosted;
            hosted = memory::SegmentPool::of_process().allocate(hosted_bytes);
            if (!hosted->segment) hosted = memory::SegmentPool::allocate_pages(hosted_bytes);
            memory_->attached.push_back(window_->attach(hosted->data, hosted_bytes));
            if (!memory_->attached.back())
                throw make_error(ErrorCode::unsupported, "transport \"", puts_ ? "put" : "get",
                                 "\" cannot carry here: MPI on process ", group_->rank(),
                                 " attaches no more memory to its window");
        }
        for (const auto& buffers : {memory_->hosted, memory_->own})
            extra_bytes_ += buffers ? buffers->bytes : 0;
        std::byte* hosted = memory_->hosted ? memory_->hosted->data : nullptr;
        std::byte* own = memory_->own ? memory_->own->data : nullptr;
        for (std::size_t p = 0; p < pairs_.size(); ++p) {
            WindowPair& pair = pairs_[p];
            pair.first_place = places_.size();
            for (std::size_t i = 0; i < pair.width; ++i) {
                Place place;
                place.pair = p;
                std::byte*& next = pair.hosts ? hosted : own;
                if (buffer_bytes[p] > 0) place.buffer = std::exchange(next, next + buffer_bytes[p]);
                places_.push_back(place);
            }
        }
        memory_->words.resize(places_.size());
        requests_.assign(2 * places_.size());
    }

    /// Starts to send, or to receive, where a chunk is ("ready", sent by the host) or that it has
    /// been moved ("done", sent by the caller).
    void message(std::size_t place, bool tells) {
        const WindowPair& pair = pairs_[places_[place].pair];
        WindowMemory::Words& words = memory_->words[place];
        const bool is_ready = tells == pair.hosts;
        requests_.begin(2 * place + !tells, tells, tells ? &words.sent : &words.received,
                        is_ready ? address_bytes : 0, MPI_BYTE, static_cast<int>(pair.peer),
                        is_ready ? ready_tag_ : ready_tag_ + 1, group_->comm());
    }

    /// Begins chunks, in order, as long as the next one's place is free.
    void post(WindowPair& pair) {
        while (pair.posted < pair.program.chunks()) {
            const std::size_t number = pair.first_place + pair.posted % pair.width;
            Place& place = places_[number];
            if (place.stage != Stage::idle) return;
            place.chunk = pair.posted++;
            place.stage = Stage::listening;
            if (pair.hosts) {
                if (pair.sends && place.buffer) pair.program.pack(place.chunk, place.buffer);
                window_->sync();
                memory_->words[number].sent = mpi::displacement_of(place.memory(pair.program));
                place.open = 2;
                message(number, true);
            }
            message(number, false);
        }
    }

    void end(std::size_t active) {
        const std::size_t number = active / 2;
        Place& place = places_[number];
        WindowPair& pair = pairs_[place.pair];
        const bool has_told = active % 2 == 0;
        if (pair.hosts) {
            if (!has_told && !pair.sends) {  // the caller has moved a chunk here
                window_->sync();
                if (place.buffer) pair.program.unpack(place.chunk, place.buffer);
            }
            if (--place.open == 0) finish(pair, place);
        } else if (has_told) {
            finish(pair, place);
        } else if (place.stage == Stage::listening) {
            move(pair, number);
        } else if (!puts_) {
            if (place.buffer) pair.program.unpack(place.chunk, place.buffer);
            has_moved(pair, place);
        } else if (place.stage == Stage::moving) {
            place.stage = Stage::probing;
            window_->probe(pair.target, memory_->words[number].probed, requests_[2 * number + 1]);
        } else {
            place.stage = Stage::settling;
            window_->end_writing(pair.target);
        }
    }

    void move(const WindowPair& pair, std::size_t number) {
        Place& place = places_[number];
        place.stage = Stage::moving;
        if (puts_) {
            window_->begin_writing(pair.target);
            if (place.buffer) pair.program.pack(place.chunk, place.buffer);
        }
        const auto address = static_cast<MPI_Aint>(memory_->words[number].received);
        window_->transfer(puts_, place.memory(pair.program), pair.program.chunk_bytes(place.chunk),
                          pair.target, address, requests_[2 * number + 1]);
    }

    /// Flushes what has been put; true where anything was.
    bool settle() {
        bool any = false;
        for (Place& place : places_) {
            if (place.stage != Stage::settling) continue;
            WindowPair& pair = pairs_[place.pair];
            if (!window_->flush_if_quiet(pair.target)) continue;
            has_moved(pair, place);
            any = true;
        }
        return any;
    }

    /// Tells the host what has moved, in the order of the chunks.
    void has_moved(WindowPair& pair, Place& moved) {
        moved.stage = Stage::moved;
        while (pair.moved < pair.program.chunks()) {
            const std::size_t number = pair.first_place + pair.moved % pair.width;
            Place& place = places_[number];
            if (place.stage != Stage::moved || place.chunk != pair.moved) return;
            place.stage = Stage::telling;
            ++pair.moved;
            message(number, true);
        }
    }

    void finish(WindowPair& pair, Place& place) {
        place.stage = Stage::idle;
        ++pair.completed;
        complete_ += pair.complete();
        post(pair);
    }

    mpi::ProcessGroupPtr group_;
    bool puts_;
    int ready_tag_;  ///< the next one is that of "done"
    std::shared_ptr<WindowMemory> memory_;
    std::shared_ptr<mpi::Window> window_;
    std::vector<WindowPair> pairs_;
    std::vector<Place> places_;
    mpi::Requests requests_;    ///< two per place
    std::size_t complete_ = 0;  ///< pairs that are through in this round
    bool is_in_flight_ = false;
};

}  // namespace

// All processes bind these, since MPI makes windows together.

extern const TransportKind get_kind{
    .name = "get",
    .memory = MessageMemory::buffers,
    .takes = AcceptedOption::chunk_bytes,
    .sends_messages = true,
    .reason = always("the receiver reads by itself"),
    .bind = bound_as<WindowTransport, false>,
    .everyone = true,
};

extern const TransportKind put_kind{
    .name = "put",
    .memory = MessageMemory::buffers,
    .takes = AcceptedOption::chunk_bytes,
    .sends_messages = true,
    .reason = always("the sender writes by itself"),
    .bind = bound_as<WindowTransport, true>,
    .everyone = true,
};

}  // namespace datamover::transport
