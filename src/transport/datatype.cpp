// SPDX-License-Identifier: BSD-3-Clause
// The transport "datatype": messages that MPI packs by derived datatypes. MPI is told by a derived
// datatype, made from the relation, where the elements lie. What is converted or combined on the
// way is packed.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "message_transport.hpp"
#include "relation_words.hpp"

namespace datamover::transport {
namespace {

mpi::Datatype elements_of(const PairProgram& program, std::size_t chunk) {
    // One list for all arrays: MPI looks at each level of a datatype for every element.
    std::vector<mpi::PlacedDatatype> parts;
    for (const auto& [relation, base] : program.arrays(chunk)) {
        const std::int64_t start = mpi::displacement_of(base);
        for (auto& part : relation_in_words(*relation, program.array_side(), base))
            parts.push_back({start + part.displacement_bytes, std::move(part.type)});
    }
    mpi::Datatype all = mpi::sequence(std::move(parts));
    all.commit();
    return all;
}

}  // namespace

extern const TransportKind datatype_kind;
const TransportKind datatype_kind{
    "datatype",
    MessageMemory::buffers,
    AcceptedOption::nothing,
    true,
    [](const PairFacts& facts) { return !facts.same_process; },
    [](const PairFacts&) { return false; },
    [](const PairFacts&) { return std::string("MPI packs"); },
    [](const BindContext& context, const std::vector<Pair>& pairs) {
        return bind_messages(context, pairs, {"datatype", elements_of});
    },
};

}  // namespace datamover::transport
