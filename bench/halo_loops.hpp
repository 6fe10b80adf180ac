// SPDX-License-Identifier: BSD-3-Clause
// Hand-written loops that fill ghosts between the processes of a node.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "latency_faces.hpp"

namespace bench {

/// How often a process has begun and finished an exchange: in shared memory, each alone in its
/// cache line.
struct ExchangeCounters {
    alignas(64) std::atomic<std::int64_t> entered{0};
    alignas(64) std::atomic<std::int64_t> left{0};
};

/// Who waits for whom around the loops, without MPI: nobody copies before both processes of a pair
/// have begun, nobody goes on before both have copied.
class Meeting {
public:
    /// `all`: the counters of all processes, as this one sees them; it meets `peers` only.
    Meeting(std::vector<ExchangeCounters*> all, int rank, std::set<int> peers)
        : all_(std::move(all)), rank_(rank), peers_(std::move(peers)) {}

    void enter() { mine().entered.store(++round_, std::memory_order_release); }
    void wait_for_peers() const { wait(&ExchangeCounters::entered); }
    void leave() {
        mine().left.store(round_, std::memory_order_release);
        wait(&ExchangeCounters::left);
    }

private:
    ExchangeCounters& mine() { return *all_[static_cast<std::size_t>(rank_)]; }
    void wait(std::atomic<std::int64_t> ExchangeCounters::* count) const;

    std::vector<ExchangeCounters*> all_;
    int rank_;
    std::set<int> peers_;
    std::int64_t round_ = 0;
};

/// The blocks of all processes of a node: their first stored elements, as this one sees them.
struct SharedBlocks {
    BlockGrid grid;
    int rank = 0;
    std::vector<double*> stored;

    double* at(std::int64_t block) const { return stored[static_cast<std::size_t>(block)]; }
};

/// The ways to write it, by name. Each fills all ghosts once per call, and is called by all; the
/// meeting must outlive it.
std::vector<std::pair<std::string, std::function<void()>>> halo_loops(const SharedBlocks& blocks,
                                                                      Meeting& meeting);

}  // namespace bench
