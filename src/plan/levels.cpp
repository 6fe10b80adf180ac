// SPDX-License-Identifier: BSD-3-Clause
// Prolongation and restriction between levels of a grid hierarchy.
#include <vector>

#include "datamover/motion_plan.hpp"
#include "geometry/make_error.hpp"
#include "halo.hpp"

namespace datamover {
namespace {

/// What the two levels are called in messages, from the side of the one that reads.
struct Levels {
    const char* operation;  ///< "prolongation"
    const char* read;       ///< "coarse"
    const char* reading;    ///< "fine"
};

constexpr Levels from_coarse{"prolongation", "coarse", "fine"};
constexpr Levels from_fine{"restriction", "fine", "coarse"};

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
    std::vector<std::int64_t> lo, hi;
    for (const Region& box : boxes)
        for (int d = 0; d < like.dims(); ++d) {
            lo.push_back(box.lo()[d]);
            hi.push_back(box.hi()[d]);
        }
    return {like.dims(), lo, hi, like.owners(), like.nprocs()};
}

HaloExchange widths_of(const LevelOptions& options, int dims) {
    HaloExchange widths;
    const Point none = Point::filled(dims, 0);
    widths.lower = options.lower.dims() == 0 ? none : options.lower;
    widths.upper = options.upper.dims() == 0 ? none : options.upper;
    widths.domain = options.periodic;
    widths.periodic = options.wraps;
    if (options.wraps.empty()) widths.periodic = plan::wraps_of(options.periodic, dims);
    return widths;
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

/// `under(box)` are the points of the level that is read beneath (or above) a block.
template <class Under>
MotionPlan level_plan(const Layout& read, const Layout& reading, const LevelOptions& options,
                      const Levels& levels, Under&& under) {
    const FloorPlan& blocks = boxes_of(reading, levels);
    check_dims(read, blocks.dims(), levels);
    const HaloExchange widths = widths_of(options, blocks.dims());
    plan::check_halo_exchange(read.domain(), widths);
    std::vector<Region> boxes;
    for (std::int64_t i = 0; i < blocks.num_blocks(); ++i) boxes.push_back(under(blocks.region(i)));
    if (!options.partial) check_held(read, boxes, levels);
    for (Region& box : boxes) box = box.grown(widths.lower, widths.upper);
    return from_level(read, blocks_like(blocks, boxes), widths);
}

}  // namespace

MotionPlan prolongation(const Layout& coarse, const Layout& fine, const Point& factor,
                        const LevelOptions& options) {
    check_factor(factor, boxes_of(fine, from_coarse).dims());
    return level_plan(coarse, fine, options, from_coarse,
                      [&](const Region& block) { return block.coarsened(factor); });
}

MotionPlan restriction(const Layout& fine, const Layout& coarse, const Point& factor,
                       const LevelOptions& options) {
    check_factor(factor, boxes_of(coarse, from_fine).dims());
    return level_plan(fine, coarse, options, from_fine,
                      [&](const Region& block) { return block.refined(factor); });
}

}  // namespace datamover
