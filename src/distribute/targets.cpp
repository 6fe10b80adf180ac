// SPDX-License-Identifier: BSD-3-Clause
// Target maps: the target process of an element by its key or by its cell of space.
#include "datamover/targets.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "cell_targets.hpp"
#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "splitters.hpp"

namespace datamover {

using distribute::check_dims, distribute::key_at, distribute::with_integer;

namespace {

void check_nprocs(std::int64_t nprocs) {
    if (nprocs < 1 || nprocs > std::numeric_limits<std::int32_t>::max())
        throw make_error(ErrorCode::invalid_argument, nprocs,
                         " processes were given, it must be 1 to 2^31 - 1");
}

}  // namespace

TargetMap TargetMap::modulo(std::int64_t nprocs) {
    check_nprocs(nprocs);
    return TargetMap([nprocs](const ElementKeys& keys, std::int64_t first, std::int64_t count,
                              std::int64_t* targets) {
        check_dims(keys, 1);
        with_integer(keys.type, [&]<class T>() {
            for (std::int64_t i = 0; i < count; ++i) {
                const T key = key_at<T>(keys, first + i);
                if constexpr (sizeof(T) == 8 && !std::is_signed_v<T>) {
                    targets[i] = static_cast<std::int64_t>(key % static_cast<T>(nprocs));
                } else {
                    const std::int64_t rest = static_cast<std::int64_t>(key) % nprocs;
                    targets[i] = rest < 0 ? rest + nprocs : rest;
                }
            }
        });
    });
}

TargetMap TargetMap::block(std::int64_t total, std::int64_t nprocs, std::int64_t first_key) {
    check_nprocs(nprocs);
    if (total < 0) throw make_error(ErrorCode::invalid_argument, "a total of ", total, " keys");
    geometry::add(first_key, total);
    const std::int64_t block = std::max<std::int64_t>(1, total / nprocs + (total % nprocs != 0));
    return TargetMap([total, block, first_key](const ElementKeys& keys, std::int64_t first,
                                               std::int64_t count, std::int64_t* targets) {
        check_dims(keys, 1);
        with_integer(keys.type, [&]<class T>() {
            for (std::int64_t i = 0; i < count; ++i) {
                const T key = key_at<T>(keys, first + i);
                // Below 2^63 altogether, so that what wraps around is not below the total.
                const std::uint64_t place =
                    static_cast<std::uint64_t>(key) - static_cast<std::uint64_t>(first_key);
                const bool inside =
                    std::in_range<std::int64_t>(key) && place < static_cast<std::uint64_t>(total);
                targets[i] = inside ? static_cast<std::int64_t>(place) / block : no_target;
            }
        });
    });
}

template <class Number>
TargetMap TargetMap::splitters(const std::vector<Number>& values, std::int64_t nprocs) {
    check_nprocs(nprocs);
    const auto found = std::make_shared<const distribute::Splitters>(values);
    if (static_cast<std::int64_t>(values.size()) != nprocs - 1)
        throw make_error(ErrorCode::mismatch, values.size(), " splitters were given for ", nprocs,
                         " processes; there must be one fewer");
    return TargetMap(
        [found](const ElementKeys& keys, std::int64_t first, std::int64_t count,
                std::int64_t* targets) { found->evaluate(keys, first, count, targets); });
}
template TargetMap TargetMap::splitters(const std::vector<double>&, std::int64_t);
template TargetMap TargetMap::splitters(const std::vector<std::int64_t>&, std::int64_t);
template TargetMap TargetMap::splitters(const std::vector<std::uint64_t>&, std::int64_t);

TargetMap TargetMap::cells(const CellBox& box, CellOrder order, std::int64_t nprocs,
                           std::span<const std::int64_t> owners) {
    check_nprocs(nprocs);
    const auto found = std::make_shared<const distribute::CellTargets>(box, order, nprocs, owners);
    return TargetMap(
        [found](const ElementKeys& keys, std::int64_t first, std::int64_t count,
                std::int64_t* targets) { found->evaluate(keys, first, count, targets); });
}

void TargetMap::evaluate(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                         std::int64_t* targets) const {
    loop_(keys, first, count, targets);
}

}  // namespace datamover
