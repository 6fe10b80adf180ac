// SPDX-License-Identifier: BSD-3-Clause
// MPI windows for one-sided access.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "process_group.hpp"

namespace datamover::mpi {

/// A dynamic window of MPI, open for all operations from the start. It serves all communicators of
/// its processes or some of them, and stays until the program ends: MPI frees windows only in a
/// call of all their processes, and those need not meet again. Ranks are the window's: see
/// GroupWindow.
class Window {
public:
    /// The ranks here of a group's processes; none if it has processes that this window has not.
    std::vector<int> ranks_of(const ProcessGroup& group) const;

    /// Lets the others reach memory here, until the last reference to the result goes. Memory of
    /// the library's is attached with the segment that it lies in. Null where MPI attaches no more,
    /// or has other memory of the same pages attached. Local. Throws mpi.
    std::shared_ptr<const void> attach(const std::byte* begin, std::int64_t bytes);
    /// How much is attached; MPI may have a limit.
    std::size_t regions() const;

    /// Begins to read `bytes` at an address of another process's attached memory or, with `puts`,
    /// to write them there. When the request is complete, what was read is here; of what was
    /// written, only the memory here may be used again. Throws mpi.
    void transfer(bool puts, std::byte* here, std::int64_t bytes, int rank, MPI_Aint address,
                  MPI_Request& request);
    /// Begins to read a word of another process, which comes after what was written there: then a
    /// flush has nothing to wait for.
    void probe(int rank, std::int64_t& word, MPI_Request& request);

    /// Counts what is being written to a process, from put to probe's end.
    void begin_writing(int rank) { writes_[static_cast<std::size_t>(rank)].fetch_add(1); }
    void end_writing(int rank) { writes_[static_cast<std::size_t>(rank)].fetch_sub(1); }
    /// Where nothing is being written to a process: completes there what was, which then is at
    /// hand; else false. Throws mpi.
    bool flush_if_quiet(int rank);
    /// What was written here is seen, and what is written here is seen by others.
    void sync() const;

    /// Not for other communicators any more: operations were given up in it.
    void spoil() { spoiled_.store(true); }

private:
    friend class Windows;
    struct Region {
        const std::byte* end = nullptr;
        std::int64_t uses = 0;
        std::shared_ptr<const void> memory;
    };
    using Regions = std::map<const std::byte*, Region>;

    explicit Window(const ProcessGroup& group);
    void open();
    bool works(const ProcessGroup& group);
    void release(const std::byte* begin);

    MPI_Comm comm_ = MPI_COMM_NULL;  ///< the window's own, never freed
    MPI_Win window_ = MPI_WIN_NULL;
    /// The same on all its processes. 0: not usable; then only the thread that makes it is here.
    std::atomic<std::int64_t> number_{0};
    std::atomic<bool> spoiled_{false};
    std::vector<std::atomic<int>> writes_;  ///< per process
    mutable std::mutex mutex_;
    Regions regions_;  ///< by first address
    memory::AllocationPtr marks_;
    std::shared_ptr<const void> marks_attached_;
    std::vector<MPI_Aint> marks_of_;  ///< per process: where a word lies that may always be read
};

/// The window that a group uses.
struct GroupWindow {
    std::shared_ptr<Window> window;
    std::vector<int> ranks;  ///< in the window, of each process of the group
    std::string why_not;
};

/// The window of a group; made and tried at the first use by these processes, which blocks in MPI
/// until all of them have come. Collective. Throws, on all processes, unsupported if MPI has none
/// or moves wrong data, or a process has too many windows.
const GroupWindow& window_of(const ProcessGroup& group);

}  // namespace datamover::mpi
