// SPDX-License-Identifier: BSD-3-Clause
// A matrix copy from the arguments of all processes, and which argument of which process is wrong.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "datamover/error.hpp"
#include "datamover/mover.hpp"
#include "mpi/process_group.hpp"

namespace datamover {

/// What one process says of one matrix.
struct MatrixArguments {
    std::byte* data = nullptr;
    std::int64_t row = 1, column = 1;   ///< of the section's first element, from 1
    std::int64_t nprow = 0, npcol = 0;  ///< 0 where the process knows nothing of the matrix
    std::int64_t grid_row = -1;         ///< of this process; -1 outside the grid
    std::int64_t grid_column = -1;
    std::array<std::int64_t, 9> descriptor{};  ///< DTYPE and CTXT are ignored

    bool known() const { return nprow > 0; }
    bool in_grid() const { return grid_row >= 0; }
    std::int64_t place() const { return grid_row * npcol + grid_column; }
};

/// Which part of a section is copied: all, or a trapezoid with or without its diagonal.
enum class SectionPart { whole, upper, strictly_upper, lower, strictly_lower };

/// What one process says of a copy.
struct CopyArguments {
    std::int64_t m = 0, n = 0, elem_bytes = 0;  ///< rows and columns of the section of B
    MatrixArguments a, b;
    bool transposed = false;  ///< the section of A is n x m
    SectionPart part = SectionPart::whole;
    ScalarType type = ScalarType::opaque;
    MoverOptions options = {};

    bool nothing_to_copy() const { return m == 0 || n == 0; }
    /// Rows and columns of the section of one of the matrices.
    std::int64_t rows(MatrixArguments CopyArguments::* of) const {
        return transposed && of == &CopyArguments::a ? n : m;
    }
    std::int64_t columns(MatrixArguments CopyArguments::* of) const {
        return transposed && of == &CopyArguments::a ? m : n;
    }
};

/// An argument that makes no sense, or differs between processes.
class WrongArgument : public Error {
public:
    WrongArgument(ErrorCode code, const std::string& message, int position)
        : Error(code, message), position_(position) {}
    /// As ScaLAPACK counts the arguments of p?gemr2d: from 1, and 100 i + j for entry j (from 1) of
    /// a descriptor that is argument i; 0 for the element type.
    int position() const noexcept { return position_; }

private:
    int position_;
};

/// The positions of the arguments of p?gemr2d. Those of a matrix follow its data.
struct ArgumentPosition {
    static constexpr int m = 1, n = 2, data_a = 3, data_b = 7, context = 11;
    static constexpr int row_after_data = 1, column_after_data = 2, descriptor_after_data = 3;
};

/// Everybody's arguments, by rank. `data` of another process is only null or not. Collective.
std::vector<CopyArguments> allgather_arguments(const mpi::ProcessGroup& group,
                                               const CopyArguments& mine);

/// Throws WrongArgument, the same on all processes, as all look at the same. Where there is nothing
/// to copy on any process, only that is looked at. Local, O(processes).
void check_arguments(const std::vector<CopyArguments>& all);

/// The rank at each place of a matrix's grid, row by row; -1 where nobody says to be there. Local.
std::vector<std::int64_t> ranks_of_grid(const std::vector<CopyArguments>& all,
                                        MatrixArguments CopyArguments::* matrix);

/// What the first process that knows a matrix says of it. Local.
const MatrixArguments& known_matrix(const std::vector<CopyArguments>& all,
                                    MatrixArguments CopyArguments::* matrix);

/// All that this process says of a call, its addresses included. Local.
std::vector<std::int64_t> words_of(const CopyArguments& copy);

/// Finds the mover of an earlier call with the same arguments on `comm`, or binds one, moves, and
/// returns it. Where `arguments` throws on one process, all throw. `wrong_argument` is set to the
/// position of the argument that is at fault (see WrongArgument), where that is known, on all
/// processes. Collective. Throws as copy_matrix does. Defined in scalapack_copy.cpp.
Mover copy_section(MPI_Comm comm, const std::function<CopyArguments()>& arguments,
                   int& wrong_argument);

}  // namespace datamover
