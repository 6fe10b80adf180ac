// SPDX-License-Identifier: BSD-3-Clause
// Checks of element buffers: valid addresses, and no result that overwrites elements still to be
// read.
#include "overlaps.hpp"

#include <algorithm>
#include <limits>

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"

namespace datamover::distribute {
namespace {

/// Addresses and their differences, also beyond 64 bits.
using geometry::Wide;

Wide address_of(const void* data) {
    return static_cast<Wide>(reinterpret_cast<std::uintptr_t>(data));
}

/// Whether bytes [begin, end) hold one of any element.
bool holds_any(Wide begin, Wide end, const ElementColumn& column, std::int64_t elems) {
    if (elems == 0 || begin >= end) return false;
    Wide first = address_of(column.data), stride = column.stride_bytes;
    if (stride < 0) {
        first += (elems - 1) * stride;
        stride = -stride;
    }
    if (first >= end) return false;
    if (stride == 0) return first + column.elem_bytes > begin;
    // The last element that begins before the end.
    const Wide last = std::min<Wide>(elems - 1, (end - 1 - first) / stride);
    return first + last * stride + column.elem_bytes > begin;
}

}  // namespace

void check_addresses(const void* data, std::int64_t elems, std::int64_t stride_bytes,
                     std::int64_t elem_bytes) {
    if (elems == 0) return;
    const Wide first = address_of(data), last = first + Wide{elems - 1} * stride_bytes;
    if (std::min(first, last) < 0 ||
        std::max(first, last) + elem_bytes > std::numeric_limits<std::int64_t>::max())
        throw make_error(ErrorCode::out_of_range, elems, " elements, each ", stride_bytes,
                         " bytes behind the one before, lie in no memory");
}

std::optional<Error> overlapping(std::span<const ElementColumn> columns, std::int64_t column_elems,
                                 std::span<const ElementBuffer> results, std::int64_t result_elems,
                                 int rank) {
    const auto error = [&](std::size_t result, const char* what, std::size_t other) {
        return make_error(ErrorCode::invalid_argument, "on process ", rank, " result ", result,
                          " overlaps ", what, " ", other,
                          "; results need memory of their own (or move_in_place)");
    };
    for (std::size_t r = 0; r < results.size(); ++r) {
        const Wide begin = address_of(results[r].data);
        const Wide end = begin + Wide{result_elems} * columns[r].elem_bytes;
        for (std::size_t c = 0; c < columns.size(); ++c)
            if (holds_any(begin, end, columns[c], column_elems)) return error(r, "column", c);
        for (std::size_t other = 0; other < r; ++other) {
            const Wide from = address_of(results[other].data);
            const Wide to = from + Wide{result_elems} * columns[other].elem_bytes;
            if (begin < to && from < end) return error(r, "result", other);
        }
    }
    return {};
}

}  // namespace datamover::distribute
