// SPDX-License-Identifier: BSD-3-Clause
// What does a mover need for a copy between sections of two ScaLAPACK matrices?
#pragma once

#include <cstdint>

#include "datamover/scalapack_copy.hpp"
#include "mover_cache.hpp"

namespace datamover {

/// The plan for an m x n section and this process's parts of both matrices. Local. Throws as
/// copy_matrix does.
MoverArguments section_copy(std::int64_t m, std::int64_t n, const ScalapackMatrix& source,
                            const ScalapackMatrix& destination, std::int64_t elem_bytes,
                            std::int64_t rank, std::int64_t nprocs);

/// Appends what tells one matrix's section from another on this process.
void append_key(std::vector<std::int64_t>& key, const ScalapackMatrix& matrix);

}  // namespace datamover
