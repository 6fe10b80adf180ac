// SPDX-License-Identifier: BSD-3-Clause
// IncomingSteps: assembles the steps of one receiving process from the stream's announcements and
// from the data of the sending processes. It blocks only while it connects. It holds memory only
// for the steps that were granted.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <poll.h>

#include "datamover/error.hpp"
#include "stream/receiver/incoming_data.hpp"
#include "stream/wire/frames.hpp"

namespace datamover::stream {

/// A step whose messages are all here.
struct ArrivedStep {
    std::uint64_t place = 0;
    std::int64_t number = 0;
    std::vector<std::pair<IncomingArray*, ArrayMessages>> arrays;
};

/// How the stream goes about its steps.
struct StreamHabits {
    /// Sending processes send what they have, without its being announced first.
    bool goes_ahead = false;
    /// It waits for steps to be taken that could be many more by its credits.
    bool is_pressed = false;
    /// It announces no step that has all arrays that are wanted, where each was in one that it has
    /// announced: their messages say what there is to say.
    bool tells_by_messages = false;
};

class IncomingSteps {
public:
    using Links = std::vector<std::unique_ptr<DataReceiver>>;
    /// Connects to a sending process, by one or several connections.
    using Dial = std::function<Links(int producer)>;

    /// What is said of them goes over `control`, which must outlive them.
    IncomingSteps(FrameLink& control, int rank, Dial dial)
        : control_(control), rank_(rank), dial_(std::move(dial)) {}

    /// Requests arrays, and grants the stream the first credits; an empty list requests all arrays,
    /// whole, including those that begin later. Memory may be taken for `ahead` steps; 0: the
    /// number that suits the arrays.
    void want(std::vector<WantedArray> wanted, std::int64_t ahead, StreamHabits habits);

    /// Whether the next call of take_in with `may_connect` connects.
    bool lacks_links() const { return lacks_links_; }
    /// Adds what to wait for.
    void add_to(std::vector<pollfd>& waiting) const;
    /// Takes in what has come over connections that were waited for. With `may_connect`, connects
    /// to sending processes of announced arrays. Throws as DataReceiver::receive; io where what the
    /// stream says makes no sense; the error that it says it had; mismatch, wrong_type.
    void take_in(const std::vector<pollfd>& waiting, bool may_connect);
    /// Ends the connections to sending processes. From now on, of what the stream says nothing
    /// counts but why they ended, which take_in throws.
    void end_data();
    /// peer_failed where a sending process has ended its connection within a step, or although more
    /// steps come that only messages tell of, unless the stream says soon that it has ended, too.
    std::optional<Error> lost() const;

    /// The next step, with all its messages.
    std::optional<ArrivedStep> next();
    /// The new memory that an array comes in, with all elements of this process's part.
    std::shared_ptr<std::byte> unpack_new(std::pair<IncomingArray*, ArrayMessages>& arrived);
    /// Takes note that a step was unpacked; another one may come for it.
    void taken(const ArrivedStep& step);
    /// Whether it may be said later what was taken, together with what is taken next. Not for long:
    /// the stream keeps it so long.
    bool may_say_later() const;
    /// Says what was taken; to be called before anybody waits, or soon after.
    void say_taken();
    /// The place behind all steps that were taken.
    std::uint64_t taken_before() const { return taken_; }
    /// Whether no more steps come.
    bool is_over() const {
        return has_ended_ && ready_.empty() && next_ >= places_ &&
               std::ranges::none_of(coming_, [](const auto& entry) {
                   return entry.second.stage == Stage::announced;
               });
    }
    /// Throws mismatch where the stream sent others than the arrays that were wanted, none of them.
    void check_names() const;
    bool has_ready() const { return !ready_.empty(); }
    /// Whether the stream has confirmed to the first process what is wanted, or has ended.
    bool is_subscribed() const { return is_subscribed_ || has_ended_; }
    /// Whether the stream has told why its connections end.
    bool was_told() const { return was_told_; }

    /// By number.
    const std::map<std::uint32_t, SentArray>& known() const { return known_; }
    /// Asks which arrays there are, unless an answer is on its way.
    void ask_for_arrays();
    /// Whether the stream has answered that.
    bool arrays_are_known() const { return arrays_are_known_ || has_ended_; }
    std::uint64_t dropped() const { return dropped_; }

    /// The message that a chunk belongs to. Null: it is not known yet whether there is such a
    /// message. Throws peer_failed where there is none.
    std::shared_ptr<IncomingMessage> find(int producer, const ChunkHeader& chunk);
    /// One is whole.
    void finished(std::uint64_t place) { ++coming_[place].finished; }

private:
    /// Of a step that has not been taken: it is known from messages alone, or announced, or all of
    /// it was handed over.
    enum class Stage { coming, announced, delivered };
    struct Coming {
        Stage stage = Stage::coming;
        std::int64_t number = no_number;                ///< said by its messages or when announced
        std::map<std::uint32_t, ArrayMessages> arrays;  ///< that have come
        std::vector<std::uint32_t> announced;           ///< arrays
        std::size_t messages = 0;  ///< of all sending processes and announced arrays
        std::size_t finished = 0;  ///< messages
    };

    /// Arrays that the program has given back are kept for the next steps, of a size so many.
    static constexpr std::size_t most_unused_arrays = 4;

    void hear(Frame& said);
    void connect();
    void want_whole(const SentArray& known);
    void learn(SentArray known);
    void begin(std::uint32_t number, const WantedArray& wanted);
    void look_further_ahead();
    void say_credit(std::uint64_t steps) const;
    void resume_paused();
    void hear_of_step(Frame& said);
    bool is_told_by_messages() const;
    void announce_what_came(std::uint64_t before = 0);
    void announce(std::uint64_t place, std::int64_t number, std::vector<std::uint32_t> arrays);
    void deliver();
    std::optional<int> cut_by(Coming& step) const;
    void grant();
    void grant_to(DataReceiver& link) const;
    const WantedArray* wanted_of(const std::string& name) const;

    FrameLink& control_;
    const int rank_;
    const Dial dial_;
    /// Which outlive the messages.
    const std::shared_ptr<MemoryPool> message_pool_ = std::make_shared<MemoryPool>(),
                                      array_pool_ =
                                          std::make_shared<MemoryPool>(most_unused_arrays);
    std::vector<WantedArray> wanted_;
    std::uint64_t ahead_ = 0;
    StreamHabits habits_;
    bool suits_arrays_ = false, takes_all_ = false;
    std::map<std::uint32_t, SentArray> known_;
    std::map<std::uint32_t, std::unique_ptr<IncomingArray>> begun_;  ///< of what is wanted
    std::map<int, Links> links_;                                     ///< by sending process
    std::uint64_t taken_ = 0;
    std::map<std::uint64_t, Coming> coming_;  ///< by place
    std::set<std::uint32_t> arrays_announced_;
    std::uint64_t next_ = 0;    ///< place behind all that were announced
    std::uint64_t places_ = 0;  ///< of steps that come, as far as is known
    std::deque<ArrivedStep> ready_;
    std::uint64_t unsaid_ = 0;        ///< steps taken
    std::uint64_t unsaid_bytes_ = 0;  ///< of one sending process, at most
    std::atomic<std::uint64_t> dropped_{0};
    bool has_ended_ = false, asks_for_arrays_ = false, arrays_are_known_ = false;
    bool was_told_ = false, is_subscribed_ = false, awaits_reason_ = false;
    bool lacks_links_ = false;   ///< to sending processes of announced arrays
    std::optional<int> cut_by_;  ///< a sending process, the step that is to be handed over next
};

}  // namespace datamover::stream
