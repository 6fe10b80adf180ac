// SPDX-License-Identifier: BSD-3-Clause
// One side of a relation as a derived MPI datatype.
#include "datamover/advanced/relation_datatype.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "geometry/make_error.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"
#include "relation/encodings.hpp"
#include "transport.hpp"

namespace datamover {
namespace {

using mpi::check;
using mpi::contiguous;
using mpi::Datatype;
using mpi::sequence;
using Part = mpi::PlacedDatatype;

/// Counts of datatype constructors are ints; longer lists are cut into parts of this many.
constexpr std::int64_t longest_list = std::int64_t{1} << 30;

/// What datatypes are made of: an element of the relation is `count` of these, one behind the
/// other. MPICH has loops of its own for blocks of what is built in, but not for elements that are
/// themselves made of others: so blocks are counted in these, at every place where there are some.
struct Unit {
    MPI_Datatype type;
    std::int64_t count;
};

/// As contiguous; one is a copy of the type.
Datatype block_of(std::int64_t count, MPI_Datatype of) {
    if (count != 1) return contiguous(count, of);
    MPI_Datatype made = MPI_DATATYPE_NULL;
    check(MPI_Type_dup(of, &made), "MPI_Type_dup");
    return Datatype(made);
}

Datatype vector_of(std::int64_t count, std::int64_t stride, const Unit& block);

/// Open MPI takes a stride of -1 byte for the extent of the type, so one byte back at a time goes
/// in pairs, two back.
Datatype one_byte_back(std::int64_t count, MPI_Datatype of) {
    std::vector<Part> two, parts;
    two.push_back({0, block_of(1, of)});
    two.push_back({-1, block_of(1, of)});
    parts.push_back({0, vector_of(count / 2, -2, {sequence(std::move(two)).get(), 1})});
    if (count % 2 != 0) parts.push_back({1 - count, block_of(1, of)});
    return sequence(std::move(parts));
}

std::int64_t extent_of(MPI_Datatype type) {
    MPI_Aint lower = 0, extent = 0;
    check(MPI_Type_get_extent(type, &lower, &extent), "MPI_Type_get_extent");
    return extent;
}

Datatype plain_vector(std::int64_t count, std::int64_t stride, const Unit& block) {
    // MPICH does not see by itself that the elements of a vector lie one behind the other, and then
    // packs each alone.
    if (stride == block.count * extent_of(block.type) && count <= longest_list / block.count)
        return contiguous(count * block.count, block.type);
    MPI_Datatype made = MPI_DATATYPE_NULL;
    check(
        MPI_Type_create_hvector(mpi::to_int(count, "a vector"), mpi::to_int(block.count, "a block"),
                                static_cast<MPI_Aint>(stride), block.type, &made),
        "MPI_Type_create_hvector");
    return Datatype(made);
}

/// How many blocks of a long vector make a group: about as many as there are groups, and all alike
/// where that can be.
std::int64_t group_of(std::int64_t count) {
    const auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(count)));
    constexpr std::int64_t most_tries = 1024;
    for (std::int64_t group = root; group > std::max(root / 2, root - most_tries); --group)
        if (count % group == 0) return group;
    return root;
}

/// `count` blocks, `stride` bytes apart. A long vector is told in groups: MPICH carries a message
/// in pieces, and for each goes through the vector from its beginning, block by block or group by
/// group (2,860 blocks of 12 bytes, there and back: 710 µs at once, 262 in groups of 52).
Datatype vector_of(std::int64_t count, std::int64_t stride, const Unit& block) {
    constexpr std::int64_t long_vector = 128;
    if (count == 1) return block_of(block.count, block.type);
    if (stride == -1) return one_byte_back(count, block_of(block.count, block.type).get());
    const bool dense = stride == block.count * extent_of(block.type);
    if (count <= long_vector || (dense && count <= longest_list / block.count))
        return plain_vector(count, stride, block);
    const std::int64_t size = group_of(count), groups = count / size, rest = count % size;
    const Datatype group = plain_vector(size, stride, block);
    std::vector<Part> parts;
    parts.push_back({0, plain_vector(groups, size * stride, {group.get(), 1})});
    if (rest > 0) parts.push_back({groups * size * stride, plain_vector(rest, stride, block)});
    return sequence(std::move(parts));
}

/// Blocks at any places, in order; what lies one behind the other becomes one block.
class BlockLister {
public:
    explicit BlockLister(const Unit& element)
        : element_(element),
          unit_bytes_(extent_of(element.type)),
          longest_(std::max(element.count, longest_list / element.count * element.count)) {}

    /// `elems` elements, one behind the other.
    void push(std::int64_t start, std::int64_t elems) { push_units(start, elems * element_.count); }

    Datatype finish() {
        flush();
        return sequence(std::move(parts_));
    }

private:
    void push_units(std::int64_t start, std::int64_t units) {
        if (!starts_.empty() && start == next_ && lengths_.back() + units <= longest_) {
            lengths_.back() += static_cast<int>(units);
            next_ += units * unit_bytes_;
            return;
        }
        for (std::int64_t done = 0; done < units;) {
            const std::int64_t now = std::min(units - done, longest_);
            if (static_cast<std::int64_t>(starts_.size()) == longest_list) flush();
            starts_.push_back(static_cast<MPI_Aint>(start + done * unit_bytes_));
            lengths_.push_back(mpi::to_int(now, "an element"));
            done += now;
        }
        next_ = start + units * unit_bytes_;
    }

    /// Cuts blocks of several lengths into such of one length, where that makes few more of them:
    /// of scattered elements, those that happen to be neighbours.
    void even_out() {
        std::int64_t length = 0, units = 0;
        for (const int n : lengths_) length = std::gcd(length, n), units += n;
        const auto blocks = static_cast<std::int64_t>(lengths_.size());
        const std::int64_t even_blocks = units / length;
        if (even_blocks == blocks || even_blocks > blocks + blocks / 2) return;
        std::vector<MPI_Aint> starts;
        starts.reserve(static_cast<std::size_t>(even_blocks));
        for (std::size_t i = 0; i < starts_.size(); ++i)
            for (std::int64_t done = 0; done < lengths_[i]; done += length)
                starts.push_back(starts_[i] + static_cast<MPI_Aint>(done * unit_bytes_));
        starts_ = std::move(starts);
        lengths_.assign(starts_.size(), static_cast<int>(length));
    }

    /// MPICH has loops of its own for blocks of one length, but does not see that they are such.
    void flush() {
        if (starts_.empty()) return;
        even_out();
        MPI_Datatype made = MPI_DATATYPE_NULL;
        const auto count = static_cast<int>(starts_.size());
        if (std::ranges::adjacent_find(lengths_, std::not_equal_to<>()) == lengths_.end())
            check(MPI_Type_create_hindexed_block(count, lengths_.front(), starts_.data(),
                                                 element_.type, &made),
                  "MPI_Type_create_hindexed_block");
        else
            check(MPI_Type_create_hindexed(count, lengths_.data(), starts_.data(), element_.type,
                                           &made),
                  "MPI_Type_create_hindexed");
        parts_.push_back({0, Datatype(made)});
        starts_.clear();
        lengths_.clear();
    }

    Unit element_;
    std::int64_t unit_bytes_, longest_;
    std::int64_t next_ = 0;
    std::vector<MPI_Aint> starts_;
    std::vector<int> lengths_;
    std::vector<Part> parts_;
};

/// The runs of a table, in order, at the strides of one side.
Datatype runs_of(const std::vector<AxisRun>& runs, Side side, std::int64_t stride,
                 const Unit& element) {
    const bool dense = stride == element.count * extent_of(element.type);
    if (dense && runs.size() > 1 &&
        std::ranges::all_of(runs, [](const AxisRun& r) { return r.count == 1; })) {
        BlockLister blocks(element);
        for (const AxisRun& r : runs) blocks.push(r.start(side) * stride, r.length);
        return blocks.finish();
    }
    std::vector<Part> parts;
    for (const AxisRun& r : runs) {
        const std::int64_t step = r.step(side) * stride;
        const bool fits = dense && r.length <= longest_list / element.count;
        const Datatype block = fits ? Datatype() : vector_of(r.length, stride, element);
        const Unit whole =
            fits ? Unit{element.type, r.length * element.count} : Unit{block.get(), 1};
        parts.push_back({r.start(side) * stride, vector_of(r.count, step, whole)});
    }
    return sequence(std::move(parts));
}

Datatype table_of(const AxisTable& table, Side side, std::int64_t stride, const Unit& element) {
    std::vector<Part> all;
    if (table.periods() > 0 && !table.runs().empty()) {
        const Datatype once = runs_of(table.runs(), side, stride, element);
        all.push_back(
            {0, vector_of(table.periods(), table.period(side) * stride, {once.get(), 1})});
    }
    if (!table.tail().empty()) all.push_back({0, runs_of(table.tail(), side, stride, element)});
    return sequence(std::move(all));
}

Datatype nest_of(const Nest& nest, Side side, const Unit& element) {
    Datatype inner;
    Unit block = element;
    std::int64_t bytes = extent_of(element.type);  // of a unit; 0: of what has gaps
    for (auto axis = nest.axes.rbegin(); axis != nest.axes.rend(); ++axis) {
        const std::int64_t stride = axis->stride[side];
        const bool continues = !axis->table && bytes > 0 && stride == block.count * bytes &&
                               axis->count <= longest_list / block.count;
        if (continues) {
            block.count *= axis->count;
            continue;
        }
        inner = axis->table ? table_of(*axis->table, side, stride, block)
                            : vector_of(axis->count, stride, block);
        block = {inner.get(), 1};
        bytes = 0;
    }
    return inner.get() != MPI_DATATYPE_NULL && block.count == 1 ? std::move(inner)
                                                                : block_of(block.count, block.type);
}

void push_run(BlockLister& blocks, const StridedRun& run, Side side, std::int64_t elem_bytes) {
    const std::int64_t start = run.start[side];
    const std::int64_t step = run.step[side];
    if (run.elems == 1 || step == elem_bytes) {
        blocks.push(start, run.elems);
        return;
    }
    for (std::int64_t i = 0; i < run.elems; ++i) blocks.push(start + i * step, 1);
}

std::vector<Part> parts_of(const AddressRelation::Storage& storage, Side side,
                           const Unit& element) {
    std::vector<Part> parts;
    if (storage.encoding != Encoding::product) {
        BlockLister blocks(element);
        storage.visit(
            [&](const StridedRun& run) { push_run(blocks, run, side, storage.elem_bytes[side]); });
        parts.push_back({0, blocks.finish()});
        return parts;
    }
    static_cast<const ProductStorage&>(storage).for_each_nest([&](const Nest& nest) {
        parts.push_back({nest.start[side], nest_of(nest, side, element)});
    });
    return parts;
}

/// The greatest number of bytes that divides an element and the addresses of all of them.
std::int64_t common_bytes(const AddressRelation::Storage& storage, Side side,
                          const std::byte* base) {
    const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(base) % 64);
    std::int64_t common = std::gcd(address, storage.elem_bytes[side]);
    if (storage.encoding != Encoding::product) {
        storage.visit([&](const StridedRun& run) {
            common = std::gcd(common, run.start[side]);
            if (run.elems > 1) common = std::gcd(common, run.step[side]);
        });
        return common;
    }
    static_cast<const ProductStorage&>(storage).for_each_nest([&](const Nest& nest) {
        common = std::gcd(common, nest.start[side]);
        for (const NestAxis& axis : nest.axes) common = std::gcd(common, axis.stride[side]);
    });
    return common;
}

void require_element(MPI_Datatype element, std::int64_t elem_bytes) {
    MPI_Count bytes = 0;
    check(MPI_Type_size_x(element, &bytes), "MPI_Type_size_x");
    if (bytes == elem_bytes) return;
    throw make_error(ErrorCode::wrong_type, "the element's datatype has ", bytes,
                     " bytes, the relation's elements have ", elem_bytes);
}

}  // namespace

std::vector<mpi::PlacedDatatype> transport::relation_in_words(const AddressRelation& relation,
                                                              Side side, const std::byte* base) {
    const AddressRelation::Storage& storage = *RelationAccess::storage(relation);
    const std::pair<std::int64_t, MPI_Datatype> words[] = {
        {8, MPI_INT64_T}, {4, MPI_INT32_T}, {2, MPI_INT16_T}, {1, MPI_BYTE}};
    const std::int64_t common = common_bytes(storage, side, base);
    const auto& [bytes, word] =
        *std::find_if(std::begin(words), std::end(words),
                      [&](const auto& candidate) { return common % candidate.first == 0; });
    return parts_of(storage, side, {word, storage.elem_bytes[side] / bytes});
}

MPI_Datatype relation_datatype(const AddressRelation& relation, Side side, MPI_Datatype element) {
    mpi::check_running();
    const AddressRelation::Storage& storage = *RelationAccess::storage(relation);
    Unit unit{MPI_BYTE, storage.elem_bytes[side]};
    if (element != MPI_DATATYPE_NULL) {
        require_element(element, storage.elem_bytes[side]);
        unit = {element, 1};
    }
    Datatype made = sequence(parts_of(storage, side, unit));
    made.commit();
    return made.release();
}

}  // namespace datamover
