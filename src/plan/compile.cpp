// SPDX-License-Identifier: BSD-3-Clause
// Compilation of a pair's part to an address relation between two memories.
#include "compile.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "datamover/side.hpp"
#include "geometry/make_error.hpp"
#include "relation/extent.hpp"
#include "relation/nest_folder.hpp"
#include "relation/product_builder.hpp"
#include "runs.hpp"

namespace datamover::plan {
namespace {

const BlockMemory& memory_of(const RelationSide& side, std::int64_t block) {
    const BlockMemory* memory = side.memory->find(block);
    if (!memory)
        throw make_error(ErrorCode::mismatch, "process ", side.rank,
                         " was given no memory for its block ", block);
    check_addresses(*memory, side.elem_bytes);
    return *memory;
}

[[noreturn]] void outside(const RelationSide& side, const BlockMemory& memory, int d,
                          Extent range) {
    throw make_error(ErrorCode::out_of_range, "process ", side.rank, ", block ", memory.block,
                     ": local indices ", range.low, " to ", range.high, " in dimension ", d,
                     " lie outside the array's ", memory.valid, " (are its ghosts deep enough?)");
}

void check_inside(const RelationSide& side, const BlockMemory& memory, int d, Extent range) {
    if (range.low < memory.valid.lo()[d] || range.high >= memory.valid.hi()[d])
        outside(side, memory, d, range);
}

/// Where a process keeps one block on each side; nullptr: the message.
using BlockMemories = PerSide<const BlockMemory*>;

/// Appends relations entry by entry; the message side grows with each.
class Compiler {
public:
    Compiler(const PairPart& part, const PerSide<RelationSide>& sides, MessageOrder order)
        : part_(part),
          sides_(sides),
          order_(order),
          known_(static_cast<std::size_t>(part.num_shapes())),
          products_(sides.source.elem_bytes, sides.destination.elem_bytes) {}

    AddressRelation operator()() {
        // No place in the message lies beyond its end.
        checked_message_bytes(part_.size(),
                              std::max(sides_.source.elem_bytes, sides_.destination.elem_bytes));
        products_.expect(static_cast<std::int64_t>(part_.entries().size()));
        for (const PartEntry& entry : part_.entries()) {
            find_memory(entry);
            if (entry.is_nest())
                add_nest(entry);
            else
                add_runs(part_.runs(entry));
        }
        if (relations_.empty()) return RelationAccess::make(products_.finish());
        flush_products();
        return relations_.size() == 1 ? relations_.front()
                                      : AddressRelation::concatenate(relations_);
    }

private:
    /// A shape between memories with certain strides: its nest, and where that begins in its
    /// blocks.
    struct Known {
        PerSide<std::array<Extent, max_dims>> extents;  ///< of local indices, per dimension
        std::int64_t elems = 0;                         ///< 0: not looked at
        bool is_compiled = false;
        PerSide<Point> strides;
        PerSide<std::int64_t> start;
        std::int64_t nest_shape = 0;

        bool fits(const BlockMemories& memory) const {
            return is_compiled && std::ranges::all_of(both_sides, [&](Side side) {
                       return !memory[side] || strides[side] == memory[side]->strides_bytes;
                   });
        }
    };

    /// Finds the memory of an entry's blocks: mostly that of the entry before.
    void find_memory(const BlockPair& blocks) {
        for (const Side side : both_sides)
            if (sides_[side].memory &&
                (!memory_[side] || memory_[side]->block != blocks.block(side)))
                memory_[side] = &memory_of(sides_[side], blocks.block(side));
    }

    void add_nest(const PartEntry& nest) {
        Known& known = known_[static_cast<std::size_t>(nest.content)];
        if (known.elems == 0) {
            known.elems = part_.elems(nest);
            for (const Side side : both_sides)
                if (memory_[side]) known.extents[side] = extents_of(part_.axes(nest), side);
        }
        for (const Side side : both_sides)
            if (memory_[side]) check_nest_inside(known.extents[side], side);
        if (!known.fits(memory_)) compile(known, part_.axes(nest));
        const auto place = [&](Side side) {
            return known.start[side] + (memory_[side] ? memory_[side]->offset_bytes
                                                      : done_elems_ * sides_[side].elem_bytes);
        };
        products_.place(known.nest_shape, place(Side::source), place(Side::destination));
        done_elems_ += known.elems;
    }

    void check_nest_inside(const std::array<Extent, max_dims>& extents, Side side) const {
        const BlockMemory& memory = *memory_[side];
        for (int d = 0; d < memory.valid.dims(); ++d) {
            const Extent& range = extents[static_cast<std::size_t>(d)];
            if (range.low <= range.high) check_inside(sides_[side], memory, d, range);
        }
    }

    /// Positions inside the blocks' memories, and before the message's end, have addresses that
    /// fit.
    void compile(Known& known, std::span<const PartAxis> axes) {
        std::int64_t elems = known.elems;
        Nest nest;
        ProductBuilder::Owners owners;
        for (std::size_t k = 0; k < axes.size(); ++k) {
            const PartAxis& axis =
                axes[order_ == MessageOrder::row_major ? k : axes.size() - 1 - k];
            elems /= axis.length;
            ProductAxis made{axis.table};
            for (const Side side : both_sides) {
                if (memory_[side]) {
                    const std::int64_t stride = memory_[side]->strides_bytes[axis.dim[side]];
                    made.stride_bytes(side) =
                        axis.length > 1 || axis.table ? axis.step[side] * stride : stride;
                    nest.offset(side) += axis.start[side] * stride;
                } else {
                    made.stride_bytes(side) = elems * sides_[side].elem_bytes;
                    if (made.table)
                        made.table =
                            std::make_shared<const AxisTable>(made.table->half(other(side)));
                }
            }
            if (made.table)
                append_axis(nest, made, owners);
            else
                nest.axes.push_back({axis.length, made.source_stride_bytes,
                                     made.destination_stride_bytes, nullptr});
        }
        fold_nest(nest);
        for (const Side side : both_sides) {
            if (memory_[side]) known.strides[side] = memory_[side]->strides_bytes;
            known.start[side] = nest.offset(side);
        }
        known.nest_shape = products_.shape_of(nest.axes, owners);
        known.is_compiled = true;
    }

    void add_runs(const PartRuns& runs) {
        for (const Side side : both_sides)
            if (memory_[side])
                check_runs_inside(sides_[side], *memory_[side],
                                  runs.generator->box(side_of(runs, side)));
        if (runs.generator->is_regular())
            fold(runs);
        else
            list(runs);
        done_elems_ += runs.elems;
    }

    static void check_runs_inside(const RelationSide& side, const BlockMemory& memory,
                                  const Region* box) {
        const Region whole =
            box ? *box : Region::from_shape(side.layout->block_extents(memory.block));
        for (int d = 0; d < whole.dims(); ++d)
            if (whole.extent(d) > 0)
                check_inside(side, memory, d, {whole.lo()[d], whole.hi()[d] - 1});
    }

    /// Calls visit(StridedRun) for all runs.
    template <class Visit>
    void for_each_strided_run(const PartRuns& runs, Visit&& visit) const {
        PerSide<std::int64_t> stride{sides_.source.elem_bytes, sides_.destination.elem_bytes};
        for (const Side side : both_sides)
            if (memory_[side])
                stride[side] =
                    memory_[side]->strides_bytes[runs.generator->dim(side_of(runs, side))];
        std::int64_t elems = done_elems_;
        for_each_run(runs, [&](const Run& run) {
            StridedRun made;
            made.elems = run.length;
            for (const Side side : both_sides) {
                const BlockMemory* memory = memory_[side];
                made.start(side) = memory ? memory->offset_bytes : elems * stride[side];
                made.step(side) = memory ? run.step[side] * stride[side] : stride[side];
                for (int d = 0; memory && d < memory->strides_bytes.dims(); ++d)
                    made.start(side) += run.at[side][d] * memory->strides_bytes[d];
            }
            elems += run.length;
            visit(made);
        });
    }

    void fold(const PartRuns& runs) {
        NestFolder folder;
        Nest folded;
        const auto keep = [&](const Nest& nest) {
            folded = nest;
            fold_axes(folded.axes);
            products_.append(folded);
        };
        for_each_strided_run(runs, [&](const StridedRun& run) { folder.push(run, keep); });
        folder.finish(keep);
    }

    void list(const PartRuns& runs) {
        flush_products();
        PerSide<std::vector<std::int64_t>> addresses;
        for (const Side side : both_sides)
            addresses[side].reserve(static_cast<std::size_t>(runs.elems));
        for_each_strided_run(runs, [&](const StridedRun& run) {
            for (const Side side : both_sides)
                for (std::int64_t i = 0; i < run.elems; ++i)
                    addresses[side].push_back(run.start(side) + i * run.step(side));
        });
        relations_.push_back(AddressRelation::from_byte_pairs(
            std::move(addresses.source), std::move(addresses.destination), sides_.source.elem_bytes,
            sides_.destination.elem_bytes));
    }

    void flush_products() {
        if (products_.nests() == 0) return;
        ProductBuilder full(sides_.source.elem_bytes, sides_.destination.elem_bytes);
        std::swap(full, products_);
        relations_.push_back(RelationAccess::make(full.finish()));
        for (Known& known : known_) known.is_compiled = false;
    }

    const PairPart& part_;
    const PerSide<RelationSide> sides_;
    MessageOrder order_;
    std::vector<Known> known_;  ///< by the part's shapes
    BlockMemories memory_{nullptr, nullptr};
    std::int64_t done_elems_ = 0;
    ProductBuilder products_;
    std::vector<AddressRelation> relations_;
};

}  // namespace

AddressRelation compile(const PairPart& part, const RelationSide& source,
                        const RelationSide& destination, MessageOrder order) {
    return Compiler(part, {source, destination}, order)();
}

}  // namespace datamover::plan
