// SPDX-License-Identifier: BSD-3-Clause
// How does a pair's part of a plan become an address relation between two memories?
#include "compile.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "datamover/error.hpp"
#include "datamover/side.hpp"
#include "flat_runs.hpp"
#include "geometry/checked.hpp"
#include "relation/extent.hpp"
#include "relation/nest_folder.hpp"
#include "relation/product_builder.hpp"

namespace datamover::plan {
namespace {

const BlockMemory& memory_of(const RelationSide& side, std::int64_t block) {
    const BlockMemory* memory = side.memory->find(block);
    if (!memory)
        throw Error(ErrorCode::mismatch, "process " + std::to_string(side.rank) +
                                             " was given no memory for its block " +
                                             std::to_string(block));
    check_addresses(*memory, side.elem_bytes);
    return *memory;
}

[[noreturn]] void outside(const RelationSide& side, const BlockMemory& memory, int d,
                          Extent range) {
    throw Error(ErrorCode::out_of_range,
                "process " + std::to_string(side.rank) + ", block " + std::to_string(memory.block) +
                    ": local indices " + std::to_string(range.low) + " to " +
                    std::to_string(range.high) + " in dimension " + std::to_string(d) +
                    " lie outside the array's " + memory.valid.to_string() +
                    " (are its ghosts deep enough?)");
}

void check_inside(const RelationSide& side, const BlockMemory& memory, int d, Extent range) {
    if (range.low < memory.valid.lo()[d] || range.high >= memory.valid.hi()[d])
        outside(side, memory, d, range);
}

/// Puts boxes of a list into products: what two boxes of one shape have in common is looked at
/// once.
class BoxCompiler {
public:
    BoxCompiler(const BoxList& list, const RelationSide& source, const RelationSide& destination,
                MessageOrder order, ProductBuilder& products)
        : list_(list),
          source_(source),
          destination_(destination),
          order_(order),
          products_(products),
          known_(list.shapes.size()) {}

    /// `done_elems` stand before these boxes in the message.
    void operator()(std::int64_t done_elems) {
        products_.expect(static_cast<std::int64_t>(list_.boxes.size()));
        const BlockMemory *from = nullptr, *to = nullptr;
        for (const PlacedBox& box : list_.boxes) {
            const BoxShape& shape = list_.shape_of(box);
            if (source_.memory) {
                if (!from || from->block != box.source_block)
                    from = &memory_of(source_, box.source_block);
                check_inside(*from, shape, Side::source);
            }
            if (destination_.memory) {
                if (!to || to->block != box.destination_block)
                    to = &memory_of(destination_, box.destination_block);
                check_inside(*to, shape, Side::destination);
            }
            Known& known = known_[static_cast<std::size_t>(box.shape)];
            if (!known.valid || (from && !(known.source_strides == from->strides_bytes)) ||
                (to && !(known.destination_strides == to->strides_bytes)))
                known = compiled(shape, from, to);
            products_.place(
                known.nest_shape,
                known.source + (from ? from->offset_bytes : done_elems * source_.elem_bytes),
                known.destination + (to ? to->offset_bytes : done_elems * destination_.elem_bytes));
            done_elems += products_.shape_elems(known.nest_shape);
        }
    }

private:
    /// A shape between memories with certain strides: its nest, and where that begins in its
    /// blocks.
    struct Known {
        bool valid = false;
        Point source_strides, destination_strides;
        std::int64_t source = 0, destination = 0;
        std::int64_t nest_shape = 0;
    };

    void check_inside(const BlockMemory& memory, const BoxShape& shape, Side side) const {
        for (const BoxAxis& a : shape.axes()) {
            const bool of_source = side == Side::source;
            const int d = of_source ? a.source_dim : a.destination_dim;
            const std::int64_t lo = of_source ? a.source : a.destination;
            if (lo < memory.valid.lo()[d] || lo + a.length > memory.valid.hi()[d])
                outside(of_source ? source_ : destination_, memory, d, {lo, lo + a.length - 1});
        }
    }

    Known compiled(const BoxShape& shape, const BlockMemory* from, const BlockMemory* to) {
        Known known;
        known.valid = true;
        if (from) known.source_strides = from->strides_bytes;
        if (to) known.destination_strides = to->strides_bytes;
        std::int64_t inner_elems = 1;
        axes_.resize(static_cast<std::size_t>(shape.dims));
        for (int k = shape.dims - 1; k >= 0; --k) {
            const bool row_major = order_ == MessageOrder::row_major;
            const BoxAxis& a =
                shape.axis[static_cast<std::size_t>(row_major ? k : shape.dims - 1 - k)];
            NestAxis& axis = axes_[static_cast<std::size_t>(k)];
            axis = {a.length, inner_elems * source_.elem_bytes,
                    inner_elems * destination_.elem_bytes, nullptr};
            if (from) {
                axis.source_stride = from->strides_bytes[a.source_dim];
                known.source += a.source * axis.source_stride;
            }
            if (to) {
                axis.destination_stride = to->strides_bytes[a.destination_dim];
                known.destination += a.destination * axis.destination_stride;
            }
            inner_elems *= a.length;
        }
        fold_axes(axes_);
        known.nest_shape = products_.shape_of(axes_);
        return known;
    }

    const BoxList& list_;
    const RelationSide& source_;
    const RelationSide& destination_;
    MessageOrder order_;
    ProductBuilder& products_;
    std::vector<Known> known_;    // by the list's shapes
    std::vector<NestAxis> axes_;  // of the shape that is compiled
};

/// Appends relations piece by piece; the message side grows with each.
class Compiler {
public:
    Compiler(const RelationSide& source, const RelationSide& destination, MessageOrder order)
        : source_(source),
          destination_(destination),
          order_(order),
          products_(source.elem_bytes, destination.elem_bytes) {}

    AddressRelation operator()(const PairPart& part) {
        // No place in the message lies beyond its end.
        checked_message_bytes(part.size(), std::max(source_.elem_bytes, destination_.elem_bytes));
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
        BoxCompiler(content, source_, destination_, order_, products_)(done_elems_);
    }

    void add(const ProductPiece& content) {
        const BlockMemory* from =
            source_.memory ? &memory_of(source_, content.source_block) : nullptr;
        const BlockMemory* to =
            destination_.memory ? &memory_of(destination_, content.destination_block) : nullptr;
        Product product;
        product.source_offset_bytes = from ? from->offset_bytes : done_elems_ * source_.elem_bytes;
        product.destination_offset_bytes =
            to ? to->offset_bytes : done_elems_ * destination_.elem_bytes;
        const std::size_t dims = content.axes.size();
        product.axes.resize(dims);
        if (from) check_piece_inside(content, source_, *from, Side::source);
        if (to) check_piece_inside(content, destination_, *to, Side::destination);
        std::int64_t inner_elems = 1;
        for (std::size_t k = dims; k-- > 0;) {
            const bool row_major = order_ == MessageOrder::row_major;
            const PieceAxis& axis = content.axes[row_major ? k : dims - 1 - k];
            ProductAxis& a = product.axes[k];
            if (from) {
                a.source_stride_bytes = from->strides_bytes[axis.source_dim];
            } else {
                a.table = std::make_shared<const AxisTable>(axis.table->destination_half());
                a.source_stride_bytes = inner_elems * source_.elem_bytes;
            }
            if (to) {
                a.destination_stride_bytes = to->strides_bytes[axis.destination_dim];
            } else {
                a.table = std::make_shared<const AxisTable>(axis.table->source_half());
                a.destination_stride_bytes = inner_elems * destination_.elem_bytes;
            }
            if (from && to) a.table = axis.table;
            inner_elems *= axis.table->size();
        }
        // Places in memory lie inside its blocks, those in the message before its end.
        products_.append_fitting(product);
    }

    /// Positions of axes along one dimension add up.
    static void check_piece_inside(const ProductPiece& piece, const RelationSide& relation_side,
                                   const BlockMemory& memory, Side side) {
        std::array<std::optional<Extent>, max_dims> range;
        for (const PieceAxis& axis : piece.axes) {
            const int d = side == Side::source ? axis.source_dim : axis.destination_dim;
            const Extent along = extent_of(*axis.table, side);
            Extent& sum = range[static_cast<std::size_t>(d)].emplace(
                range[static_cast<std::size_t>(d)].value_or(Extent{0, 0}));
            sum.low += along.low;
            sum.high += along.high;
        }
        for (int d = 0; d < memory.valid.dims(); ++d)
            if (const auto& sum = range[static_cast<std::size_t>(d)])
                check_inside(relation_side, memory, d, *sum);
    }

    /// Each side of a reshape is a plain box in row-major order; where both sides are memory their
    /// halves are joined.
    void add(const ReshapePiece& content) {
        flush_products();
        if (!source_.memory) {
            relations_.push_back(box_half(destination_, content.destination_block,
                                          content.destination, false, done_elems_));
        } else if (!destination_.memory) {
            relations_.push_back(
                box_half(source_, content.source_block, content.source, true, done_elems_));
        } else {
            relations_.push_back(AddressRelation::join(
                box_half(source_, content.source_block, content.source, true, 0),
                box_half(destination_, content.destination_block, content.destination, false, 0)));
        }
    }

    AddressRelation box_half(const RelationSide& side, std::int64_t block, const Region& box,
                             bool is_source, std::int64_t message_elems) const {
        const BlockMemory& memory = memory_of(side, block);
        Product product;
        (is_source ? product.source_offset_bytes : product.destination_offset_bytes) =
            memory.offset_bytes;
        (is_source ? product.destination_offset_bytes : product.source_offset_bytes) =
            message_elems * (is_source ? destination_ : source_).elem_bytes;
        std::int64_t inner_bytes = (is_source ? destination_ : source_).elem_bytes;
        for (int d = box.dims() - 1; d >= 0; --d) {
            check_inside(side, memory, d, {box.lo()[d], box.hi()[d] - 1});
            AxisTable table = AxisTable::interval(box.lo()[d], 0, box.extent(d));
            if (!is_source) table = table.reversed();
            product.axes.insert(product.axes.begin(),
                                {std::make_shared<const AxisTable>(std::move(table)),
                                 is_source ? memory.strides_bytes[d] : inner_bytes,
                                 is_source ? inner_bytes : memory.strides_bytes[d]});
            inner_bytes *= box.extent(d);
        }
        return AddressRelation::from_products({std::move(product)}, source_.elem_bytes,
                                              destination_.elem_bytes);
    }

    void add(const IndexPiece& content) {
        flush_products();
        relations_.push_back(AddressRelation::from_byte_pairs(
            byte_addresses(source_, content.source_block, content.source),
            byte_addresses(destination_, content.destination_block, content.destination),
            source_.elem_bytes, destination_.elem_bytes));
    }

    void add(const RangesPiece& content) {
        const RunPlaces from = places(source_, content, Side::source);
        const RunPlaces to = places(destination_, content, Side::destination);
        NestFolder folder;
        const auto keep = [&](const Nest& nest) {
            folded_ = nest;
            fold_axes(folded_.axes);
            products_.append(folded_);
        };
        std::int64_t elems = done_elems_;
        content.runs->for_each(content.first, content.end, [&](const FlatRun& run) {
            folder.push(
                {from(run, elems), to(run, elems), run.length, from.step_of(run), to.step_of(run)},
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
        made.memory = &memory_of(
            side, which == Side::source ? content.source_block : content.destination_block);
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
        ProductBuilder full(source_.elem_bytes, destination_.elem_bytes);
        std::swap(full, products_);
        relations_.push_back(RelationAccess::make(full.finish()));
    }

    const RelationSide& source_;
    const RelationSide& destination_;
    MessageOrder order_;
    std::int64_t done_elems_ = 0;
    ProductBuilder products_;
    Nest folded_;
    std::vector<AddressRelation> relations_;
};

}  // namespace

AddressRelation compile(const PairPart& part, const RelationSide& source,
                        const RelationSide& destination, MessageOrder order) {
    return Compiler(source, destination, order)(part);
}

}  // namespace datamover::plan
