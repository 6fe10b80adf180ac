// SPDX-License-Identifier: BSD-3-Clause
// Flat layouts: ranges of the flattened array.
#include "datamover/flat_cyclic.hpp"

#include <algorithm>
#include <utility>

#include "bounds.hpp"
#include "geometry/checked.hpp"
#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"

namespace datamover {

FlatCyclic::FlatCyclic(const Point& shape, std::int64_t block_elems, std::int64_t nprocs,
                       std::vector<std::int64_t> owners)
    : shape_(shape), elems_(layout::checked_elems(shape, "flat")) {
    layout::check_nprocs(nprocs);
    if (block_elems < 1)
        throw make_error(ErrorCode::invalid_argument, "blocks of ", block_elems,
                         " elements of the flattened array; they need at least 1");
    block_elems_ = std::min(block_elems, std::max<std::int64_t>(elems_, 1));
    const auto num_blocks = owners.empty() ? nprocs : std::ssize(owners);
    static_cast<BlockOwners&>(*this) = {nprocs, num_blocks, std::move(owners), "owners"};
}

FlatCyclic FlatCyclic::of_bytes(const Point& shape, std::int64_t block_bytes,
                                std::int64_t elem_bytes, std::int64_t nprocs,
                                std::vector<std::int64_t> owners) {
    if (elem_bytes < 1)
        throw make_error(ErrorCode::invalid_argument, "elements of ", elem_bytes,
                         " bytes; they need at least 1");
    if (block_bytes < 1 || block_bytes % elem_bytes != 0)
        throw make_error(ErrorCode::invalid_argument, "blocks of ", block_bytes,
                         " bytes do not hold a whole number of elements of ", elem_bytes,
                         " bytes, at least one");
    return {shape, block_bytes / elem_bytes, nprocs, std::move(owners)};
}

std::int64_t FlatCyclic::num_filled_blocks() const {
    if (elems_ == 0) return 0;
    return std::min(num_blocks(), geometry::divide_up(elems_, block_elems_));
}

AxisSet FlatCyclic::flat_set(std::int64_t block) const {
    layout::check_number("block", block, num_blocks());
    if (block >= num_filled_blocks()) return AxisSet::interval(elems_, elems_);
    if (num_blocks() == 1) return AxisSet::interval(0, elems_);
    const std::int64_t first = block * block_elems_;
    // Where there is no second round, the period does not matter, and may not fit 64 bits.
    const std::int64_t period = geometry::bounded_multiply(block_elems_, num_blocks());
    if (period >= elems_)
        return AxisSet::interval(first,
                                 elems_ - first > block_elems_ ? first + block_elems_ : elems_);
    return {first, block_elems_, period, elems_};
}

FlatCyclic::Place FlatCyclic::place_of(std::int64_t flat_index) const {
    layout::check_number("flat index", flat_index, elems_);
    const std::int64_t course = flat_index / block_elems_, blocks = num_blocks();
    return {course % blocks, course / blocks * block_elems_ + flat_index % block_elems_};
}

std::int64_t FlatCyclic::digest() const {
    geometry::WordDigest digest;
    digest.put_all(shape_.to_vector());
    digest.put(block_elems_);
    digest.put(nprocs());
    digest.put_all(owners());
    return digest.value();
}

}  // namespace datamover
