// SPDX-License-Identifier: BSD-3-Clause
// How does data move by messages that nobody packs? MPI is told by a derived datatype, made from
// the relation, where the elements lie. What is converted or combined on the way is packed.
#include <string>
#include <utility>

#include "datamover/relation_datatype.hpp"
#include "message_transport.hpp"

namespace datamover::transport {
namespace {

mpi::Datatype elements_of(const PairProgram& program, std::size_t chunk) {
    std::vector<mpi::PlacedDatatype> arrays;
    for (const auto& [relation, base] : program.arrays(chunk))
        arrays.push_back({mpi::displacement_of(base),
                          mpi::Datatype(relation_datatype(*relation, program.array_side()))});
    mpi::Datatype all = mpi::sequence(std::move(arrays));
    all.commit();
    return all;
}

}  // namespace

extern const TransportKind datatype_kind;
const TransportKind datatype_kind{
    "datatype",
    MessageMemory::buffers,
    true,
    [](const PairFacts& facts) { return !facts.same_process; },
    [](const PairFacts&) { return false; },
    [](const PairFacts&) { return std::string("MPI packs"); },
    [](const BindContext& context, const std::vector<Pair>& pairs) {
        return bind_messages(context, pairs, {"datatype", elements_of});
    },
};

}  // namespace datamover::transport
