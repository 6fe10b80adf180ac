// SPDX-License-Identifier: BSD-3-Clause
// Benchmark of all transports, compared with hand-written messages: redistributions, halos,
// ping-pongs.
// Arguments: the file of cases, seconds per case, owner of the memory that the movers use (library
// or user).
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "datamover/mover.hpp"
#include "memory/segment_pool.hpp"
#include "process_contest.hpp"
#include "transport/transport.hpp"
#include "transports_messages.hpp"
#include "transports_pattern.hpp"

namespace {

using bench::ArrayMotion;
using bench::HandWritten;
using bench::Pattern;
using bench::Piece;
using bench::ProcessContest;
using bench::StepArrays;
using bench::Transfer;
using bench::Way;
using datamover::Array;
using datamover::ArrayPart;
using datamover::Layout;
using datamover::Mover;
using datamover::PlannedArrays;

constexpr std::byte untouched{0xFF};

/// The arrays of a motion, in the library's memory or as a program has them.
struct Arrays {
    ArrayPart source, destination;

    static std::size_t bytes(const ArrayPart& part) {
        return static_cast<std::size_t>(part.memory.end_bytes);
    }
};

ArrayPart private_part(const Layout& layout, int rank, const ArrayMotion& m) {
    ArrayPart part;
    part.memory = datamover::dense_memory(layout, rank, m.elem_bytes, m.order, m.ghost, m.ghost);
    const auto memory = datamover::memory::SegmentPool::allocate_private(
        std::max<std::int64_t>(1, part.memory.end_bytes));
    part.base = memory->data;
    part.owner = memory;
    part.layout = layout;
    part.elem_bytes = m.elem_bytes;
    return part;
}

ArrayPart library_part(const Layout& layout, MPI_Comm comm, const ArrayMotion& m) {
    const Array array(comm, layout, m.elem_bytes,
                      {datamover::ScalarType::opaque, m.order, m.ghost, m.ghost});
    return array.part();
}

/// One way to keep all arrays of a case, step by step and motion by motion.
class Memory {
public:
    enum class Kind { library, user };

    Memory(MPI_Comm comm, const Pattern& pattern, Kind kind) {
        int rank = 0;
        MPI_Comm_rank(comm, &rank);
        for (const auto& motions : pattern.steps) {
            auto& step = steps_.emplace_back();
            for (const ArrayMotion& m : motions) {
                const auto make = [&](const Layout& layout) {
                    return kind == Kind::library ? library_part(layout, comm, m)
                                                 : private_part(layout, rank, m);
                };
                Arrays& arrays = step.emplace_back();
                arrays.source = make(m.plan.source());
                arrays.destination = m.in_place ? arrays.source : make(m.plan.destination());
            }
        }
    }

    const std::vector<std::vector<Arrays>>& steps() const { return steps_; }

    StepArrays addresses(std::size_t step) const {
        StepArrays made;
        for (const Arrays& arrays : steps_[step]) {
            made.source.push_back(arrays.source.base);
            made.destination.push_back(arrays.destination.base);
        }
        return made;
    }

    std::vector<PlannedArrays> planned(std::size_t step,
                                       const std::vector<ArrayMotion>& motions) const {
        std::vector<PlannedArrays> made;
        for (std::size_t m = 0; m < motions.size(); ++m)
            made.push_back(
                {motions[m].plan, {steps_[step][m].source}, {steps_[step][m].destination}});
        return made;
    }

private:
    std::vector<std::vector<Arrays>> steps_;
};

/// What lies at a place of an array before anything has moved; never an untouched word.
std::uint32_t value_at(int rank, std::size_t motion, std::int64_t word) {
    constexpr std::uint32_t mixer = 0x9E3779B1;
    const auto n = static_cast<std::uint32_t>(word) * 64u + static_cast<std::uint32_t>(rank) * 8u +
                   static_cast<std::uint32_t>(motion);
    return (n * mixer) & 0x7FFFFFFFu;
}

using Bytes = std::vector<std::byte>;

Bytes initial_source(int rank, std::size_t motion, std::size_t bytes) {
    Bytes data(bytes);
    for (std::size_t at = 0; at + sizeof(std::uint32_t) <= bytes; at += sizeof(std::uint32_t)) {
        const std::uint32_t value =
            value_at(rank, motion, static_cast<std::int64_t>(at / sizeof(std::uint32_t)));
        std::memcpy(data.data() + at, &value, sizeof value);
    }
    return data;
}

/// Offsets of all 4-byte words of a piece, in the order of the message.
std::vector<std::int64_t> words_of(const Piece& piece) {
    std::vector<std::int64_t> words;
    for_each_run(piece, [&](std::int64_t at, std::int64_t bytes) {
        for (std::int64_t i = 0; i < bytes; i += 4) words.push_back(at + i);
    });
    return words;
}

/// What the arrays of this process must hold before and after a call, worked out word by word from
/// what everybody sends.
class Expected {
public:
    Expected(const Pattern& pattern, const Memory& memory, int rank) {
        for (std::size_t s = 0; s < pattern.steps.size(); ++s) {
            auto& step = steps_.emplace_back();
            for (std::size_t m = 0; m < pattern.steps[s].size(); ++m) {
                const Arrays& arrays = memory.steps()[s][m];
                Motion& motion = step.emplace_back();
                motion.in_place = pattern.steps[s][m].in_place;
                motion.source = initial_source(rank, m, Arrays::bytes(arrays.source));
                motion.destination = motion.in_place
                                         ? motion.source
                                         : Bytes(Arrays::bytes(arrays.destination), untouched);
                motion.moved = motion.destination;
            }
            for (const Transfer& t : pattern.transfers(s, rank))
                for (const Transfer& theirs : pattern.transfers(s, t.peer))
                    if (theirs.peer == rank) receive(step, t, theirs.sent);
        }
    }

    void clear(const Memory& memory) const {
        each(memory, [](const Motion& motion, const Arrays& arrays) {
            put(motion.source, arrays.source.base);
            put(motion.destination, arrays.destination.base);
        });
    }

    bool right(const Memory& memory) const {
        bool right = true;
        each(memory, [&](const Motion& motion, const Arrays& arrays) {
            right = right &&
                    std::equal(motion.moved.begin(), motion.moved.end(), arrays.destination.base);
        });
        return right;
    }

private:
    struct Motion {
        bool in_place = false;
        Bytes source, destination, moved;
    };

    static void put(const Bytes& bytes, std::byte* to) {
        std::copy(bytes.begin(), bytes.end(), to);
    }

    template <class Visit>
    void each(const Memory& memory, Visit&& visit) const {
        for (std::size_t s = 0; s < steps_.size(); ++s)
            for (std::size_t m = 0; m < steps_[s].size(); ++m)
                visit(steps_[s][m], memory.steps()[s][m]);
    }

    static void receive(std::vector<Motion>& step, const Transfer& transfer,
                        const std::vector<Piece>& sent) {
        if (sent.size() != transfer.received.size())
            throw std::runtime_error("the two sides of a case do not fit each other");
        for (std::size_t i = 0; i < sent.size(); ++i) {
            Motion& motion = step[transfer.received[i].array];
            const auto from = words_of(sent[i]), to = words_of(transfer.received[i]);
            if (from.size() != to.size())
                throw std::runtime_error("the two sides of a case do not fit each other");
            for (std::size_t w = 0; w < from.size(); ++w) {
                const std::uint32_t value =
                    value_at(transfer.peer, transfer.received[i].array, from[w] / 4);
                std::memcpy(motion.moved.data() + to[w], &value, sizeof value);
                if (motion.in_place) std::fill_n(motion.destination.begin() + to[w], 4, untouched);
            }
        }
    }

    std::vector<std::vector<Motion>> steps_;
};

std::int64_t payload_bytes(const Pattern& pattern, int processes) {
    std::int64_t bytes = 0;
    for (std::size_t s = 0; s < pattern.steps.size(); ++s)
        for (int rank = 0; rank < processes; ++rank)
            for (const Transfer& t : pattern.transfers(s, rank))
                for (const Piece& p : t.sent) bytes += p.bytes();
    return bytes;
}

/// The transports that a step takes on this process.
std::string carried_by(const Mover& mover) {
    std::set<std::string> names;
    for (const auto& pair : mover.pairs())
        if (pair.transport != "self") names.insert(pair.transport);
    std::string joined;
    for (const std::string& name : names) joined += (joined.empty() ? "" : "+") + name;
    return joined;
}

/// What measuring found, in microseconds; empty where nothing was measured.
std::string trials_of(const Mover& mover) {
    std::string found;
    for (const auto& trial : mover.trials()) {
        if (!trial.why_not.empty()) continue;
        char text[64];
        std::snprintf(text, sizeof text, " %.1f", trial.seconds * 1e6);
        found += (found.empty() ? "" : ", ") + trial.transport + text;
    }
    return found;
}

/// What `tell` says of each step; once where they are the same.
template <class Tell>
std::string told_by_step(const std::vector<Mover>& movers, Tell&& tell) {
    std::vector<std::string> steps;
    for (const Mover& mover : movers) steps.push_back(tell(mover));
    if (std::equal(steps.begin() + 1, steps.end(), steps.begin())) return steps.front();
    std::string joined;
    for (const std::string& step : steps) joined += (joined.empty() ? "" : "; ") + step;
    return joined;
}

/// Seconds of one call of `work`, repeated for a millisecond, on the slowest process.
template <class Work>
double seconds_of(MPI_Comm comm, Work&& work) {
    constexpr double least_seconds = 1e-3;
    work();
    double begin = MPI_Wtime(), spent = 0;
    int calls = 0;
    for (; spent < least_seconds; spent = MPI_Wtime() - begin, ++calls) work();
    double seconds = spent / calls;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm);
    return seconds;
}

class Field {
public:
    Field(MPI_Comm comm, const Pattern& pattern, double seconds, Memory::Kind movers_memory)
        : comm_(comm),
          pattern_(pattern),
          size_(size_of(comm)),
          rank_(rank_of(comm)),
          own_(comm, pattern, Memory::Kind::user),
          expected_(pattern, own_, rank_),
          contest_(comm, pattern.name, "move", payload_bytes(pattern, size_), seconds) {
        contest_.warm_turns();
        if (movers_memory == Memory::Kind::library) library_.emplace(comm, pattern, movers_memory);
    }

    /// `also`: transports beside those of the library's list, such as "p2p:64K".
    void run(const std::vector<std::string>& also) {
        // "auto" before "measure": later it would use what that found.
        add_mover("auto");
        for (const auto& kind : datamover::transport::transport_kinds())
            if (kind.name != "self") add_mover(kind.name);
        for (const std::string& transport : also) add_mover(transport);
        add_mover("measure");
        for (const auto& [name, way] :
             {std::pair{"manual", Way::manual}, std::pair{"datatypes", Way::datatypes},
              std::pair{"mpi_pack", Way::mpi_pack}, std::pair{"reference", Way::reference}})
            add_by_hand(name, [&, way = way](const auto& transfers, const StepArrays& arrays) {
                return bench::messages(comm_, way, transfers, arrays);
            });
        if (pattern_.steps.size() == 1) {
            add_by_hand("alltoallw", [&](const auto& transfers, const StepArrays& arrays) {
                return bench::one_alltoallw(comm_, transfers, arrays);
            });
            const auto alltoallv = [&](const auto& transfers, const StepArrays& arrays) {
                return bench::one_alltoallv(comm_, transfers, arrays);
            };
            if (alltoallv(pattern_.transfers(0, rank_), own_.addresses(0)))
                add_by_hand("alltoallv", alltoallv);
        }
        contest_.run();
    }

private:
    static int size_of(MPI_Comm comm) {
        int size = 1;
        MPI_Comm_size(comm, &size);
        return size;
    }
    static int rank_of(MPI_Comm comm) {
        int rank = 0;
        MPI_Comm_rank(comm, &rank);
        return rank;
    }

    /// Makes what a contender takes, drops it, and makes it again for use; both are timed once.
    template <class Make>
    auto made_twice(Make&& make) {
        double start = MPI_Wtime();
        auto made = make();
        setup_seconds_ = MPI_Wtime() - start;
        MPI_Barrier(comm_);
        start = MPI_Wtime();
        made.clear();
        free_seconds_ = MPI_Wtime() - start;
        MPI_Allreduce(MPI_IN_PLACE, &free_seconds_, 1, MPI_DOUBLE, MPI_MAX, comm_);
        return make();
    }

    void add_mover(const std::string& transport) {
        const Memory& memory = library_ ? *library_ : own_;
        const std::string name = "datamover:" + transport;
        datamover::MoverOptions options;
        options.transport = transport;
        ProcessContest::Facts facts;
        std::string trials;
        contest_.add_made(
            name,
            [&]() -> std::function<void()> {
                auto movers = made_twice([&] {
                    std::vector<Mover> made;
                    for (std::size_t s = 0; s < pattern_.steps.size(); ++s)
                        made.emplace_back(comm_, memory.planned(s, pattern_.steps[s]), options);
                    // The second time the program remembers, and tries nothing.
                    if (trials.empty()) trials = told_by_step(made, trials_of);
                    return made;
                });
                const bool in_a_manner = transport.find(':') != std::string::npos;
                facts = {
                    {"free_seconds", free_seconds_},
                    {"carried_by", in_a_manner ? transport : told_by_step(movers, carried_by)}};
                if (transport == "measure") facts.emplace_back("trials", trials);
                return [movers]() mutable {
                    for (Mover& mover : movers) mover();
                };
            },
            {[&] { expected_.clear(memory); }, [&] { return expected_.right(memory); }},
            [&] { return setup_seconds_; });
        contest_.tell(name, facts);
    }

    template <class Make>
    void add_by_hand(const std::string& name, Make&& make) {
        using Steps = std::vector<std::unique_ptr<HandWritten>>;
        const auto steps = std::make_shared<Steps>(made_twice([&] {
            Steps made;
            for (std::size_t s = 0; s < pattern_.steps.size(); ++s)
                made.push_back(make(pattern_.transfers(s, rank_), own_.addresses(s)));
            return made;
        }));
        const bool moves = name != "reference";
        contest_.add(
            name,
            [steps] {
                for (const auto& step : *steps) step->run();
            },
            {[&] { expected_.clear(own_); },
             [&, moves] { return !moves || expected_.right(own_); }},
            [&] { return setup_seconds_; });
        ProcessContest::Facts facts{{"free_seconds", free_seconds_}};
        if (name == "manual" || name == "mpi_pack") {
            facts.emplace_back("pack_seconds", seconds_of(comm_, [&] {
                                   for (const auto& step : *steps) step->pack();
                               }));
            facts.emplace_back("unpack_seconds", seconds_of(comm_, [&] {
                                   for (const auto& step : *steps) step->unpack();
                               }));
        }
        contest_.tell(name, facts);
    }

    MPI_Comm comm_;
    const Pattern& pattern_;
    int size_, rank_;
    Memory own_;
    std::optional<Memory> library_;
    double setup_seconds_ = 0, free_seconds_ = 0;  ///< of what was made last
    Expected expected_;
    ProcessContest contest_;
};

}  // namespace

int main(int argc, char** argv) {
    return bench::run_program(argc, argv, "transports", [&] {
        std::ifstream in(argc > 1 ? argv[1] : "");
        const double seconds = argc > 2 ? std::atof(argv[2]) : 1;
        const bool users = argc > 3 && std::string(argv[3]) == "user";
        const std::vector<std::string> also(argv + std::min(argc, 4), argv + argc);
        int processes = 1;
        MPI_Comm_size(MPI_COMM_WORLD, &processes);
        while (const auto pattern = bench::read_pattern(in, processes))
            Field(MPI_COMM_WORLD, *pattern, seconds,
                  users ? Memory::Kind::user : Memory::Kind::library)
                .run(also);
    });
}
