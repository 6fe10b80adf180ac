// SPDX-License-Identifier: BSD-3-Clause
// Kernels: a relation compiled to loops.
#include <algorithm>
#include <utility>

#include "copy_program.hpp"
#include "nest_folder.hpp"
#include "product_builder.hpp"

namespace datamover {
namespace {

/// A nest stands for at least this many elements on average before a relation counts as regular.
constexpr std::int64_t least_folded_elems = 256;
constexpr std::int64_t most_folded_nests = 1024;

void compile_decoding(const AddressRelation::Storage& storage, const ElementMover& mover,
                      StepList& steps) {
    switch (storage.encoding()) {
        case Encoding::pairs:
            compile_pairs(static_cast<const PairsStorage&>(storage), mover, steps);
            return;
        case Encoding::blocks:
            compile_blocks(static_cast<const BlocksStorage&>(storage), mover, steps);
            return;
        case Encoding::runs:
            compile_runs(static_cast<const RunsStorage&>(storage), mover, steps);
            return;
        case Encoding::dictionary:
            compile_dictionary(static_cast<const DictionaryStorage&>(storage), mover, steps);
            return;
        case Encoding::offsets:
            compile_offsets(static_cast<const OffsetsStorage&>(storage), mover, steps);
            return;
        case Encoding::product:
            return;
    }
}

/// Nests that stand for a whole relation; empty when it has no regularity to speak of.
std::vector<Nest> folded(const AddressRelation::Storage& storage) {
    std::vector<Nest> nests;
    const std::int64_t most = 4 + storage.size() / least_folded_elems;
    bool irregular = false;
    auto keep = [&](const Nest& nest) {
        if (static_cast<std::int64_t>(nests.size()) >= std::min(most, most_folded_nests))
            irregular = true;
        else
            nests.push_back(nest);
    };
    NestFolder folder;
    storage.visit([&](const StridedRun& run) {
        if (!irregular) folder.push(run, keep);
    });
    if (!irregular) folder.finish(keep);
    if (irregular) nests.clear();
    return nests;
}

bool holds_differences(Encoding encoding) {
    return encoding == Encoding::runs || encoding == Encoding::dictionary;
}

/// Each shape once, as a nest that begins at 0.
std::vector<StepList> compile_shapes(const ProductStorage& product, const ElementMover& mover,
                                     Stores stores) {
    std::vector<StepList> steps(static_cast<std::size_t>(product.num_shapes()));
    Nest nest;
    for (std::int64_t shape = 0; shape < product.num_shapes(); ++shape) {
        product.read_shape(shape, nest.axes);
        compile_nest(nest, mover, stores, steps[static_cast<std::size_t>(shape)]);
    }
    return steps;
}

/// The loop of each shape; none where any takes more than one.
std::vector<LoopCall> only_calls(const std::vector<StepList>& steps_of_shape) {
    std::vector<LoopCall> calls;
    for (const StepList& steps : steps_of_shape) {
        const std::optional<LoopCall> call =
            steps.size() == 1 ? steps.front()->only_call() : std::nullopt;
        if (!call) return {};
        calls.push_back(*call);
    }
    return calls;
}

/// Regular runs and dictionaries are run as the nests that their symbols spell, for only nests can
/// be gone through in another order than the message's; all else is decoded while it is copied.
void compile(const AddressRelation::Storage& storage, const ElementMover& mover, Stores stores,
             CopyKernel::Program& program) {
    if (storage.encoding() == Encoding::product) {
        program.product = static_cast<const ProductStorage*>(&storage);
        program.fused = with_fused_nests(*program.product);
        if (program.fused) program.product = program.fused.get();
        program.steps_of_shape = compile_shapes(*program.product, mover, stores);
        program.call_of_shape = only_calls(program.steps_of_shape);
        return;
    }
    std::vector<Nest> nests;
    if (holds_differences(storage.encoding())) nests = folded(storage);
    for (const Nest& nest : nests) compile_nest(nest, mover, stores, program.steps);
    if (nests.empty()) compile_decoding(storage, mover, program.steps);
}

/// Adds the names of steps to a text, of neighbours with the same name one.
void add_names(const StepList& steps, std::string& text, std::string& last) {
    for (const auto& step : steps) {
        std::string name = step->describe();
        if (name == last) continue;
        text += (text.empty() ? "" : ", ") + name;
        last = std::move(name);
    }
}

}  // namespace

void CopyKernel::Program::run(const char* source, char* destination) const {
    for (const auto& step : steps) step->run(source, destination);
    if (product == nullptr) return;
    if (call_of_shape.empty())
        run_steps(source, destination);
    else
        run_calls(source, destination);
}

void CopyKernel::Program::run_steps(const char* source, char* destination) const {
    const StepList* of_shape = steps_of_shape.data();
    for (const PlacedNest& nest : product->nests)
        for (const auto& step : of_shape[nest.shape])
            step->run(source + nest.source, destination + nest.destination);
}

void CopyKernel::Program::run_calls(const char* source, char* destination) const {
    const LoopCall* calls = call_of_shape.data();
    for (const PlacedNest& nest : product->nests) {
        const LoopCall& call = calls[nest.shape];
        call.loop(call.shape, source + nest.source + call.source,
                  destination + nest.destination + call.destination);
    }
}

void CopyKernel::operator()(const void* source, void* destination) const {
    if (program_ == nullptr) return;
    program_->run(static_cast<const char*>(source), static_cast<char*>(destination));
}

std::string CopyKernel::describe() const {
    if (program_ == nullptr) return "nothing";
    std::string text, last;
    for (const StepList& steps : program_->steps_of_shape) add_names(steps, text, last);
    add_names(program_->steps, text, last);
    return text;
}

std::unique_ptr<CopyKernel::Program> compile_program(const AddressRelation::Storage& storage,
                                                     const ElementUpdate& update, Stores stores) {
    const ElementMover mover(update, storage.source_elem_bytes, storage.destination_elem_bytes);
    auto program = std::make_unique<CopyKernel::Program>();
    if (storage.size() > 0) compile(storage, mover, stores, *program);
    return program;
}

CopyKernel AddressRelation::kernel(const ElementUpdate& update, Stores stores) const {
    std::shared_ptr<CopyKernel::Program> program = compile_program(*storage_, update, stores);
    if (empty()) return CopyKernel();
    program->storage = storage_;
    return CopyKernel(std::move(program));
}

}  // namespace datamover
