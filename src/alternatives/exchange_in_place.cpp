// SPDX-License-Identifier: BSD-3-Clause
// In-place exchange of sorted elements between processes.
//
// After t of R rounds a pair has sent floor(t/R) of its elements. A process then holds its share of
// what it had and of what it gets, which is no more than the larger of both; rounding leaves fewer
// than one element per peer without a place, and those wait in the scratch.
#include "alternatives.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "mpi/collectives.hpp"

namespace datamover::alternatives {
namespace {

/// The runs that each process sends here.
std::vector<ElementRuns> exchange_runs(const mpi::ProcessGroup& group, const ElementRuns& sorted) {
    std::vector<std::int64_t> counts(at(group.size()), 0);
    for (const ElementRun& run : sorted) ++counts[at(run.target)];
    const auto sent = mpi::Blocks::behind(counts);
    const auto received = mpi::Blocks::behind(mpi::exchange(group, counts));
    struct Runs {
        ElementRuns leaving, arriving;
    };
    const auto runs = std::make_shared<Runs>(Runs{sorted, ElementRuns(at(received.total()))});
    mpi::all_to_all({runs}, reinterpret_cast<const std::byte*>(runs->leaving.data()), sent,
                    reinterpret_cast<std::byte*>(runs->arriving.data()), received,
                    sizeof(ElementRun), group);
    std::vector<ElementRuns> from_each;
    for (std::size_t r = 0; r < received.counts.size(); ++r) {
        const auto begin = runs->arriving.begin() + received.starts[r];
        from_each.emplace_back(begin, begin + received.counts[r]);
    }
    return from_each;
}

class InPlaceExchange {
public:
    InPlaceExchange(const mpi::ProcessGroup& group, const Buffer& buffer, const ElementRuns& sorted,
                    const Scratch& scratch)
        : group_(group),
          data_(buffer.data),
          bytes_(buffer.elem_bytes),
          scratch_(scratch),
          arriving_(exchange_runs(group, sorted)),
          holes_{{elems_of(sorted), buffer.capacity_elems}} {
        std::vector<std::int64_t> counts(at(group.size()), 0);
        for (const ElementRun& run : sorted) counts[at(run.target)] += run.elems;
        out_ = mpi::Blocks::behind(counts);
        for (const ElementRuns& runs : arriving_) in_.push_back(elems_of(runs));
        // What stays is no part of the exchange.
        const std::size_t me = at(group.rank());
        const std::int64_t begin = out_.starts[me];
        hold(begin, cut(sorted, begin, begin + out_.counts[me]));
        out_.counts[me] = in_[me] = 0;
    }

    ElementRuns run() {
        const std::int64_t rounds = common_rounds();
        for (std::int64_t t = 0; t < rounds; ++t) round(t, rounds);
        return close_up();
    }

private:
    struct Held {
        std::int64_t begin = 0;
        ElementRun run;
    };
    struct Range {
        std::int64_t begin = 0, end = 0;
    };
    /// Elements in the scratch that have no place yet.
    struct Waiting {
        int source = 0;
        std::int64_t elems = 0;
    };

    std::byte* place(std::int64_t elem) const { return data_ + elem * bytes_; }

    /// The elements of runs lie one behind the other from `begin` on.
    void hold(std::int64_t begin, const ElementRuns& runs) {
        for (const ElementRun& run : runs) {
            held_.push_back({begin, run});
            begin += run.elems;
        }
    }

    std::int64_t common_rounds() const {
        const std::int64_t slack = Scratch::fewest_elems(group_.size()) - 2;
        const std::int64_t room = std::max<std::int64_t>(1, scratch_.elems - slack);
        const std::int64_t arriving = std::accumulate(in_.begin(), in_.end(), std::int64_t{0});
        return group_.maximum({(arriving + room - 1) / room}).front();
    }

    static std::int64_t share(std::int64_t elems, std::int64_t t, std::int64_t rounds) {
        return elems / rounds * t + elems % rounds * t / rounds;
    }

    void round(std::int64_t t, std::int64_t rounds) {
        mpi::Blocks sent = out_;
        std::vector<std::int64_t> counts;
        for (std::size_t r = 0; r < in_.size(); ++r) {
            const std::int64_t done = share(out_.counts[r], t, rounds);
            sent.starts[r] += done;
            sent.counts[r] = share(out_.counts[r], t + 1, rounds) - done;
            counts.push_back(share(in_[r], t + 1, rounds) - share(in_[r], t, rounds));
        }
        const auto received = mpi::Blocks::behind(counts);
        mpi::all_to_all({scratch_.owner}, data_, sent, scratch_.data + waiting_elems_ * bytes_,
                        received, bytes_, group_);
        waiting_elems_ += received.total();
        for (std::size_t r = 0; r < in_.size(); ++r) {
            if (sent.counts[r] > 0)
                holes_.insert(holes_.end() - 1, {sent.starts[r], sent.starts[r] + sent.counts[r]});
            if (counts[r] > 0) waiting_.push_back({static_cast<int>(r), counts[r]});
        }
        settle();
    }

    /// The next hole, of at most so many elements; empty when there is none.
    Range take_hole(std::int64_t elems) {
        Range& hole = holes_[next_hole_];
        const Range part{hole.begin, std::min(hole.end, hole.begin + elems)};
        hole.begin = part.end;
        if (hole.begin == hole.end && next_hole_ + 1 < holes_.size()) ++next_hole_;
        return part;
    }

    /// Gives elements in the scratch their places, as far as there are any.
    void settle() {
        const std::byte* from = scratch_.data;
        auto next = waiting_.begin();
        while (next != waiting_.end()) {
            const Range to = take_hole(next->elems);
            const std::int64_t elems = to.end - to.begin;
            if (elems == 0) break;
            std::memcpy(place(to.begin), from, at(elems * bytes_));
            from += elems * bytes_;
            waiting_elems_ -= elems;
            record(next->source, to);
            if ((next->elems -= elems) == 0) ++next;
        }
        waiting_.erase(waiting_.begin(), next);
        std::memmove(scratch_.data, from, at(waiting_elems_ * bytes_));
    }

    /// The next elements of a source have come to lie in a range.
    void record(int source, Range range) {
        ElementRuns& runs = arriving_[at(source)];
        const std::int64_t elems = range.end - range.begin;
        hold(range.begin, cut(runs, 0, elems));
        runs = cut(runs, elems, elems_of(runs));
    }

    /// Moves everything to the buffer's start.
    ElementRuns close_up() {
        std::ranges::sort(held_, {}, &Held::begin);
        ElementRuns runs;
        std::int64_t end = 0;
        for (const Held& held : held_) {
            append(runs, held.run);
            if (end != held.begin)
                std::memmove(place(end), place(held.begin), at(held.run.elems * bytes_));
            end += held.run.elems;
        }
        return runs;
    }

    const mpi::ProcessGroup& group_;
    std::byte* data_;
    std::int64_t bytes_;
    Scratch scratch_;
    mpi::Blocks out_;
    std::vector<ElementRuns> arriving_;  ///< per source: what has not been given a place
    std::vector<std::int64_t> in_;       ///< per source
    std::vector<Held> held_;
    std::vector<Range> holes_;  ///< last the one behind all elements
    std::size_t next_hole_ = 0;
    std::vector<Waiting> waiting_;
    std::int64_t waiting_elems_ = 0;
};

}  // namespace

ElementRuns exchange_in_place(const mpi::ProcessGroup& group, const Buffer& buffer,
                              const ElementRuns& sorted, const Scratch& scratch) {
    return InPlaceExchange(group, buffer, sorted, scratch).run();
}

}  // namespace datamover::alternatives
