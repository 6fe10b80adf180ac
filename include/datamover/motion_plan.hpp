// SPDX-License-Identifier: BSD-3-Clause
// Motion plans: the sections of blocks to move, and their destinations.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "datamover/advanced/pair_part.hpp"
#include "datamover/export.h"
#include "datamover/layout.hpp"

// Declared outside of the public part, so that shared libraries do not export it.
namespace datamover::plan {
struct WorkedOut;
}  // namespace datamover::plan

namespace datamover DATAMOVER_PUBLIC {

/// A copy between sections of two blocks: (destination block on destination region) <= (source
/// block on source region), regions in global indices. With `axes`, dimension k of the destination
/// region is dimension axes[k] of the source region (as in numpy.transpose). Without `axes`,
/// regions of different shapes but the same number of points are both traversed with the last
/// dimension fastest. With steps, only every step-th index of a region from its lower corner takes
/// part: in dimension d the indices lo[d] + k * step[d] below hi[d]; both sides must then have the
/// same number of them in each dimension. With `flip`, the dimensions of the destination region in
/// which it is true get the source's indices in descending order (as in numpy.flip). Source: an
/// entry of KeLP's MotionPlan.
struct SectionCopy {
    std::int64_t source_block = 0;
    Region source_region{};
    std::int64_t destination_block = 0;
    Region destination_region{};
    std::vector<int> axes{};
    Point source_step{};  ///< per dimension of the source region; without dimensions: 1 in each
    Point destination_step{};  ///< per dimension of the destination region, likewise
    std::vector<bool> flip{};  ///< per dimension of the destination region; empty: none

    bool operator==(const SectionCopy&) const = default;
};

/// A redistribution of all of `source_region` to `destination_region`, whatever the owners; `axes`
/// and `flip` are those of SectionCopy. If several source blocks of a floor plan or an index list
/// hold an element, the lowest block sends it; all destination blocks that hold it receive it.
///
/// By default, a source block must hold each element of the region that a destination block holds,
/// otherwise `incoming` throws.
/// - `partial`: elements that no source block holds are left unchanged.
/// - `reversed`: elements that no source block holds are left unchanged, but a destination block
///   must hold each element that a source block holds, otherwise `outgoing` throws.
/// - `adjoint`: the pairs of elements of the term from `destination` to `source`, in the opposite
///   direction: every source block sends, and the block that would have sent the element receives.
///
/// Regions are inside the domains of their layouts. Only towards an index list may a region extend
/// beyond, where no block holds anything.
struct Redistribution {
    Region source_region{};
    Region destination_region{};
    std::vector<int> axes{};
    bool partial = false;
    bool reversed = false;
    bool adjoint = false;
    std::vector<bool> flip{};

    bool operator==(const Redistribution&) const = default;
};

/// A fill of the ghosts of every block of a floor plan (or of a block-cyclic layout of boxes) from
/// the interiors that hold them, `lower`/`upper` deep per side of each dimension. It wraps around
/// the ends of `domain` in the dimensions given by `periodic`. Expanded only for the blocks that
/// are queried.
struct HaloExchange {
    Point lower{};
    Point upper{};
    Region domain{};               ///< the region that wraps around
    std::vector<bool> periodic{};  ///< per dimension
    bool corners = true;
    bool reversed = false;  ///< whether ghosts are moved back to the interiors
    /// With several colors, only the points of one color are moved: those whose global indices,
    /// summed in the interior that holds them, have the remainder `color` modulo `colors`.
    std::int64_t colors = 1;
    std::int64_t color = 0;

    bool operator==(const HaloExchange&) const = default;
};

using PlanTerm = std::variant<SectionCopy, Redistribution, HaloExchange>;

/// The layouts of the two sides of a plan, for the same number of processes.
class PlanLayouts {
public:
    PlanLayouts() = default;
    /// Throws mismatch if the layouts are for different numbers of processes.
    PlanLayouts(Layout source, Layout destination);

    const Layout& source() const { return layouts_.source; }
    const Layout& destination() const { return layouts_.destination; }
    const Layout& layout(Side side) const { return layouts_[side]; }
    std::int64_t nprocs() const { return layouts_.source.nprocs(); }
    bool operator==(const PlanLayouts&) const;

private:
    PerSide<Layout> layouts_;
};

/// A sum of terms between a source and a destination layout. A plan is a value that can be read,
/// edited, merged, filtered and reversed. It is stored as its terms, never expanded. Source: KeLP's
/// MotionPlan.
class MotionPlan : public PlanLayouts {
public:
    MotionPlan() = default;
    /// Make an empty plan. Throws mismatch if the layouts are for different numbers of processes.
    MotionPlan(Layout source, Layout destination);

    /// Add a copy between sections of two blocks. Throws out_of_range (block numbers), mismatch
    /// (numbers of points, axes, steps, flip), invalid_argument (axes that are not a permutation, a
    /// step below 1). Regions may extend into ghosts; this is checked when the plan is bound to
    /// arrays.
    void add_section(std::int64_t source_block, const Region& source_region,
                     std::int64_t destination_block, const Region& destination_region,
                     const std::vector<int>& axes = {}, const Point& source_step = {},
                     const Point& destination_step = {}, const std::vector<bool>& flip = {});
    /// Add a term. Throws as `add_section` does, for any term, and unsupported if the layouts have
    /// no such regions or halos.
    void add(PlanTerm term);

    std::int64_t size() const { return static_cast<std::int64_t>(terms_.size()); }
    /// Read, remove or replace term `i`. All three throw out_of_range if there is no such term;
    /// replace also throws as `add` does.
    const PlanTerm& operator[](std::int64_t i) const;
    void erase(std::int64_t i);
    void replace(std::int64_t i, PlanTerm term);
    /// Return the terms of both plans, in order. Throws mismatch if the layouts differ.
    MotionPlan merged(const MotionPlan& other) const;
    /// Return the plan of the sections for which keep(section) is true. A term whose sections are
    /// all kept is left as it is; otherwise its kept sections become terms. Throws unsupported for
    /// index lists. Cost: proportional to the number of sections.
    MotionPlan filter(const std::function<bool(const SectionCopy&)>& keep) const;
    /// Return the plan in the opposite direction, with source and destination exchanged. If several
    /// blocks hold an element, one of them sends it and all receive it, in either direction.
    MotionPlan reversed() const;
    /// Return the adjoint of the plan as a linear map: each pair of elements in the opposite
    /// direction, also if several blocks hold an element. If several blocks received an element,
    /// all of them send it back to the one that sent it, so that op=add sums it there. Equal to
    /// reversed() if no element has several copies.
    MotionPlan adjoint() const;
    /// Return one plan with the effect of this plan and then `next`, as section copies. Requires
    /// this.destination == next.source; throws mismatch if these layouts differ. Elements that
    /// `next` reads and this plan does not write are left out. Throws out_of_range if more than
    /// `most_pairs` pairs of sections must be examined, also counting the sections of both plans,
    /// because a short plan may stand for a large number of sections; unsupported for index lists
    /// and for sections that change their shape or have steps. Cost: time and memory proportional
    /// to the pairs of sections that share an intermediate block.
    MotionPlan composed(const MotionPlan& next, std::int64_t most_pairs = most_composed) const;
    static constexpr std::int64_t most_composed = std::int64_t{1} << 24;
    bool operator==(const MotionPlan& other) const;

    /// Return the elements that `rank` sends, or receives: one entry per peer that has any, by
    /// ascending rank, including `rank` itself. If a block-cyclic source is replicated, the nearest
    /// replica sends: the receiver's own, then the lowest rank on the receiver's node, then the
    /// lowest rank. `nodes` holds a node number for each rank; by default each process is on a node
    /// of its own. Throws mismatch, naming the element, if the rank needs (or must send back) an
    /// element that no block holds; see Redistribution. Local. Cost: proportional to the rank's own
    /// part of the plan.
    std::vector<PeerPart> outgoing(std::int64_t rank,
                                   std::span<const std::int64_t> nodes = {}) const;
    std::vector<PeerPart> incoming(std::int64_t rank,
                                   std::span<const std::int64_t> nodes = {}) const;
    /// Return the part of the plan for one pair of processes.
    PairPart part(std::int64_t source_rank, std::int64_t destination_rank) const;

    /// Call visit for every section of the plan, as explicit section copies in ascending order of
    /// terms. `source_rank` and `destination_rank` restrict it to the blocks of one rank each; -1:
    /// all. Block-cyclic products are split into the boxes of their blocks. Throws unsupported for
    /// index lists, out_of_range for a rank that is not in the plan. Memory: one block's part at a
    /// time.
    void for_each_section(const std::function<void(const SectionCopy&)>& visit,
                          std::int64_t source_rank = -1, std::int64_t destination_rank = -1) const;

    /// Return layouts and terms as bytes, from which from_bytes makes an equal plan on machines
    /// with the same byte order. Throws unsupported for index lists of which each process holds
    /// only its own. The terms are not expanded: the size depends on the number of terms and the
    /// layouts.
    std::vector<std::uint8_t> to_bytes() const;
    /// Make a plan from the bytes of `to_bytes`. The bytes may be untrusted: everything in them is
    /// checked. Throws invalid_argument if they are not those of a plan (truncated, changed, of
    /// another version or byte order) or do not describe a valid plan.
    static MotionPlan from_bytes(std::span<const std::uint8_t> bytes);
    /// Write the bytes of `to_bytes` to a file. The file appears at `path` only once it is complete
    /// and on the disk; a symbolic link there is replaced. Throws io, and then leaves no file.
    void save(const std::string& path) const;
    /// Read a plan from a file that `save` wrote. Throws io if the file cannot be read or is not a
    /// regular file, otherwise as from_bytes.
    static MotionPlan load(const std::string& path);

private:
    friend struct plan::WorkedOut;

    std::vector<PlanTerm> terms_;
    // Computed from these layouts and terms; shared with copies.
    std::shared_ptr<plan::WorkedOut> worked_out_;
};

/// Make a plan that moves each index that both layouts hold from `source` to the same index of
/// `destination`. With `axes`, destination dimension k is source dimension axes[k]. The destination
/// must not need an index that no source block holds, otherwise mismatch is thrown: here if the
/// index is outside the source's domain, else when the plan is bound (or `incoming` is called).
/// With `partial`, such elements are left unchanged. Elements that no destination block holds are
/// not sent. If the plan is bound to one array as both ends, elements whose source and destination
/// are the same are skipped. Throws mismatch, invalid_argument. Local, O(1).
MotionPlan redistribute(const Layout& source, const Layout& destination,
                        const std::vector<int>& axes = {}, bool partial = false);
/// Make such a plan for a section: source_region is moved to destination_region (same shape after
/// axes), first element to first element. The dimensions of the destination in which `flip` is true
/// get the source's indices in descending order, as in numpy.flip. Throws out_of_range if a region
/// is not inside its domain, mismatch if `flip` does not have an entry for each dimension. With
/// flips, ranges of the flattened array are planned element by element.
MotionPlan redistribute(const Layout& source, const Region& source_region,
                        const Layout& destination, const Region& destination_region,
                        const std::vector<int>& axes = {}, bool partial = false,
                        const std::vector<bool>& flip = {});

/// Make a plan that fills the ghosts of a layout's blocks, `lower` and `upper` deep per dimension.
/// The layout is a floor plan, or block-cyclic with one interval per process in each dimension
/// (`block`, `*`). `periodic` is the domain that wraps around (without dimensions: none), in the
/// dimensions in which `wraps` is true (empty: all). Widths may exceed a block, up to 10^5 periodic
/// images around it. If interiors overlap, the lowest block number sends. Without `corners`, only
/// faces are filled. Ghosts that no interior or image holds are left unchanged. With several
/// `colors` (at most 64), only the ghosts of one color are filled: points whose indices, summed in
/// the interior that holds them, have the remainder `color` modulo `colors`; 2 for the red or the
/// black points of a checkerboard. Throws mismatch (dimensions), invalid_argument (negative widths,
/// a periodic domain without points or shorter than the bounding box of the blocks, an invalid
/// color), unsupported (index lists; cyclic dimensions). Local, O(1), but O(P) for P processes of a
/// block-cyclic layout. Source: KeLP's halo update from grow and intersect.
MotionPlan halo(const Layout& layout, const Point& lower, const Point& upper,
                const Region& periodic = {}, const std::vector<bool>& wraps = {},
                bool corners = true, std::int64_t colors = 1, std::int64_t color = 0);

/// Make the part of a halo for one axis. It fills the ghosts next to the blocks along `axis`, and
/// forwards the ghosts at their corners that the sender received along earlier axes. The plans of
/// axes 0, 1, … one after the other (Mover::in_phases) fill all that `halo` fills, including
/// corners, with messages only to the neighbors along the axes. Corners are included if blocks
/// touch by faces, as in a grid; corners beyond the domain get the sender's values there. Takes the
/// arguments of halo. Throws as halo, and out_of_range for an invalid axis. The terms are section
/// copies: O(n log n) for n blocks.
MotionPlan axis_halo(const Layout& layout, const Point& lower, const Point& upper, int axis,
                     const Region& periodic = {}, const std::vector<bool>& wraps = {});

/// Make a plan that moves a panel of a block-cyclic array to all processes of its row or column of
/// the process grid, as each step of SUMMA, LU or Cholesky requires. Processes that differ only in
/// grid coordinate `along` all get the elements of `region` that any of them holds.
///
/// The plan's destination layout is the layout of the panel. Its extent along dimension `along` is
/// that of `region`, counted from 0 and not distributed. Every other dimension has the extent and
/// the distribution of the array, so that an index of a panel has the same local index as in the
/// array. All regions of the same extent along `along` have the same panel layout, so that one
/// array can hold one panel after the other. Indices of the panel outside `region` are left
/// unchanged. Throws unsupported (not a block-cyclic layout), out_of_range (a region outside the
/// array, an invalid dimension), mismatch (a region of other dimensions), invalid_argument (an
/// empty region). Local, O(P) for P processes.
MotionPlan panel_broadcast(const Layout& layout, const Region& region, int along);

/// Options of a transfer between two levels of a hierarchy of grids, all with defaults.
struct LevelOptions {
    /// Number of points to add beyond each side, per dimension, of the level that is read. Without
    /// dimensions: none.
    Point lower{}, upper{};
    Region periodic{};  ///< domain of the level that is read, if it wraps; without dimensions: none
    std::vector<bool> wraps{};  ///< the dimensions that wrap; empty: all
    bool partial = false;       ///< whether points that no block holds are left out
};

/// Make the plan for the points that a prolongation reads: every block of the fine level gets the
/// coarse points beneath it, whatever their owner. Coarse point c is beneath the fine points c *
/// factor to (c + 1) * factor - 1. The plan's destination layout has a block for each fine block,
/// with the same number and owner: the box of coarse points that the fine block touches, grown by
/// lower and upper. Blocks need not be aligned. If several boxes hold a point, all get it.
///
/// Points outside the bounding box of the coarse level that no periodic image holds are left
/// unchanged. A point within the bounding box that is beneath a fine block but in no coarse block
/// is an error, unless `partial` is set. With widths of 0, reversed() moves values computed beneath
/// the fine blocks to the coarse level, and adjoint(), with Op::add, their sums. `fine` is a floor
/// plan, or block-cyclic with one interval per process in each dimension; `coarse` is that or any
/// block-cyclic layout. Throws mismatch (dimensions, numbers of processes, missing points),
/// invalid_argument (a factor below 1, or no factor above 1; widths and periodic domains as halo),
/// unsupported (other layouts), out_of_range (coordinates beyond 64 bits). Local, O(n log n) for n
/// blocks.
MotionPlan prolongation(const Layout& coarse, const Layout& fine, const Point& factor,
                        const LevelOptions& options = {});
/// Make the plan for the points that a restriction reads: every block of the coarse level gets the
/// fine points above it, whatever their owner. The destination layout holds for each coarse block
/// the box of its fine points, grown by lower and upper fine points. Otherwise as prolongation with
/// the levels exchanged: `coarse` must have one box per block, and missing fine points are errors.
MotionPlan restriction(const Layout& fine, const Layout& coarse, const Point& factor,
                       const LevelOptions& options = {});

}  // namespace datamover
