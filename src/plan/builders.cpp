// SPDX-License-Identifier: BSD-3-Clause
// Plans between levels of a grid hierarchy (prolongation, restriction), and panel broadcasts.
#include <string>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "geometry/make_error.hpp"
#include "halo.hpp"
#include "section_piece.hpp"

namespace datamover {
namespace {

/// What the two levels are called in messages, from the side of the one that reads, and the points
/// of the level that is read beneath (or above) a block.
struct Levels {
    const char* operation;  ///< "prolongation"
    const char* read;       ///< "coarse"
    const char* reading;    ///< "fine"
    Region (Region::*under)(const Point& factor) const;
};

const FloorPlan& boxes_of(const Layout& layout, const Levels& levels) {
    if (!layout.valid())
        throw make_error(ErrorCode::invalid_argument, "a ", levels.operation, " needs two layouts");
    if (const FloorPlan* boxes = layout.boxes()) return *boxes;
    throw make_error(ErrorCode::unsupported, "a ", levels.operation, " to ", layout.describe(),
                     ": the blocks of the ", levels.reading,
                     " level must be boxes; use a floor plan, or a "
                     "block-cyclic layout of block and * only");
}

void check_factor(const Point& factor, int dims) {
    if (factor.dims() != dims)
        throw make_error(ErrorCode::mismatch, "factor ", factor, " for levels of ", dims,
                         " dimensions");
    bool any = false;
    for (int d = 0; d < dims; ++d) {
        any = any || factor[d] > 1;
        if (factor[d] < 1 || (d == dims - 1 && !any))
            throw make_error(ErrorCode::invalid_argument, "factor ", factor,
                             "; each must be at least 1, and one of them at least 2");
    }
}

void check_dims(const Layout& read, int dims, const Levels& levels) {
    if (!read.valid()) boxes_of(read, levels);
    if (read.dims() != dims)
        throw make_error(ErrorCode::mismatch, "the ", levels.read, " level has ", read.dims(),
                         " dimensions, the ", levels.reading, " level ", dims);
    if (!read.has_products())
        throw make_error(ErrorCode::unsupported, "a ", levels.operation, " from ", read.describe(),
                         ": it must be of boxes, or "
                         "block-cyclic");
}

/// Throws mismatch where a point of the boxes `wanted`, one for each block that reads, lies within
/// the bounding box of the level that is read and in none of its blocks.
void check_held(const Layout& read, const std::vector<Region>& wanted, const Levels& levels) {
    const FloorPlan* blocks = read.floor_plan();
    if (!blocks) return;  // block-cyclic layouts have no holes
    const Region all = blocks->bounding_box();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const Region box = wanted[i].intersected(all);
        if (box.empty()) continue;
        std::vector<Region> holding;
        for (const std::int64_t block : blocks->find(box)) holding.push_back(blocks->region(block));
        const std::vector<Region> missing = subtract_all(box, holding);
        if (!missing.empty())
            throw make_error(ErrorCode::mismatch, "block ", i, " of the ", levels.reading,
                             " level needs the points ", missing.front(), " of the ", levels.read,
                             " level, which no block of that holds; a partial ", levels.operation,
                             " leaves out such points");
    }
}

/// The boxes as blocks with the numbers and owners of `like`.
FloorPlan blocks_like(const FloorPlan& like, const std::vector<Region>& boxes) {
    if (boxes.empty()) return like;
    return {boxes, Map(like.owners().begin(), like.owners().end()), like.nprocs()};
}

HaloExchange widths_of(const LevelOptions& options, int dims) {
    const Point none = Point::filled(dims, 0);
    return {options.lower.dims() == 0 ? none : options.lower,
            options.upper.dims() == 0 ? none : options.upper, options.periodic,
            plan::wraps_of(options.wraps, options.periodic, dims)};
}

/// Everything that `level`, or a periodic image of it, has for the boxes of `needed`.
MotionPlan from_level(const Layout& level, const FloorPlan& needed, const HaloExchange& widths) {
    constexpr std::int64_t most_images = 100'000;
    MotionPlan plan(level, needed);
    const Region held = level.domain(), wanted = needed.bounding_box();
    const Point period = plan::period_of(widths, needed.dims());
    const Region images = plan::periods_to_meet(held, wanted, period);
    if (images.size() > most_images)
        throw make_error(ErrorCode::out_of_range, "the boxes ", wanted, " meet ", images.size(),
                         " images in periods of ", period, "; use narrower widths");
    images.for_each([&](const Point& periods) {
        const Point offset = periods * period;
        const Region to = held.shifted(offset).intersected(wanted);
        if (!to.empty()) plan.add(Redistribution{to.shifted(-offset), to, {}, true});
    });
    return plan;
}

MotionPlan level_plan(const Layout& read, const Layout& reading, const Point& factor,
                      const LevelOptions& options, const Levels& levels) {
    const FloorPlan& blocks = boxes_of(reading, levels);
    check_factor(factor, blocks.dims());
    check_dims(read, blocks.dims(), levels);
    const HaloExchange widths = widths_of(options, blocks.dims());
    plan::check_halo_exchange(read.domain(), widths);
    std::vector<Region> boxes;
    for (std::int64_t i = 0; i < blocks.num_blocks(); ++i)
        boxes.push_back((blocks.region(i).*levels.under)(factor));
    if (!options.partial) check_held(read, boxes, levels);
    for (Region& box : boxes) box = box.grown(widths.lower, widths.upper);
    return from_level(read, blocks_like(blocks, boxes), widths);
}

}  // namespace

MotionPlan prolongation(const Layout& coarse, const Layout& fine, const Point& factor,
                        const LevelOptions& options) {
    return level_plan(coarse, fine, factor, options,
                      {"prolongation", "coarse", "fine", &Region::coarsened});
}

MotionPlan restriction(const Layout& fine, const Layout& coarse, const Point& factor,
                       const LevelOptions& options) {
    return level_plan(fine, coarse, factor, options,
                      {"restriction", "fine", "coarse", &Region::refined});
}

// Panel broadcast along a row or column of the process grid.

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
