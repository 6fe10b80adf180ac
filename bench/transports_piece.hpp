// SPDX-License-Identifier: BSD-3-Clause
// Pieces of arrays in hand-written programs: their description, packing and MPI datatypes.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

/// Runs of bytes in a buffer, in three nested loops: at each of `outer`, `rows` times, `row_step`
/// apart, the runs of a row. Those are `runs` of `run_bytes`, `run_step` apart; or listed ones, all
/// of `run_bytes` or, where `lengths` has entries, each of its own length. All in bytes.
struct Piece {
    std::size_t array = 0;  ///< number of the array of the case
    std::int64_t elem_bytes = 8;
    std::vector<std::int64_t> outer{0};
    std::int64_t rows = 1, row_step = 0;
    std::int64_t runs = 1, run_step = 0, run_bytes = 0;
    std::vector<std::int64_t> listed, lengths;

    std::int64_t bytes() const;
};

/// A section of a row-major array, from index `begin` on, beside the elements of `shape`.
Piece box_piece(std::size_t array, std::int64_t elem_bytes, const std::vector<std::int64_t>& shape,
                const std::vector<std::int64_t>& begin, const std::vector<std::int64_t>& extent);

/// Calls visit(offset, bytes) for each run, in order.
template <class Visit>
void for_each_run(const Piece& p, Visit&& visit) {
    for (const std::int64_t outer : p.outer)
        for (std::int64_t row = 0; row < p.rows; ++row) {
            const std::int64_t at = outer + row * p.row_step;
            if (p.listed.empty())
                for (std::int64_t i = 0; i < p.runs; ++i) visit(at + i * p.run_step, p.run_bytes);
            for (std::size_t i = 0; i < p.listed.size(); ++i)
                visit(at + p.listed[i], p.lengths.empty() ? p.run_bytes : p.lengths[i]);
        }
}

/// Copy loops as one writes them, with runs of a length that the compiler knows where they are
/// short. They return where the message goes on.
std::byte* pack(const Piece& piece, const std::byte* array, std::byte* to);
const std::byte* unpack(const Piece& piece, std::byte* array, const std::byte* from);

/// The same as nested vectors, for use from MPI_BOTTOM; committed, the caller frees it.
MPI_Datatype datatype_of(const std::vector<Piece>& pieces, const std::vector<std::byte*>& arrays);

}  // namespace bench
