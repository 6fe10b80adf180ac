// SPDX-License-Identifier: BSD-3-Clause
// Moving elements while decoding pairs, blocks, runs and dictionaries.
#include <cstring>

#include "copy_program.hpp"
#include "geometry/make_error.hpp"
#include "strided_runs.hpp"

namespace datamover {
namespace {

/// Moves the strided rows that a decoder gives.
class RowMover {
public:
    explicit RowMover(const ElementMover& mover) : mover_(mover), elem_(mover.source_elem_bytes()) {
        const int size = size_class(elem_);
        if (size >= 0) row_ = copy_loops().row[size];
    }

    void operator()(const char* source, char* destination, const StridedRun& r) const {
        const char* s = source + r.source;
        char* d = destination + r.destination;
        if (!mover_.copies_bytes()) {
            mover_.update(s, r.source_step, d, r.destination_step, r.elems);
        } else if (r.source_step == elem_ && r.destination_step == elem_) {
            std::memcpy(d, s, static_cast<std::size_t>(r.elems * elem_));
        } else if (row_ != nullptr) {
            row_(s, r.source_step, d, r.destination_step, r.elems);
        } else {
            for (std::int64_t i = 0; i < r.elems; ++i)
                std::memcpy(d + i * r.destination_step, s + i * r.source_step,
                            static_cast<std::size_t>(elem_));
        }
    }
    std::string describe() const { return mover_.describe(); }

private:
    ElementMover mover_;
    std::int64_t elem_;
    RowLoop row_ = nullptr;
};

class PairsStep final : public CopyStep {
public:
    PairsStep(const PairsStorage& pairs, const ElementMover& mover)
        : pairs_(pairs), mover_(mover) {}
    void run(const char* source, char* destination) const override {
        const int size = mover_.copies_bytes() ? listed_class(mover_.source_elem_bytes()) : -1;
        if (size >= 0) {
            copy_loops().pairs[size](pairs_.source.data(), pairs_.destination.data(), pairs_.size(),
                                     source, destination);
            return;
        }
        if (!mover_.copies_bytes()) {
            mover_.update_listed(source, pairs_.source.data(), destination,
                                 pairs_.destination.data(), pairs_.size());
            return;
        }
        const auto n = pairs_.source.size();
        const auto elem = static_cast<std::size_t>(mover_.source_elem_bytes());
        for (std::size_t i = 0; i < n; ++i)
            std::memcpy(destination + pairs_.destination[i], source + pairs_.source[i], elem);
    }
    std::string describe() const override { return "pairs, " + mover_.describe(); }

private:
    const PairsStorage& pairs_;
    ElementMover mover_;
};

class BlocksStep final : public CopyStep {
public:
    BlocksStep(const BlocksStorage& blocks, const ElementMover& mover)
        : blocks_(blocks), move_(mover) {}
    void run(const char* source, char* destination) const override {
        for (const Block& b : blocks_.blocks)
            move_(source, destination,
                  {b.source, b.destination, b.elems, blocks_.source_elem_bytes,
                   blocks_.destination_elem_bytes});
    }
    std::string describe() const override { return "blocks, " + move_.describe(); }

private:
    const BlocksStorage& blocks_;
    RowMover move_;
};

class RunsStep final : public CopyStep {
public:
    RunsStep(const RunsStorage& runs, const ElementMover& mover) : runs_(runs), move_(mover) {}
    void run(const char* source, char* destination) const override {
        SymbolDecoder decoder(runs_.source_elem_bytes, runs_.destination_elem_bytes);
        auto emit = [&](const StridedRun& r) { move_(source, destination, r); };
        for (const Symbol& symbol : runs_.symbols) decoder.push(symbol, emit);
        decoder.finish(emit);
    }
    std::string describe() const override { return "runs, " + move_.describe(); }

private:
    const RunsStorage& runs_;
    RowMover move_;
};

class DictionaryStep final : public CopyStep {
public:
    DictionaryStep(const DictionaryStorage& dictionary, const ElementMover& mover)
        : dictionary_(dictionary), move_(mover) {}
    void run(const char* source, char* destination) const override {
        SymbolDecoder decoder(dictionary_.source_elem_bytes, dictionary_.destination_elem_bytes);
        auto emit = [&](const StridedRun& r) { move_(source, destination, r); };
        dictionary_.for_each_symbol([&](const Symbol& symbol) { decoder.push(symbol, emit); });
        decoder.finish(emit);
    }
    std::string describe() const override {
        return concat("dictionary keys of ", 1 << dictionary_.key_bits_log2, " bits, ",
                      move_.describe());
    }

private:
    const DictionaryStorage& dictionary_;
    RowMover move_;
};

}  // namespace

void compile_pairs(const PairsStorage& storage, const ElementMover& mover, StepList& steps) {
    steps.push_back(std::make_unique<PairsStep>(storage, mover));
}
void compile_blocks(const BlocksStorage& storage, const ElementMover& mover, StepList& steps) {
    steps.push_back(std::make_unique<BlocksStep>(storage, mover));
}
void compile_runs(const RunsStorage& storage, const ElementMover& mover, StepList& steps) {
    steps.push_back(std::make_unique<RunsStep>(storage, mover));
}
void compile_dictionary(const DictionaryStorage& storage, const ElementMover& mover,
                        StepList& steps) {
    steps.push_back(std::make_unique<DictionaryStep>(storage, mover));
}

}  // namespace datamover
