// SPDX-License-Identifier: BSD-3-Clause
// Panel broadcast along a row or column of the process grid.
#include <string>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "geometry/make_error.hpp"
#include "section_piece.hpp"

namespace datamover {
namespace {

/// The words of a distribution, with `*` in dimension `along`.
std::string not_dealt_out(const std::string& distribution, int along) {
    using Kind = AxisDistribution::Kind;
    auto axes = parse_distribution(distribution);
    axes[static_cast<std::size_t>(along)] = {};
    std::string text;
    for (const AxisDistribution& axis : axes) {
        text += text.empty() ? "(" : ", ";
        text += axis.kind == Kind::block ? "block" : axis.kind == Kind::cyclic ? "cyclic" : "*";
        if (axis.block > 0) text += concat("(", axis.block, ")");
    }
    return text + ")";
}

/// One replica for each grid coordinate along `along` (of each replica of the array): coordinate by
/// coordinate the ranks of the processes that have it.
BlockCyclic panel_layout(const BlockCyclic& array, std::int64_t extent, int along) {
    Point shape = array.shape(), grid = array.grid(), first = array.first_process();
    shape[along] = extent;
    grid[along] = 1;
    first[along] = 0;
    const std::string distribution = not_dealt_out(array.distribution(), along);
    BlockCyclicOptions options;
    options.grid = grid.to_vector();
    options.first_process = first.to_vector();
    options.column_major_grid = array.column_major_grid();
    const BlockCyclic one_copy(shape, distribution, array.nprocs(), options);
    const std::int64_t of_replica = array.grid().product();
    for (std::int64_t replica = 0; replica < array.replicas(); ++replica)
        for (std::int64_t c = 0; c < array.grid()[along]; ++c)
            for (std::int64_t block = 0; block < one_copy.num_blocks(); ++block) {
                Point coordinates = one_copy.grid_coordinates(block);
                coordinates[along] = c;
                options.ranks.push_back(
                    array.owner(replica * of_replica + array.block_at(coordinates)));
            }
    options.replicas = array.replicas() * array.grid()[along];
    return {shape, distribution, array.nprocs(), options};
}

}  // namespace

MotionPlan panel_broadcast(const Layout& layout, const Region& region, int along) {
    const BlockCyclic* array = layout.valid() ? layout.block_cyclic() : nullptr;
    if (!array)
        throw make_error(ErrorCode::unsupported,
                         "a panel broadcast needs a block-cyclic layout, which has a process grid; "
                         "this is ",
                         (layout.valid() ? layout.describe() : "no layout"));
    if (along < 0 || along >= array->dims())
        throw make_error(ErrorCode::out_of_range, "a panel along dimension ", along,
                         "; it must be 0 to ", array->dims() - 1);
    plan::check_region_inside(region, layout.domain(), "source");
    if (region.empty())
        throw make_error(ErrorCode::invalid_argument, "the panel ", region, " is empty");
    Point to_panel = Point::filled(region.dims(), 0);
    to_panel[along] = -region.lo()[along];
    return redistribute(layout, region, panel_layout(*array, region.extent(along), along),
                        region.shifted(to_panel));
}

}  // namespace datamover
