// SPDX-License-Identifier: BSD-3-Clause
// Address relations: pairs of source and destination byte addresses, stored compactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "datamover/advanced/axis_table.hpp"
#include "datamover/element_update.hpp"
#include "datamover/export.h"
#include "datamover/side.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// The storage format of a relation. Each can hold any relation; the paper's acronym is in
/// parentheses.
enum class Encoding : std::uint8_t {
    pairs,       ///< two addresses per element (AAPAIR)
    blocks,      ///< two addresses and a length per contiguous block (AABLK)
    runs,        ///< run-length encoded differences (DMRLE)
    dictionary,  ///< runs with dictionary keys (DMRLEC)
    product,     ///< Cartesian products of one-dimensional tables (datamover's own)
    offsets,  ///< short offsets from the bases of chunks, for irregular relations (datamover's own)
};
const char* encoding_name(Encoding encoding) noexcept;
/// Convert a name to an encoding. Throws invalid_argument for an unknown name.
Encoding encoding_from_name(const std::string& name);

/// One dimension of a product: a table of positions, and the bytes between adjacent positions.
struct ProductAxis {
    std::shared_ptr<const AxisTable> table;  ///< shared between the relations of many peers
    std::int64_t source_stride_bytes = 0;
    std::int64_t destination_stride_bytes = 0;

    std::int64_t stride_bytes(Side side) const {
        return side == Side::source ? source_stride_bytes : destination_stride_bytes;
    }
    std::int64_t& stride_bytes(Side side) {
        return side == Side::source ? source_stride_bytes : destination_stride_bytes;
    }
};

/// A Cartesian product of axes, outermost first (which is the order of its elements). The element
/// at pairs (s0,d0), (s1,d1), … is moved from source_offset_bytes + Σ s_k · source_stride_bytes_k
/// to destination_offset_bytes + Σ d_k · destination_stride_bytes_k. Without axes: one element.
struct Product {
    std::int64_t source_offset_bytes = 0;
    std::int64_t destination_offset_bytes = 0;
    std::vector<ProductAxis> axes;

    std::int64_t offset_bytes(Side side) const {
        return side == Side::source ? source_offset_bytes : destination_offset_bytes;
    }
    std::int64_t& offset_bytes(Side side) {
        return side == Side::source ? source_offset_bytes : destination_offset_bytes;
    }
    std::int64_t size() const;  ///< elements
};

/// The half-open range of byte addresses that a relation accesses on one side.
struct AddressBounds {
    std::int64_t begin_bytes = 0;
    std::int64_t end_bytes = 0;
};

/// Contiguous memory: struct iovec without the operating system's header.
struct MemoryPiece {
    void* data = nullptr;
    std::size_t bytes = 0;
};

/// How a kernel stores rows of contiguous elements.
enum class Stores {
    chosen,         ///< bypassing the caches if the data moved exceeds them
    around_caches,  ///< bypassing the caches from 256 bytes: for a source in the caches, if all
                    ///< such kernels together write more than the caches hold (parts of a file that
                    ///< is read)
};

/// A relation prepared for execution: canonical form, chosen kernels. A call allocates nothing and
/// reads only its own program. Copies share the program. The two memories must not overlap, unless
/// the relation itself reads and writes different addresses.
class CopyKernel {
public:
    CopyKernel() = default;
    /// Copy every element from `source` to `destination`, the bases of the addresses.
    void operator()(const void* source, void* destination) const;
    /// Return the names of the chosen loops, for explain: "memcpy runs of 512 B", "transpose 8 B",
    /// …
    std::string describe() const;

    struct Program;
    explicit CopyKernel(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

private:
    std::shared_ptr<const Program> program_;
};

/// A relation bound to the two memories of its copy, checked once. A call only copies: it checks,
/// allocates and looks up nothing. The memories must outlive it, at the same addresses. A value,
/// cheap to copy.
class BoundCopy {
public:
    BoundCopy() = default;  ///< copies nothing
    BoundCopy(CopyKernel kernel, const void* source, void* destination)
        : kernel_(std::move(kernel)), source_(source), destination_(destination) {}
    void operator()() const { kernel_(source_, destination_); }
    /// Return the names of the chosen loops.
    std::string describe() const { return kernel_.describe(); }

private:
    CopyKernel kernel_;
    const void* source_ = nullptr;
    void* destination_ = nullptr;
};

/// The pairs of a relation, and what can be asked of them: a base of AddressRelation, never an
/// object of its own. Moves are copies.
class RelationQueries {
public:
    struct Storage;  ///< the common interface of the encodings, in src/relation

    Encoding encoding() const;
    std::int64_t nbytes() const;  ///< size of the encoding
    std::int64_t size() const;    ///< elements
    bool empty() const { return size() == 0; }
    std::int64_t source_elem_bytes() const;
    std::int64_t destination_elem_bytes() const;
    /// Return the addresses accessed on a side. O(n), once; of products O(size of the tables).
    AddressBounds bounds(Side side) const;
    AddressBounds source_bounds() const { return bounds(Side::source); }
    AddressBounds destination_bounds() const { return bounds(Side::destination); }
    /// Return whether the addresses of a side are one ascending run without gaps, in order. A
    /// message then needs no packing (unpacking). O(n), once; of products O(size of the tables).
    bool contiguous(Side side) const;
    bool source_contiguous() const { return contiguous(Side::source); }
    bool destination_contiguous() const { return contiguous(Side::destination); }
    /// Return whether two elements have the same destination, or destinations that overlap. Only an
    /// update that combines in any order is then meaningful. O(1) for usual products; otherwise
    /// O(n), once.
    bool destinations_repeat() const;
    /// Check addresses. Throws out_of_range unless all addresses of a side are in `memory` (in
    /// bytes from their base); `name` is the name of the memory in the message.
    void require_inside(Side side, AddressBounds memory, const std::string& name) const;
    /// Check destinations. Throws invalid_argument if destinations repeat and `update` depends on
    /// the order, as all updates except sums, products, minima and maxima do.
    void require_unambiguous(const ElementUpdate& update) const;

    /// Call visit(source_bytes, destination_bytes, elems) for maximal runs that are contiguous on
    /// both sides, in order.
    void for_each_run(
        const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit) const;
    /// Get all pairs as byte addresses of the starts of elements, in order. O(n) memory: for tests
    /// and inspection.
    void to_pairs(std::vector<std::int64_t>& source_bytes,
                  std::vector<std::int64_t>& destination_bytes) const;

    /// Return the pieces of memory that a side consists of, in order, as in a scatter-gather list
    /// of the operating system; those of the source are for reading. O(number of contiguous
    /// pieces).
    std::vector<MemoryPiece> pieces(Side side, const void* base) const;
    std::vector<MemoryPiece> source_pieces(const void* base) const {
        return pieces(Side::source, base);
    }
    std::vector<MemoryPiece> destination_pieces(void* base) const {
        return pieces(Side::destination, base);
    }

protected:
    explicit RelationQueries(std::shared_ptr<const Storage> storage)
        : storage_(std::move(storage)) {}
    ~RelationQueries() = default;

    std::shared_ptr<const Storage> storage_;
};

/// The copies that a relation describes: a base of AddressRelation, as above.
class RelationCopies : public RelationQueries {
public:
    /// Make the kernel for an update: canonicalize, and choose loops. If destinations repeat and
    /// the update replaces, any of the elements may remain; the caller must call
    /// require_unambiguous. Throws wrong_type if the update's types do not have the relation's
    /// element sizes, unsupported for types that cannot be combined in this way.
    CopyKernel kernel(const ElementUpdate& update = {}, Stores stores = Stores::chosen) const;
    /// Return such a kernel, made in the first call and kept with the relation: for relations with
    /// several users, such as those of a RelationCache. The last few updates are kept.
    CopyKernel kept_kernel(const ElementUpdate& update = {}) const;

    /// Execute the relation, or a half of it. Halves, kernels and results of checks of the
    /// destinations are kept with the relation, so that later calls only copy. `copy` and `scatter`
    /// throw as require_unambiguous does, before anything is written.
    void copy(const void* source, void* destination, const ElementUpdate& update = {}) const;
    void gather(const void* source, void* buffer) const;
    void scatter(const void* buffer, void* destination, const ElementUpdate& update = {}) const;

    /// Bind the same three operations for repeated use, checked once. Pass the base of each memory
    /// and its range of byte addresses from there. Throws out_of_range as require_inside,
    /// invalid_argument as require_unambiguous, and as `kernel`.
    BoundCopy bind(const void* source, AddressBounds source_memory, void* destination,
                   AddressBounds destination_memory, const ElementUpdate& update = {}) const;
    BoundCopy bind_gather(const void* source, AddressBounds source_memory, void* buffer,
                          AddressBounds buffer_memory) const;
    BoundCopy bind_scatter(const void* buffer, AddressBounds buffer_memory, void* destination,
                           AddressBounds destination_memory,
                           const ElementUpdate& update = {}) const;

protected:
    using RelationQueries::RelationQueries;
    ~RelationCopies() = default;
};

/// An ordered set of (source address, destination address) pairs of elements of a fixed size in
/// bytes. The order is the order of a message. A value: cheap to copy, never changed.
class AddressRelation : public RelationCopies {
public:
    AddressRelation();  ///< the empty relation
    /// Moves are copies: a moved-from object is still a relation.
    AddressRelation(const AddressRelation&) = default;
    AddressRelation& operator=(const AddressRelation&) = default;
    ~AddressRelation() = default;

    /// Make a relation from element addresses, in the given order; addresses are multiplied by the
    /// element sizes. The encoding is chosen by size and predicted speed. Throws mismatch (lengths
    /// differ), invalid_argument (addresses below 0 or from about 2^62 bytes, sizes below 1 or
    /// above 2^40). O(n).
    static AddressRelation from_pairs(std::span<const std::int64_t> source,
                                      std::span<const std::int64_t> destination,
                                      std::int64_t source_elem_bytes,
                                      std::int64_t destination_elem_bytes);
    /// Make a relation from byte addresses within about 2^62 (also negative), as in strided memory.
    static AddressRelation from_byte_pairs(std::vector<std::int64_t> source_bytes,
                                           std::vector<std::int64_t> destination_bytes,
                                           std::int64_t source_elem_bytes,
                                           std::int64_t destination_elem_bytes);
    /// Make a relation from products, in order. Throws invalid_argument (sizes below 1 or above
    /// 2^40), out_of_range (addresses beyond about 2^62, more than 2^59 elements). O(size of the
    /// tables), whatever the number of elements.
    static AddressRelation from_products(std::vector<Product> products,
                                         std::int64_t source_elem_bytes,
                                         std::int64_t destination_elem_bytes);
    /// Relate the k-th source address of `source_half` to the k-th destination address of
    /// `destination_half`. Throws mismatch if they have different numbers of elements.
    static AddressRelation join(const AddressRelation& source_half,
                                const AddressRelation& destination_half);
    /// Concatenate relations, in order.
    static AddressRelation concatenate(std::span<const AddressRelation> parts);

    /// The default limit of elements to expand, because a short relation may represent a very large
    /// number of elements.
    static constexpr std::int64_t most_expanded = std::int64_t{1} << 32;
    /// Return the same pairs, in the same order, in another encoding. Throws invalid_argument for
    /// more than `max_elems` elements. Time and memory O(size()), of products to products O(1).
    AddressRelation encode(Encoding encoding, std::int64_t max_elems = most_expanded) const;
    /// Return the same pairs ordered by source address, or by destination address. Throws
    /// invalid_argument for more than `max_elems` elements. Time and memory O(size()).
    AddressRelation ordered_by_source(std::int64_t max_elems = most_expanded) const;
    AddressRelation ordered_by_destination(std::int64_t max_elems = most_expanded) const;
    /// Check the number of elements. Throws invalid_argument if there are more than `max_elems`.
    void check_expandable(std::int64_t max_elems) const;
    /// Return one side of a message. Source: from the same sources to 0, 1, 2, … (times the element
    /// size): assembly. Destination: from 0, 1, 2, … to the same destinations: disassembly. By
    /// default (`message_elem_bytes` = 0), elements of the message have the size of those of the
    /// side that is kept. Throws out_of_range beyond 2^62 bytes.
    AddressRelation half(Side kept, std::int64_t message_elem_bytes = 0) const;
    AddressRelation source_half(std::int64_t message_elem_bytes = 0) const {
        return half(Side::source, message_elem_bytes);
    }
    AddressRelation destination_half(std::int64_t message_elem_bytes = 0) const {
        return half(Side::destination, message_elem_bytes);
    }
    /// Return the relation with source and destination exchanged.
    AddressRelation reversed() const;

    /// Return the relation as bytes, from which from_bytes makes the same pairs in the same
    /// encoding, on machines with the same byte order. O(nbytes).
    std::vector<std::uint8_t> to_bytes() const;
    /// Make a relation from the bytes of `to_bytes`, which may be untrusted. Throws
    /// invalid_argument if the bytes are not those of a relation (truncated, changed, of another
    /// version or byte order), out_of_range if it has more than `most_elems` elements. Work and
    /// memory are bounded by the number of bytes. Later operations on the relation take work
    /// proportional to its elements, and a few bytes can represent many: `most_elems` limits them.
    static AddressRelation from_bytes(
        std::span<const std::uint8_t> bytes,
        std::int64_t most_elems = std::numeric_limits<std::int64_t>::max());

private:
    explicit AddressRelation(std::shared_ptr<const Storage> storage)
        : RelationCopies(std::move(storage)) {}
    friend struct RelationAccess;
};

}  // namespace datamover
