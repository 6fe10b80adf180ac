// SPDX-License-Identifier: BSD-3-Clause
// How is a section of one ScaLAPACK matrix copied to a section of another?
#include "datamover/scalapack_copy.hpp"

#include <string>
#include <vector>

#include "datamover/error.hpp"
#include "matrix_section.hpp"
#include "mpi/process_group.hpp"

namespace datamover {
namespace {

/// The section in 0-based, half-open indices.
Region section_region(const ScalapackMatrix& matrix, std::int64_t m, std::int64_t n,
                      const char* name) {
    const auto d = ScalapackDescriptor::from_entries(matrix.descriptor);
    const Region section(Point{matrix.row - 1, matrix.column - 1},
                         Point{matrix.row - 1 + m, matrix.column - 1 + n});
    if (!Region::from_shape({d.m, d.n}).contains(section))
        throw Error(ErrorCode::out_of_range,
                    "the section of " + std::to_string(m) + " x " + std::to_string(n) + " from (" +
                        std::to_string(matrix.row) + ", " + std::to_string(matrix.column) +
                        ") on (counted from 1) is not inside matrix " + name + " of " +
                        std::to_string(d.m) + " x " + std::to_string(d.n));
    return section;
}

ArrayPart part_of(const ScalapackMatrix& matrix, const BlockCyclic& layout, std::int64_t rank,
                  std::int64_t elem_bytes, const char* name) {
    ArrayPart part;
    part.layout = layout;
    part.elem_bytes = elem_bytes;
    part.memory =
        ScalapackDescriptor::from_entries(matrix.descriptor).memory(layout, rank, elem_bytes);
    if (part.memory.blocks.empty()) return part;
    part.base = matrix.data;
    if (!part.base && part.memory.end_bytes > 0)
        throw Error(ErrorCode::invalid_argument, std::string("matrix ") + name +
                                                     " is NULL on process " + std::to_string(rank) +
                                                     ", which holds elements of it");
    return part;
}

/// What must be the same on all processes: everything but addresses and LLD.
std::vector<std::int64_t> common_values(std::int64_t m, std::int64_t n,
                                        const ScalapackMatrix& matrix) {
    std::vector<std::int64_t> values{m,
                                     n,
                                     matrix.row,
                                     matrix.column,
                                     matrix.grid.nprow,
                                     matrix.grid.npcol,
                                     matrix.grid.column_major,
                                     matrix.descriptor[0]};
    values.insert(values.end(), matrix.descriptor.begin() + 2, matrix.descriptor.begin() + 8);
    values.insert(values.end(), matrix.grid.ranks.begin(), matrix.grid.ranks.end());
    return values;
}

/// FNV-1a, kept positive so that it can be negated.
std::int64_t hash_of(const std::vector<std::int64_t>& values) {
    std::uint64_t hash = 14695981039346656037u;
    for (const std::int64_t v : values)
        for (int byte = 0; byte < 8; ++byte) {
            hash ^= static_cast<std::uint64_t>(v) >> (8 * byte) & 0xff;
            hash *= 1099511628211u;
        }
    return static_cast<std::int64_t>(hash >> 1);
}

void check_same_everywhere(const mpi::ProcessGroup& group, const std::vector<std::int64_t>& values,
                           const char* name) {
    const std::int64_t hash = hash_of(values);
    const auto extremes = group.maximum({hash, -hash});
    if (extremes[0] != -extremes[1])
        throw Error(ErrorCode::mismatch,
                    std::string("sizes, section, descriptor or grid of matrix ") + name +
                        " are not the same on all processes");
}

}  // namespace

MoverArguments section_copy(std::int64_t m, std::int64_t n, const ScalapackMatrix& source,
                            const ScalapackMatrix& destination, std::int64_t elem_bytes,
                            std::int64_t rank, std::int64_t nprocs) {
    if (m < 0 || n < 0)
        throw Error(ErrorCode::invalid_argument, "a section of " + std::to_string(m) + " x " +
                                                     std::to_string(n) +
                                                     " elements makes no sense");
    const Region from = section_region(source, m, n, "A");
    const Region to = section_region(destination, m, n, "B");
    const auto layout_of = [&](const ScalapackMatrix& matrix) {
        return ScalapackDescriptor::from_entries(matrix.descriptor).layout(matrix.grid, nprocs);
    };
    const BlockCyclic source_layout = layout_of(source),
                      destination_layout = layout_of(destination);
    return {redistribute(source_layout, from, destination_layout, to),
            part_of(source, source_layout, rank, elem_bytes, "A"),
            part_of(destination, destination_layout, rank, elem_bytes, "B")};
}

void append_key(std::vector<std::int64_t>& key, const ScalapackMatrix& matrix) {
    key.push_back(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(matrix.data)));
    key.insert(key.end(), {matrix.row, matrix.column, matrix.grid.nprow, matrix.grid.npcol,
                           matrix.grid.column_major});
    key.insert(key.end(), matrix.descriptor.begin(), matrix.descriptor.end());
    key.push_back(static_cast<std::int64_t>(matrix.grid.ranks.size()));
    key.insert(key.end(), matrix.grid.ranks.begin(), matrix.grid.ranks.end());
}

void copy_matrix(MPI_Comm comm, std::int64_t m, std::int64_t n, const ScalapackMatrix& source,
                 const ScalapackMatrix& destination, std::int64_t elem_bytes) {
    const auto group = mpi::ProcessGroup::of(comm);
    if (m == 0 || n == 0) return;
    std::vector<std::int64_t> key{m, n, elem_bytes};
    append_key(key, source);
    append_key(key, destination);
    Mover mover = cached_mover(comm, key, [&] {
        check_same_everywhere(*group, common_values(m, n, source), "A");
        check_same_everywhere(*group, common_values(m, n, destination), "B");
        return section_copy(m, n, source, destination, elem_bytes, group->rank(), group->size());
    });
    mover();
}

}  // namespace datamover
