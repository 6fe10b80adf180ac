// SPDX-License-Identifier: BSD-3-Clause
// Block-cyclic redistribution by derived datatypes and one MPI_Alltoallw.
#include "redistribute_alltoallw.hpp"

namespace bench {
namespace {

/// One dimension around the type of all faster dimensions: a vector where the runs are regular,
/// else an indexed type.
MPI_Datatype wrap(MPI_Datatype inner, const PairAxis& axis, bool source) {
    const MPI_Aint step =
        8 * static_cast<MPI_Aint>(source ? axis.source_stride : axis.destination_stride);
    MPI_Datatype element = MPI_DATATYPE_NULL, type = MPI_DATATYPE_NULL;
    MPI_Type_create_resized(inner, 0, step, &element);
    std::vector<int> lengths;
    std::vector<MPI_Aint> offsets;
    bool regular = true;
    for (const Run& r : axis.runs) {
        lengths.push_back(static_cast<int>(r.length));
        offsets.push_back(step * static_cast<MPI_Aint>(source ? r.source : r.destination));
        const std::size_t i = offsets.size() - 1;
        regular = regular && lengths[i] == lengths[0] &&
                  (i < 2 || offsets[i] - offsets[i - 1] == offsets[1] - offsets[0]);
    }
    const int count = static_cast<int>(offsets.size());
    if (regular && offsets[0] == 0)
        MPI_Type_create_hvector(count, lengths[0], count > 1 ? offsets[1] : step, element, &type);
    else
        MPI_Type_create_hindexed(count, lengths.data(), offsets.data(), element, &type);
    MPI_Type_free(&element);
    return type;
}

/// Both sides nest the dimensions in the destination's order, so that their elements correspond.
MPI_Datatype pair_type(const std::vector<PairAxis>& axes, bool source) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_dup(MPI_DOUBLE, &type);
    for (std::size_t i = axes.size(); i-- > 0;) {
        MPI_Datatype outer = wrap(type, axes[i], source);
        MPI_Type_free(&type);
        type = outer;
    }
    MPI_Type_commit(&type);
    return type;
}

}  // namespace

Alltoallw::Alltoallw(MPI_Comm comm, const Case& c) : comm_(comm) {
    int rank = 0, size = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    offsets_.assign(static_cast<std::size_t>(size), 0);
    for (int peer = 0; peer < size; ++peer) {
        const auto to = pair_axes(c, rank, peer), from = pair_axes(c, peer, rank);
        send_counts_.push_back(to.empty() ? 0 : 1);
        receive_counts_.push_back(from.empty() ? 0 : 1);
        send_types_.push_back(pair_type(to, true));
        receive_types_.push_back(pair_type(from, false));
    }
}

Alltoallw::~Alltoallw() {
    for (auto* types : {&send_types_, &receive_types_})
        for (MPI_Datatype& t : *types) MPI_Type_free(&t);
}

void Alltoallw::operator()(const double* source, double* destination) const {
    MPI_Alltoallw(source, send_counts_.data(), offsets_.data(), send_types_.data(), destination,
                  receive_counts_.data(), offsets_.data(), receive_types_.data(), comm_);
}

}  // namespace bench
