// SPDX-License-Identifier: BSD-3-Clause
// How do the paper's implementations with MPI's collective operations move elements?
// Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
// section 4.
#include "alternatives.hpp"

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "mpi/all_to_all.hpp"
#include "mpi/checked_call.hpp"

namespace datamover::alternatives {
namespace {

/// One element as an MPI datatype, so that counts are elements.
class ElementType {
public:
    explicit ElementType(std::int64_t elem_bytes, std::int64_t stride_bytes = 0) {
        mpi::check(MPI_Type_contiguous(mpi::to_int(elem_bytes, "element size"), MPI_BYTE, &type_),
                   "MPI_Type_contiguous");
        if (stride_bytes != 0 && stride_bytes != elem_bytes) {
            MPI_Datatype dense = type_;
            const int code = MPI_Type_create_resized(dense, 0, stride_bytes, &type_);
            MPI_Type_free(&dense);
            mpi::check(code, "MPI_Type_create_resized");
        }
        mpi::check(MPI_Type_commit(&type_), "MPI_Type_commit");
    }
    ~ElementType() { MPI_Type_free(&type_); }
    ElementType(const ElementType&) = delete;
    ElementType& operator=(const ElementType&) = delete;
    MPI_Datatype type() const { return type_; }

private:
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

/// Sorts a range of elements by target.
void sort_range(const ElementColumn& column, const Deal& range, const mpi::Blocks& blocks,
                std::byte* sorted) {
    std::vector<std::byte*> places;
    for (const std::int64_t start : blocks.starts)
        places.push_back(sorted + start * column.elem_bytes);
    places.push_back(nullptr);
    deal(range, column, places.data());
}

/// Numbers of the elements that go to each rank, in order.
std::vector<std::vector<int>> indices_by_target(const State& s) {
    std::vector<std::vector<int>> indices(at(s.nprocs()));
    const Deal all = s.deal();
    with_codes(s.codes, [&](const auto* codes) {
        for (std::int64_t i = 0; i < s.elems; ++i)
            for (std::int64_t e = all.rows.first_entry(i); e < all.rows.first_entry(i + 1); ++e)
                if (codes[e] != all.drop_code)
                    indices[codes[e]].push_back(mpi::to_int(i, "element number"));
    });
    return indices;
}

/// One indexed type per target (alltoallw); freed together.
class IndexedTypes {
public:
    IndexedTypes(const State& s, MPI_Datatype element) {
        for (const auto& indices : indices_by_target(s)) {
            MPI_Datatype type = MPI_DATATYPE_NULL;
            mpi::check(MPI_Type_create_indexed_block(
                           mpi::to_int(static_cast<std::int64_t>(indices.size()), "count"), 1,
                           indices.data(), element, &type),
                       "MPI_Type_create_indexed_block");
            types_.push_back(type);
            mpi::check(MPI_Type_commit(&types_.back()), "MPI_Type_commit");
        }
    }
    ~IndexedTypes() {
        for (MPI_Datatype& type : types_) MPI_Type_free(&type);
    }
    IndexedTypes(const IndexedTypes&) = delete;
    IndexedTypes& operator=(const IndexedTypes&) = delete;
    const MPI_Datatype* data() const { return types_.data(); }

private:
    std::vector<MPI_Datatype> types_;
};

/// How far a round goes that deals at most so many entries, at least one element.
std::int64_t range_end(const Deal& range, std::int64_t elems, std::int64_t entries) {
    const std::int64_t limit = range.rows.first_entry(range.begin_elem) + entries;
    std::int64_t end = range.begin_elem;
    while (end < elems && range.rows.first_entry(end + 1) <= limit) ++end;
    return std::max(end, std::min(elems, range.begin_elem + 1));
}

}  // namespace

void carry_by_alltoallv(State& s, const ElementColumn& column, std::byte* result, bool) {
    const std::int64_t bytes = column.elem_bytes;
    Deal range = s.deal();
    mpi::Blocks received = mpi::Blocks::behind(s.recv_counts);
    if (s.limit_bytes == 0) {
        const auto sent = mpi::Blocks::behind(s.send_counts);
        const auto sorted = s.group->pool().allocate(sent.total() * bytes);
        s.counters.staged_bytes = sent.total() * bytes;
        sort_range(column, range, sent, sorted->data);
        mpi::all_to_all(sorted->data, sent, result, received, bytes, s.group->comm());
        return;
    }
    const std::int64_t entries = std::max<std::int64_t>(1, s.limit_bytes / bytes);
    std::int64_t rounds = 0;
    for (std::int64_t end = 0; end < s.elems; ++rounds) {
        range.begin_elem = end;
        end = range_end(range, s.elems, entries);
    }
    range.end_elem = 0;
    for (rounds = s.group->maximum({rounds}).front(); rounds > 0; --rounds) {
        range.begin_elem = range.end_elem;
        range.end_elem = range_end(range, s.elems, entries);
        std::vector<std::int64_t> counts(at(s.nprocs()) + 1, 0);
        count_range(range, counts.data());
        counts.pop_back();
        const auto sent = mpi::Blocks::behind(counts);
        received.counts = mpi::all_to_all_numbers(counts, s.group->comm());
        const auto sorted = s.group->pool().allocate(sent.total() * bytes);
        s.counters.staged_bytes = std::max(s.counters.staged_bytes, sent.total() * bytes);
        sort_range(column, range, sent, sorted->data);
        mpi::all_to_all(sorted->data, sent, result, received, bytes, s.group->comm());
        for (std::size_t r = 0; r < received.counts.size(); ++r)
            received.starts[r] += received.counts[r];
        ++s.counters.rounds;
    }
}

void carry_by_alltoallw(State& s, const ElementColumn& column, std::byte* result, bool) {
    const ElementType strided(column.elem_bytes, column.stride_bytes), element(column.elem_bytes);
    const IndexedTypes send_types(s, strided.type());
    const auto n = at(s.nprocs());
    std::vector<int> send_counts(n), no_starts(n, 0);
    for (std::size_t r = 0; r < n; ++r) send_counts[r] = s.send_counts[r] > 0 ? 1 : 0;
    // Displacements of MPI_Alltoallw are bytes in an int: the places go into the types instead.
    std::vector<MPI_Datatype> recv_types;
    std::vector<int> recv_counts;
    for (std::size_t r = 0; r < n; ++r) {
        const int count = mpi::to_int(s.recv_counts[r], "count of elements");
        const MPI_Aint start = s.recv_starts[r] * column.elem_bytes;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        mpi::check(MPI_Type_create_hindexed(1, &count, &start, element.type(), &type),
                   "MPI_Type_create_hindexed");
        mpi::check(MPI_Type_commit(&type), "MPI_Type_commit");
        recv_types.push_back(type);
        recv_counts.push_back(count > 0 ? 1 : 0);
    }
    const int code =
        MPI_Alltoallw(column.data, send_counts.data(), no_starts.data(), send_types.data(), result,
                      recv_counts.data(), no_starts.data(), recv_types.data(), s.group->comm());
    for (MPI_Datatype& type : recv_types) MPI_Type_free(&type);
    mpi::check(code, "MPI_Alltoallw");
}

}  // namespace datamover::alternatives
