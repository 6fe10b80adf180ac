// SPDX-License-Identifier: BSD-3-Clause
// Target maps: the target process of an element by its key or by its cell of space.
//
// By cells there are three passes over a block of positions: their cells, as row-major or Z-order
// numbers; for Hilbert's curve its places; the owners. Equal parts of a curve need no table of
// cells: they are ranges of its places.
#include "datamover/targets.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "relation/scalar_types.hpp"
#include "space_curve.hpp"

namespace datamover::distribute {
namespace {

template <class T>
T key_at(const ElementKeys& keys, std::int64_t elem, std::int64_t dim = 0) {
    T value;
    std::memcpy(&value,
                static_cast<const std::byte*>(keys.data) + elem * keys.stride_bytes +
                    dim * static_cast<std::int64_t>(sizeof(T)),
                sizeof(T));
    return value;
}

/// Calls f.operator()<T>() with the type of keys that are real numbers, integers included.
template <class F>
void with_real(ScalarType type, F&& f) {
    scalar::with_type(type, [&]<class T>() {
        if constexpr (std::is_arithmetic_v<T>)
            f.template operator()<T>();
        else
            throw make_error(ErrorCode::wrong_type, "keys must be real numbers, not ",
                             scalar_name(type));
    });
}

inline void check_dims(const ElementKeys& keys, std::size_t dims) {
    if (keys.dims != static_cast<std::int64_t>(dims))
        throw make_error(ErrorCode::mismatch, "keys of ", keys.dims,
                         " numbers were given, the map wants ", dims);
}

/// Lookup of the range of consecutive numbers that contains a number.
class NumberRanges {
public:
    /// `starts` ascend from 0; numbers have so many bits.
    NumberRanges(std::vector<std::uint64_t> starts, int number_bits)
        : starts_(std::move(starts)), bucket_shift_(std::max(0, number_bits - bucket_bits)) {
        const auto last = static_cast<std::int32_t>(starts_.size()) - 1;
        for (int b = 0; b < 1 << std::min(number_bits, bucket_bits); ++b)
            first_.push_back(last_of(static_cast<std::uint64_t>(b) << bucket_shift_, 0, last));
        first_.push_back(last);
    }

    std::int32_t range_of(std::uint64_t number) const {
        const std::size_t bucket = static_cast<std::size_t>(number >> bucket_shift_);
        const std::int32_t low = first_[bucket], high = first_[bucket + 1];
        return low == high ? low : last_of(number, low, high);
    }

private:
    static constexpr int bucket_bits = 12;

    /// The last of ranges low to high, inclusively, that does not start behind a number.
    std::int32_t last_of(std::uint64_t number, std::int32_t low, std::int32_t high) const {
        const auto begin = starts_.begin() + 1;
        const auto behind = std::upper_bound(begin + low, begin + high, number);
        return static_cast<std::int32_t>(behind - begin);
    }

    std::vector<std::uint64_t> starts_;
    std::vector<std::int32_t> first_;  ///< per bucket the range of its first number; one more
    int bucket_shift_ = 0;
};

/// Space cut into cells that processes own along an order.
class CellTargets {
public:
    /// Throws what TargetMap::cells does.
    CellTargets(const CellBox& box, CellOrder order, std::int64_t nprocs,
                std::span<const std::int64_t> owners)
        : nprocs_(nprocs) {
        const std::int64_t total = cell_total(box.cells);
        set_box(box);
        if (owners.empty()) {
            deal_equally(box.cells, order, total);
            return;
        }
        if (static_cast<std::int64_t>(owners.size()) != total)
            throw make_error(ErrorCode::mismatch, "owners of ", owners.size(),
                             " cells were given, there are ", total);
        for (std::size_t i = 0; i < owners.size(); ++i)
            if (owners[i] < -1 || owners[i] >= nprocs)
                throw make_error(ErrorCode::out_of_range, "cell ", i, " belongs to process ",
                                 owners[i], "; owners are ranks from 0 to ", nprocs - 1,
                                 ", or -1 to drop");
        for (const std::int64_t position : cell_positions(box.cells, order))
            table_.push_back(static_cast<std::int32_t>(owners[static_cast<std::size_t>(position)]));
    }

    void evaluate(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                  std::int64_t* targets) const {
        check_dims(keys, dims_);
        with_real(keys.type, [&]<class T>() {
            if (periodic_)
                evaluate_as<T, 0, true>(keys, first, count, targets);
            else if (dims_ == 3)
                evaluate_as<T, 3, false>(keys, first, count, targets);
            else if (dims_ == 2)
                evaluate_as<T, 2, false>(keys, first, count, targets);
            else
                evaluate_as<T, 0, false>(keys, first, count, targets);
        });
    }

private:
    static constexpr std::size_t most_dims = SpaceCurve::most_dims;
    /// Positions handled at a time: their places stay in the first cache.
    static constexpr std::int64_t block_elems = 1024;

    void set_box(const CellBox& box) {
        dims_ = box.cells.size();
        periodic_ = box.periodic;
        if (box.lo.size() != dims_ || box.hi.size() != dims_)
            throw make_error(ErrorCode::mismatch, "corners of ", box.lo.size(), " and ",
                             box.hi.size(), " dimensions for ", dims_, " of cells");
        for (std::size_t d = 0; d < dims_; ++d) {
            const double length = box.hi[d] - box.lo[d];
            if (!(length > 0) || !std::isfinite(length))
                throw make_error(ErrorCode::invalid_argument, "a box from ", box.lo[d], " to ",
                                 box.hi[d], " has no inside");
            lo_[d] = box.lo[d];
            count_[d] = static_cast<double>(box.cells[d]);
            per_length_[d] = count_[d] / length;
            if (!std::isfinite(per_length_[d]))
                throw make_error(
                    ErrorCode::invalid_argument, "a box is too short in dimension ", d, " for ",
                    box.cells[d],
                    " cells: there are more to a unit of length than a double can say");
            last_[d] = count_[d] - 1;
            counts_[d] = static_cast<std::uint64_t>(box.cells[d]);
        }
    }

    void deal_equally(const std::vector<std::int64_t>& cells, CellOrder order, std::int64_t total) {
        if (order != CellOrder::row_major) curve_.emplace(order, cells);
        place_bits_ =
            curve_ ? curve_->place_bits() : std::bit_width(static_cast<std::uint64_t>(total - 1));
        if (total == std::int64_t{1} << place_bits_) return;
        if (nprocs_ > total) {  // a place for each process would take more than one for each cell
            curve_.reset();
            for (const std::int64_t position : cell_positions(cells, order))
                table_.push_back(static_cast<std::int32_t>(position * nprocs_ / total));
            return;
        }
        std::vector<std::uint64_t> starts;
        for (std::int64_t p = 0; p < nprocs_; ++p) {
            const std::int64_t position = (p * total + nprocs_ - 1) / nprocs_;
            if (position >= total) break;
            starts.push_back(curve_ ? curve_->place_of(position)
                                    : static_cast<std::uint64_t>(position));
        }
        ranges_.emplace(std::move(starts), place_bits_);
    }

    /// In cells from the lower end of a dimension; NaN for what is not a number.
    template <bool periodic>
    double cells_from_low(double x, std::size_t d) const {
        const double at = (x - lo_[d]) * per_length_[d];
        if constexpr (periodic)
            if (!(at >= 0 && at < count_[d])) return at - std::floor(at / count_[d]) * count_[d];
        return at;
    }

    /// Numbers of cells, in Z order where there is a curve; false where a key is not a number.
    template <class T, std::size_t fixed_dims, bool periodic>
    bool find_places(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                     std::uint64_t* places) const {
        const std::size_t dims = fixed_dims > 0 ? fixed_dims : dims_;
        bool all_known = true;
        for (std::int64_t i = 0; i < count; ++i) {
            std::array<std::uint32_t, most_dims> cell;
            for (std::size_t d = 0; d < dims; ++d) {
                const auto x =
                    static_cast<double>(key_at<T>(keys, first + i, static_cast<std::int64_t>(d)));
                const double at = cells_from_low<periodic>(x, d);
                all_known &= at == at;
                // Written so that NaN becomes 0.
                const double inside = at > 0 ? at : 0;
                cell[d] = static_cast<std::uint32_t>(
                    static_cast<std::int64_t>(inside < last_[d] ? inside : last_[d]));
            }
            if (curve_) {
                places[i] = curve_->interleaved<fixed_dims>(cell.data());
                continue;
            }
            std::uint64_t number = 0;
            for (std::size_t d = 0; d < dims; ++d) number = number * counts_[d] + cell[d];
            places[i] = number;
        }
        return all_known;
    }

    /// In a function of its own: within the loops around it, ranges take a tenth more time.
    [[gnu::noinline]] void find_owners(const std::uint64_t* places, std::int64_t count,
                                       std::int64_t* targets) const {
        if (!table_.empty())
            for (std::int64_t i = 0; i < count; ++i) targets[i] = table_[places[i]];
        else if (ranges_)
            for (std::int64_t i = 0; i < count; ++i) targets[i] = ranges_->range_of(places[i]);
        else
            for (std::int64_t i = 0; i < count; ++i)
                targets[i] = static_cast<std::int64_t>(
                    places[i] * static_cast<std::uint64_t>(nprocs_) >> place_bits_);
    }

    template <class T, std::size_t fixed_dims, bool periodic>
    void evaluate_as(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                     std::int64_t* targets) const {
        std::array<std::uint64_t, block_elems> places;
        for (std::int64_t done = 0; done < count; done += block_elems) {
            const std::int64_t n = std::min(block_elems, count - done), begin = first + done;
            const bool all_known =
                find_places<T, fixed_dims, periodic>(keys, begin, n, places.data());
            if (curve_) curve_->follow(places.data(), static_cast<std::size_t>(n));
            find_owners(places.data(), n, targets + done);
            for (std::int64_t i = 0; !all_known && i < n; ++i)
                if (!find_places<T, fixed_dims, periodic>(keys, begin + i, 1, places.data()))
                    targets[done + i] = TargetMap::no_target;
        }
    }

    std::size_t dims_ = 0;
    std::array<double, most_dims> lo_{}, per_length_{}, count_{}, last_{};  ///< in cells
    std::array<std::uint64_t, most_dims> counts_{};
    bool periodic_ = false;

    /// Where it is set, an owner follows from the place along the curve, else from the number of
    /// the cell.
    std::optional<SpaceCurve> curve_;
    /// How it follows: by table, by ranges, or as place · nprocs / 2^place_bits.
    std::vector<std::int32_t> table_;
    std::optional<NumberRanges> ranges_;
    std::int64_t nprocs_ = 1;
    int place_bits_ = 0;
};

template <class Number>
void check(const std::vector<Number>& splitters) {
    for (std::size_t i = 0; i < splitters.size(); ++i) {
        if constexpr (std::is_floating_point_v<Number>)
            if (std::isnan(splitters[i]))
                throw make_error(ErrorCode::invalid_argument, "splitter ", i, " is not a number");
        if (i > 0 && splitters[i] < splitters[i - 1])
            throw make_error(ErrorCode::invalid_argument, "splitters must ascend; number ", i,
                             " is ", splitters[i], ", the one before ", splitters[i - 1]);
    }
}

/// Ascending values, each as the least key of its kind that is not below it, so that comparing
/// never rounds; without those that no key of a kind reaches.
struct Splitters {
    std::vector<std::int64_t> signed_keys;
    std::vector<std::uint64_t> unsigned_keys;
    std::vector<double> real_keys;

    /// Throws invalid_argument if the values do not ascend or one is NaN.
    template <class Number>
    explicit Splitters(const std::vector<Number>& values) {
        check(values);
        for (const Number value : values) {
            add(value, signed_keys);
            add(value, unsigned_keys);
            auto real = static_cast<double>(value);
            if constexpr (std::is_integral_v<Number>)
                if (static_cast<geometry::Wide>(real) < geometry::Wide{value})
                    real = std::nextafter(real, std::numeric_limits<double>::infinity());
            real_keys.push_back(real);
        }
    }
    template <class Number, class Key>
    static void add(Number value, std::vector<Key>& keys) {
        using Limits = std::numeric_limits<Key>;
        geometry::Wide key = 0;
        if constexpr (std::is_integral_v<Number>)
            key = value;
        else  // beyond all integers of 64 bits at most
            key = static_cast<geometry::Wide>(std::ceil(std::clamp(value, -0x1p100, 0x1p100)));
        if (key <= Limits::max())
            keys.push_back(static_cast<Key>(std::max<geometry::Wide>(key, Limits::min())));
    }

    /// How many are not above each key; TargetMap::no_target for NaN.
    void evaluate(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                  std::int64_t* targets) const {
        check_dims(keys, 1);
        const auto look_up = [&]<class T, class Key>(T, const std::vector<Key>& splitters) {
            for (std::int64_t i = 0; i < count; ++i) {
                const auto key = static_cast<Key>(key_at<T>(keys, first + i));
                targets[i] = std::ranges::upper_bound(splitters, key) - splitters.begin();
                if constexpr (std::is_floating_point_v<T>)
                    if (std::isnan(key)) targets[i] = TargetMap::no_target;
            }
        };
        with_real(keys.type, [&]<class T>() {
            if constexpr (std::is_floating_point_v<T>)
                look_up(T{}, real_keys);
            else if constexpr (std::is_same_v<T, std::uint64_t>)
                look_up(T{}, unsigned_keys);
            else
                look_up(T{}, signed_keys);
        });
    }
};

}  // namespace
}  // namespace datamover::distribute

namespace datamover {

using distribute::check_dims, distribute::key_at;

namespace {

/// The loop that calls f(key) for integer keys of any type.
template <class F>
auto for_each_integer(F f) {
    return [f](const ElementKeys& keys, std::int64_t first, std::int64_t count,
               std::int64_t* targets) {
        check_dims(keys, 1);
        scalar::with_type(keys.type, [&]<class T>() {
            if constexpr (std::is_integral_v<T>)
                for (std::int64_t i = 0; i < count; ++i) targets[i] = f(key_at<T>(keys, first + i));
            else
                throw make_error(ErrorCode::wrong_type, "keys must be integers, not ",
                                 scalar_name(keys.type));
        });
    };
}

void check_nprocs(std::int64_t nprocs) {
    if (nprocs < 1 || nprocs > std::numeric_limits<std::int32_t>::max())
        throw make_error(ErrorCode::invalid_argument, nprocs,
                         " processes were given, it must be 1 to 2^31 - 1");
}

}  // namespace

TargetMap TargetMap::modulo(std::int64_t nprocs) {
    check_nprocs(nprocs);
    return TargetMap(for_each_integer([nprocs]<class T>(T key) {
        if constexpr (sizeof(T) == 8 && !std::is_signed_v<T>) {
            return static_cast<std::int64_t>(key % static_cast<T>(nprocs));
        } else {
            const std::int64_t rest = static_cast<std::int64_t>(key) % nprocs;
            return rest < 0 ? rest + nprocs : rest;
        }
    }));
}

TargetMap TargetMap::block(std::int64_t total, std::int64_t nprocs, std::int64_t first_key) {
    check_nprocs(nprocs);
    if (total < 0) throw make_error(ErrorCode::invalid_argument, "a total of ", total, " keys");
    geometry::add(first_key, total);
    const std::int64_t block = std::max<std::int64_t>(1, total / nprocs + (total % nprocs != 0));
    return TargetMap(for_each_integer([total, block, first_key](auto key) {
        // Below 2^63 altogether, so that what wraps around is not below the total.
        const std::uint64_t place =
            static_cast<std::uint64_t>(key) - static_cast<std::uint64_t>(first_key);
        const bool inside =
            std::in_range<std::int64_t>(key) && place < static_cast<std::uint64_t>(total);
        return inside ? static_cast<std::int64_t>(place) / block : no_target;
    }));
}

template <class Number>
TargetMap TargetMap::splitters(const std::vector<Number>& values, std::int64_t nprocs) {
    check_nprocs(nprocs);
    const auto found = std::make_shared<const distribute::Splitters>(values);
    if (static_cast<std::int64_t>(values.size()) != nprocs - 1)
        throw make_error(ErrorCode::mismatch, values.size(), " splitters were given for ", nprocs,
                         " processes; there must be one fewer");
    return TargetMap(std::bind_front(&distribute::Splitters::evaluate, found));
}
template TargetMap TargetMap::splitters(const std::vector<double>&, std::int64_t);
template TargetMap TargetMap::splitters(const std::vector<std::int64_t>&, std::int64_t);
template TargetMap TargetMap::splitters(const std::vector<std::uint64_t>&, std::int64_t);

TargetMap TargetMap::cells(const CellBox& box, CellOrder order, std::int64_t nprocs,
                           std::span<const std::int64_t> owners) {
    check_nprocs(nprocs);
    const auto found = std::make_shared<const distribute::CellTargets>(box, order, nprocs, owners);
    return TargetMap(std::bind_front(&distribute::CellTargets::evaluate, found));
}

void TargetMap::evaluate(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                         std::int64_t* targets) const {
    loop_(keys, first, count, targets);
}

}  // namespace datamover
