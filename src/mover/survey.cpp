// SPDX-License-Identifier: BSD-3-Clause
// The reduction over all processes when a mover is bound.
#include "survey.hpp"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "geometry/make_error.hpp"
#include "mpi/collectives.hpp"

namespace datamover {
namespace {

bool holds_elements(const ArrayPart& part) {
    return part.memory.end_bytes > part.memory.begin_bytes;
}

/// Size and type of an element in one number.
constexpr std::int64_t types = 256;

std::int64_t element_code(const ArrayPart& part) {
    return part.elem_bytes * types + static_cast<std::int64_t>(part.type);
}

bool prefers_row_major(const ArrayPart& part) {
    for (const BlockMemory& b : part.memory.blocks) {
        const int last = b.strides_bytes.dims() - 1;
        if (last > 0 && std::abs(b.strides_bytes[last]) <= std::abs(b.strides_bytes[0]))
            return true;
    }
    return false;
}

/// Surveys consist of numbers of which the largest counts.
template <class Numbers>
void reduce_numbers(const mpi::ProcessGroup& group, Numbers* first, std::size_t count) {
    static_assert(std::is_trivially_copyable_v<Numbers>);
    static_assert(sizeof(Numbers) % sizeof(std::int64_t) == 0);
    std::vector<std::int64_t> words(count * sizeof(Numbers) / sizeof(std::int64_t));
    std::memcpy(words.data(), first, count * sizeof(Numbers));
    words = group.maximum(std::move(words));
    std::memcpy(static_cast<void*>(first), words.data(), count * sizeof(Numbers));
}

}  // namespace

void MotionReduction::take(Side side, const ArrayPart& part) {
    if (side == Side::destination) prefers_row_major.take(datamover::prefers_row_major(part));
    if (!holds_elements(part)) return;
    element[side].take(element_code(part));
    in_private_memory[side].take(!part.allocation || !part.allocation->segment);
}

void MotionReduction::settle(Side side, ArrayPart& part) const {
    const auto& known = element[side].any() ? element[side] : element[other(side)];
    if (!known.any()) return;
    part.elem_bytes = known.number.value / types;
    part.type = static_cast<ScalarType>(known.number.value % types);
}

void BindingReduction::take(const TransportRates& rates) {
    rate_bits = std::bit_cast<decltype(rate_bits)>(rates);
}

TransportRates BindingReduction::rates() const {
    return std::bit_cast<TransportRates>(rate_bits);
}

void BindingReduction::reduce(const mpi::ProcessGroup& group, const std::optional<Error>& mine) {
    failed.take(mine ? group.size() - group.rank() : 0);
    reduce_numbers(group, this, 1);
    if (failed.value > 0)
        mpi::throw_error_of(group, group.size() - static_cast<int>(failed.value), mine);
}

void reduce(const mpi::ProcessGroup& group, std::vector<MotionReduction>& motions) {
    reduce_numbers(group, motions.data(), motions.size());
}

void throw_different_types(const mpi::ProcessGroup& group, Side side, const ArrayPart& part) {
    std::vector<std::int64_t> codes(static_cast<std::size_t>(group.size()), MaxOverRanks::none);
    if (holds_elements(part)) codes[static_cast<std::size_t>(group.rank())] = element_code(part);
    codes = group.maximum(std::move(codes));
    std::size_t first = 0;
    while (codes[first] == MaxOverRanks::none) ++first;
    std::size_t second = first;
    while (codes[second] == MaxOverRanks::none || codes[second] == codes[first]) ++second;
    const auto described = [&](std::size_t rank) {
        return concat(codes[rank] / types, " bytes (",
                      scalar_name(static_cast<ScalarType>(codes[rank] % types)), ")");
    };
    throw Error(ErrorCode::wrong_type,
                difference_text("passed", concat("elements of the ", side_name(side), " array"),
                                static_cast<std::int64_t>(first), described(first),
                                static_cast<std::int64_t>(second), described(second)));
}

}  // namespace datamover
