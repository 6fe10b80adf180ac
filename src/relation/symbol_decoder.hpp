// SPDX-License-Identifier: BSD-3-Clause
// Decoding the symbols of a difference map to strided rows.
#pragma once

#include "encodings.hpp"

namespace datamover {

/// A symbol of length one usually only jumps to the start of the row that the next symbol
/// describes, so its element waits for that row to join it.
class SymbolDecoder {
public:
    SymbolDecoder(std::int64_t source_elem, std::int64_t destination_elem)
        : source_elem_(source_elem), destination_elem_(destination_elem) {}

    /// Calls emit(const StridedRun&) when a row is complete.
    template <class Emit>
    void push(const Symbol& symbol, Emit&& emit) {
        const std::int64_t ds = symbol.source_difference;
        const std::int64_t dd = symbol.destination_difference;
        if (symbol.length == 1) {
            finish(emit);
            source_ += ds;
            destination_ += dd;
            waiting_ = true;
            return;
        }
        const std::int64_t joined = waiting_ ? 1 : 0;
        emit(StridedRun{source_ + (1 - joined) * ds, destination_ + (1 - joined) * dd,
                        symbol.length + joined, ds, dd});
        waiting_ = false;
        source_ += symbol.length * ds;
        destination_ += symbol.length * dd;
    }

    template <class Emit>
    void finish(Emit&& emit) {
        if (waiting_) emit(StridedRun{source_, destination_, 1, source_elem_, destination_elem_});
        waiting_ = false;
    }

private:
    std::int64_t source_elem_;
    std::int64_t destination_elem_;
    std::int64_t source_ = 0;
    std::int64_t destination_ = 0;
    bool waiting_ = false;
};

}  // namespace datamover
