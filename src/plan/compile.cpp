// SPDX-License-Identifier: BSD-3-Clause
// Compilation of a pair's part to an address relation between two memories.
#include "compile.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "datamover/side.hpp"
#include "flat_runs.hpp"
#include "geometry/make_error.hpp"
#include "relation/nest_folder.hpp"

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
                     " are outside the array's ", memory.valid,
                     "; make the array with deeper ghosts (ghost=)");
}

/// Where a process keeps one block on each side; nullptr: the message.
using BlockMemories = PerSide<const BlockMemory*>;

/// Puts boxes of a list into products: what two boxes of one shape have in common is looked at
/// once.
class BoxCompiler {
public:
    BoxCompiler(const BoxList& list, const PerSide<RelationSide>& sides, MessageOrder order,
                ProductBuilder& products)
        : list_(list), sides_(sides), order_(order), products_(products) {
        known_.resize(list.shapes.size());
    }

    /// `done_elems` stand before these boxes in the message.
    void operator()(std::int64_t done_elems) {
        products_.expect(static_cast<std::int64_t>(list_.boxes.size()));
        BlockMemories memory;
        for (const PlacedBox& box : list_.boxes) {
            const BoxShape& shape = list_.shape_of(box);
            for (const Side side : both_sides) find(memory[side], box, shape, side);
            Known& known = known_[static_cast<std::size_t>(box.shape)];
            if (!known.fits(memory)) known = compiled(shape, memory);
            AddressPair start = known.start;
            for (const Side side : both_sides)
                start[side] += memory[side] ? memory[side]->offset_bytes
                                            : done_elems * sides_[side].elem_bytes;
            products_.place(known.nest_shape, start);
            done_elems += products_.shape_elems(known.nest_shape);
        }
    }

private:
    /// A shape between memories with certain strides: its nest, and where that begins in its
    /// blocks.
    struct Known {
        bool valid = false;
        PerSide<Point> strides;
        AddressPair start;
        std::int64_t nest_shape = 0;

        bool fits(const BlockMemories& memory) const {
            const auto alike = [&](Side side) {
                return !memory[side] || strides[side] == memory[side]->strides_bytes;
            };
            return valid && alike(Side::source) && alike(Side::destination);
        }
    };

    /// Sets `memory` to that of the box's block, where the side has one: mostly that of the box
    /// before.
    void find(const BlockMemory*& memory, const PlacedBox& box, const BoxShape& shape, Side side) {
        if (!sides_[side].memory) return;
        if (!memory || memory->block != box.block(side))
            memory = &memory_of(sides_[side], box.block(side));
        for (const BoxAxis& a : shape.axes()) {
            const int d = a.dim(side);
            const std::int64_t lo = a.start(side);
            if (lo < memory->valid.lo()[d] || lo + a.length > memory->valid.hi()[d])
                outside(sides_[side], *memory, d, {lo, lo + a.length - 1});
        }
    }

    Known compiled(const BoxShape& shape, const BlockMemories& memory) {
        Known known;
        known.valid = true;
        for (const Side side : both_sides)
            if (memory[side]) known.strides[side] = memory[side]->strides_bytes;
        std::int64_t inner_elems = 1;
        axes_.resize(static_cast<std::size_t>(shape.dims));
        for (int k = shape.dims - 1; k >= 0; --k) {
            const bool row_major = order_ == MessageOrder::row_major;
            const BoxAxis& a =
                shape.axis[static_cast<std::size_t>(row_major ? k : shape.dims - 1 - k)];
            NestAxis& axis = axes_[static_cast<std::size_t>(k)];
            axis.count = a.length;
            axis.table = nullptr;
            for (const Side side : both_sides) {
                axis.stride[side] = memory[side] ? memory[side]->strides_bytes[a.dim(side)]
                                                 : inner_elems * sides_[side].elem_bytes;
                if (memory[side]) known.start[side] += a.start(side) * axis.stride[side];
            }
            inner_elems *= a.length;
        }
        fold_axes(axes_);
        known.nest_shape = products_.shape_of(axes_);
        return known;
    }

    const BoxList& list_;
    const PerSide<RelationSide>& sides_;
    MessageOrder order_;
    ProductBuilder& products_;
    std::vector<Known> known_;    // by the list's shapes
    std::vector<NestAxis> axes_;  // of the shape that is compiled
};

/// Appends relations piece by piece; the message side grows with each.
class Compiler {
public:
    Compiler(const PerSide<RelationSide>& sides, MessageOrder order)
        : sides_(sides),
          order_(order),
          products_({sides.source.elem_bytes, sides.destination.elem_bytes}) {}

    AddressRelation operator()(const PairPart& part) {
        // No place in the message lies beyond its end.
        checked_message_bytes(part.size(),
                              std::max(sides_.source.elem_bytes, sides_.destination.elem_bytes));
        for (const Piece& piece : part.pieces) {
            const std::int64_t elems = piece.size();
            if (elems == 0) continue;
            std::visit([&](const auto& content) { add(content); }, piece.content);
            done_elems_ += elems;
        }
        if (relations_.empty()) return RelationAccess::make(products_.finish());
        flush_products();
        return relations_.size() == 1 ? relations_.front()
                                      : AddressRelation::concatenate(relations_);
    }

private:
    void add(const BoxList& content) {
        BoxCompiler(content, sides_, order_, products_)(done_elems_);
    }

    /// Places in memory lie inside its blocks, those in the message before its end.
    void add(const ProductPiece& content) {
        BlockMemories memory;
        Nest nest;
        for (const Side side : both_sides) {
            const RelationSide& on = sides_[side];
            if (on.memory) {
                memory[side] = &memory_of(on, content.block(side));
                check_piece_inside(content, on, *memory[side], side);
            }
            nest.start[side] =
                memory[side] ? memory[side]->offset_bytes : done_elems_ * on.elem_bytes;
        }
        const std::size_t dims = content.axes.size();
        ProductBuilder::Owners tables(dims);
        nest.axes.resize(dims);
        std::int64_t inner_elems = 1;
        for (std::size_t k = dims; k-- > 0;) {
            const bool row_major = order_ == MessageOrder::row_major;
            const PieceAxis& axis = content.axes[row_major ? k : dims - 1 - k];
            NestAxis& made = nest.axes[k];
            tables[k] = axis.table;
            for (const Side side : both_sides) {
                made.stride[side] =
                    memory[side] ? axis.sign(side) * memory[side]->strides_bytes[axis.dim(side)]
                                 : inner_elems * sides_[side].elem_bytes;
                if (!memory[side])
                    tables[k] = std::make_shared<const AxisTable>(axis.table->half(other(side)));
            }
            made.count = axis.table->size();
            made.table = tables[k].get();
            inner_elems *= made.count;
        }
        fold_nest(nest);
        products_.append(nest, tables);
    }

    /// Positions of axes along one dimension add up.
    static void check_piece_inside(const ProductPiece& piece, const RelationSide& relation_side,
                                   const BlockMemory& memory, Side side) {
        std::array<Extent, max_dims> range;
        range.fill({0, 0});
        for (const PieceAxis& axis : piece.axes) {
            const Extent along = positions_of(axis, side);
            Extent& sum = range[static_cast<std::size_t>(axis.dim(side))];
            sum.low += along.low;
            sum.high += along.high;
        }
        for (int d = 0; d < memory.valid.dims(); ++d) {
            const Extent& sum = range[static_cast<std::size_t>(d)];
            if (sum.low < memory.valid.lo()[d] || sum.high >= memory.valid.hi()[d])
                outside(relation_side, memory, d, sum);
        }
    }

    /// Each side of a reshape is a plain box in row-major order; where both sides are memory their
    /// halves are joined.
    void add(const ReshapePiece& content) {
        flush_products();
        if (!sides_.source.memory)
            relations_.push_back(box_half(content, Side::destination, done_elems_));
        else if (!sides_.destination.memory)
            relations_.push_back(box_half(content, Side::source, done_elems_));
        else
            relations_.push_back(AddressRelation::join(box_half(content, Side::source, 0),
                                                       box_half(content, Side::destination, 0)));
    }

    AddressRelation box_half(const ReshapePiece& content, Side kept,
                             std::int64_t message_elems) const {
        PerSide<RelationSide> sides = sides_;
        sides[other(kept)].memory = nullptr;
        const Region& box = content.box(kept);
        BoxList half{{BoxShape{box.dims(), {}}}, {{content, 0}}, box.size()};
        for (int d = 0; d < box.dims(); ++d)
            half.shapes.front().axis[static_cast<std::size_t>(d)] = {box.lo()[d], box.lo()[d],
                                                                     box.extent(d), d, d};
        ProductBuilder product({sides_.source.elem_bytes, sides_.destination.elem_bytes});
        BoxCompiler(half, sides, MessageOrder::row_major, product)(message_elems);
        return RelationAccess::make(product.finish());
    }

    void add(const IndexPiece& content) {
        flush_products();
        relations_.push_back(AddressRelation::from_byte_pairs(
            byte_addresses(sides_.source, content.source_block, content.source),
            byte_addresses(sides_.destination, content.destination_block, content.destination),
            sides_.source.elem_bytes, sides_.destination.elem_bytes));
    }

    void add(const RangesPiece& content) {
        const RunPlaces from = places(sides_.source, content, Side::source);
        const RunPlaces to = places(sides_.destination, content, Side::destination);
        NestFolder folder;
        const auto keep = [&](const Nest& nest) { products_.append(nest); };
        std::int64_t elems = done_elems_;
        content.runs->for_each(content.first, content.end, [&](const FlatRun& run) {
            folder.push({{from(run, elems), to(run, elems)},
                         run.length,
                         {from.step_of(run), to.step_of(run)}},
                        keep);
            elems += run.length;
        });
        folder.finish(keep);
    }

    /// Where the runs of a ranges piece lie on one side.
    struct RunPlaces {
        const BlockMemory* memory = nullptr;  ///< nullptr: in the message
        bool is_flat = false;
        std::int64_t step = 0;

        std::int64_t step_of(const FlatRun& run) const {
            return memory && is_flat ? step * run.step : step;
        }
        std::int64_t operator()(const FlatRun& run, std::int64_t message_elems) const {
            if (!memory) return message_elems * step;
            if (is_flat) return memory->offset_bytes + run.position * step;
            std::int64_t address = memory->offset_bytes;
            for (int d = 0; d < memory->strides_bytes.dims(); ++d)
                address += run.other[d] * memory->strides_bytes[d];
            return address;
        }
    };

    RunPlaces places(const RelationSide& side, const RangesPiece& content, Side which) const {
        RunPlaces made;
        made.is_flat = content.flat_side == which;
        made.step = side.elem_bytes;
        if (!side.memory) return made;
        made.memory = &memory_of(side, content.block(which));
        check_whole_inside(side, *made.memory);
        made.step = made.memory->strides_bytes[made.is_flat ? 0 : content.runs->other_dim()];
        return made;
    }

    static void check_whole_inside(const RelationSide& side, const BlockMemory& memory) {
        const Point extents = side.layout->block_extents(memory.block);
        for (int d = 0; d < extents.dims(); ++d)
            if (memory.valid.hi()[d] < extents[d]) outside(side, memory, d, {0, extents[d] - 1});
    }

    std::vector<std::int64_t> byte_addresses(const RelationSide& side, std::int64_t block,
                                             const std::vector<std::int64_t>& flat) const {
        std::vector<std::int64_t> addresses(flat.size());
        if (!side.memory) {
            for (std::size_t i = 0; i < flat.size(); ++i)
                addresses[i] = (done_elems_ + static_cast<std::int64_t>(i)) * side.elem_bytes;
            return addresses;
        }
        const BlockMemory& memory = memory_of(side, block);
        const Point extents = side.layout->block_extents(block);
        check_whole_inside(side, memory);
        for (std::size_t i = 0; i < flat.size(); ++i) {
            std::int64_t rest = flat[i], address = memory.offset_bytes;
            for (int d = extents.dims() - 1; d >= 0; --d) {
                address += rest % extents[d] * memory.strides_bytes[d];
                rest /= extents[d];
            }
            addresses[i] = address;
        }
        return addresses;
    }

    void flush_products() {
        if (products_.nests() == 0) return;
        ProductBuilder full({sides_.source.elem_bytes, sides_.destination.elem_bytes});
        std::swap(full, products_);
        relations_.push_back(RelationAccess::make(full.finish()));
    }

    const PerSide<RelationSide> sides_;
    MessageOrder order_;
    std::int64_t done_elems_ = 0;
    ProductBuilder products_;
    std::vector<AddressRelation> relations_;
};

}  // namespace

Extent positions_of(const PieceAxis& axis, Side side) {
    const Extent extent = extent_of(*axis.table, side);
    const std::int64_t sign = axis.sign(side);
    return sign < 0 ? Extent{extent.high * sign, extent.low * sign}
                    : Extent{extent.low * sign, extent.high * sign};
}

AddressRelation compile(const PairPart& part, const RelationSide& source,
                        const RelationSide& destination, MessageOrder order) {
    return Compiler({source, destination}, order)(part);
}

}  // namespace datamover::plan
