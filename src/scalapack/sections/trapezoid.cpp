// SPDX-License-Identifier: BSD-3-Clause
// Plans that copy a trapezoid of a matrix section.
#include "trapezoid.hpp"

#include <algorithm>

namespace datamover {
namespace {

/// Rows and columns of a section, counted from its corner.
Region within(const Region& section, const RowRange& rows, std::int64_t column, std::int64_t end) {
    const Point& corner = section.lo();
    return {Point{corner[0] + rows.first, corner[1] + column},
            Point{corner[0] + rows.end, corner[1] + end}};
}

}  // namespace

RowRange rows_of_column(SectionPart part, std::int64_t column, std::int64_t m, std::int64_t n) {
    const auto row = [m](std::int64_t r) { return std::clamp<std::int64_t>(r, 0, m); };
    const std::int64_t above = std::max<std::int64_t>(m - n, 0) + column;
    const std::int64_t below = column - std::max<std::int64_t>(n - m, 0);
    switch (part) {
        case SectionPart::upper:
            return {0, row(above + 1)};
        case SectionPart::strictly_upper:
            return {0, row(above)};
        case SectionPart::lower:
            return {row(below), m};
        case SectionPart::strictly_lower:
            return {row(below + 1), m};
        case SectionPart::whole:
            break;
    }
    return {0, m};
}

MotionPlan trapezoid_copy(const Layout& source, const Region& source_section,
                          const Layout& destination, const Region& destination_section,
                          SectionPart part) {
    MotionPlan plan(source, destination);
    const std::int64_t m = source_section.shape()[0], n = source_section.shape()[1];
    for (std::int64_t column = 0, end = 0; column < n; column = end) {
        const RowRange rows = rows_of_column(part, column, m, n);
        end = column + 1;
        while (end < n && rows_of_column(part, end, m, n) == rows) ++end;
        if (rows.first == rows.end) continue;
        Redistribution term;
        term.source_region = within(source_section, rows, column, end);
        term.destination_region = within(destination_section, rows, column, end);
        plan.add(term);
    }
    return plan;
}

}  // namespace datamover
