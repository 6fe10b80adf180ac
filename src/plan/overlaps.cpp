// SPDX-License-Identifier: BSD-3-Clause
// Fast check for elements that are read and written in the same move.
//
// Boxes and products are sums of evenly spaced steps in memory. Whether two of them meet is asked
// of the difference of two such sums: the longest step first, keeping only what the shorter ones
// can still make up for, and what their common divisor allows.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "conflicts.hpp"
#include "geometry/checked.hpp"

namespace datamover::plan {
namespace {

using geometry::Wide;

/// Nothing is refused beyond these: pairs of pieces compared, per piece; steps tried in one
/// comparison; sums that one product is made of.
constexpr std::size_t comparisons_per_piece = 16, least_comparisons = 4096;
constexpr int most_tries = 256;
constexpr std::size_t most_sums = 64;
/// A dimension of a product has a period, a number of blocks, and a length.
constexpr std::size_t most_steps = 3 * max_dims;

struct Step {
    Wide stride = 0;  ///< bytes
    Wide count = 1;
    bool backwards = false;  ///< the first element is the last in memory
    bool operator==(const Step&) const = default;
};

/// The elements at origin + Σ stride_k · x_k for 0 <= x_k < count_k; no stride is negative.
struct StepSum {
    Wide origin = 0;
    std::array<Step, most_steps> steps{};
    std::size_t size = 0;
    std::int64_t elem_bytes = 0;
    Side side = Side::source;  ///< which reads; the other one writes
    Wide end = 0;              ///< one past the last byte
    std::size_t number = 0;    ///< of its touch, in the order of for_each_touch
    /// Number among those that this process sends to itself, which are the same on both sides;
    /// negative for others.
    std::ptrdiff_t stays = -1;

    void take(Wide stride, Wide count) {
        if (count <= 1 || stride == 0) return;
        const bool backwards = stride < 0;
        if (backwards) {
            origin += stride * (count - 1);
            stride = -stride;
        }
        steps[size++] = {stride, count, backwards};
    }
    void close() {
        end = origin + elem_bytes;
        for (std::size_t k = 0; k < size; ++k) end += steps[k].stride * (steps[k].count - 1);
    }
    /// Whether each element of `read` goes to itself, which changes nothing.
    static bool is_identity(const StepSum& read, const StepSum& write) {
        return read.stays >= 0 && read.stays == write.stays && read.origin == write.origin &&
               read.elem_bytes == write.elem_bytes && read.size == write.size &&
               std::equal(read.steps.begin(),
                          read.steps.begin() + static_cast<std::ptrdiff_t>(read.size),
                          write.steps.begin());
    }
};

/// The sums of all that one side of a move touches.
class SumMaker {
public:
    SumMaker(const BoundParts& parts, Side side, std::int64_t rank, std::vector<StepSum>& sums)
        : rank_(rank),
          array_(side == Side::source ? parts.source : parts.destination),
          side_(side),
          peers_(side == Side::source ? *parts.outgoing : *parts.incoming),
          sums_(sums) {}

    /// Appends them.
    void operator()() {
        for (const PeerPart& peer : peers_) {
            stays_ = peer.rank == rank_;
            first_ = number_;
            for (const Piece& piece : peer.part.pieces)
                std::visit([&](const auto& content) { add(content); }, piece.content);
        }
    }

private:
    /// Starts a sum at local index 0 of a block; false where the process has no memory for it.
    bool start(std::int64_t block) {
        memory_ = array_.memory->find(block);
        if (!memory_) return false;
        now_ = {};
        now_.origin = static_cast<Wide>(array_.base) + memory_->offset_bytes;
        now_.elem_bytes = array_.elem_bytes;
        now_.side = side_;
        now_.number = number_;
        now_.stays = stays_ ? static_cast<std::ptrdiff_t>(number_ - first_) : -1;
        return true;
    }
    void push() {
        now_.close();
        sums_.push_back(now_);
    }
    void take(int d, std::int64_t first, std::int64_t length, std::int64_t sign = 1) {
        const Wide stride = Wide{sign} * memory_->strides_bytes[d];
        now_.origin += stride * first;
        now_.take(stride, length);
    }

    void add(const BoxList& list) {
        for (const PlacedBox& box : list.boxes) {
            if (start(box.block(side_))) {
                for (const BoxAxis& a : list.shape_of(box).axes())
                    take(a.dim(side_), a.start(side_), a.length);
                push();
            }
            ++number_;
        }
    }

    void add(const ReshapePiece& piece) {
        const Region& box = piece.box(side_);
        if (start(piece.block(side_))) {
            for (int d = 0; d < box.dims(); ++d) take(d, box.lo()[d], box.extent(d));
            push();
        }
        ++number_;
    }

    void add(const ProductPiece& piece) {
        if (start(piece.block(side_)) && sums_of(piece) <= most_sums) add_axes(piece, 0);
        ++number_;
    }

    /// Single elements, and runs that are kept nowhere, are not looked at.
    void add(const IndexPiece&) { ++number_; }
    void add(const RangesPiece&) { ++number_; }

    static std::size_t sums_of(const ProductPiece& piece) {
        std::size_t sums = 1;
        for (const PieceAxis& axis : piece.axes)
            sums = std::min(most_sums + 1,
                            sums * (axis.table->runs().size() + axis.table->tail().size()));
        return sums;
    }

    /// One sum for every choice of a run per dimension.
    void add_axes(const ProductPiece& piece, std::size_t k) {
        if (k == piece.axes.size()) {
            push();
            return;
        }
        const AxisTable& table = *piece.axes[k].table;
        const int d = piece.axes[k].dim(side_);
        const std::int64_t sign = piece.axes[k].sign(side_);
        const std::int64_t period = table.period(side_);
        const StepSum before = now_;
        const auto each = [&](const std::vector<AxisRun>& runs, std::int64_t periods) {
            for (const AxisRun& run : runs) {
                take(d, run.start(side_), run.length, sign);
                const Wide stride = Wide{sign} * memory_->strides_bytes[d];
                now_.take(stride * run.step(side_), run.count);
                now_.take(stride * period, periods);
                add_axes(piece, k + 1);
                now_ = before;
            }
        };
        if (table.periods() > 0) each(table.runs(), table.periods());
        each(table.tail(), 1);
    }

    std::int64_t rank_;
    const BoundMemory& array_;
    Side side_;
    const std::vector<PeerPart>& peers_;
    bool stays_ = false;
    const BlockMemory* memory_ = nullptr;
    StepSum now_;
    std::size_t number_ = 0, first_ = 0;  ///< of all, and of this peer
    std::vector<StepSum>& sums_;
};

/// Asks whether two sums have a byte in common.
class CommonByte {
public:
    /// False also where that takes too many tries.
    bool operator()(const StepSum& read, const StepSum& write) {
        if (read.end <= write.origin || write.end <= read.origin) return false;
        size_ = 0;
        lowest_ = 1 - Wide{read.elem_bytes};
        highest_ = Wide{write.elem_bytes} - 1;
        for (std::size_t k = 0; k < read.size; ++k)
            take(read.steps[k].stride, 0, read.steps[k].count - 1);
        for (std::size_t k = 0; k < write.size; ++k)
            take(write.steps[k].stride, 1 - write.steps[k].count, 0);
        std::sort(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(size_),
                  [](const Range& a, const Range& b) { return a.stride > b.stride; });
        find_what_follows();
        tries_ = 0;
        return solve(0, read.origin - write.origin);
    }

private:
    /// Differences of two numbers of equal steps: every number between low and high.
    struct Range {
        Wide stride = 0, low = 0, high = 0;
        /// Of this step and all shorter ones together.
        Wide least = 0, most = 0, divisor = 0;
    };

    void take(Wide stride, Wide low, Wide high) {
        for (std::size_t k = 0; k < size_; ++k)
            if (steps_[k].stride == stride) {
                steps_[k].low += low;
                steps_[k].high += high;
                return;
            }
        steps_[size_++] = {stride, low, high, 0, 0, 0};
    }

    void find_what_follows() {
        Wide least = 0, most = 0, divisor = 0;
        for (std::size_t k = size_; k-- > 0;) {
            Range& step = steps_[k];
            least += step.stride * step.low;
            most += step.stride * step.high;
            divisor = gcd(step.stride, divisor);
            step.least = least;
            step.most = most;
            step.divisor = divisor;
        }
    }

    static Wide gcd(Wide a, Wide b) {
        while (b != 0) {
            const Wide rest = a % b;
            a = b;
            b = rest;
        }
        return a;
    }
    static Wide divide_down(Wide a, Wide b) { return a / b - (a % b < 0 ? 1 : 0); }

    /// Whether `sum` and the steps from k on can make a number in [lowest_, highest_].
    bool solve(std::size_t k, Wide sum) {
        if (k == size_) return lowest_ <= sum && sum <= highest_;
        const Range& step = steps_[k];
        if (sum + step.least > highest_ || sum + step.most < lowest_) return false;
        const Wide above = sum - divide_down(sum, step.divisor) * step.divisor;
        if (above > highest_ && above - step.divisor < lowest_) return false;
        const Wide least = k + 1 < size_ ? steps_[k + 1].least : 0;
        const Wide most = k + 1 < size_ ? steps_[k + 1].most : 0;
        const Wide first = std::max(step.low, -divide_down(sum + most - lowest_, step.stride));
        const Wide last = std::min(step.high, divide_down(highest_ - sum - least, step.stride));
        for (Wide x = first; x <= last; ++x) {
            if (++tries_ > most_tries) return false;
            if (solve(k + 1, sum + step.stride * x)) return true;
        }
        return false;
    }

    std::array<Range, 2 * most_steps> steps_;
    std::size_t size_ = 0;
    Wide lowest_ = 0, highest_ = 0;
    int tries_ = 0;
};

struct Conflict {
    std::size_t read, write;  ///< numbers of their touches
};

/// Compares only sums between whose first and last bytes there are common ones, in order of
/// addresses. `of_one_move`: between one source and its destination, where what goes to itself is
/// numbered alike on both sides.
std::optional<Conflict> first_conflict(std::vector<StepSum> sums, bool of_one_move) {
    std::ranges::sort(sums, [](const StepSum& a, const StepSum& b) {
        return a.origin != b.origin ? a.origin < b.origin : a.side < b.side;
    });
    std::size_t left = least_comparisons + comparisons_per_piece * sums.size();
    PerSide<std::vector<const StepSum*>> open;  // that have begun and not ended
    CommonByte has_common_byte;
    for (const StepSum& sum : sums) {
        const bool reads = sum.side == Side::source;
        auto& others = open[other(sum.side)];
        std::erase_if(others, [&](const StepSum* other) { return other->end <= sum.origin; });
        for (const StepSum* other : others) {
            if (left-- == 0) return std::nullopt;
            const StepSum &read = reads ? sum : *other, &write = reads ? *other : sum;
            if (of_one_move && StepSum::is_identity(read, write)) continue;
            if (has_common_byte(read, write)) return Conflict{read.number, write.number};
        }
        open[sum.side].push_back(&sum);
    }
    return std::nullopt;
}

bool share_memory(const BoundMemory& a, const BoundMemory& b) {
    const auto distance = static_cast<Wide>(b.base) - static_cast<Wide>(a.base);
    return a.memory->begin_bytes < distance + b.memory->end_bytes &&
           distance + b.memory->begin_bytes < a.memory->end_bytes;
}

Touch touch_of(const BoundParts& parts, Side side, std::size_t number) {
    Touch found;
    std::size_t at = 0;
    for_each_touch(parts, side, [&](const Touch& touch) {
        if (at++ == number) found = touch;
    });
    return found;
}

}  // namespace

void check_overlaps(std::span<const BoundParts> move, std::int64_t rank) {
    for (const BoundParts& reading : move)
        for (const BoundParts& writing : move) {
            if (!share_memory(reading.source, writing.destination)) continue;
            if (&reading == &writing && reading.halo_in_place) continue;
            std::vector<StepSum> sums;
            SumMaker(reading, Side::source, rank, sums)();
            SumMaker(writing, Side::destination, rank, sums)();
            if (const auto found = first_conflict(std::move(sums), &reading == &writing))
                refuse_read(rank, touch_of(reading, Side::source, found->read),
                            touch_of(writing, Side::destination, found->write));
        }
}

}  // namespace datamover::plan
