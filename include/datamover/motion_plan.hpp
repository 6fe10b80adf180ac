// SPDX-License-Identifier: BSD-3-Clause
// Motion plans: which section of which block goes where.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "datamover/export.h"
#include "datamover/layout.hpp"
#include "datamover/pair_part.hpp"

namespace datamover DATAMOVER_PUBLIC {

namespace plan {
class PlanDigests;
class TermIndex;
struct WorkedOut;
}  // namespace plan

/// (destination block on destination region) <= (source block on source region), regions in global
/// indices. With `axes`, dimension k of the destination region is dimension axes[k] of the source
/// region (as in numpy.transpose). Without, regions of different shapes but equally many points are
/// both walked with the last dimension fastest. With steps, only every step-th index of a region
/// takes part, from its lower corner on: in dimension d the indices lo[d] + k * step[d] below
/// hi[d]; then both sides need as many in each dimension. Source: an entry of KeLP's MotionPlan.
struct SectionCopy {
    std::int64_t source_block = 0;
    Region source_region{};
    std::int64_t destination_block = 0;
    Region destination_region{};
    std::vector<int> axes{};
    Point source_step{};       ///< of the source region's dimensions; without dimensions: 1 in each
    Point destination_step{};  ///< likewise of the destination region

    bool operator==(const SectionCopy&) const = default;
};

/// All of `source_region` goes to `destination_region`, whoever owns it. If several source blocks
/// of a floor plan or an index list hold an element, the lowest sends; all destination blocks that
/// hold it receive. Each element that a destination block holds in the region must be held by a
/// source block, else `incoming` throws; with `partial` such elements are left unchanged.
/// `reversed`: the destination takes what there is, but each element that a source block holds must
/// be held by a destination block, else `outgoing` throws. `adjoint`: the pairs of elements of the
/// term from `destination` to `source`, the other way: every source block sends, and the block that
/// would have sent the element receives. Regions lie inside their layouts' domains; only towards an
/// index list may one reach beyond, where no block holds anything.
struct Redistribution {
    Region source_region{};
    Region destination_region{};
    std::vector<int> axes{};
    bool partial = false;
    bool reversed = false;
    bool adjoint = false;

    bool operator==(const Redistribution&) const = default;
};

/// The ghosts of every block of a floor plan (or of a block-cyclic layout of boxes),
/// `lower`/`upper` deep per side of each dimension, from the interiors that hold them; across the
/// ends of `periodic` where a dimension of it is not empty. Expanded only for the blocks that are
/// asked for.
struct HaloExchange {
    Point lower{};
    Point upper{};
    Region domain{};               ///< extents that wrap around
    std::vector<bool> periodic{};  ///< per dimension
    bool corners = true;
    bool reversed = false;  ///< ghosts go back to the interiors
    /// With several colours only the points of one move: those of which the sum of the global
    /// indices in the interior that holds them, divided by `colours`, leaves `colour`.
    std::int64_t colours = 1;
    std::int64_t colour = 0;

    bool operator==(const HaloExchange&) const = default;
};

using PlanTerm = std::variant<SectionCopy, Redistribution, HaloExchange>;

/// A sum of terms between a source and a destination layout: a value that is read, edited, merged,
/// filtered, reversed. Never expanded to be stored. Source: KeLP's MotionPlan.
class MotionPlan {
public:
    MotionPlan() = default;
    /// An empty plan. Throws mismatch when the layouts are for different numbers of processes.
    MotionPlan(Layout source, Layout destination);

    const Layout& source() const { return source_; }
    const Layout& destination() const { return destination_; }
    const Layout& layout(Side side) const { return side == Side::source ? source_ : destination_; }
    std::int64_t nprocs() const { return source_.nprocs(); }

    /// Adds one dependence. Throws out_of_range (block numbers), mismatch (numbers of points,
    /// axes, steps), invalid_argument (axes no permutation, a step below 1). Regions may reach into
    /// ghosts: that is checked when the plan is bound to arrays.
    void copy(std::int64_t source_block, const Region& source_region,
              std::int64_t destination_block, const Region& destination_region,
              const std::vector<int>& axes = {}, const Point& source_step = {},
              const Point& destination_step = {});
    /// Adds a term. Throws what `copy` throws, of any term, and unsupported where the layouts have
    /// no such regions or halos.
    void add(PlanTerm term);

    std::int64_t size() const { return static_cast<std::int64_t>(terms_.size()); }
    /// These three throw out_of_range where there is no term `i`; replace also what `add` throws.
    const PlanTerm& operator[](std::int64_t i) const;
    void erase(std::int64_t i);
    void replace(std::int64_t i, PlanTerm term);
    /// The terms of both, in order. Throws mismatch when the layouts differ.
    MotionPlan merged(const MotionPlan& other) const;
    /// The plan of those sections for which keep(section) is true. A term of which all sections are
    /// kept stays as it is; else its kept sections become terms. The cost follows the sections.
    /// Throws unsupported for index lists.
    MotionPlan filter(const std::function<bool(const SectionCopy&)>& keep) const;
    /// Source and destination are exchanged: the plan that brings everything back. Where several
    /// blocks hold an element, one of them sends it and all receive it, in either direction.
    MotionPlan reversed() const;
    /// Each pair of elements the other way, also where several blocks hold an element: what was
    /// received by several comes back from all of them to the one that sent it, so that op=add sums
    /// it there (the adjoint of the plan as a linear map; equal to reversed() without copies).
    MotionPlan adjoint() const;
    /// What this plan and then `next` do, as section copies: first this.destination == next.source.
    /// Throws mismatch when those layouts differ. Elements that `next` reads and this plan does not
    /// write are left out. Time and memory follow the pairs of sections that are looked at: those
    /// that share a block in between. Throws out_of_range where these are more than `most_pairs`,
    /// also counting the sections of both plans: a short plan may stand for very many; unsupported
    /// for index lists and for sections that change their shape or have steps.
    MotionPlan composed(const MotionPlan& next, std::int64_t most_pairs = most_composed) const;
    static constexpr std::int64_t most_composed = std::int64_t{1} << 24;
    bool operator==(const MotionPlan& other) const;

    /// What `rank` sends, and what it receives: one entry per peer with something to move, by
    /// ascending rank, itself included. Local; the cost follows the rank's own part of the plan.
    /// Of a replicated block-cyclic source the nearest replica sends: the receiver's own, then the
    /// lowest rank on the receiver's node, then the lowest rank. `nodes` holds a number of the node
    /// of each rank; without it each process is taken for a node of its own. Throws mismatch where
    /// the rank needs (or has to bring back) an element that nobody holds, and names it: see
    /// Redistribution.
    std::vector<PeerPart> outgoing(std::int64_t rank,
                                   std::span<const std::int64_t> nodes = {}) const;
    std::vector<PeerPart> incoming(std::int64_t rank,
                                   std::span<const std::int64_t> nodes = {}) const;
    /// The part for one pair.
    PairPart part(std::int64_t source_rank, std::int64_t destination_rank) const;

    /// Calls visit for every section of the plan (of the blocks of one source and/or destination
    /// rank, -1: all) as explicit section copies in ascending order of terms. Block-cyclic products
    /// are cut into the boxes of their blocks. Throws unsupported for index lists, out_of_range for
    /// a rank that is not in the plan. Memory is taken for one block's part at a time.
    void for_each_section(const std::function<void(const SectionCopy&)>& visit,
                          std::int64_t source_rank = -1, std::int64_t destination_rank = -1) const;

    /// Layouts and terms as bytes that from_bytes turns back into an equal plan, on machines with
    /// this machine's byte order. Never expanded: the size follows the terms and the layouts.
    /// Throws unsupported for index lists of which every process knows only its own.
    std::vector<std::uint8_t> to_bytes() const;
    /// Throws invalid_argument when the bytes are not those of a plan (cut off, changed, of another
    /// version or byte order) or what they say makes no plan; nothing in them is trusted.
    static MotionPlan from_bytes(std::span<const std::uint8_t> bytes);
    /// The same bytes in a file, which appears under its name when it is complete and on the disk;
    /// a symbolic link there is replaced. Throws io and leaves nothing behind then.
    void save(const std::string& path) const;
    /// Throws io when the file cannot be read or is no regular file, else as from_bytes.
    static MotionPlan load(const std::string& path);

private:
    friend class plan::PlanDigests;
    friend class plan::TermIndex;
    void terms_changed();

    Layout source_, destination_;
    std::vector<PlanTerm> terms_;
    // Of these layouts and terms; shared with copies.
    std::shared_ptr<plan::WorkedOut> worked_out_;
};

/// Each index that both layouts hold goes from `source` to the same index of `destination`; with
/// axes, destination dimension k is source dimension axes[k]. If the destination needs an index
/// that no source block holds, that is a mismatch: thrown here if outside the source's domain,
/// else when the plan is bound (or asked for `incoming`). With `partial` such elements are left
/// unchanged. Elements that no destination block holds are not sent. Bound to one array as both
/// ends, what would go to itself is left out. Throws mismatch, invalid_argument. Local, O(1).
MotionPlan redistribute(const Layout& source, const Layout& destination,
                        const std::vector<int>& axes = {}, bool partial = false);
/// The same for a section: source_region goes to destination_region (same shape after axes), first
/// element to first element. Throws out_of_range when a region is not inside its domain.
MotionPlan redistribute(const Layout& source, const Region& source_region,
                        const Layout& destination, const Region& destination_region,
                        const std::vector<int>& axes = {}, bool partial = false);

/// Fills the ghosts of a layout's blocks, `lower` and `upper` deep per dimension. The layout is a
/// floor plan, or block-cyclic with one interval per process in each dimension (`block`, `*`).
/// `periodic` is the domain that wraps around (of no dimensions: none), in the dimensions where
/// `wraps` is true (empty: all). Deeper than a block and up to 10^5 periodic images around a block
/// are fine. Where interiors overlap, the lowest block number sends. Without corners only faces are
/// filled. With several `colours` (at most 64) only the ghosts of one are filled: of points whose
/// indices, summed where an interior holds them, leave `colour` when divided by `colours`; 2 for
/// the red or the black points of a checkerboard. Ghosts that no interior or image holds stay as
/// they are. Throws mismatch (dimensions), invalid_argument (negative widths, a periodic domain
/// without points or shorter than the blocks together, no such colour), unsupported (index lists;
/// cyclic dimensions). Local, O(1), but O(P) for P processes of a block-cyclic layout. Source:
/// KeLP's halo update from grow and intersect.
MotionPlan halo(const Layout& layout, const Point& lower, const Point& upper,
                const Region& periodic = {}, const std::vector<bool>& wraps = {},
                bool corners = true, std::int64_t colours = 1, std::int64_t colour = 0);

/// The part of a halo that fills the ghosts beside the blocks along one axis, and with them, where
/// the sender has them from earlier axes, those that lie at its corners. The plans of axes 0, 1, …
/// one after the other (Mover::in_phases) fill all that `halo` fills, corners too, with messages to
/// the neighbours along the axes only. Corners come along where blocks touch by faces, as those of
/// a grid do; at corners beyond the domain, what the sender has there. The arguments and errors are
/// those of halo, and out_of_range for an axis that is none. Section copies: O(n log n) for n
/// blocks.
MotionPlan axis_halo(const Layout& layout, const Point& lower, const Point& upper, int axis,
                     const Region& periodic = {}, const std::vector<bool>& wraps = {});

/// A panel of a block-cyclic array goes to all processes of its row or column of the process grid,
/// as each step of SUMMA, LU or Cholesky asks for: what the processes that differ only in grid
/// coordinate `along` hold of `region` together, all of them get. The plan's destination layout is
/// the panel's: as long as `region` along dimension `along`, which is not dealt out and counts from
/// 0; in every other dimension as long as the array and dealt out as the array is, so that an index
/// of a panel lies at the local index at which it lies in the array. It is the same for every
/// region that is as long along `along`: one array takes one panel after the other. Indices of the
/// panel outside `region` stay as they are. Throws unsupported (no block-cyclic layout),
/// out_of_range (a region outside the array, a dimension that is none), mismatch (a region of other
/// dimensions), invalid_argument (an empty region). Local, O(P) for P processes.
MotionPlan panel_broadcast(const Layout& layout, const Region& region, int along);

/// What one level of a hierarchy of grids takes from the other; all optional.
struct LevelOptions {
    /// So many points of the level that is read are wanted beyond each side, per dimension; none
    /// where the points have no dimensions.
    Point lower{}, upper{};
    Region periodic{};  ///< of the level that is read, where it wraps; of no dimensions: nowhere
    std::vector<bool> wraps{};  ///< in these dimensions of it; empty: in all
    bool partial = false;       ///< points that no block holds are left out
};

/// What a prolongation reads: every block of the fine level gets the coarse points beneath it,
/// whoever holds them. Coarse point c lies beneath the fine points c * factor to (c + 1) * factor -
/// 1. The plan's destination layout holds, with the numbers and owners of the fine blocks, the box
/// of coarse points that each of them touches, grown by lower and upper. Blocks need not be
/// aligned, and where the boxes of several hold a point, all get it. Points outside the bounding
/// box of the coarse level that no periodic image holds stay as they are; one within it that lies
/// beneath a fine block and is in no coarse block is an error, unless `partial`. With widths of 0,
/// reversed() brings values that were worked out beneath the fine blocks to the coarse level, and
/// adjoint(), with Op::add, their sums. `fine` is a floor plan, or block-cyclic with one interval
/// per process in each dimension; `coarse` is that or any block-cyclic layout. Throws mismatch
/// (dimensions, numbers of processes, missing points), invalid_argument (a factor below 1, or none
/// above it; widths and periodic domains as halo), unsupported (other layouts), out_of_range
/// (coordinates beyond 64 bits). Local, O(n log n) for n blocks.
MotionPlan prolongation(const Layout& coarse, const Layout& fine, const Point& factor,
                        const LevelOptions& options = {});
/// What a restriction reads: every block of the coarse level gets the fine points above it, whoever
/// holds them; the destination layout holds for each coarse block the box of its fine points, grown
/// by lower and upper fine points. All else as prolongation, the levels exchanged: `coarse` must be
/// boxes, and fine points that are missing are errors.
MotionPlan restriction(const Layout& fine, const Layout& coarse, const Point& factor,
                       const LevelOptions& options = {});

}  // namespace datamover
