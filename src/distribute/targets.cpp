// SPDX-License-Identifier: BSD-3-Clause
// To which process does an element go, by its key or by the cell of space that it lies in?
#include "datamover/targets.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>

#include "datamover/error.hpp"
#include "relation/scalar_types.hpp"

namespace datamover {
namespace {

constexpr std::int64_t no_target = -2;

template <class T>
T key_at(const ElementKeys& keys, std::int64_t elem, std::int64_t dim = 0) {
    T value;
    std::memcpy(&value,
                static_cast<const std::byte*>(keys.data) + elem * keys.stride_bytes +
                    dim * static_cast<std::int64_t>(sizeof(T)),
                sizeof(T));
    return value;
}

/// Calls f.operator()<T>() with the type of integer keys.
template <class F>
void with_integer(ScalarType type, F&& f) {
    scalar::with_type(type, [&]<class T>() {
        if constexpr (std::is_integral_v<T>)
            f.template operator()<T>();
        else
            throw Error(ErrorCode::wrong_type,
                        std::string("keys must be integers, not ") + scalar_name(type));
    });
}

/// Likewise for real numbers, integers included.
template <class F>
void with_real(ScalarType type, F&& f) {
    scalar::with_type(type, [&]<class T>() {
        if constexpr (std::is_arithmetic_v<T>)
            f.template operator()<T>();
        else
            throw Error(ErrorCode::wrong_type,
                        std::string("keys must be real numbers, not ") + scalar_name(type));
    });
}

void check_dims(const ElementKeys& keys, std::size_t dims) {
    if (keys.dims != static_cast<std::int64_t>(dims))
        throw Error(ErrorCode::mismatch, "keys of " + std::to_string(keys.dims) +
                                             " numbers were given, the map wants " +
                                             std::to_string(dims));
}

void check_nprocs(std::int64_t nprocs) {
    if (nprocs < 1)
        throw Error(ErrorCode::invalid_argument,
                    std::to_string(nprocs) + " processes were given, it must be at least one");
}

/// Space cut into cells, and who owns them; row-major.
struct OwnedCells {
    static constexpr std::size_t most_dims = 8;
    std::size_t dims = 0;
    std::array<double, most_dims> lo{}, per_length{}, count{};
    std::array<std::int64_t, most_dims> last{};
    bool periodic = false;
    std::vector<std::int32_t> owners;

    /// The cell of a coordinate, in cells from the lower end; -1 for no number.
    std::int64_t cell(double x, std::size_t d) const {
        double at = (x - lo[d]) * per_length[d];
        if (periodic && !(at >= 0 && at < count[d])) at -= std::floor(at / count[d]) * count[d];
        if (std::isnan(at)) return -1;
        return static_cast<std::int64_t>(std::clamp(at, 0.0, static_cast<double>(last[d])));
    }
};

template <class T, std::size_t fixed_dims>
void evaluate_cells(const OwnedCells& cells, const ElementKeys& keys, std::int64_t first,
                    std::int64_t count, std::int64_t* targets) {
    const std::size_t dims = fixed_dims > 0 ? fixed_dims : cells.dims;
    for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t index = 0;
        bool known = true;
        for (std::size_t d = 0; d < dims; ++d) {
            const auto x =
                static_cast<double>(key_at<T>(keys, first + i, static_cast<std::int64_t>(d)));
            const std::int64_t cell = cells.cell(x, d);
            known = known && cell >= 0;
            index = index * (cells.last[d] + 1) + cell;
        }
        targets[i] = known ? cells.owners[static_cast<std::size_t>(index)] : no_target;
    }
}

OwnedCells cells_of(const CellBox& box) {
    OwnedCells cells;
    cells.dims = box.cells.size();
    if (box.lo.size() != cells.dims || box.hi.size() != cells.dims)
        throw Error(ErrorCode::mismatch, "corners of " + std::to_string(box.lo.size()) + " and " +
                                             std::to_string(box.hi.size()) + " dimensions for " +
                                             std::to_string(cells.dims) + " of cells");
    if (cells.dims > OwnedCells::most_dims)
        throw Error(ErrorCode::invalid_argument, "a box of cells has at most 8 dimensions");
    cells.periodic = box.periodic;
    for (std::size_t d = 0; d < cells.dims; ++d) {
        const double length = box.hi[d] - box.lo[d];
        if (!(length > 0) || !std::isfinite(length))
            throw Error(ErrorCode::invalid_argument, "a box from " + std::to_string(box.lo[d]) +
                                                         " to " + std::to_string(box.hi[d]) +
                                                         " has no inside");
        cells.lo[d] = box.lo[d];
        cells.count[d] = static_cast<double>(box.cells[d]);
        cells.per_length[d] = cells.count[d] / length;
        cells.last[d] = box.cells[d] - 1;
    }
    return cells;
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

TargetMap TargetMap::block(std::int64_t total, std::int64_t nprocs) {
    check_nprocs(nprocs);
    if (total < 0)
        throw Error(ErrorCode::invalid_argument, "a total of " + std::to_string(total) + " keys");
    const std::int64_t block = std::max<std::int64_t>(1, total / nprocs + (total % nprocs != 0));
    return TargetMap([total, block](const ElementKeys& keys, std::int64_t first, std::int64_t count,
                                    std::int64_t* targets) {
        check_dims(keys, 1);
        with_integer(keys.type, [&]<class T>() {
            for (std::int64_t i = 0; i < count; ++i) {
                const T key = key_at<T>(keys, first + i);
                const bool inside = key >= T{0} && static_cast<std::uint64_t>(key) <
                                                       static_cast<std::uint64_t>(total);
                targets[i] = inside ? static_cast<std::int64_t>(key) / block : no_target;
            }
        });
    });
}

TargetMap TargetMap::splitters(std::vector<double> splitters) {
    if (!std::is_sorted(splitters.begin(), splitters.end()))
        throw Error(ErrorCode::invalid_argument, "splitters must ascend");
    return TargetMap([splitters = std::move(splitters)](const ElementKeys& keys, std::int64_t first,
                                                        std::int64_t count, std::int64_t* targets) {
        check_dims(keys, 1);
        with_real(keys.type, [&]<class T>() {
            for (std::int64_t i = 0; i < count; ++i) {
                const auto key = static_cast<double>(key_at<T>(keys, first + i));
                const auto above = std::upper_bound(splitters.begin(), splitters.end(), key);
                targets[i] = std::isnan(key) ? no_target : above - splitters.begin();
            }
        });
    });
}

TargetMap TargetMap::cells(const CellBox& box, CellOrder order, std::int64_t nprocs,
                           std::span<const std::int64_t> owners) {
    check_nprocs(nprocs);
    auto cells = std::make_shared<OwnedCells>(cells_of(box));
    const auto positions = cell_positions(box.cells, order);
    const auto total = static_cast<std::int64_t>(positions.size());
    if (!owners.empty() && static_cast<std::int64_t>(owners.size()) != total)
        throw Error(ErrorCode::mismatch, "owners of " + std::to_string(owners.size()) +
                                             " cells were given, there are " +
                                             std::to_string(total));
    for (const std::int64_t position : positions)
        cells->owners.push_back(
            static_cast<std::int32_t>(owners.empty() ? position * nprocs / total
                                                     : owners[static_cast<std::size_t>(position)]));
    return TargetMap([cells = std::move(cells)](const ElementKeys& keys, std::int64_t first,
                                                std::int64_t count, std::int64_t* targets) {
        check_dims(keys, cells->dims);
        with_real(keys.type, [&]<class T>() {
            if (cells->dims == 3)
                evaluate_cells<T, 3>(*cells, keys, first, count, targets);
            else if (cells->dims == 2)
                evaluate_cells<T, 2>(*cells, keys, first, count, targets);
            else
                evaluate_cells<T, 0>(*cells, keys, first, count, targets);
        });
    });
}

void TargetMap::evaluate(const ElementKeys& keys, std::int64_t first, std::int64_t count,
                         std::int64_t* targets) const {
    loop_(keys, first, count, targets);
}

}  // namespace datamover
