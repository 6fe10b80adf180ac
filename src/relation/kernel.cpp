// SPDX-License-Identifier: BSD-3-Clause
// How does a relation become a program of loops, and who runs it?
#include "copy_program.hpp"

namespace datamover {
namespace {

void compile(const AddressRelation::Storage& storage, const ElementMover& mover, StepList& steps) {
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
        case Encoding::product:
            static_cast<const ProductStorage&>(storage).for_each_nest(
                [&](const Nest& nest) { compile_nest(nest, mover, steps); });
            return;
    }
}

}  // namespace

void CopyKernel::operator()(const void* source, void* destination) const {
    if (program_ == nullptr) return;
    const auto* from = static_cast<const char*>(source);
    auto* to = static_cast<char*>(destination);
    for (const auto& step : program_->steps) step->run(from, to);
}

std::string CopyKernel::describe() const {
    if (program_ == nullptr) return "nothing";
    std::string text;
    std::string last;
    for (const auto& step : program_->steps) {
        std::string name = step->describe();
        if (name == last) continue;
        text += (text.empty() ? "" : ", ") + name;
        last = std::move(name);
    }
    return text;
}

CopyKernel AddressRelation::kernel(const ElementUpdate& update) const {
    const ElementMover mover(update, source_elem_bytes(), destination_elem_bytes());
    if (empty()) return CopyKernel();
    auto program = std::make_shared<CopyKernel::Program>();
    program->storage = storage_;
    compile(*storage_, mover, program->steps);
    return CopyKernel(std::move(program));
}

}  // namespace datamover
