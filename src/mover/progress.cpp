// SPDX-License-Identifier: BSD-3-Clause
// The progress thread and timeouts.
#include "datamover/progress.hpp"

#include <mpi.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "geometry/make_error.hpp"
#include "mpi/attribute.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/thread_level.hpp"
#include "mpi/waiting.hpp"
#include "progress_from_environment.hpp"
#include "round.hpp"

namespace datamover {
namespace {

/// Kept with MPI_COMM_SELF, which MPI frees before it ends.
struct EndsThread {
    EndsThread() = default;
    ~EndsThread() { ProgressEngine::of_process().end_thread(); }
    EndsThread(const EndsThread&) = delete;
    EndsThread& operator=(const EndsThread&) = delete;
};

/// A program may end MPI with the thread at work, whose next call of MPI would end the program.
void have_mpi_end_the_thread() {
    static std::once_flag once;
    std::call_once(once, [] {
        mpi::Attribute<EndsThread>::keep(MPI_COMM_SELF, std::make_unique<EndsThread>());
    });
}

void start_until_mpi_ends() {
    have_mpi_end_the_thread();
    ProgressEngine::of_process().start_thread();
}

}  // namespace

ProgressThread::ProgressThread() {
    if (!mpi::is_running())
        throw Error(ErrorCode::mpi, "a progress thread needs MPI: call MPI_Init_thread before");
    if (mpi::any_thread_may_call()) have_mpi_end_the_thread();  // else it calls nothing of MPI's
    ProgressEngine::of_process().start_thread();
    runs_ = true;
}

ProgressThread::~ProgressThread() {
    if (runs_) ProgressEngine::of_process().stop_thread();
}

ProgressThread::ProgressThread(ProgressThread&& other) noexcept
    : runs_(std::exchange(other.runs_, false)) {}

ProgressThread& ProgressThread::operator=(ProgressThread&& other) noexcept {
    std::swap(runs_, other.runs_);
    return *this;
}

bool ProgressThread::carries_messages() const {
    return ProgressEngine::of_process().thread_may_send();
}

std::optional<double> default_timeout() {
    return mpi::default_timeout();
}

void set_default_timeout(std::optional<double> seconds) {
    mpi::set_default_timeout(seconds);
}

void start_thread_if_environment_says_so() {
    static const std::string wanted = [] {
        const char* text = std::getenv("DATAMOVER_PROGRESS");
        return std::string(text ? text : "");
    }();
    if (wanted.empty()) return;
    if (wanted != "thread")
        throw make_error(ErrorCode::invalid_argument, "DATAMOVER_PROGRESS is \"", wanted,
                         "\"; it may be \"thread\", or not set");
    static std::once_flag once;
    std::call_once(once, start_until_mpi_ends);
}

}  // namespace datamover
