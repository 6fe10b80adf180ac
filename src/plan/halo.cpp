// SPDX-License-Identifier: BSD-3-Clause
// Halo exchanges: valid arguments, and the sections they stand for.
#include "halo.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "datamover/motion_plan.hpp"
#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "section_piece.hpp"

namespace datamover::plan {
namespace {

/// Of two images of one block the one nearer to it sends first, dimension by dimension, and of two
/// that are equally near the lower one.
bool nearer(const Point& a, const Point& b) {
    for (int d = 0; d < a.dims(); ++d) {
        const std::int64_t p = a[d], q = b[d];
        const std::int64_t near_a = p < 0 ? -p : p, near_b = q < 0 ? -q : q;
        if (near_a != near_b) return near_a < near_b;
        if (p != q) return p < q;
    }
    return false;
}

constexpr std::int64_t most_images = 100'000;

[[noreturn]] void refuse_images(const Region& box, const Point& period) {
    throw make_error(ErrorCode::out_of_range, "the ghosts around a block, ", box,
                     ", meet more than ", most_images,
                     " blocks and images of blocks in periods of ", period,
                     ": use narrower ghosts");
}

bool periods_are_disjoint(const Region& bounding_box, const Point& period) {
    for (int d = 0; d < period.dims(); ++d)
        if (period[d] != 0 && bounding_box.extent(d) > period[d]) return false;
    return true;
}

/// The widths along one axis alone.
Point only(const Point& width, int axis) {
    Point alone = Point::filled(width.dims(), 0);
    alone[axis] = width[axis];
    return alone;
}

}  // namespace

GhostBoxes::GhostBoxes(const FloorPlan& floorplan, const HaloExchange& exchange)
    : floorplan_(floorplan),
      exchange_(exchange),
      lower_corners_(floorplan.lower_corners()),
      upper_corners_(floorplan.upper_corners()),
      dims_(floorplan.dims()),
      period_(period_of(exchange, dims_)),
      disjoint_(periods_are_disjoint(floorplan.bounding_box(), period_) && floorplan.disjoint()) {
    box_.dims = dims_;
    for (int d = 0; d < dims_; ++d) box_.axis[d].source_dim = box_.axis[d].destination_dim = d;
}

/// Finds every image of an interior that meets `box`, in the order in which they send: the lowest
/// block first, and of a block the nearest image.
void GhostBoxes::find_images(const Region& box) {
    shifts_.clear();
    images_.clear();
    const Region all_periods = periods_to_meet(floorplan_.bounding_box(), box, period_);
    if (all_periods.size() > most_images) refuse_images(box, period_);
    all_periods.for_each([&](const Point& periods) {
        shifts_.push_back({periods, periods * period_});
        found_.clear();
        floorplan_.add_found(box.shifted(-shifts_.back().points), found_);
        if (static_cast<std::int64_t>(images_.size() + found_.size()) > most_images)
            refuse_images(box, period_);
        for (const std::int64_t block : found_) images_.push_back({block, shifts_.size() - 1});
    });
    sort_images();
}

/// In the order in which they send.
void GhostBoxes::sort_images() {
    if (shifts_.size() < 2) return;
    std::ranges::sort(images_, [this](const Image& a, const Image& b) {
        return a.block != b.block ? a.block < b.block
                                  : nearer(shifts_[a.shift].periods, shifts_[b.shift].periods);
    });
}

bool GhostBoxes::is_itself(const Image& image, std::int64_t block) const {
    return image.block == block && shifts_[image.shift].periods == Point::filled(dims_, 0);
}

Region GhostBoxes::region_of(const Image& image) const {
    return floorplan_.region(image.block).shifted(shifts_[image.shift].points);
}

GhostBoxes::Box GhostBoxes::box_of(std::int64_t block, const Point& shift) const {
    const auto first = static_cast<std::size_t>(block * dims_);
    const std::int64_t* lo = &lower_corners_[first];
    const std::int64_t* hi = &upper_corners_[first];
    Box box;
    for (int d = 0; d < dims_; ++d) {
        box.lo[d] = geometry::add(lo[d], shift[d]);
        box.hi[d] = geometry::add(hi[d], shift[d]);
    }
    return box;
}

/// The boxes around an interior that hold its ghosts, the interior too: one for all, or one per
/// dimension, without the corners.
std::vector<Region> GhostBoxes::slabs(const Region& interior, const Point& lower,
                                      const Point& upper) const {
    if (exchange_.corners) return {interior.grown(lower, upper)};
    std::vector<Region> slabs;
    for (int d = 0; d < dims_; ++d) slabs.push_back(interior.grown(only(lower, d), only(upper, d)));
    return slabs;
}

/// The box of a sender's interior in the ghosts of a reader, where images are disjoint: then the
/// two lie beside each other in at least one dimension, and without corners in no more than one.
void GhostBoxes::visit_meeting(const Box& sender, const Box& reader, const BlockPair& blocks,
                               const Visit& visit) {
    int beside = 0;
    for (int d = 0; d < dims_; ++d) {
        std::int64_t lo = std::max(sender.lo[d], reader.lo[d]);
        std::int64_t hi = std::min(sender.hi[d], reader.hi[d]);
        const bool outside = lo >= hi;
        if (outside && ++beside > 1 && !exchange_.corners) return;
        if (outside || exchange_.corners) {
            lo = std::max(sender.lo[d], geometry::subtract(reader.lo[d], exchange_.lower[d]));
            hi = std::min(sender.hi[d], geometry::add(reader.hi[d], exchange_.upper[d]));
            if (lo >= hi) return;
        }
        BoxAxis& axis = box_.axis[d];
        axis.source = lo - sender.lo[d];
        axis.destination = lo - reader.lo[d];
        axis.length = hi - lo;
    }
    visit(blocks, box_);
}

void GhostBoxes::into(std::int64_t block, const Visit& visit) {
    const Region interior = floorplan_.region(block);
    if (interior.empty()) return;
    find_images(interior.grown(exchange_.lower, exchange_.upper));
    if (!disjoint_) return into_overlapping(block, interior, visit);
    const Box reader = box_of(block, Point::filled(dims_, 0));
    for (const Image& image : images_)
        if (!is_itself(image, block))
            visit_meeting(box_of(image.block, shifts_[image.shift].points), reader,
                          {image.block, block}, visit);
}

void GhostBoxes::out_of(std::int64_t block, const Visit& visit) {
    const Region interior = floorplan_.region(block);
    if (interior.empty()) return;
    // A reader reaches down as far as its lower ghosts, so it lies above: the sides change places.
    find_images(interior.grown(exchange_.upper, exchange_.lower));
    const Box sender = box_of(block, Point::filled(dims_, 0));
    // Seen from the reader, the sender is shifted the other way.
    for (Shift& shift : shifts_) shift.periods = -shift.periods;
    sort_images();
    for (const Image& image : images_)
        if (!is_itself(image, block))
            visit_meeting(sender, box_of(image.block, shifts_[image.shift].points),
                          {block, image.block}, visit);
}

/// Where images overlap, each box is cut down to what nobody else has sent.
void GhostBoxes::into_overlapping(std::int64_t block, const Region& interior, const Visit& visit) {
    if (images_.empty()) return;
    std::vector<Region> boxes;
    for (const Image& image : images_) boxes.push_back(region_of(image));
    const FloorPlan senders(boxes, Map(boxes.size(), 0));
    for (std::size_t i = 0; i < boxes.size(); ++i) {
        if (is_itself(images_[i], block)) continue;
        std::vector<Region> covered;
        for (const std::int64_t before : senders.find(boxes[i])) {
            if (static_cast<std::size_t>(before) >= i) break;
            covered.push_back(boxes[static_cast<std::size_t>(before)]);
        }
        covered.push_back(interior);
        for (const Region& slab : slabs(interior, exchange_.lower, exchange_.upper))
            for (const Region& part : subtract_all(boxes[i].intersected(slab), covered)) {
                for (int d = 0; d < dims_; ++d)
                    box_.axis[d] = {part.lo()[d] - boxes[i].lo()[d],
                                    part.lo()[d] - interior.lo()[d], part.extent(d), d, d};
                visit({images_[i].block, block}, box_);
            }
    }
}

std::vector<std::int64_t> GhostBoxes::readers_of(std::span<const std::int64_t> blocks) {
    std::vector<std::int64_t> readers;
    for (const std::int64_t block : blocks) {
        const Region interior = floorplan_.region(block);
        if (interior.empty()) continue;
        for (const Region& slab : slabs(interior, exchange_.upper, exchange_.lower)) {
            find_images(slab);
            for (const Image& image : images_)
                if (!is_itself(image, block)) readers.push_back(image.block);
        }
    }
    std::ranges::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    return readers;
}

namespace {

std::int64_t residue(std::int64_t value, std::int64_t colors) {
    const std::int64_t rest = value % colors;
    return rest < 0 ? rest + colors : rest;
}

/// Visits where the points of the exchange's color begin in a box of an interior, as boxes of every
/// colors-th point. `lo` is the box's lower corner in global indices.
template <class Visit>
void for_each_color_offset(const HaloExchange& exchange, const Point& lo, const Point& extent,
                           Visit&& visit) {
    const std::int64_t colors = exchange.colors;
    const int last = lo.dims() - 1;
    // All offsets in all dimensions but the last; they decide the one in the last.
    Point starts = Point::filled(last + 1, 1);
    for (int d = 0; d < last; ++d) starts[d] = std::min(colors, extent[d]);
    Region::from_shape(starts).for_each([&](const Point& start) {
        std::int64_t sum = 0;
        for (int d = 0; d <= last; ++d) sum += residue(lo[d], colors) + start[d];
        Point offset = start;
        offset[last] = residue(exchange.color - sum, colors);
        if (offset[last] < extent[last]) visit(offset);
    });
}

}  // namespace

void for_each_section(const FloorPlan& floorplan, const HaloExchange& exchange,
                      const BlockPair& filled, const BoxShape& box, const VisitSection& visit) {
    PerSide<Point> lo{floorplan.region(filled.source_block).lo(),
                      floorplan.region(filled.destination_block).lo()};
    Point extent = lo.source;
    for (int d = 0; d < box.dims; ++d) {
        const BoxAxis& axis = box.axis[static_cast<std::size_t>(d)];
        for (const Side side : both_sides) lo[side][d] += axis.start(side);
        extent[d] = axis.length;
    }
    const Side from = exchange.reversed ? Side::destination : Side::source, to = other(from);
    const auto section = [&](const Point& offset, const Point& step) {
        visit({filled.block(from),
               Region(lo[from] + offset, lo[from] + extent),
               filled.block(to),
               Region(lo[to] + offset, lo[to] + extent),
               {},
               step,
               step});
    };
    if (exchange.colors == 1) return section(Point::filled(box.dims, 0), {});
    const Point step = Point::filled(box.dims, exchange.colors);
    for_each_color_offset(exchange, lo.source, extent,
                          [&](const Point& offset) { section(offset, step); });
}

}  // namespace datamover::plan

namespace datamover {
namespace plan {
bool wraps(const HaloExchange& exchange, int d) {
    return !exchange.domain.empty() && static_cast<std::size_t>(d) < exchange.periodic.size() &&
           exchange.periodic[static_cast<std::size_t>(d)];
}

const FloorPlan& boxes_for_halo(const Layout& layout) {
    if (const FloorPlan* boxes = layout.boxes()) return *boxes;
    if (const BlockCyclic* grid = layout.block_cyclic()) {
        for (int d = 0; d < grid->dims(); ++d) {
            if (grid->holds_intervals(d)) continue;
            const std::string block = std::to_string(grid->block()[d]);
            throw make_error(ErrorCode::unsupported, "a halo of ", layout.describe(),
                             ": in dimension ", d, " a process holds several separate blocks of ",
                             block,
                             ", and one local array has no room for ghosts between them; use block "
                             "in that dimension, or a floor plan of tiles of ",
                             block, " distributed cyclically, each with its own ghosts");
        }
    }
    throw make_error(ErrorCode::unsupported, "a halo of ", layout.describe(),
                     ": it has no neighbouring points; a halo needs a floor "
                     "plan or a block-cyclic layout of block and * only");
}

std::vector<bool> wraps_of(const std::vector<bool>& given, const Region& periodic, int dims) {
    if (!given.empty()) return given;
    return std::vector<bool>(static_cast<std::size_t>(dims), periodic.dims() > 0);
}

Point period_of(const HaloExchange& exchange, int dims) {
    Point period = Point::filled(dims, 0);
    for (int d = 0; d < dims; ++d)
        if (wraps(exchange, d)) period[d] = exchange.domain.extent(d);
    return period;
}

Region periods_to_meet(const Region& moved, const Region& fixed, const Point& period) {
    if (moved.empty() || fixed.empty()) return Region::empty_region(fixed.dims());
    Point first = Point::filled(fixed.dims(), 0), end = first;
    for (int d = 0; d < fixed.dims(); ++d) {
        if (period[d] == 0) {
            end[d] = 1;
            continue;
        }
        first[d] = geometry::add(
            geometry::divide_down(geometry::subtract(fixed.lo()[d], moved.hi()[d]), period[d]), 1);
        end[d] = geometry::divide_up(geometry::subtract(fixed.hi()[d], moved.lo()[d]), period[d]);
    }
    return Region(first, end);
}

namespace {

void check_color(const HaloExchange& exchange) {
    if (exchange.colors < 1 || exchange.colors > most_colors)
        throw make_error(ErrorCode::invalid_argument, "a halo of ", exchange.colors,
                         " colors; there must be 1 to ", most_colors);
    if (exchange.color < 0 || exchange.color >= exchange.colors)
        throw make_error(ErrorCode::invalid_argument, "color ", exchange.color, " of ",
                         exchange.colors, "; it must be 0 to ", exchange.colors - 1);
}

}  // namespace

void check_halo_exchange(const Region& blocks, const HaloExchange& exchange) {
    const int dims = blocks.dims();
    check_color(exchange);
    if (exchange.lower.dims() != dims || exchange.upper.dims() != dims) {
        throw make_error(ErrorCode::mismatch, "halo widths ", exchange.lower, " and ",
                         exchange.upper, " for a layout of ", dims, " dimensions");
    }
    for (int d = 0; d < dims; ++d) {
        if (exchange.lower[d] < 0 || exchange.upper[d] < 0) {
            throw make_error(ErrorCode::invalid_argument, "halo widths ", exchange.lower, " and ",
                             exchange.upper, "; none may be negative");
        }
    }
    if (!exchange.domain.empty() && exchange.domain.dims() != dims) {
        throw make_error(ErrorCode::mismatch, "the periodic domain ", exchange.domain,
                         " for a floor plan of ", dims, " dimensions");
    }
    if (!exchange.periodic.empty() && static_cast<int>(exchange.periodic.size()) != dims) {
        throw make_error(ErrorCode::mismatch, "periodic has ", exchange.periodic.size(),
                         " entries; the floor plan has ", dims, " dimensions");
    }
    const bool wanted = std::ranges::find(exchange.periodic, true) != exchange.periodic.end();
    const bool is_none = exchange.domain.dims() == 0;
    if (wanted && (is_none || (exchange.domain.empty() && !blocks.empty()))) {
        throw Error(ErrorCode::invalid_argument,
                    "a dimension is to wrap around, but the periodic domain holds no point: give "
                    "the region that wraps around");
    }
    for (int d = 0; d < dims; ++d) {
        if (!wraps(exchange, d) || blocks.extent(d) <= exchange.domain.extent(d)) continue;
        throw make_error(ErrorCode::invalid_argument, "the periodic domain ", exchange.domain,
                         " is shorter than the blocks, which span ", blocks, ", in dimension ", d,
                         ": two of their points would be one and the same; it must be at least ",
                         blocks.extent(d), " long there");
    }
}

}  // namespace plan

MotionPlan halo(const Layout& layout, const Point& lower, const Point& upper,
                const Region& periodic, const std::vector<bool>& wraps, bool corners,
                std::int64_t colors, std::int64_t color) {
    MotionPlan result{layout, layout};
    result.add(HaloExchange{lower, upper, periodic, plan::wraps_of(wraps, periodic, layout.dims()),
                            corners, false, colors, color});
    return result;
}

// Halos exchanged axis by axis, corners forwarded by later axes.

namespace {

/// Along the earlier axes a section that reaches an end of the block with the ghosts takes along
/// the ghosts beyond that end, which the sender has by then.
void widen(SectionCopy& section, const Region& block, const HaloExchange& widths, int axis) {
    Point below = Point::filled(block.dims(), 0), above = below;
    for (int d = 0; d < axis; ++d) {
        if (section.destination_region.lo()[d] == block.lo()[d]) below[d] = widths.lower[d];
        if (section.destination_region.hi()[d] == block.hi()[d]) above[d] = widths.upper[d];
    }
    section.source_region = section.source_region.grown(below, above);
    section.destination_region = section.destination_region.grown(below, above);
}

}  // namespace

MotionPlan axis_halo(const Layout& layout, const Point& lower, const Point& upper, int axis,
                     const Region& periodic, const std::vector<bool>& wraps) {
    // All of the exchange is checked, whatever this axis takes of it.
    const MotionPlan whole = halo(layout, lower, upper, periodic, wraps);
    if (axis < 0 || axis >= layout.dims())
        throw make_error(ErrorCode::out_of_range, "a halo along axis ", axis, "; it must be 0 to ",
                         layout.dims() - 1);
    const auto& widths = std::get<HaloExchange>(whole[0]);
    const FloorPlan& blocks = plan::boxes_for_halo(layout);
    MotionPlan plan(layout, layout);
    halo(layout, plan::only(lower, axis), plan::only(upper, axis), periodic, wraps)
        .for_each_section([&](SectionCopy section) {
            widen(section, blocks.region(section.destination_block), widths, axis);
            plan.add(std::move(section));
        });
    return plan;
}

}  // namespace datamover
