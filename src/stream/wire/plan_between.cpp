// SPDX-License-Identifier: BSD-3-Clause
// Plans between layouts of programs with different numbers of processes; descriptions of arrays and
// layouts as bytes.
#include "stream/wire/plan_between.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "geometry/make_error.hpp"

namespace datamover::stream {
namespace {

/// The layout for more processes, which hold nothing.
Layout filled_up(const Layout& layout, std::int64_t nprocs) {
    if (layout.nprocs() == nprocs) return layout;
    if (const BlockCyclic* const given = layout.block_cyclic())
        return BlockCyclic(given->shape(), given->distribution(), nprocs,
                           {given->grid().to_vector(), given->first_process().to_vector(),
                            given->column_major_grid(), given->ranks(), given->replicas()});
    if (const FloorPlan* const given = layout.floor_plan())
        return FloorPlan(given->dims(), given->lower_corners(), given->upper_corners(),
                         given->owners(), nprocs);
    if (const FlatCyclic* const given = layout.flat_cyclic()) {
        std::vector<std::int64_t> owners;
        for (std::int64_t n = 0; n < given->num_blocks(); ++n) owners.push_back(given->owner(n));
        return FlatCyclic(given->shape(), given->block_elems(), nprocs, owners);
    }
    const IndexList& given = *layout.index_list();
    std::vector<std::int64_t> offsets{0}, indices;
    for (std::int64_t rank = 0; rank < nprocs; ++rank) {
        if (rank < given.nprocs()) {
            const auto list = given.indices_of(rank);
            indices.insert(indices.end(), list.begin(), list.end());
        }
        offsets.push_back(static_cast<std::int64_t>(indices.size()));
    }
    return IndexList(given.shape(), offsets, indices);
}

constexpr std::size_t max_dtype_characters = 1 << 16;

}  // namespace

Words& SentArray::pass(Words& words) {
    words.pass(number, 0, max_array_number).pass_name(name).pass_name(dtype, max_dtype_characters);
    return pass_layout(words.pass(elem_bytes, 1, max_elem_bytes), layout);
}

MotionPlan plan_between(const Layout& source, const Layout& destination) {
    const std::int64_t nprocs = std::max(source.nprocs(), destination.nprocs());
    return redistribute(filled_up(source, nprocs), filled_up(destination, nprocs));
}

Layout whole_of(const Layout& layout) {
    if (layout.floor_plan()) return FloorPlan({layout.domain()}, {0}, 1);
    const Point shape = layout.domain().shape();
    std::string distribution;
    for (int d = 0; d < shape.dims(); ++d) distribution += d == 0 ? "(*" : ", *";
    return BlockCyclic(shape, distribution + ")", 1);
}

std::string bytes_of_layout(const Layout& layout) {
    const std::vector<std::uint8_t> bytes = MotionPlan(layout, layout).to_bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Layout layout_of_bytes(std::string_view bytes) {
    try {
        return MotionPlan::from_bytes(
                   {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()})
            .source();
    } catch (const Error& error) {
        throw make_error(ErrorCode::io, "cannot read a layout: ", error.what());
    }
}

Words& pass_layout(Words& words, Layout& layout) {
    std::string bytes;
    if (!words.reads()) bytes = bytes_of_layout(layout);
    words.pass(bytes);
    if (!words.reads()) return words;
    layout = layout_of_bytes(bytes);
    if (layout.nprocs() > max_processes)
        throw make_error(ErrorCode::io, "a layout has ", layout.nprocs(), " processes; at most ",
                         max_processes, " are accepted");
    return words;
}

}  // namespace datamover::stream
