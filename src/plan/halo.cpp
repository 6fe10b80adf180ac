// SPDX-License-Identifier: BSD-3-Clause
// Which interiors, here and across periodic ends, hold the ghosts of a block?

#include "halo.hpp"

#include <algorithm>
#include <string>

#include "datamover/error.hpp"
#include "geometry/checked.hpp"
#include "layout/box_index.hpp"

namespace datamover {
namespace plan {
namespace {

// An interior, shifted by whole periods, that meets the box looked at.
struct Image {
    std::int64_t block = 0;
    Point periods;  // how many periods per dimension it is shifted
    Region box;     // the shifted interior
};

// The lowest block first; of one block the image nearest to it, dimension by dimension, and of two
// that are equally near the lower one. This order decides who fills a ghost that several images
// hold.
bool sends_before(const Image& a, const Image& b) {
    if (a.block != b.block) return a.block < b.block;
    for (int d = 0; d < a.periods.dims(); ++d) {
        const std::int64_t p = a.periods[d], q = b.periods[d];
        const std::int64_t near_a = p < 0 ? -p : p, near_b = q < 0 ? -q : q;
        if (near_a != near_b) return near_a < near_b;
        if (p != q) return p < q;
    }
    return false;
}

bool wraps(const HaloExchange& exchange, int d) {
    return !exchange.domain.empty() && static_cast<std::size_t>(d) < exchange.periodic.size() &&
           exchange.periodic[static_cast<std::size_t>(d)];
}

// The length of the period per dimension, 0 where nothing wraps.
Point period_of(const HaloExchange& exchange, int dims) {
    Point period = Point::filled(dims, 0);
    for (int d = 0; d < dims; ++d) {
        if (wraps(exchange, d)) period[d] = exchange.domain.extent(d);
    }
    return period;
}

// All numbers of periods by which `moved` must be shifted to meet `fixed`, as a region.
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

constexpr std::int64_t most_images = 100'000;

[[noreturn]] void refuse_images(const Region& box, const Point& period) {
    throw Error(ErrorCode::out_of_range, "the ghosts around a block, " + box.to_string() +
                                             ", meet more than " + std::to_string(most_images) +
                                             " blocks and images of blocks in periods of " +
                                             period.to_string() + ": use narrower ghosts");
}

// Every image of an interior that meets `box`, in the order in which they send.
std::vector<Image> images_meeting(const FloorPlan& floorplan, const Region& box,
                                  const Point& period) {
    std::vector<Image> images;
    const Region all_periods = periods_to_meet(floorplan.bounding_box(), box, period);
    if (all_periods.size() > most_images) refuse_images(box, period);
    all_periods.for_each([&](const Point& periods) {
        const Point shift = periods * period;
        const std::vector<std::int64_t> found = floorplan.find(box.shifted(-shift));
        if (static_cast<std::int64_t>(images.size() + found.size()) > most_images)
            refuse_images(box, period);
        for (const std::int64_t block : found)
            images.push_back({block, periods, floorplan.region(block).shifted(shift)});
    });
    std::sort(images.begin(), images.end(), sends_before);
    return images;
}

// The boxes around an interior that hold its ghosts: one for all, or one per dimension, without the
// corners. Each holds the interior too.
std::vector<Region> grown_boxes(const Region& interior, const Point& lower, const Point& upper,
                                bool corners) {
    if (corners) return {interior.grown(lower, upper)};
    std::vector<Region> boxes;
    for (int d = 0; d < interior.dims(); ++d) {
        Point below = Point::filled(interior.dims(), 0), above = below;
        below[d] = lower[d];
        above[d] = upper[d];
        boxes.push_back(interior.grown(below, above));
    }
    return boxes;
}

// For each image the boxes of those that send before it and overlap it.
class Precedence {
public:
    Precedence(const std::vector<Image>& images, int dims) : images_(images) {
        for (const Image& image : images) {
            for (int d = 0; d < dims; ++d) {
                lo_.push_back(image.box.lo()[d]);
                hi_.push_back(image.box.hi()[d]);
            }
        }
        index_ = layout::BoxIndex(dims, lo_, hi_);
    }

    std::vector<Region> before(std::size_t i) const {
        std::vector<Region> boxes;
        for (const std::int64_t other : index_.find(images_[i].box)) {
            if (static_cast<std::size_t>(other) >= i) break;
            boxes.push_back(images_[static_cast<std::size_t>(other)].box);
        }
        return boxes;
    }

private:
    const std::vector<Image>& images_;
    std::vector<std::int64_t> lo_, hi_;
    layout::BoxIndex index_;
};

bool is_unshifted(const Image& image) {
    return image.periods == Point::filled(image.periods.dims(), 0);
}

}  // namespace

const FloorPlan& boxes_for_halo(const Layout& layout) {
    if (const FloorPlan* boxes = layout.boxes()) return *boxes;
    if (const BlockCyclic* grid = layout.block_cyclic()) {
        for (int d = 0; d < grid->dims(); ++d) {
            if (grid->holds_intervals(d)) continue;
            const std::string block = std::to_string(grid->block()[d]);
            throw Error(ErrorCode::unsupported,
                        "a halo of " + layout.describe() + ": in dimension " + std::to_string(d) +
                            " a process holds several separate blocks of " + block +
                            ", and one local array has no room for ghosts between them; use block "
                            "in that dimension, or a floor plan of tiles of " +
                            block + " dealt out cyclically, each with ghosts of its own");
        }
    }
    throw Error(ErrorCode::unsupported, "a halo of " + layout.describe() +
                                            ": it has no neighbouring points; a halo needs a floor "
                                            "plan or a block-cyclic layout of block and * only");
}

void check_halo_exchange(const FloorPlan& floorplan, const HaloExchange& exchange) {
    const int dims = floorplan.dims();
    if (exchange.lower.dims() != dims || exchange.upper.dims() != dims) {
        throw Error(ErrorCode::mismatch, "halo widths " + exchange.lower.to_string() + " and " +
                                             exchange.upper.to_string() + " for a floor plan of " +
                                             std::to_string(dims) + " dimensions");
    }
    for (int d = 0; d < dims; ++d) {
        if (exchange.lower[d] < 0 || exchange.upper[d] < 0) {
            throw Error(ErrorCode::invalid_argument, "halo widths " + exchange.lower.to_string() +
                                                         " and " + exchange.upper.to_string() +
                                                         "; none may be negative");
        }
    }
    if (!exchange.domain.empty() && exchange.domain.dims() != dims) {
        throw Error(ErrorCode::mismatch, "the periodic domain " + exchange.domain.to_string() +
                                             " for a floor plan of " + std::to_string(dims) +
                                             " dimensions");
    }
    if (!exchange.periodic.empty() && static_cast<int>(exchange.periodic.size()) != dims) {
        throw Error(ErrorCode::mismatch,
                    std::to_string(exchange.periodic.size()) +
                        " entries say which dimensions wrap around; the floor plan has " +
                        std::to_string(dims));
    }
    const bool wanted = std::find(exchange.periodic.begin(), exchange.periodic.end(), true) !=
                        exchange.periodic.end();
    if (wanted && exchange.domain.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "a dimension is to wrap around, but the periodic domain is empty");
    }
    const Region blocks = floorplan.bounding_box();
    for (int d = 0; d < dims; ++d) {
        if (!wraps(exchange, d) || blocks.extent(d) <= exchange.domain.extent(d)) continue;
        throw Error(ErrorCode::invalid_argument,
                    "the periodic domain " + exchange.domain.to_string() +
                        " is shorter than the blocks, which span " + blocks.to_string() +
                        ", in dimension " + std::to_string(d) +
                        ": two of their points would be one and the same; it must be at least " +
                        std::to_string(blocks.extent(d)) + " long there");
    }
}

void halo_sections_into(const FloorPlan& floorplan, const HaloExchange& exchange,
                        std::int64_t block, const VisitSection& visit) {
    const Region interior = floorplan.region(block);
    if (interior.empty()) return;
    const Point period = period_of(exchange, floorplan.dims());
    const std::vector<Image> images =
        images_meeting(floorplan, interior.grown(exchange.lower, exchange.upper), period);
    const Precedence precedence(images, floorplan.dims());
    const std::vector<Region> ghosts =
        grown_boxes(interior, exchange.lower, exchange.upper, exchange.corners);
    for (std::size_t i = 0; i < images.size(); ++i) {
        const Image& image = images[i];
        if (image.block == block && is_unshifted(image)) continue;
        std::vector<Region> covered = precedence.before(i);
        covered.push_back(interior);
        const Point back = -(image.periods * period);
        for (const Region& box : ghosts) {
            for (const Region& part : subtract_all(image.box.intersected(box), covered)) {
                visit({image.block, part.shifted(back), block, part, {}});
            }
        }
    }
}

std::vector<std::int64_t> halo_readers_of(const FloorPlan& floorplan, const HaloExchange& exchange,
                                          std::int64_t block) {
    const Region interior = floorplan.region(block);
    if (interior.empty()) return {};
    const Point period = period_of(exchange, floorplan.dims());
    std::vector<std::int64_t> readers;
    // A reader reaches down as far as its lower ghosts, so it lies above: the sides change places.
    for (const Region& box :
         grown_boxes(interior, exchange.upper, exchange.lower, exchange.corners)) {
        for (const Image& image : images_meeting(floorplan, box, period)) {
            if (image.block != block || !is_unshifted(image)) readers.push_back(image.block);
        }
    }
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    return readers;
}

}  // namespace plan

MotionPlan halo(const Layout& layout, const Point& lower, const Point& upper,
                const Region& periodic, const std::vector<bool>& wraps, bool corners) {
    HaloExchange exchange;
    exchange.lower = lower;
    exchange.upper = upper;
    exchange.domain = periodic;
    exchange.corners = corners;
    exchange.periodic = wraps;
    if (wraps.empty()) {
        exchange.periodic.assign(static_cast<std::size_t>(layout.dims()), !periodic.empty());
    }
    MotionPlan result{layout, layout};
    result.add(std::move(exchange));
    return result;
}

}  // namespace datamover
