// SPDX-License-Identifier: BSD-3-Clause
// Builder of box lists with shared shapes.
#include "box_list_builder.hpp"

#include "geometry/checked.hpp"

namespace datamover::plan {
namespace {

std::uint64_t hash_of(const BoxShape& shape) {
    std::uint64_t hash = static_cast<std::uint64_t>(shape.dims);
    for (const BoxAxis& a : shape.axes()) {
        const auto dims = static_cast<std::uint64_t>(a.source_dim * max_dims + a.destination_dim);
        // Products of the words do not depend on each other, so that they overlap in time.
        hash = (hash ^ (static_cast<std::uint64_t>(a.source) * 0x9E3779B97F4A7C15) ^
                (static_cast<std::uint64_t>(a.destination) * 0xC2B2AE3D27D4EB4F) ^
                (static_cast<std::uint64_t>(a.length) * 0x165667B19E3779F9) ^ dims) *
               0xD6E8FEB86659FD93;
        hash ^= hash >> 32;
    }
    return hash;
}

}  // namespace

std::int64_t BoxListBuilder::shape_of(const BoxShape& shape) {
    const std::uint64_t hash = hash_of(shape);
    const std::int64_t known = known_.find(hash, [&](std::int64_t number) {
        return list_.shapes[static_cast<std::size_t>(number)] == shape;
    });
    if (known >= 0) return known;
    const auto number = static_cast<std::int64_t>(list_.shapes.size());
    list_.shapes.push_back(shape);
    shape_elems_.push_back(shape.size());
    known_.insert(hash, number);
    return number;
}

void BoxListBuilder::add(std::int64_t source_block, std::int64_t destination_block,
                         const BoxShape& shape) {
    const std::int64_t number = shape_of(shape);
    const std::int64_t elems = shape_elems_[static_cast<std::size_t>(number)];
    if (elems == 0) return;
    list_.boxes.push_back({source_block, destination_block, number});
    list_.elems = geometry::add(list_.elems, elems);
}

}  // namespace datamover::plan
