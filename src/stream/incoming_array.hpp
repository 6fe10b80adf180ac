// SPDX-License-Identifier: BSD-3-Clause
// What comes of one array to a receiving process, from whom, and where does it belong?
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "datamover/address_relation.hpp"
#include "datamover/memory_layout.hpp"
#include "datamover/motion_plan.hpp"
#include "stream/array_type.hpp"
#include "stream/incoming_message.hpp"

namespace datamover::stream {

/// An array of a stream, as the sending program told of it.
struct KnownArray {
    std::string name;
    ArrayType type;
    Layout layout;  ///< of the sending processes
};

/// An array that a process wants its part of, in every step.
struct WantedArray {
    std::string name;
    Layout layout;  ///< of the receiving processes
    /// The type that it must have, as JSON; empty: any.
    std::string dtype;
};

/// The memory of this process's part of an array.
struct DestinationMemory {
    std::byte* data = nullptr;
    const MemoryLayout* memory = nullptr;  ///< offsets from `data`
    AddressBounds bounds;                  ///< what may be written, from `data`
};

/// Messages by the sending process that they come from.
using Messages = std::map<int, std::shared_ptr<IncomingMessage>>;

/// The plan of an array that is wanted and sent.
class IncomingArray {
public:
    /// Throws mismatch (the layouts do not fit), wrong_type (it has another type), out_of_range.
    IncomingArray(const KnownArray& known, const WantedArray& wanted, int rank);

    const std::string& name() const { return name_; }
    const ArrayType& type() const { return type_; }
    /// Of the receiving processes.
    const Layout& wanted() const { return wanted_; }
    /// Bytes of the message from each sending process.
    const std::map<int, std::uint64_t>& sizes() const { return sizes_; }
    /// Puts messages where their elements belong. Throws as AddressRelation::bind_scatter.
    void unpack(const Messages& messages, const DestinationMemory& destination);

private:
    std::string name_;
    ArrayType type_;
    Layout wanted_;
    int rank_;
    MotionPlan plan_;
    std::map<int, std::uint64_t> sizes_;
    std::optional<MemoryLayout> memory_;  ///< that the relations are for
    std::vector<std::pair<int, AddressRelation>> relations_;
};

}  // namespace datamover::stream
