// SPDX-License-Identifier: BSD-3-Clause
// Arrays of the library's, and shared memory as a window of MPI.
#include <algorithm>
#include <string>

#include "binding.hpp"
#include "datamover/array.hpp"
#include "datamover/array_part.hpp"
#include "geometry/make_error.hpp"
#include "memory/segment_pool.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"
#include "mpi/process_group.hpp"

namespace datamover {
namespace {

void check_arguments(const mpi::ProcessGroup& group, const Layout& layout, std::int64_t elem_bytes,
                     const ArrayOptions& options) {
    if (!layout.valid()) throw Error(ErrorCode::invalid_argument, "an array needs a layout");
    if (layout.nprocs() != group.size())
        throw make_error(ErrorCode::mismatch, "the layout is for ", layout.nprocs(),
                         " processes, the communicator has ", group.size());
    const std::int64_t type_bytes = scalar_bytes(options.type);
    if (type_bytes != 0 && type_bytes != elem_bytes)
        throw make_error(ErrorCode::wrong_type, "elements of ", scalar_name(options.type), " have ",
                         type_bytes, " bytes, not ", elem_bytes);
}

}  // namespace

Array::Array(MPI_Comm comm, const Layout& layout, std::int64_t elem_bytes,
             const ArrayOptions& options)
    : layout_(layout) {
    const auto group = mpi::ProcessGroup::of(comm);
    rank_ = group->rank();
    mpi::collectively(*group, [&] {
        check_arguments(*group, layout, elem_bytes, options);
        part_.elem_bytes = elem_bytes;
        part_.type = options.type;
        part_.layout = layout;
        part_.memory = dense_memory(layout, rank_, elem_bytes, options.order, options.ghost_lower,
                                    options.ghost_upper);
        part_.allocation = memory::SegmentPool::of_process().allocate(part_.memory.end_bytes);
        part_.base = part_.allocation->data;
    });
}

bool Array::shared() const {
    return part_.allocation && part_.allocation->segment;
}

const BlockMemory& Array::block_memory(std::int64_t block) const {
    const BlockMemory* memory = part_.memory.find(block);
    if (!memory)
        throw make_error(ErrorCode::out_of_range, "process ", rank_, " does not hold block ",
                         block);
    return *memory;
}

std::byte* Array::origin(std::int64_t block) const {
    if (!part_.allocation) throw Error(ErrorCode::invalid_state, "the array has been freed");
    return part_.base + block_memory(block).offset_bytes;
}

std::optional<std::int64_t> Array::only_block() const {
    const auto& blocks = part_.memory.blocks;
    if (blocks.empty()) return {};
    if (blocks.size() > 1)
        throw make_error(ErrorCode::invalid_state, "process ", rank_, " holds ", blocks.size(),
                         " blocks; ask for one of them by its number");
    return blocks.front().block;
}

GridView<std::byte> Array::byte_grid(std::int64_t block, std::size_t elem_bytes) const {
    if (static_cast<std::int64_t>(elem_bytes) != part_.elem_bytes)
        throw make_error(ErrorCode::wrong_type, "the array's elements have ", part_.elem_bytes,
                         " bytes, those of the grid that was asked for ", elem_bytes);
    const BlockMemory& memory = block_memory(block);
    return {origin(block), layout_.block_extents(block), memory.strides_bytes, memory.valid};
}

void Array::close() {
    part_.allocation.reset();
    part_.base = nullptr;
}

namespace {

void require_shared(MPI_Win window) {
    mpi::check_running();
    if (window == MPI_WIN_NULL)
        throw Error(ErrorCode::invalid_argument, "the window is MPI_WIN_NULL");
    int* flavor = nullptr;
    int is_set = 0;
    mpi::check(
        MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, static_cast<void*>(&flavor), &is_set),
        "MPI_Win_get_attr");
    if (!is_set || *flavor != MPI_WIN_FLAVOR_SHARED)
        throw Error(ErrorCode::invalid_argument,
                    "the window was not made with MPI_Win_allocate_shared");
}

int processes_of(MPI_Win window) {
    MPI_Group group = MPI_GROUP_NULL;
    mpi::check(MPI_Win_get_group(window, &group), "MPI_Win_get_group");
    int size = 0;
    const int code = MPI_Group_size(group, &size);
    MPI_Group_free(&group);
    mpi::check(code, "MPI_Group_size");
    return size;
}

/// A process's part of the window, where it is mapped here.
std::span<std::byte> part_of(MPI_Win window, int rank) {
    MPI_Aint bytes = 0;
    int unit = 0;
    void* data = nullptr;
    mpi::check(MPI_Win_shared_query(window, rank, &bytes, &unit, static_cast<void*>(&data)),
               "MPI_Win_shared_query");
    return {static_cast<std::byte*>(data), static_cast<std::size_t>(bytes)};
}

/// The whole part that the memory lies in: all arrays in it are then known as one segment.
std::span<std::byte> part_around(MPI_Win window, const std::byte* memory, std::int64_t bytes) {
    const int processes = processes_of(window);
    for (int rank = 0; rank < processes; ++rank) {
        const std::span<std::byte> part = part_of(window, rank);
        if (part.data() <= memory && bytes <= std::ssize(part) &&
            memory - part.data() <= std::ssize(part) - bytes)
            return part;
    }
    throw make_error(ErrorCode::invalid_argument, "the ", bytes,
                     " bytes do not lie in one process's part of the window");
}

}  // namespace

std::shared_ptr<const void> in_window(MPI_Win window, void* memory, std::int64_t bytes) {
    require_shared(window);
    if (bytes < 0)
        throw make_error(ErrorCode::invalid_argument, bytes,
                         " bytes were said to lie in the window");
    if (bytes == 0) return nullptr;
    const auto part = part_around(window, static_cast<const std::byte*>(memory), bytes);
    // MPI need not share the memory of one process alone.
    if (processes_of(window) == 1) return nullptr;
    try {
        return memory::SegmentPool::of_process().adopt(part.data(), std::ssize(part));
    } catch (const Error& e) {
        throw make_error(ErrorCode::unsupported, "the window's memory cannot be used: ", e.what());
    }
}

// User arrays: arrays that a program already has become a part that a mover binds.

namespace {

std::string name_of(const UserBlock& user) {
    return concat("block ", user.block);
}

/// The ghost widths of one side, zeros where none were given.
Point checked_ghosts(const UserBlock& user, const Point& ghosts, int dims) {
    if (ghosts.dims() == 0) return Point::filled(dims, 0);
    if (ghosts.dims() != dims)
        throw make_error(ErrorCode::mismatch, name_of(user), " has ", dims,
                         " dimensions, its ghost widths ", ghosts);
    for (int d = 0; d < dims; ++d)
        if (ghosts[d] < 0)
            throw make_error(ErrorCode::invalid_argument, name_of(user),
                             " has the negative ghost width ", ghosts[d]);
    return ghosts;
}

/// The legal local indices of the block, ghosts included; empty for a block without elements.
Region valid_region(const UserBlock& user, const Layout& layout) {
    const Region interior = Region::from_shape(layout.block_extents(user.block));
    const int dims = layout.block_extents(user.block).dims();
    if (user.strides_bytes.dims() != dims)
        throw make_error(ErrorCode::mismatch, name_of(user), " has ", dims,
                         " dimensions, its strides ", user.strides_bytes);
    const Point lower = checked_ghosts(user, user.ghost_lower, dims);
    return interior.grown(lower, checked_ghosts(user, user.ghost_upper, dims));
}

void check_no_block_twice(const MemoryLayout& memory) {
    for (std::size_t i = 1; i < memory.blocks.size(); ++i)
        if (memory.blocks[i - 1].block == memory.blocks[i].block)
            throw make_error(ErrorCode::invalid_argument, "block ", memory.blocks[i].block,
                             " was given twice");
}

}  // namespace

ArrayPart user_part(const Layout& layout, std::span<const UserBlock> blocks,
                    std::int64_t elem_bytes, ScalarType type, bool writable) {
    if (!layout.valid()) throw Error(ErrorCode::invalid_argument, "an array needs a layout");
    ArrayPart part;
    part.layout = layout;
    part.elem_bytes = elem_bytes;
    part.type = type;
    part.writable = writable;
    for (const UserBlock& user : blocks) {
        const Region valid = valid_region(user, layout);
        if (!user.origin && !valid.empty())
            throw make_error(ErrorCode::invalid_argument, name_of(user),
                             " has elements, but its address is NULL");
        if (!part.base) part.base = user.origin;
        const auto offset = user.origin ? reinterpret_cast<std::intptr_t>(user.origin) -
                                              reinterpret_cast<std::intptr_t>(part.base)
                                        : 0;
        part.memory.blocks.push_back({user.block, offset, user.strides_bytes, valid});
        if (valid.empty()) continue;
        const auto [begin, end] = ends_of(part.memory.blocks.back(), elem_bytes);
        part.memory.begin_bytes = std::min(part.memory.begin_bytes, begin);
        part.memory.end_bytes = std::max(part.memory.end_bytes, end);
    }
    std::ranges::sort(part.memory.blocks,
                      [](const BlockMemory& a, const BlockMemory& b) { return a.block < b.block; });
    check_no_block_twice(part.memory);
    // Memory of the library's, or a piece of it, can be reached by the node.
    if (part.base && part.memory.end_bytes > part.memory.begin_bytes)
        part.allocation = memory::SegmentPool::of_process().find(
            part.base + part.memory.begin_bytes, part.base + part.memory.end_bytes);
    return part;
}

bool is_same(const ArrayPart& a, const ArrayPart& b) {
    return a.base == b.base && a.memory == b.memory && a.elem_bytes == b.elem_bytes;
}

std::pair<std::int64_t, std::int64_t> ends_of(const BlockMemory& block, std::int64_t elem_bytes) {
    if (block.valid.empty()) return {0, 0};
    std::int64_t begin = block.offset_bytes, end = block.offset_bytes + elem_bytes;
    for (int d = 0; d < block.valid.dims(); ++d) {
        const std::int64_t first = block.valid.lo()[d] * block.strides_bytes[d];
        const std::int64_t last = (block.valid.hi()[d] - 1) * block.strides_bytes[d];
        begin += std::min(first, last);
        end += std::max(first, last);
    }
    return {begin, end};
}

}  // namespace datamover
