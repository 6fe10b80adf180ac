// SPDX-License-Identifier: BSD-3-Clause
// How does a relation become a program of loops, and who runs it?
#include <cstring>

#include "element_mover.hpp"
#include "encodings.hpp"

namespace datamover {

struct CopyKernel::Program {
    StoragePtr storage;
    ElementMover mover;

    void move(const char* source, char* destination, const StridedRun& r) const {
        const char* s = source + r.source;
        char* d = destination + r.destination;
        if (!mover.copies_bytes()) {
            mover.update(s, r.source_step, d, r.destination_step, r.elems);
            return;
        }
        const std::int64_t elem = mover.source_elem_bytes();
        if (r.source_step == elem && r.destination_step == elem) {
            std::memcpy(d, s, static_cast<std::size_t>(r.elems * elem));
            return;
        }
        for (std::int64_t i = 0; i < r.elems; ++i)
            std::memcpy(d + i * r.destination_step, s + i * r.source_step,
                        static_cast<std::size_t>(elem));
    }
};

void CopyKernel::operator()(const void* source, void* destination) const {
    if (program_ == nullptr) return;
    const auto* from = static_cast<const char*>(source);
    auto* to = static_cast<char*>(destination);
    program_->storage->visit([&](const StridedRun& r) { program_->move(from, to, r); });
}

std::string CopyKernel::describe() const {
    return program_ == nullptr ? "nothing" : program_->mover.describe();
}

CopyKernel AddressRelation::kernel(const ElementUpdate& update) const {
    if (empty()) return CopyKernel();
    auto program = std::make_shared<CopyKernel::Program>();
    program->storage = storage_;
    program->mover = ElementMover(update, source_elem_bytes(), destination_elem_bytes());
    return CopyKernel(std::move(program));
}

}  // namespace datamover
