// SPDX-License-Identifier: BSD-3-Clause
// How do the paper's implementations with MPI's collective operations and messages move elements?
// Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
// section 4.
#include "paper_methods.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"

namespace datamover::distribute {
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

std::vector<std::int64_t> starts_of(const std::vector<std::int64_t>& counts) {
    std::vector<std::int64_t> starts(counts.size() + 1, 0);
    for (std::size_t i = 0; i < counts.size(); ++i) starts[i + 1] = starts[i] + counts[i];
    return starts;
}

std::vector<int> as_ints(const std::vector<std::int64_t>& values, std::size_t n) {
    std::vector<int> ints;
    for (std::size_t i = 0; i < n; ++i) ints.push_back(mpi::to_int(values[i], "count of elements"));
    return ints;
}

/// Elements sorted by target, dense.
memory::AllocationPtr sorted_by_target(State& s, const ElementColumn& column,
                                       const std::vector<std::int64_t>& starts) {
    const auto sorted = s.group->pool().allocate(starts.back() * column.elem_bytes);
    std::vector<std::byte*> places;
    for (const std::int64_t start : starts)
        places.push_back(sorted->data + start * column.elem_bytes);
    deal(s.deal(), column, places.data());
    s.counters.staged_bytes = starts.back() * column.elem_bytes;
    return sorted;
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

/// Elements per target that are sent together (sendrecv).
constexpr std::int64_t aggregated_elems = 128;

/// Sends elements as soon as a target's buffer is full, and receives meanwhile. Each target has two
/// buffers: one is filled while the other is under way.
class Aggregator {
public:
    Aggregator(State& state, const ElementColumn& column, std::byte* result)
        : s_(state),
          column_(column),
          result_(result),
          tag_(state.data_tag),
          buffer_bytes_(aggregated_elems * column.elem_bytes),
          buffers_(at(state.nprocs())),
          next_(state.recv_starts),
          left_(state.received() - state.recv_counts[at(state.rank())]) {}

    void run() {
        const Deal all = s_.deal();
        with_codes(s_.codes, [&](const auto* codes) {
            for (std::int64_t i = 0; i < s_.elems; ++i)
                for (std::int64_t e = all.rows.first_entry(i); e < all.rows.first_entry(i + 1); ++e)
                    if (codes[e] != all.drop_code) put(static_cast<int>(codes[e]), i);
        });
        for (int r = 0; r < s_.nprocs(); ++r) flush(r);
        while (left_ > 0) receive();
        for (Buffer& buffer : buffers_)
            mpi::check(MPI_Waitall(2, buffer.requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
    }

private:
    struct Buffer {
        std::unique_ptr<std::byte[]> halves[2];
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        int half = 0;
        std::int64_t elems = 0;
    };

    void put(int rank, std::int64_t elem) {
        const std::byte* from =
            static_cast<const std::byte*>(column_.data) + elem * column_.stride_bytes;
        if (rank == s_.rank()) {
            std::memcpy(result_ + next_[at(rank)]++ * column_.elem_bytes, from,
                        at(column_.elem_bytes));
            return;
        }
        Buffer& buffer = buffers_[at(rank)];
        auto& half = buffer.halves[buffer.half];
        if (!half) {
            half = std::make_unique_for_overwrite<std::byte[]>(at(buffer_bytes_));
            s_.counters.staged_bytes += buffer_bytes_;
        }
        std::memcpy(half.get() + buffer.elems++ * column_.elem_bytes, from, at(column_.elem_bytes));
        if (buffer.elems == aggregated_elems) flush(rank);
    }

    void flush(int rank) {
        Buffer& buffer = buffers_[at(rank)];
        if (buffer.elems == 0) return;
        mpi::check(MPI_Isend(buffer.halves[buffer.half].get(),
                             mpi::to_int(buffer.elems * column_.elem_bytes, "message"), MPI_BYTE,
                             rank, tag_, s_.group->comm(), &buffer.requests[buffer.half]),
                   "MPI_Isend");
        ++s_.counters.messages;
        buffer.half = 1 - buffer.half;
        buffer.elems = 0;
        int free = 0;
        while (!free) {
            receive();
            mpi::check(MPI_Test(&buffer.requests[buffer.half], &free, MPI_STATUS_IGNORE),
                       "MPI_Test");
        }
    }

    /// Takes one message, if one has come, to the exact place of its source.
    void receive() {
        for (int r = 0; r < s_.nprocs(); ++r) {
            if (r == s_.rank() || next_[at(r)] == s_.recv_starts[at(r) + 1]) continue;
            int arrived = 0, bytes = 0;
            MPI_Status status;
            mpi::check(MPI_Iprobe(r, tag_, s_.group->comm(), &arrived, &status), "MPI_Iprobe");
            if (!arrived) continue;
            mpi::check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
            mpi::check(MPI_Recv(result_ + next_[at(r)] * column_.elem_bytes, bytes, MPI_BYTE, r,
                                tag_, s_.group->comm(), MPI_STATUS_IGNORE),
                       "MPI_Recv");
            next_[at(r)] += bytes / column_.elem_bytes;
            left_ -= bytes / column_.elem_bytes;
        }
    }

    State& s_;
    const ElementColumn& column_;
    std::byte* result_;
    int tag_;
    std::int64_t buffer_bytes_;
    std::vector<Buffer> buffers_;
    std::vector<std::int64_t> next_;  ///< per source: where its next element belongs
    std::int64_t left_;
};

constexpr std::pair<const char*, PaperMethod> methods[] = {
    {"alltoallv", carry_by_alltoallv},
    {"alltoallw", carry_by_alltoallw},
    {"sendrecv", carry_by_sendrecv},
};

}  // namespace

PaperMethod paper_method(const std::string& name) {
    for (const auto& [known, method] : methods)
        if (name == known) return method;
    return nullptr;
}

std::string paper_method_names() {
    std::string names;
    for (const auto& method : methods)
        names += (names.empty() ? "" : ", ") + std::string(method.first);
    return names;
}

void carry_by_alltoallv(State& s, const ElementColumn& column, std::byte* result) {
    const ElementType element(column.elem_bytes);
    const auto starts = starts_of(s.send_counts);
    const auto sorted = sorted_by_target(s, column, starts);
    const auto n = at(s.nprocs());
    const auto send_counts = as_ints(s.send_counts, n), send_starts = as_ints(starts, n);
    const auto recv_counts = as_ints(s.recv_counts, n), recv_starts = as_ints(s.recv_starts, n);
    mpi::check(
        MPI_Alltoallv(sorted->data, send_counts.data(), send_starts.data(), element.type(), result,
                      recv_counts.data(), recv_starts.data(), element.type(), s.group->comm()),
        "MPI_Alltoallv");
}

void carry_by_alltoallw(State& s, const ElementColumn& column, std::byte* result) {
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

void carry_by_sendrecv(State& s, const ElementColumn& column, std::byte* result) {
    Aggregator(s, column, result).run();
}

}  // namespace datamover::distribute
