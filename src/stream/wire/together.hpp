// SPDX-License-Identifier: BSD-3-Clause
// Together: agreement among the processes at one end of a stream, for one process or many, with MPI
// or without.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "datamover/error.hpp"
#include "geometry/interruption.hpp"
#include "geometry/make_error.hpp"
#include "stream/wire/connection.hpp"
#include "stream/wire/words.hpp"

namespace datamover::stream {

/// The processes of the sending end. Here it is one, without MPI; a group of several overrides all.
class Together {
public:
    using Numbers = std::vector<std::int64_t>;

    Together() = default;
    virtual ~Together() = default;
    Together(const Together&) = delete;
    Together& operator=(const Together&) = delete;

    virtual int rank() const { return 0; }
    virtual int size() const { return 1; }
    /// Whether there is nobody to agree with.
    virtual bool is_alone() const { return size() == 1; }
    /// All processes call it; if any brings an error, all throw that of the lowest rank.
    virtual void agree(const std::optional<Error>& mine) {
        if (mine) throw *mine;
    }
    /// Collective: what every process brings, in order of rank; as many numbers as each likes.
    virtual std::vector<Numbers> gather(const Numbers& mine) { return {mine}; }
    /// Called every `look_time` by whoever waits: lets go on what else this process has under way,
    /// throws where the wait has to end. Local.
    virtual void look_around() { check_interrupted(); }
    /// Throws where a wait has to end since the user interrupts it. Local.
    virtual void check_interrupted() {}
    virtual std::chrono::milliseconds look_time() const { return stream::look_time; }
};

/// A timeout in seconds that a caller passed; infinity: none. Throws invalid_argument if it is
/// negative or not a number.
inline void check_seconds(const std::optional<double>& seconds) {
    if (seconds && !(*seconds >= 0))
        throw make_error(ErrorCode::invalid_argument, "timeout is ", *seconds,
                         " s; it must not be negative");
}

/// What a call throws: as an error that others can be told, and what interrupts it, if that does.
struct Failure {
    std::optional<Error> error;
    std::exception_ptr interruption;
};

/// What `work` throws, if anything. Local.
template <class Work>
Failure failure_of(const Together& together, Work&& work) {
    const auto failed = [&together](ErrorCode code, const auto&... how) {
        return make_error(code, "process ", together.rank(), how...);
    };
    try {
        work();
    } catch (const Interruption&) {
        return {failed(ErrorCode::peer_failed, " was interrupted"), std::current_exception()};
    } catch (const Error& error) {
        return {error, nullptr};
    } catch (const std::bad_alloc&) {
        return {failed(ErrorCode::no_memory, " ran out of memory"), nullptr};
    } catch (const std::exception& error) {
        return {failed(ErrorCode::peer_failed, " failed: ", error.what()), nullptr};
    }
    return {};
}

/// Throws mismatch, the same on all processes, if one of them passed another value than process 0.
/// The values are those of all processes, by rank.
inline void require_same(std::string_view what, const std::vector<std::string>& values,
                         std::string_view verb = "passed") {
    const auto other = std::ranges::find_if(values, [&](const auto& v) { return v != values[0]; });
    if (other != values.end())
        throw Error(ErrorCode::mismatch,
                    difference_text(verb, what, 0, values[0], other - values.begin(), *other));
}

using Deadline = std::optional<Clock::time_point>;

inline Deadline deadline_after(std::optional<double> seconds) {
    if (!seconds) return std::nullopt;
    return Clock::now() + clock_time(*seconds);
}

inline bool is_over(const Deadline& deadline) {
    return deadline && Clock::now() > *deadline;
}

/// Runs `work` and, whether it throws or not, agrees with all processes on the outcome. What
/// interrupts it goes on here after the others know. Collective.
template <class Work>
void collectively(Together& together, const Work& work) {
    const auto [error, interruption] = failure_of(together, work);
    try {
        together.agree(error);
    } catch (...) {
        if (interruption) std::rethrow_exception(interruption);
        throw;
    }
}

/// Has all processes have what `pass`, which is called with Words, passes on process 0. Collective.
template <class Pass>
void share_of_first(Together& together, const Pass& pass) {
    Words mine;
    if (together.rank() == 0) pass(mine);
    Words said(together.gather(mine.numbers()).front(), Words::Writer::same_end);
    pass(said);
    said.require_end();
}

/// The values of all processes, by rank, which have a member `pass` that passes Words. Collective.
/// Throws mismatch where another process makes another call.
template <class Value>
std::vector<Value> gather_values(Together& together, Value mine) {
    Words words;
    mine.pass(words);
    std::vector<Value> values;
    for (const Together::Numbers& numbers : together.gather(words.numbers())) {
        Words said(numbers, Words::Writer::same_end);
        values.emplace_back().pass(said);
        said.require_end();
    }
    return values;
}

/// One call at a time.
class CallsInTurn {
public:
    /// A call that has its turn.
    class Turn {
    public:
        /// Waits for calls of other threads. Throws invalid_state where this thread is in one,
        /// whose wait a signal handler interrupts; and what an interruption throws.
        Turn(CallsInTurn& calls, Together& together) : calls_(calls) {
            if (calls.is_of_this_thread())
                throw Error(ErrorCode::invalid_state,
                            "the stream cannot be used in a signal handler that interrupts one of "
                            "its calls");
            while (!calls.lock_.try_lock_for(together.look_time())) together.check_interrupted();
            calls.caller_ = std::this_thread::get_id();
        }
        ~Turn() {
            calls_.caller_ = std::thread::id();
            calls_.lock_.unlock();
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

    private:
        CallsInTurn& calls_;
    };

    /// The turn, if no thread has it.
    std::unique_lock<std::timed_mutex> turn_if_free() {
        if (is_of_this_thread()) return {};
        return {lock_, std::try_to_lock};
    }

private:
    bool is_of_this_thread() const { return caller_ == std::this_thread::get_id(); }

    std::timed_mutex lock_;
    std::atomic<std::thread::id> caller_{};
};

}  // namespace datamover::stream
