// SPDX-License-Identifier: BSD-3-Clause
// Boxes that fill the ghosts of a floor plan's blocks.
#include "ghost_boxes.hpp"

#include <algorithm>

#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "halo.hpp"
#include "layout/box_index.hpp"

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

/// For each image the boxes of those that send before it and overlap it.
class Precedence {
public:
    Precedence(const std::vector<Region>& boxes, int dims) : boxes_(boxes) {
        for (const Region& box : boxes)
            for (int d = 0; d < dims; ++d) {
                lo_.push_back(box.lo()[d]);
                hi_.push_back(box.hi()[d]);
            }
        index_ = layout::BoxIndex(dims, lo_, hi_);
    }

    std::vector<Region> before(std::size_t i) const {
        std::vector<Region> found;
        for (const std::int64_t other : index_.find(boxes_[i])) {
            if (static_cast<std::size_t>(other) >= i) break;
            found.push_back(boxes_[static_cast<std::size_t>(other)]);
        }
        return found;
    }

private:
    const std::vector<Region>& boxes_;
    std::vector<std::int64_t> lo_, hi_;
    layout::BoxIndex index_;
};

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

GhostBoxes::Box GhostBoxes::box_of(const Image& image) const {
    const auto first = static_cast<std::size_t>(image.block * dims_);
    const std::int64_t* lo = &lower_corners_[first];
    const std::int64_t* hi = &upper_corners_[first];
    const Point& shift = shifts_[image.shift].points;
    Box box;
    for (int d = 0; d < dims_; ++d) {
        box.lo[d] = geometry::add(lo[d], shift[d]);
        box.hi[d] = geometry::add(hi[d], shift[d]);
    }
    return box;
}

GhostBoxes::Box GhostBoxes::box_of(const Region& region) const {
    Box box;
    for (int d = 0; d < dims_; ++d) {
        box.lo[d] = region.lo()[d];
        box.hi[d] = region.hi()[d];
    }
    return box;
}

/// Calls visit for the boxes around an interior that hold its ghosts, the interior too: one for
/// all, or one per dimension, without the corners.
template <class VisitSlab>
void GhostBoxes::for_each_slab(const Box& interior, VisitSlab&& visit) const {
    const auto grow = [&](Box& box, int d) {
        box.lo[d] = geometry::subtract(box.lo[d], exchange_.lower[d]);
        box.hi[d] = geometry::add(box.hi[d], exchange_.upper[d]);
    };
    if (exchange_.corners) {
        Box all = interior;
        for (int d = 0; d < dims_; ++d) grow(all, d);
        visit(all);
        return;
    }
    for (int d = 0; d < dims_; ++d) {
        Box slab = interior;
        grow(slab, d);
        visit(slab);
    }
}

/// The box of a sender's interior in the ghosts of a reader, where images are disjoint: then the
/// two lie beside each other in at least one dimension, and without corners in no more than one.
void GhostBoxes::visit_meeting(const Box& sender, const Box& reader, std::int64_t source_block,
                               std::int64_t destination_block, const Visit& visit) {
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
    visit(source_block, destination_block, box_);
}

void GhostBoxes::into(std::int64_t block, const Visit& visit) {
    const Region interior = floorplan_.region(block);
    if (interior.empty()) return;
    find_images(interior.grown(exchange_.lower, exchange_.upper));
    if (!disjoint_) return into_overlapping(block, interior, visit);
    const Box reader = box_of(interior);
    for (const Image& image : images_)
        if (!is_itself(image, block))
            visit_meeting(box_of(image), reader, image.block, block, visit);
}

void GhostBoxes::out_of(std::int64_t block, const Visit& visit) {
    const Region interior = floorplan_.region(block);
    if (interior.empty()) return;
    // A reader reaches down as far as its lower ghosts, so it lies above: the sides change places.
    find_images(interior.grown(exchange_.upper, exchange_.lower));
    const Box sender = box_of(interior);
    // Seen from the reader, the sender is shifted the other way.
    for (Shift& shift : shifts_) shift.periods = -shift.periods;
    sort_images();
    for (const Image& image : images_)
        if (!is_itself(image, block))
            visit_meeting(sender, box_of(image), block, image.block, visit);
}

/// Where images overlap, each box is cut down to what nobody else has sent.
void GhostBoxes::into_overlapping(std::int64_t block, const Region& interior, const Visit& visit) {
    std::vector<Region> boxes;
    for (const Image& image : images_) boxes.push_back(region_of(image));
    const Precedence precedence(boxes, dims_);
    const auto visit_parts = [&](std::size_t i, const Region& slab) {
        std::vector<Region> covered = precedence.before(i);
        covered.push_back(interior);
        for (const Region& part : subtract_all(boxes[i].intersected(slab), covered)) {
            for (int d = 0; d < dims_; ++d)
                box_.axis[d] = {part.lo()[d] - boxes[i].lo()[d], part.lo()[d] - interior.lo()[d],
                                part.extent(d), d, d};
            visit(images_[i].block, block, box_);
        }
    };
    for (std::size_t i = 0; i < images_.size(); ++i) {
        if (is_itself(images_[i], block)) continue;
        for_each_slab(box_of(interior), [&](const Box& slab) {
            const auto dims = static_cast<std::size_t>(dims_);
            visit_parts(i, Region(Point(std::span(slab.lo).first(dims)),
                                  Point(std::span(slab.hi).first(dims))));
        });
    }
}

void GhostBoxes::add_readers_of(std::int64_t block, std::vector<std::int64_t>& readers) {
    const Region interior = floorplan_.region(block);
    if (interior.empty()) return;
    const Point &down = exchange_.upper, &up = exchange_.lower;
    const auto add = [&](const Region& box) {
        find_images(box);
        for (const Image& image : images_)
            if (!is_itself(image, block)) readers.push_back(image.block);
    };
    if (exchange_.corners) return add(interior.grown(down, up));
    for (int d = 0; d < dims_; ++d) {
        Point below = Point::filled(dims_, 0), above = below;
        below[d] = down[d];
        above[d] = up[d];
        add(interior.grown(below, above));
    }
}

}  // namespace datamover::plan
