// SPDX-License-Identifier: BSD-3-Clause
// Producer: sends the arrays of a distributed program, step by step. Its processes agree on every
// call: SaidCall is what each reports of its own, in one exchange. Its own threads serve the
// consumers between calls.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "datamover/advanced/address_relation.hpp"
#include "datamover/layout.hpp"
#include "datamover/memory_layout.hpp"
#include "datamover/motion_plan.hpp"
#include "datamover/stream_options.hpp"
#include "stream/sender/audience.hpp"
#include "stream/sender/outbox.hpp"
#include "stream/sender/places.hpp"
#include "stream/sender/reception.hpp"
#include "stream/wire/endpoints.hpp"
#include "stream/wire/together.hpp"

namespace datamover::stream {

/// A wrong call is known to be one by its process alone, and tells only what ends with it.
enum class Call : std::int64_t {
    add = 1,
    decide = 2,
    pack = 3,
    close = 4,
    end_step = 5,
    wrong = 6
};

/// What a process that makes a wrong call takes no part in any more.
enum class Ends : std::int64_t { nothing = 0, stream = 1, all_streams = 2 };

/// For which consumer packing failed on a process since its last call, and why.
struct PackingFailure {
    std::string key;
    Error why{ErrorCode::peer_failed, ""};
};

struct SaidCall {
    Call call = Call::wrong;
    Ends ends = Ends::nothing;  ///< of a wrong call
    std::int64_t stream = 0;    ///< the identity of the stream that it is a call of
    /// What all throw, and which has changed nothing: why the call is wrong, or what ended the wait
    /// of process 0.
    std::optional<Error> error;
    std::vector<PackingFailure> failures;
    std::string name;  ///< of the array
    // Of an array that is added.
    std::int64_t layout_sum = 0, elem_bytes = 0;
    std::string layout, dtype;
    // Of an array that is sent.
    std::int64_t sequence = 0;  ///< of the step, among all steps of the stream
    std::int64_t number = 0;    ///< the number that the sending program gave the step
    bool is_done = false;       ///< of process 0, which waits for consumers
    std::optional<Decision> decision;

    /// Writes all of it, or reads it. Throws mismatch as Words.
    void pass(Words& words);
    /// Whether another process makes the same call.
    bool is_same(const SaidCall& other) const;
    /// The call in words.
    std::string text() const;
};

/// Has the others throw `why` from the call that they make, and throws it here; ends the stream for
/// them, or all of its manager. Collective.
[[noreturn]] void end_by_failure(Together& together, const Error& why, Ends ends);

/// This process's part of an array that is sent.
struct SentPart {
    Layout layout;  ///< may be none of an array that was sent before
    const std::byte* data = nullptr;
    const MemoryLayout* memory = nullptr;  ///< offsets from `data`
    AddressBounds bounds;                  ///< what may be read, from `data`
    /// In the words of NumPy, as JSON; empty on a process that holds no element and knows of none.
    std::string dtype;
    std::int64_t elem_bytes = 0;
};

/// The sending end of a stream. Every call but the last ones is collective: where it fails on one
/// process, all throw. Threads take turns, but for closing: a call that waits for consumers then
/// throws invalid_state.
class Producer {
public:
    /// Opens the stream, as one of those that share `places` under names of their own, or by
    /// itself. Throws invalid_argument, io, mismatch.
    Producer(std::shared_ptr<Together> together, const std::string& address, StreamOptions options,
             std::shared_ptr<Places> places = nullptr, std::string name = "");
    /// Ends it at once, without a word to the other processes.
    ~Producer() {
        try {
            stop();
        } catch (const std::bad_alloc&) {  // what is left goes with this object
        }
    }

    /// Sends an array of a step; the memory may be written again afterwards. Without a number it
    /// is a step of its own, after the last one. Throws mismatch, wrong_type, invalid_argument,
    /// unsupported, timeout, invalid_state.
    void send(const std::string& name, const SentPart& part, std::optional<std::int64_t> step);
    /// Nothing more comes of the step that was sent last. Throws mismatch, invalid_state.
    void end_step();
    /// Waits until consumers have what was sent to them, or so long (nothing: for ever); then ends
    /// the stream. A second call does nothing, nor does one in a forked process, whose parent the
    /// connections belong to. Throws mismatch; invalid_argument, after which the stream is open.
    void close(std::optional<double> timeout_seconds);

    /// Has the others throw `why` from the call that they make, and throws it here.
    [[noreturn]] void refuse(const Error& why);

    // Local.

    /// Ends all connections and listens no more.
    void stop();
    bool is_closed() const { return closed_ || places_->have_streams_ended(); }
    /// Where consumers connect.
    const std::string& address() const { return address_; }
    /// "" if everybody may connect.
    const std::string& token() const { return token_; }
    bool knows(const std::string& name) const {
        const std::lock_guard lock(arrays_lock_);
        return find(name) != nullptr;
    }
    std::size_t num_arrays() const {
        const std::lock_guard lock(arrays_lock_);
        return arrays_.size();
    }
    StreamCounters counters() const;
    bool is_first() const { return together_->rank() == 0; }
    /// Null on all processes but the first.
    Audience* audience() const { return audience_.get(); }
    Outbox& outbox() const { return *outbox_; }
    Reception& reception() const { return *reception_; }

private:
    /// Null for one that was not sent yet.
    const SentArray* find(const std::string& name) const {
        const auto found = arrays_.find(name);
        return found == arrays_.end() ? nullptr : &found->second;
    }
    /// What goes from this process to those of one consumer of an array.
    struct Messages {
        MotionPlan plan;
        std::optional<MemoryLayout> memory{};  ///< that they are packed from
        std::vector<Outgoing> outgoing{};
    };
    /// A consumer: what it wants, and has got of a step.
    struct Recipient {
        WantedLayouts wanted;
        std::int64_t place = -1;
        std::size_t packed = 0;              ///< arrays of the step at this place
        std::map<int, Messages> messages{};  ///< by array
    };

    void check_options() const;
    bool is_pressed() const;
    void begin(Listeners& listeners, std::vector<Frame::Sender> senders);
    void require_own_process() const;
    void check_open() const;
    std::int64_t checked(const std::string& name, const SentPart& part,
                         std::optional<std::int64_t> step) const;
    void check_part(const std::string& name, const SentPart& part) const;
    void add(const std::string& name, const SentPart& part);
    SaidCall said_call(Call call) const;
    void settle(const std::vector<SaidCall>& everyone, const std::exception_ptr& here = nullptr);
    void require_same_calls(const std::vector<SaidCall>& everyone);
    [[noreturn]] void refuse_in_turn(const Error& why);
    Decision decide(const SaidCall& call);
    void end_at_once(const char* why);
    void undo(const SaidCall& call);
    void hear(const Decision& decision);
    void pack(const SaidCall& call, const Decision& decision, const SentPart& part);
    void pack_for(const Decision::Place& place, const SentArray& array, const SentPart& part);
    /// On process 0: waits until `wait`, which is called for parts of the round, says that it is
    /// there, and puts to `said` whether it is, or what ended the wait. What interrupts it, which
    /// the others are to hear of before it goes on here.
    template <class Wait>
    std::exception_ptr wait_in_round(SaidCall& said, const Wait& wait);
    void wait_until_taken(std::optional<double> timeout_seconds);
    bool all_close(SaidCall mine, const std::exception_ptr& ended = nullptr);

    const std::shared_ptr<Together> together_;
    const StreamOptions options_;
    const bool has_manager_;  ///< whose other streams may wait for its place
    const std::shared_ptr<Places> places_;
    const std::string name_;  ///< among the streams that share the places
    std::string address_, token_;
    std::int64_t identity_ = 0;  ///< of the address, which no other open stream has
    std::shared_ptr<Audience> audience_;
    std::shared_ptr<Outbox> outbox_;
    std::shared_ptr<void> listed_;  ///< among these, with the audience
    std::unique_ptr<Reception> reception_;
    CallsInTurn calls_;
    /// Beside a call that adds one, others may ask what there is.
    mutable std::mutex arrays_lock_;
    std::map<std::string, SentArray> arrays_;      ///< by name
    std::map<std::string, Recipient> recipients_;  ///< by a consumer's key
    std::vector<PackingFailure> failures_;         ///< that the other processes have not heard of
    std::int64_t sequence_ = -1;
    std::optional<std::int64_t> step_;
    std::set<std::string> names_of_step_;
    std::atomic<bool> closed_{false}, has_stopped_{false};
};

}  // namespace datamover::stream
