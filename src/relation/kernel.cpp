// SPDX-License-Identifier: BSD-3-Clause
// Kernels: a relation compiled to loops.
#include <algorithm>
#include <utility>

#include "copy_program.hpp"
#include "nest_folder.hpp"

namespace datamover {
namespace {

/// A nest stands for at least this many elements on average before a relation counts as regular.
constexpr std::int64_t least_folded_elems = 256;
constexpr std::int64_t most_folded_nests = 1024;

/// Products that stand for a whole relation of differences; nullptr for other relations, and where
/// it has no regularity to speak of.
std::shared_ptr<const ProductStorage> folded(const AddressRelation::Storage& storage) {
    if (storage.encoding != Encoding::runs && storage.encoding != Encoding::dictionary)
        return nullptr;
    ProductFolder product(storage.elem_bytes,
                          std::min(4 + storage.elems / least_folded_elems, most_folded_nests));
    storage.visit([&](const StridedRun& run) { product.push(run); });
    return product.finish();
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
    program.product = dynamic_cast<const ProductStorage*>(&storage);
    if (program.product == nullptr) {
        program.made = folded(storage);
        program.product = program.made.get();
    }
    if (program.product == nullptr) {
        program.decoding = decoding_step(storage, mover);
        return;
    }
    if (auto fused = with_fused_nests(*program.product)) {
        program.made = std::move(fused);
        program.product = program.made.get();
    }
    program.steps_of_shape = compile_shapes(*program.product, mover, stores);
    program.call_of_shape = only_calls(program.steps_of_shape);
}

}  // namespace

void CopyKernel::Program::run(const char* source, char* destination) const {
    if (decoding != nullptr) return decoding->run(source, destination);
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
            step->run(source + nest.start.source, destination + nest.start.destination);
}

void CopyKernel::Program::run_calls(const char* source, char* destination) const {
    const LoopCall* calls = call_of_shape.data();
    for (const PlacedNest& nest : product->nests) {
        const LoopCall& call = calls[nest.shape];
        const AddressPair at = nest.start + call.start;
        call.loop(call.shape, source + at.source, destination + at.destination);
    }
}

void CopyKernel::operator()(const void* source, void* destination) const {
    if (program_ == nullptr) return;
    program_->run(static_cast<const char*>(source), static_cast<char*>(destination));
}

std::string CopyKernel::describe() const {
    if (program_ == nullptr) return "nothing";
    if (program_->decoding != nullptr) return program_->decoding->describe();
    std::string text, last;
    for (const StepList& steps : program_->steps_of_shape)
        for (const auto& step : steps) {
            std::string name = step->describe();
            if (name == last) continue;
            text += (text.empty() ? "" : ", ") + name;
            last = std::move(name);
        }
    return text;
}

std::unique_ptr<CopyKernel::Program> compile_program(const AddressRelation::Storage& storage,
                                                     const ElementUpdate& update, Stores stores) {
    const ElementMover mover(update, storage.elem_bytes.source, storage.elem_bytes.destination);
    auto program = std::make_unique<CopyKernel::Program>();
    if (storage.elems > 0) compile(storage, mover, stores, *program);
    return program;
}

CopyKernel RelationCopies::kernel(const ElementUpdate& update, Stores stores) const {
    std::shared_ptr<CopyKernel::Program> program = compile_program(*storage_, update, stores);
    if (empty()) return CopyKernel();
    program->storage = storage_;
    return CopyKernel(std::move(program));
}

}  // namespace datamover
