// SPDX-License-Identifier: BSD-3-Clause
// How is one side of a relation handed to MPI, as a derived datatype?
#include "datamover/relation_datatype.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mpi/checked_call.hpp"
#include "mpi/datatype.hpp"
#include "relation/encodings.hpp"

namespace datamover {
namespace {

using mpi::check;
using mpi::Datatype;
using mpi::sequence;
using Part = mpi::PlacedDatatype;

/// Counts of datatype constructors are ints; longer lists are cut into parts of this many.
constexpr std::int64_t longest_list = std::int64_t{1} << 30;

Datatype contiguous(std::int64_t count, MPI_Datatype of) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    check(MPI_Type_contiguous(mpi::to_int(count, "an element"), of, &made), "MPI_Type_contiguous");
    return Datatype(made);
}

Datatype vector_of(std::int64_t count, std::int64_t stride, MPI_Datatype of);

/// Open MPI takes a stride of -1 byte for the extent of the type, so one byte back at a time goes
/// in pairs, two back.
Datatype one_byte_back(std::int64_t count, MPI_Datatype of) {
    std::vector<Part> two, parts;
    two.push_back({0, vector_of(1, 0, of)});
    two.push_back({-1, vector_of(1, 0, of)});
    parts.push_back({0, vector_of(count / 2, -2, sequence(std::move(two)).get())});
    if (count % 2 != 0) parts.push_back({1 - count, vector_of(1, 0, of)});
    return sequence(std::move(parts));
}

std::int64_t extent_of(MPI_Datatype type) {
    MPI_Aint lower = 0, extent = 0;
    check(MPI_Type_get_extent(type, &lower, &extent), "MPI_Type_get_extent");
    return extent;
}

Datatype vector_of(std::int64_t count, std::int64_t stride, MPI_Datatype of) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    if (count == 1) {
        check(MPI_Type_dup(of, &made), "MPI_Type_dup");
        return Datatype(made);
    }
    if (stride == -1) return one_byte_back(count, of);
    if (count <= longest_list) {
        // MPICH does not see by itself that the elements of a vector lie one behind the other, and
        // then packs each alone.
        if (stride == extent_of(of)) return contiguous(count, of);
        check(MPI_Type_create_hvector(static_cast<int>(count), 1, static_cast<MPI_Aint>(stride), of,
                                      &made),
              "MPI_Type_create_hvector");
        return Datatype(made);
    }
    const Datatype whole = vector_of(longest_list, stride, of);
    std::vector<Part> parts;
    parts.push_back({0, vector_of(count / longest_list, longest_list * stride, whole.get())});
    if (count % longest_list != 0)
        parts.push_back({count / longest_list * longest_list * stride,
                         vector_of(count % longest_list, stride, of)});
    return sequence(std::move(parts));
}

/// Appends the runs of a table, in order, at the strides of one side.
void append_runs(const std::vector<AxisRun>& runs, Side side, std::int64_t stride, MPI_Datatype of,
                 std::int64_t offset, std::vector<Part>& parts) {
    for (const AxisRun& r : runs) {
        const Datatype block = vector_of(r.length, stride, of);
        const std::int64_t step = r.step(side) * stride;
        const std::int64_t start = r.start(side) * stride;
        parts.push_back({offset + start, vector_of(r.count, step, block.get())});
    }
}

Datatype table_of(const AxisTable& table, Side side, std::int64_t stride, MPI_Datatype of) {
    std::vector<Part> all;
    if (table.periods() > 0 && !table.runs().empty()) {
        std::vector<Part> once;
        append_runs(table.runs(), side, stride, of, 0, once);
        const Datatype one = sequence(std::move(once));
        all.push_back({0, vector_of(table.periods(), table.period(side) * stride, one.get())});
    }
    append_runs(table.tail(), side, stride, of, 0, all);
    return sequence(std::move(all));
}

Datatype nest_of(const Nest& nest, Side side, MPI_Datatype element) {
    Datatype inner = vector_of(1, 0, element);
    for (auto axis = nest.axes.rbegin(); axis != nest.axes.rend(); ++axis) {
        const std::int64_t stride = axis->stride(side);
        inner = axis->table == nullptr ? vector_of(axis->count, stride, inner.get())
                                       : table_of(*axis->table, side, stride, inner.get());
    }
    return inner;
}

/// Evenly spaced elements become a vector each.
class PieceLister {
public:
    PieceLister(Side side, std::int64_t elem_bytes, MPI_Datatype element)
        : side_(side), elem_bytes_(elem_bytes), element_(element) {}

    void push(const StridedRun& run) {
        const std::int64_t start = run.start(side_);
        const std::int64_t step = run.step(side_);
        if (run.elems == 1 || step == elem_bytes_) {
            append(start, run.elems);
            return;
        }
        for (std::int64_t i = 0; i < run.elems; ++i) append(start + i * step, 1);
    }

    Datatype finish() {
        flush();
        return sequence(std::move(parts_));
    }

private:
    void append(std::int64_t start, std::int64_t elems) {
        if (!starts_.empty() && start == next_ && lengths_.back() + elems <= longest_list) {
            lengths_.back() += static_cast<int>(elems);
        } else {
            if (static_cast<std::int64_t>(starts_.size()) == longest_list) flush();
            const std::int64_t now = std::min(elems, longest_list);
            starts_.push_back(static_cast<MPI_Aint>(start));
            lengths_.push_back(static_cast<int>(now));
            if (now < elems) {
                append(start + now * elem_bytes_, elems - now);
                return;
            }
        }
        next_ = start + elems * elem_bytes_;
    }

    void flush() {
        if (starts_.empty()) return;
        MPI_Datatype made = MPI_DATATYPE_NULL;
        check(MPI_Type_create_hindexed(static_cast<int>(starts_.size()), lengths_.data(),
                                       starts_.data(), element_, &made),
              "MPI_Type_create_hindexed");
        parts_.push_back({0, Datatype(made)});
        starts_.clear();
        lengths_.clear();
    }

    Side side_;
    std::int64_t elem_bytes_;
    MPI_Datatype element_;
    std::int64_t next_ = 0;
    std::vector<MPI_Aint> starts_;
    std::vector<int> lengths_;
    std::vector<Part> parts_;
};

Datatype made_of(const AddressRelation::Storage& storage, Side side, std::int64_t elem_bytes,
                 MPI_Datatype element) {
    if (storage.encoding() != Encoding::product) {
        PieceLister lister(side, elem_bytes, element);
        storage.visit([&](const StridedRun& run) { lister.push(run); });
        return lister.finish();
    }
    std::vector<Part> nests;
    static_cast<const ProductStorage&>(storage).for_each_nest([&](const Nest& nest) {
        nests.push_back({nest.offset(side), nest_of(nest, side, element)});
    });
    return sequence(std::move(nests));
}

void require_element(MPI_Datatype element, std::int64_t elem_bytes) {
    MPI_Count bytes = 0;
    check(MPI_Type_size_x(element, &bytes), "MPI_Type_size_x");
    if (bytes == elem_bytes) return;
    throw Error(ErrorCode::wrong_type, "the element's datatype has " + std::to_string(bytes) +
                                           " bytes, the relation's elements have " +
                                           std::to_string(elem_bytes));
}

}  // namespace

MPI_Datatype relation_datatype(const AddressRelation& relation, Side side, MPI_Datatype element) {
    const AddressRelation::Storage& storage = *RelationAccess::storage(relation);
    const std::int64_t elem_bytes = storage.elem_bytes(side);
    Datatype bytes;
    if (element == MPI_DATATYPE_NULL) {
        bytes = contiguous(elem_bytes, MPI_BYTE);
        element = bytes.get();
    } else {
        require_element(element, elem_bytes);
    }
    Datatype made = made_of(storage, side, elem_bytes, element);
    made.commit();
    return made.release();
}

}  // namespace datamover
