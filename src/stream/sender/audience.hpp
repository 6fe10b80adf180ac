// SPDX-License-Identifier: BSD-3-Clause
// Audience: the consumers of a stream and the next decision for each of them, kept on sending
// process 0. The other sending processes receive its decisions in the collective calls of the
// sending program. The processes of a consumer receive them over one control connection each, in
// the same order.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "datamover/error.hpp"
#include "datamover/layout.hpp"
#include "datamover/stream_options.hpp"
#include "stream/sender/places.hpp"
#include "stream/sender/step_queue.hpp"
#include "stream/wire/frames.hpp"
#include "stream/wire/headers.hpp"
#include "stream/wire/plan_between.hpp"

namespace datamover::stream {

/// The layouts that a consumer wants, by an array's name; if there are none, it wants each array,
/// whole, as a step of its own.
using WantedLayouts = std::map<std::string, Layout>;

/// The layout in which an array is sent that is wanted.
inline Layout layout_for(const WantedLayouts& wanted, const SentArray& array) {
    return wanted.empty() ? whole_of(array.layout) : wanted.at(array.name);
}

/// What all sending processes have to know before they pack an array.
struct Decision {
    struct Newcomer {
        std::string key;
        std::int64_t nprocs = 0;
        WantedLayouts wanted;
    };
    using Place = std::pair<std::string, std::int64_t>;  ///< of a consumer's key
    std::vector<Newcomer> joined;
    std::vector<std::string> gone;
    std::vector<Place> dropped;
    std::vector<Place> taken;  ///< all steps before it; of several of a consumer, the last counts
    std::vector<Place> to;
    std::int64_t turn = -1;   ///< of the stream's place among those of its manager
    std::vector<Turn> ended;  ///< of its manager's streams
};

/// The consumers of a stream; called by the sending program and by the threads of connections.
class Audience : public PlaceHolder {
public:
    /// The first decision waits for `least` consumers. Each consumer gets `welcome` with its key
    /// added. It is to enter `places`.
    Audience(Flow flow, std::int64_t least, Frame welcome, std::shared_ptr<Places> places);

    // What the sending program calls.

    /// Takes note of an array before its first step, and answers who asked for arrays.
    void add_array(SentArray array);
    /// Ends the steps before this one, if all processes are known to have gone on to it; whether no
    /// consumer gets more of one of these.
    bool finish_steps_before(std::int64_t sequence, bool is_agreed);
    /// Who gets an array of a step; no consumer is within an earlier one. None: somebody who blocks
    /// has no room yet, or the stream no place, also not after `time`. The array is in no queue
    /// before `carry_out`: until then the call may turn out to be wrong on another process. Throws
    /// invalid_state where the stream can get no place.
    std::optional<Decision> decide(int array, std::int64_t sequence,
                                   std::chrono::milliseconds time);
    /// All processes make the call that was decided on last.
    void carry_out(int array, std::int64_t sequence, std::int64_t number);
    /// The call that was decided on last was wrong: nobody has done anything.
    void take_back();
    /// All processes have done what was decided last, but for consumers that were refused.
    void sent(std::int64_t sequence);
    /// No decision is waited for any more. What was decided last was perhaps not done: consumers
    /// that it concerns are ended by `why`; none after `sent`.
    void withdraw(const Error& why);
    /// Ends a consumer for which a sending process cannot do its part.
    void refuse(const std::string& key, const Error& error);
    /// There is no more for any of them.
    void refuse_all(const Error& why);
    /// No more arrays come.
    void finish_steps();
    /// Waits until every consumer has all its steps, or so long; whether they have.
    bool wait_until_taken(std::chrono::milliseconds time);
    /// Tells all consumers that this was all.
    void end();
    /// What is counted of consumers: each that came gets steps now, or left, or was lost.
    StreamCounters counters();

    // What the threads of connections call.

    /// Serves the control connection of one process of a consumer until it ends. Throws peer_failed
    /// where it does without a word, timeout, io or others where what came makes no sense.
    void serve(std::shared_ptr<const Connection> connection, const Frame& said);

    /// A process of a consumer has taken all steps before a place, as it says over its data
    /// connection. Throws io where it cannot have, and ends the consumer.
    void taken_before(const std::string& key, std::int64_t rank, std::uint64_t place);

    // For tests: consumers at most, and how long one that wants nothing keeps its place from
    // others.
    std::atomic<std::size_t> max_consumers{most_consumers};
    std::atomic<int> subscribe_milliseconds{30'000};

private:
    struct Consumer;
    using ConsumerPtr = std::shared_ptr<Consumer>;
    using LinkPtr = std::shared_ptr<ControlLink>;
    /// How a process left its consumer.
    struct Departure {
        std::int64_t place = 0;  ///< all steps before it were taken
        Error why;
        bool is_orderly = false;
    };

    // What other streams ask that want its place.
    bool is_taken() const override;
    bool is_within_step() const override;
    void end_stalled(Clock::time_point since) override;

    // All of these under the lock.
    std::optional<Decision> decide_now(const SentArray& array, std::int64_t sequence);
    Decision taken_back();
    std::pair<ConsumerPtr, std::int64_t> join(const Frame& said, const LinkPtr& link);
    void make_place();
    ConsumerPtr find(const std::string& key) const;  ///< null: it has gone

    const Flow flow_;
    std::int64_t least_;
    const Frame welcome_;
    const std::shared_ptr<Places> places_;
    std::mutex& lock_;
    std::condition_variable& changed_;
    std::vector<ConsumerPtr> consumers_;  ///< in the order in which they came
    std::set<LinkPtr> links_;
    std::vector<SentArray> arrays_;  ///< by number
    bool has_ended_ = false;
    Decision news_;                ///< that no decision has told yet
    Decision decided_;             ///< last, until all processes have done it
    bool is_carried_out_ = false;  ///< what was decided last
    StreamCounters counts_;        ///< of consumers that are here no more, and of all that came
    std::int64_t sequence_ = -1;   ///< of the step that is being sent
};

}  // namespace datamover::stream
