// SPDX-License-Identifier: BSD-3-Clause
// Which section of which block goes where?
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "datamover/layout.hpp"
#include "datamover/pair_part.hpp"

namespace datamover {

namespace plan {
struct PlanDigests;
class TermIndex;
}  // namespace plan

/// (destination block on destination region) <= (source block on source region), regions in global
/// indices. With `axes`, dimension k of the destination region is dimension axes[k] of the source
/// region (as in numpy.transpose). Without, regions of different shapes but equally many points are
/// both walked with the last dimension fastest. Source: an entry of KeLP's MotionPlan.
struct SectionCopy {
    std::int64_t source_block = 0;
    Region source_region;
    std::int64_t destination_block = 0;
    Region destination_region;
    std::vector<int> axes;

    bool operator==(const SectionCopy&) const = default;
};

/// Everything of `source_region` of the source layout goes to `destination_region` of the
/// destination layout, whoever owns it. Where several source blocks of a floor plan or an index
/// list hold an element, the lowest sends; all destination blocks that hold it receive. Each
/// element that a destination block holds in the region must be held by a source block, else
/// `incoming` throws; with `partial` such elements stay as they are. `reversed`, as reversed plans
/// say: the destination takes what there is, but each element that a source block holds must be
/// held by a destination block, else `outgoing` throws. `adjoint`: the pairs of elements of the
/// redistribution from `destination` to `source`, the other way: every source block that holds an
/// element sends it, and the destination block that would have sent it receives.
struct Redistribution {
    Region source_region;
    Region destination_region;
    std::vector<int> axes;
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
    Point lower;
    Point upper;
    Region domain;               ///< extents that wrap around
    std::vector<bool> periodic;  ///< per dimension
    bool corners = true;
    bool reversed = false;  ///< ghosts go back to the interiors

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
    std::int64_t nprocs() const { return source_.nprocs(); }

    /// Adds one dependence. Throws out_of_range (block numbers), mismatch (numbers of points,
    /// axes), invalid_argument (axes no permutation). Regions may reach into ghosts: that is
    /// checked when the plan is bound to arrays.
    void copy(std::int64_t source_block, const Region& source_region,
              std::int64_t destination_block, const Region& destination_region,
              const std::vector<int>& axes = {});
    void add(PlanTerm term);

    std::int64_t size() const { return static_cast<std::int64_t>(terms_.size()); }
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
    /// also counting the sections of both plans: a short plan may stand for very many.
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
    friend struct plan::PlanDigests;
    friend class plan::TermIndex;
    void terms_changed();

    Layout source_, destination_;
    std::vector<PlanTerm> terms_;
    // Of these layouts and terms, once known; shared with copies.
    std::shared_ptr<plan::PlanDigests> digests_;
    std::shared_ptr<plan::TermIndex> index_;
};

/// Everything of `source` to the same index of `destination`; with axes, destination dimension k is
/// source dimension axes[k]. The domains' shapes must agree. An element of the destination that no
/// source block holds is an error where the plan is bound (or asked for `incoming`); with `partial`
/// it stays as it is. Elements that no destination block holds are simply not sent. Bound to one
/// array as source and destination, an element that would go to itself is left out. Throws
/// mismatch, invalid_argument. Local, O(1).
MotionPlan redistribute(const Layout& source, const Layout& destination,
                        const std::vector<int>& axes = {}, bool partial = false);
/// The same for a section: source_region of the source goes to destination_region (same shape after
/// axes). Throws out_of_range when a region is not inside its domain.
MotionPlan redistribute(const Layout& source, const Region& source_region,
                        const Layout& destination, const Region& destination_region,
                        const std::vector<int>& axes = {}, bool partial = false);

/// Fills the ghosts of a layout's blocks, `lower` and `upper` deep per dimension. The layout is a
/// floor plan, or block-cyclic with one interval per process in each dimension (`block`, `*`).
/// `periodic` is the domain that wraps around (an empty region: none), in the dimensions where
/// `wraps` is true (empty: all). Deeper than a block and up to 10^5 periodic images around a block
/// are fine. Where interiors overlap, the lowest block number sends. Without corners only faces are
/// filled. Ghosts that no interior or image holds stay as they are. Throws mismatch (dimensions),
/// invalid_argument (negative widths, a periodic domain shorter than the blocks together),
/// unsupported (index lists; cyclic dimensions). Local, O(1), but O(P) for P processes of a
/// block-cyclic layout. Source: KeLP's halo update from grow and intersect.
MotionPlan halo(const Layout& layout, const Point& lower, const Point& upper,
                const Region& periodic = {}, const std::vector<bool>& wraps = {},
                bool corners = true);

}  // namespace datamover
