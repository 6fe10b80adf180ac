// SPDX-License-Identifier: BSD-3-Clause
// The table of methods, and the paper's implementations with MPI_Alltoallv and MPI_Alltoallw.
// Source: M. Hofmann, G. Rünger, Fine-grained Data Distribution Operations for Particle Codes,
// section 4.
#include "alternatives.hpp"

#include <mpi.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <vector>

#include "geometry/make_error.hpp"
#include "mpi/byte_message.hpp"
#include "mpi/checked_call.hpp"
#include "mpi/collectives.hpp"

namespace datamover::alternatives {

/// With a limit in rounds, until no process has anything left.
void carry_by_alltoallv(State& s, NodeSlot&, const ColumnTransfer& transfer, bool) {
    const ElementColumn& column = transfer.columns.front();
    const ElementBuffer& result = transfer.results.front();
    const std::int64_t bytes = column.elem_bytes;
    const bool limited = s.limit_bytes > 0;
    ElementRange range = s.all_elems();
    if (limited) range.end_elem = 0;
    std::vector<std::int64_t> counts = s.send_counts;
    mpi::Blocks received = mpi::Blocks::behind(s.recv_counts);
    do {
        if (limited) {
            std::int64_t room = s.limit_bytes / bytes;
            counts = advance_range(range, s.elems, [&](auto code, std::int64_t) {
                room -= code != range.drop_code;
                return room >= 0;
            });
            received.counts = mpi::exchange(*s.group, counts);
            ++s.last_move.rounds;
        }
        const auto sent = mpi::Blocks::behind(counts);
        const auto sorted = memory::SegmentPool::of_process().allocate(sent.total() * bytes);
        s.last_move.staged_bytes = std::max(s.last_move.staged_bytes.load(), sent.total() * bytes);
        sort_by_target(column, range, sent, sorted->data);
        mpi::all_to_all({sorted, result.owner}, sorted->data, sent, result.data, received, bytes,
                        *s.group);
        for (std::size_t r = 0; r < received.counts.size(); ++r)
            received.starts[r] += received.counts[r];
    } while (limited && s.group->maximum({range.end_elem < s.elems}).front() > 0);
}

void carry_by_alltoallw(State& s, NodeSlot&, const ColumnTransfer& transfer, bool) {
    const ElementColumn& column = transfer.columns.front();
    const ElementBuffer& result = transfer.results.front();
    /// What MPI may look at until the operation is complete.
    struct Arguments {
        std::vector<mpi::Datatype> made;
        std::vector<MPI_Datatype> send_types, receive_types;
        std::vector<int> counts, starts;  ///< of each type one, from the column's start on
        std::shared_ptr<const void> result_owner;

        void add(std::vector<MPI_Datatype>& types, mpi::Datatype type) {
            type.commit();
            types.push_back(type.get());
            made.push_back(std::move(type));
        }
    };
    const auto a = std::make_shared<Arguments>();
    a->result_owner = result.owner;
    a->counts.assign(at(s.nprocs()), 1);
    a->starts.assign(at(s.nprocs()), 0);
    std::vector<std::vector<MPI_Aint>> places(at(s.nprocs()));
    for_each_entry(s.all_elems(), [&](std::int64_t i, auto rank) {
        places[rank].push_back(i * column.stride_bytes);
    });
    const mpi::Datatype element = mpi::contiguous(column.elem_bytes, MPI_BYTE);
    // Displacements of MPI_Alltoallw are bytes in an int: the places go into the types instead.
    for (std::size_t r = 0; r < places.size(); ++r) {
        MPI_Datatype scattered = MPI_DATATYPE_NULL;
        mpi::check(
            MPI_Type_create_hindexed_block(mpi::to_int(std::ssize(places[r]), "count of elements"),
                                           1, places[r].data(), element.get(), &scattered),
            "MPI_Type_create_hindexed_block");
        a->add(a->send_types, mpi::Datatype(scattered));
        std::vector<mpi::PlacedDatatype> dense;
        dense.push_back({s.recv_starts[r] * column.elem_bytes,
                         mpi::contiguous(s.recv_counts[r], element.get())});
        a->add(a->receive_types, mpi::sequence(std::move(dense)));
    }
    const auto begin = [&](MPI_Comm comm, MPI_Request* request) {
        return MPI_Ialltoallw(column.data, a->counts.data(), a->starts.data(), a->send_types.data(),
                              result.data, a->counts.data(), a->starts.data(),
                              a->receive_types.data(), comm, request);
    };
    s.group->carry_out("MPI_Ialltoallw", a, begin, mpi::Load::data);
}

void sort_by_target(const ElementColumn& column, const ElementRange& range,
                    const mpi::Blocks& blocks, std::byte* sorted) {
    std::vector<std::byte*> places;
    for (const std::int64_t start : blocks.starts)
        places.push_back(sorted + start * column.elem_bytes);
    places.push_back(nullptr);
    fan_out(range, column, places.data());
}

}  // namespace datamover::alternatives

// The table of methods, and how one is run.

namespace datamover::distribute {
namespace {

bool fits_int(std::int64_t elems) {
    return elems <= std::numeric_limits<int>::max();
}

constexpr std::size_t any_columns = std::numeric_limits<std::size_t>::max();

constexpr Method methods[] = {
    {"partition", carry_by_partition, offered_columns, exchange_by_partition, true, nullptr},
    {"alltoallv", alternatives::carry_by_alltoallv, 1, alternatives::exchange_by_alltoallv, true,
     mpi::all_to_all_reaches},
    {"alltoallw", alternatives::carry_by_alltoallw, 1, nullptr, true, fits_int},
    {"sendrecv", alternatives::carry_by_sendrecv, any_columns, nullptr, true, nullptr},
    {"sort", alternatives::carry_by_sort, 1, alternatives::exchange_by_sort, false,
     mpi::all_to_all_reaches},
};

}  // namespace

void move(const Method& how, State& s, NodeSlot& slot, const ColumnTransfer& transfer,
          bool stable) {
    propagating_errors(s, [&] {
        for (std::size_t c = 0; c < transfer.columns.size();)
            how.move(s, slot, transfer.next(c, how.columns_at_once), stable);
    });
}

void exchange(const Method& how, State& s, NodeSlot& slot, const Buffer& buffer, bool stable) {
    propagating_errors(s, [&] { how.move_in_place(s, slot, buffer, stable); });
}

const Method* find_method(const std::string& name) {
    const auto* const found = std::ranges::find(methods, name, &Method::name);
    return found == std::end(methods) ? nullptr : found;
}

std::string method_names() {
    std::string listed;
    for (const Method& one : methods) listed += concat(listed.empty() ? "" : ", ", one.name);
    return listed;
}

}  // namespace datamover::distribute
