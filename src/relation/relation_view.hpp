// SPDX-License-Identifier: BSD-3-Clause
// Views of a relation under a change of addresses.
#pragma once

#include <functional>
#include <utility>

#include "encodings.hpp"

namespace datamover {

/// A relation that exists only as a walk over another one. Lives on the stack while it is encoded.
class RelationView final : public AddressRelation::Storage {
public:
    using Walk = std::function<void(const RunVisitor&)>;

    RelationView(Encoding encoding, std::int64_t size, std::int64_t source_elem,
                 std::int64_t destination_elem, Walk walk)
        : Storage(source_elem, destination_elem),
          encoding_(encoding),
          size_(size),
          walk_(std::move(walk)) {}

    Encoding encoding() const override { return encoding_; }
    std::int64_t size() const override { return size_; }
    std::int64_t nbytes() const override { return 0; }
    void visit(const RunVisitor& visit) const override { walk_(visit); }

private:
    Encoding encoding_;
    std::int64_t size_;
    Walk walk_;
};

/// Encodes what a view walks over.
StoragePtr encode_view(Encoding encoding, const RelationView& view);

}  // namespace datamover
