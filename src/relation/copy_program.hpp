// SPDX-License-Identifier: BSD-3-Clause
// Kernel steps, and compilation of each encoding to them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "copy_loops.hpp"
#include "element_mover.hpp"
#include "encodings.hpp"

namespace datamover {

/// A loop that runs once, from where it begins on either side.
struct LoopCall {
    ShapeLoop loop = nullptr;
    LoopShape shape;
    AddressPair start;
};

/// A part of a kernel with everything decided that can be decided before it runs.
class CopyStep {
public:
    virtual ~CopyStep() = default;
    virtual void run(const char* source, char* destination) const = 0;
    virtual std::string describe() const = 0;
    /// What it does, where that is one loop.
    virtual std::optional<LoopCall> only_call() const { return std::nullopt; }
};

using StepList = std::vector<std::unique_ptr<const CopyStep>>;

/// Either one step, or those of each shape of a list of nests, which run at every nest.
struct [[gnu::visibility("hidden")]] CopyKernel::Program {
    StoragePtr storage;  ///< kept for steps that decode it while they run, unless it keeps them
    std::unique_ptr<const CopyStep> decoding;
    const ProductStorage* product = nullptr;     ///< that of the relation, or `made`
    std::shared_ptr<const ProductStorage> made;  ///< if the nests to run are not the relation's
    std::vector<StepList> steps_of_shape;
    /// Of each shape, where each is one loop: small nests take little more than to find their loop.
    std::vector<LoopCall> call_of_shape;

    void run(const char* source, char* destination) const;

private:
    /// Of all nests, by the steps of their shapes.
    void run_steps(const char* source, char* destination) const;
    /// The same where each shape is one call.
    void run_calls(const char* source, char* destination) const;
};

/// The program of a relation, without its storage. Throws as AddressRelation::kernel does.
std::unique_ptr<CopyKernel::Program> compile_program(const AddressRelation::Storage& storage,
                                                     const ElementUpdate& update,
                                                     Stores stores = Stores::chosen);

/// Compiles a nest: folds, sorts and widens its axes and picks the loops, which depend on its
/// offsets in nothing but where they begin. O(size of the tables).
void compile_nest(const Nest& nest, const ElementMover& mover, Stores stores, StepList& steps);

/// Decodes any other encoding than a product while it copies. The storage must outlive it.
std::unique_ptr<const CopyStep> decoding_step(const AddressRelation::Storage& storage,
                                              const ElementMover& mover);

}  // namespace datamover
