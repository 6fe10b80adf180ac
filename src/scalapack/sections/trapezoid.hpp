// SPDX-License-Identifier: BSD-3-Clause
// Plans that copy a trapezoid of a matrix section.
#pragma once

#include "datamover/motion_plan.hpp"
#include "matrix_arguments.hpp"

namespace datamover {

/// The rows of column `column` of an m x n section that are in a trapezoid: from the first on,
/// below the second. As ScaLAPACK's p?trmr2d has it: with more rows than columns the diagonal of an
/// upper trapezoid ends in the lower right corner, with more columns than rows so does a lower
/// one's; else it begins in the upper left corner.
struct RowRange {
    std::int64_t first, end;
    bool operator==(const RowRange&) const = default;
};
RowRange rows_of_column(SectionPart part, std::int64_t column, std::int64_t m, std::int64_t n);

/// The plan that copies the trapezoid of `source_section` to that of `destination_section`, which
/// have the same shape: a term for each run of columns that have the same rows. O(columns).
MotionPlan trapezoid_copy(const Layout& source, const Region& source_section,
                          const Layout& destination, const Region& destination_section,
                          SectionPart part);

}  // namespace datamover
