// SPDX-License-Identifier: BSD-3-Clause
// Benchmark of distribution, compared with a counting sort and MPI_Alltoallv.
// Usage: distribute SECONDS {CASE EXAMPLE COUNT}...; EXAMPLE is A, B, C, B-inplace or C-inplace.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "datamover/migration.hpp"
#include "distribute_by_hand.hpp"
#include "distribute_case.hpp"
#include "distribute_oracle.hpp"
#include "process_contest.hpp"

namespace {

using bench::Elements;
using bench::Oracle;

datamover::TargetList targets_of(const std::byte* elements, std::int64_t count,
                                 std::int64_t elem_bytes, std::int64_t offset_bytes) {
    datamover::TargetList targets;
    targets.elems = count;
    targets.data = elements + offset_bytes;
    targets.stride_bytes = elem_bytes;
    return targets;
}

struct Case {
    MPI_Comm comm;
    std::string name;
    Elements elements;
    std::int64_t bytes = 0;  ///< of all processes
    double seconds = 1;

    datamover::TargetList targets() const {
        return targets_of(elements.bytes.data(), elements.count(), elements.elem_bytes,
                          elements.target_offset_bytes);
    }
    datamover::ElementColumn column() const {
        return {elements.bytes.data(), elements.elem_bytes, elements.elem_bytes};
    }
};

/// The last result of a contender, for the check.
struct Result {
    datamover::ElementBuffer memory;
    std::vector<std::byte> own;
    const std::byte* data = nullptr;
    std::int64_t count = 0;
};

bench::ProcessContest::Check check_of(const std::shared_ptr<Result>& result,
                                      const std::shared_ptr<Oracle>& oracle) {
    return {[result] { *result = {}; },
            [result, oracle] { return oracle->right(result->data, result->count); }};
}

void add_copy(bench::ProcessContest& contest, const Case& c) {
    auto copy = std::make_shared<std::vector<std::byte>>(c.elements.bytes.size());
    contest.add("memcpy",
                [copy, &c] { std::memcpy(copy->data(), c.elements.bytes.data(), copy->size()); },
                {[] {}, [copy, &c] { return *copy == c.elements.bytes; }});
}

/// The implementations, and whether in stable order; the name's ending tells.
struct Variant {
    const char* name;
    datamover::CarryOptions how;
};
const Variant variants[] = {
    {"datamover:auto", {"auto", true}},
    {"datamover:partition", {"partition", true}},
    {"datamover:alltoallv", {"alltoallv", true}},
    {"datamover:alltoallw", {"alltoallw", true}},
    {"datamover:sendrecv", {"sendrecv", true}},
    {"datamover:sendrecv-unstable", {"sendrecv", false}},
    {"datamover:sort", {"sort", true}},
    {"datamover:sort-unstable", {"sort", false}},
};
const Variant in_place_variants[] = {
    {"datamover:auto", {"auto", false}},
    {"datamover:partition", {"partition", true}},
    {"datamover:partition-unstable", {"partition", false}},
    {"datamover:alltoallv", {"alltoallv", true}},
    {"datamover:alltoallv-unstable", {"alltoallv", false}},
    {"datamover:sort", {"sort", true}},
    {"datamover:sort-unstable", {"sort", false}},
};

std::int64_t largest(MPI_Comm comm, std::int64_t value) {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_MAX, comm);
    return value;
}

/// Extra memory of the last move, and what it sent, on the process with the most.
bench::ProcessContest::Facts facts_of(MPI_Comm comm, const datamover::Migration& d,
                                      std::int64_t elem_bytes) {
    const auto counters = d.counters();
    const auto elems = static_cast<double>(largest(comm, d.elems()));
    return {
        {"extra_bytes_per_elem",
         static_cast<double>(largest(comm, counters.staged_bytes + counters.plan_bytes)) / elems},
        {"wire_bytes_per_elem",
         static_cast<double>(largest(comm, counters.elems_sent) * elem_bytes) / elems}};
}

void add_ours(bench::ProcessContest& contest, const Case& c,
              const std::shared_ptr<Oracle>& oracle) {
    for (const Variant& variant : variants) {
        auto result = std::make_shared<Result>();
        auto last = std::make_shared<datamover::Migration>();
        contest.add_made(
            variant.name,
            [&]() -> std::function<void()> {
                return [result, last, &c, &variant] {
                    *last = datamover::Migration(c.comm, c.targets());
                    const auto column = c.column();
                    result->memory = {};
                    result->memory = last->move({&column, 1}, variant.how).front();
                    result->count = last->received();
                    result->data = result->memory.data;
                };
            },
            check_of(result, oracle));
        contest.tell(variant.name, facts_of(c.comm, *last, c.elements.elem_bytes));
    }
}

/// What the very first call costs, fresh memory and all: one sample each.
void run_first(const Case& c) {
    bench::ProcessContest contest(c.comm, c.name, "first", c.bytes, 0);
    contest.time_once("datamover:auto", [&] {
        datamover::Migration d(c.comm, c.targets());
        const auto column = c.column();
        d.move({&column, 1});
    });
    contest.time_once("counting_sort_alltoallv", [&] {
        bench::CountingSort by_hand(c.comm, c.elements.elem_bytes);
        std::vector<std::byte> result;
        by_hand.run(c.elements.bytes.data(), c.elements.count(), c.elements.target_offset_bytes,
                    result);
    });
    contest.time_once("memcpy", [&] { std::vector<std::byte> copy(c.elements.bytes); });
}

/// Making the plan alone.
void run_setup(const Case& c) {
    bench::ProcessContest contest(c.comm, c.name, "setup", c.bytes, c.seconds / 4);
    auto d = std::make_shared<datamover::Migration>();
    contest.add("datamover:plan", [d, &c] { *d = datamover::Migration(c.comm, c.targets()); },
                {[] {}, [d, &c] { return d->elems() == c.elements.count(); }});
    contest.run();
}

void run_once(const Case& c) {
    const auto oracle = std::make_shared<Oracle>(c.comm, c.elements);
    bench::ProcessContest contest(c.comm, c.name, "once", c.bytes, c.seconds);
    add_ours(contest, c, oracle);
    auto by_hand = std::make_shared<bench::CountingSort>(c.comm, c.elements.elem_bytes);
    auto result = std::make_shared<Result>();
    contest.add(
        "counting_sort_alltoallv",
        [by_hand, result, &c] {
            result->count = by_hand->run(c.elements.bytes.data(), c.elements.count(),
                                         c.elements.target_offset_bytes, result->own);
            result->data = result->own.data();
        },
        check_of(result, oracle));
    add_copy(contest, c);
    contest.run();
}

/// The plan is there already: what a second array that goes the same way costs.
void run_again(const Case& c) {
    const auto oracle = std::make_shared<Oracle>(c.comm, c.elements);
    bench::ProcessContest contest(c.comm, c.name, "again", c.bytes, c.seconds / 2);
    auto d = std::make_shared<datamover::Migration>(c.comm, c.targets());
    for (const Variant& variant : variants) {
        auto result = std::make_shared<Result>();
        contest.add(
            variant.name,
            [d, result, &c, &variant] {
                const auto column = c.column();
                result->memory = {};
                result->memory = d->move({&column, 1}, variant.how).front();
                result->data = result->memory.data;
                result->count = d->received();
            },
            check_of(result, oracle));
    }
    // One that has only moved in the stable order: else values would be put into another one first.
    auto stable = std::make_shared<datamover::Migration>(c.comm, c.targets());
    auto sent = std::make_shared<datamover::ElementBuffer>();
    const auto column = c.column();
    *sent = stable->move({&column, 1}).front();
    auto home = std::make_shared<datamover::ElementBuffer>(
        stable->allocate(stable->elems() * c.elements.elem_bytes));
    contest.add(
        "datamover:reverse",
        [stable, sent, home, &c] { stable->reverse({sent->data, c.elements.elem_bytes}, *home); },
        {[home] { std::memset(home->data, 0, static_cast<std::size_t>(home->bytes)); },
         [home, &c] {
             return std::memcmp(home->data, c.elements.bytes.data(), c.elements.bytes.size()) == 0;
         }});
    add_copy(contest, c);
    contest.run();
}

/// The elements go to their targets and, in the next call, home again: each call moves as many.
class InPlace {
public:
    explicit InPlace(const Case& c) : c_(c), count_(c.elements.count()), buffer_(c.elements.bytes) {
        buffer_.resize(buffer_.size() * 3 / 2);
    }

    template <class Move>
    void step(Move&& move) {
        const std::int64_t offset = offsetof(bench::Particle, tproc) + (out_ ? 4 : 0);
        count_ = move(buffer_, count_, offset);
        out_ = !out_;
    }

    /// Right after one step out.
    bench::ProcessContest::Check check(const std::shared_ptr<Oracle>& oracle) {
        return {[] {}, [this, oracle] { return oracle->right(buffer_.data(), count_); }};
    }

private:
    const Case& c_;
    std::int64_t count_;
    std::vector<std::byte> buffer_;
    bool out_ = false;
};

void run_in_place(const Case& c) {
    const auto oracle = std::make_shared<Oracle>(c.comm, c.elements);
    bench::ProcessContest contest(c.comm, c.name, "once", c.bytes, c.seconds);
    for (const Variant& variant : in_place_variants) {
        auto ours = std::make_shared<InPlace>(c);
        auto last = std::make_shared<datamover::Migration>();
        contest.add(
            variant.name,
            [ours, last, &c, &variant] {
                ours->step([&](auto& buffer, std::int64_t count, std::int64_t offset) {
                    *last = datamover::Migration(
                        c.comm, targets_of(buffer.data(), count, c.elements.elem_bytes, offset));
                    last->move_in_place(
                        buffer.data(), c.elements.elem_bytes,
                        static_cast<std::int64_t>(buffer.size()) / c.elements.elem_bytes,
                        variant.how);
                    return last->received();
                });
            },
            ours->check(oracle));
        contest.tell(variant.name, facts_of(c.comm, *last, c.elements.elem_bytes));
    }
    auto theirs = std::make_shared<InPlace>(c);
    auto by_hand = std::make_shared<bench::CountingSort>(c.comm, c.elements.elem_bytes);
    contest.add(
        "counting_sort_alltoallv",
        [theirs, by_hand] {
            theirs->step([&](auto& buffer, std::int64_t count, std::int64_t offset) {
                return by_hand->run(buffer.data(), count, offset, buffer);
            });
        },
        theirs->check(oracle));
    add_copy(contest, c);
    contest.run();
}

void run_case(const std::string& name, const std::string& example, std::int64_t count,
              double seconds) {
    Case c{MPI_COMM_WORLD, name, {}, 0, seconds};
    int rank = 0, nprocs = 1;
    MPI_Comm_rank(c.comm, &rank);
    MPI_Comm_size(c.comm, &nprocs);
    if (example == "A")
        c.elements = bench::integers(count, rank, nprocs);
    else if (example.front() == 'B')
        c.elements = bench::particles(count, rank, nprocs);
    else
        c.elements = bench::moved_particles(count, rank, nprocs);
    c.bytes = static_cast<std::int64_t>(c.elements.bytes.size()) * nprocs;
    if (example.ends_with("-inplace")) return run_in_place(c);
    run_first(c);
    run_once(c);
    run_setup(c);
    run_again(c);
}

}  // namespace

int main(int argc, char** argv) {
    return bench::run_program(argc, argv, "distribute", [&] {
        const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
        for (int a = 2; a + 2 < argc; a += 3)
            run_case(argv[a], argv[a + 1], std::atoll(argv[a + 2]), seconds);
    });
}
