// SPDX-License-Identifier: BSD-3-Clause
// How fast does every element get to its process, beside a counting sort with MPI_Alltoallv?
// Usage: distribute SECONDS {CASE EXAMPLE COUNT}...; EXAMPLE is A, B, C or C-inplace.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "datamover/distribution.hpp"
#include "distribute_by_hand.hpp"
#include "distribute_case.hpp"
#include "process_contest.hpp"

namespace {

using bench::Elements;

datamover::TargetList targets_of(const std::byte* elements, std::int64_t count,
                                 std::int64_t elem_bytes, std::int64_t offset_bytes) {
    datamover::TargetList targets;
    targets.elems = count;
    targets.data = elements + offset_bytes;
    targets.stride_bytes = elem_bytes;
    return targets;
}

/// What has to arrive: a sum over all bytes of the elements, kept per target process.
class Oracle {
public:
    Oracle(MPI_Comm comm, const Elements& elements) : elements_(elements) {
        int nprocs = 1, rank = 0;
        MPI_Comm_size(comm, &nprocs);
        MPI_Comm_rank(comm, &rank);
        std::vector<unsigned long long> sums(static_cast<std::size_t>(2 * nprocs), 0);
        for (std::int64_t i = 0; i < elements.count(); ++i) {
            const std::byte* e = elements.bytes.data() + i * elements.elem_bytes;
            std::int32_t target;
            std::memcpy(&target, e + elements.target_offset_bytes, 4);
            sums[static_cast<std::size_t>(2 * target)] += digest(e);
            ++sums[static_cast<std::size_t>(2 * target + 1)];
        }
        MPI_Allreduce(MPI_IN_PLACE, sums.data(), 2 * nprocs, MPI_UNSIGNED_LONG_LONG, MPI_SUM, comm);
        sum_ = sums[static_cast<std::size_t>(2 * rank)];
        count_ = static_cast<std::int64_t>(sums[static_cast<std::size_t>(2 * rank + 1)]);
    }

    bool right(const std::byte* data, std::int64_t count) const {
        unsigned long long sum = 0;
        for (std::int64_t i = 0; i < count; ++i) sum += digest(data + i * elements_.elem_bytes);
        return count == count_ && sum == sum_;
    }

private:
    unsigned long long digest(const std::byte* e) const {
        unsigned long long value = 1469598103934665603ull;
        for (std::int64_t b = 0; b + 4 <= elements_.elem_bytes; b += 4) {
            std::uint32_t word;
            std::memcpy(&word, e + b, 4);
            value = (value ^ word) * 1099511628211ull;
        }
        return value;
    }

    const Elements& elements_;
    unsigned long long sum_ = 0;
    std::int64_t count_ = 0;
};

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

void add_ours(bench::ProcessContest& contest, const Case& c,
              const std::shared_ptr<Oracle>& oracle) {
    for (const std::string method : {"auto", "alltoallv", "alltoallw", "sendrecv"}) {
        auto result = std::make_shared<Result>();
        contest.add_made(
            "datamover:" + method,
            [&]() -> std::function<void()> {
                return [result, &c, method] {
                    datamover::Distribution d(c.comm, c.targets());
                    const auto column = c.column();
                    result->count = d.received();
                    if (method == "auto") {
                        result->memory = {};
                        result->memory = d.move({&column, 1}).front();
                    } else {
                        result->memory = {};
                        result->memory = d.allocate(d.received() * column.elem_bytes);
                        d.move({&column, 1}, {&result->memory, 1}, {method, true});
                    }
                    result->data = result->memory.data;
                };
            },
            check_of(result, oracle));
    }
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
    auto d = std::make_shared<datamover::Distribution>(c.comm, c.targets());
    auto result = std::make_shared<Result>();
    contest.add(
        "datamover:auto",
        [d, result, &c] {
            const auto column = c.column();
            result->memory = {};
            result->memory = d->move({&column, 1}).front();
            result->data = result->memory.data;
            result->count = d->received();
        },
        check_of(result, oracle));
    auto sent = std::make_shared<datamover::ElementBuffer>();
    const auto column = c.column();
    *sent = d->move({&column, 1}).front();
    auto home =
        std::make_shared<datamover::ElementBuffer>(d->allocate(d->elems() * c.elements.elem_bytes));
    contest.add("datamover:reverse",
                [d, sent, home, &c] { d->reverse({sent->data, c.elements.elem_bytes, 0}, *home); },
                {[home] { std::memset(home->data, 0, static_cast<std::size_t>(home->bytes)); },
                 [home, &c] {
                     return std::memcmp(home->data, c.elements.bytes.data(),
                                        c.elements.bytes.size()) == 0;
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
    auto ours = std::make_shared<InPlace>(c);
    contest.add(
        "datamover:auto",
        [ours, &c] {
            ours->step([&](auto& buffer, std::int64_t count, std::int64_t offset) {
                datamover::Distribution d(
                    c.comm, targets_of(buffer.data(), count, c.elements.elem_bytes, offset));
                d.move_in_place(buffer.data(), c.elements.elem_bytes,
                                static_cast<std::int64_t>(buffer.size()) / c.elements.elem_bytes);
                return d.received();
            });
        },
        ours->check(oracle));
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
    else if (example == "B")
        c.elements = bench::particles(count, rank, nprocs);
    else
        c.elements = bench::moved_particles(count, rank, nprocs);
    c.bytes = static_cast<std::int64_t>(c.elements.bytes.size()) * nprocs;
    if (example == "C-inplace") return run_in_place(c);
    run_once(c);
    run_again(c);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    try {
        bench::print_header(MPI_COMM_WORLD);
        const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
        for (int a = 2; a + 2 < argc; a += 3)
            run_case(argv[a], argv[a + 1], std::atoll(argv[a + 2]), seconds);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "distribute: %s\n", e.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
