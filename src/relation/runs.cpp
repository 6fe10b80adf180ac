// SPDX-License-Identifier: BSD-3-Clause
// How is a relation kept as run-length encoded differences, and how do those become rows again?
#include "symbol_decoder.hpp"

namespace datamover {

void RunsStorage::visit(const RunVisitor& visit) const {
    SymbolDecoder decoder(source_elem_bytes, destination_elem_bytes);
    for (const Symbol& symbol : symbols) decoder.push(symbol, visit);
    decoder.finish(visit);
}

StoragePtr encode_runs(const AddressRelation::Storage& from) {
    auto result =
        std::make_shared<RunsStorage>(from.source_elem_bytes, from.destination_elem_bytes);
    std::vector<Symbol>& symbols = result->symbols;
    std::int64_t source = 0;
    std::int64_t destination = 0;
    auto append = [&](std::int64_t ds, std::int64_t dd, std::int64_t length) {
        if (!symbols.empty() && symbols.back().source_difference == ds &&
            symbols.back().destination_difference == dd)
            symbols.back().length += length;
        else
            symbols.push_back({ds, dd, length});
    };
    from.visit([&](const StridedRun& r) {
        append(r.source - source, r.destination - destination, 1);
        if (r.elems > 1) append(r.source_step, r.destination_step, r.elems - 1);
        source = r.source + (r.elems - 1) * r.source_step;
        destination = r.destination + (r.elems - 1) * r.destination_step;
    });
    result->elems = from.size();
    return result;
}

}  // namespace datamover
