// SPDX-License-Identifier: BSD-3-Clause
// Address relations: which byte address of one memory goes to which of another, stored compactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "datamover/axis_table.hpp"
#include "datamover/element_update.hpp"
#include "datamover/export.h"
#include "datamover/side.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// How a relation is stored. Each can hold any relation; the paper's acronym stands behind.
enum class Encoding : std::uint8_t {
    pairs,       ///< two addresses per element (AAPAIR)
    blocks,      ///< two addresses and a length per contiguous block (AABLK)
    runs,        ///< run-length encoded differences (DMRLE)
    dictionary,  ///< runs behind dictionary keys (DMRLEC)
    product,     ///< Cartesian products of one-dimensional tables (ours)
    offsets,     ///< short offsets from the bases of chunks, for irregular relations (ours)
};
const char* encoding_name(Encoding encoding) noexcept;
/// Throws invalid_argument on an unknown name.
Encoding encoding_from_name(const std::string& name);

/// One dimension of a product: a table of positions and the bytes between neighbouring positions.
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

/// A Cartesian product of axes, outermost first (which is the order of its elements): the element
/// at pairs (s0,d0), (s1,d1), … lies at source_offset_bytes + Σ s_k · source_stride_bytes_k and
/// goes to destination_offset_bytes + Σ d_k · destination_stride_bytes_k. Without axes: one
/// element.
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

/// The half-open range of byte addresses that a relation touches on one side.
struct AddressBounds {
    std::int64_t begin_bytes = 0;
    std::int64_t end_bytes = 0;
};

/// Contiguous memory: struct iovec without the operating system's header.
struct MemoryPiece {
    void* data = nullptr;
    std::size_t bytes = 0;
};

/// How a kernel stores rows of elements that lie side by side.
enum class Stores {
    chosen,         ///< around the caches where more is moved than they hold
    around_caches,  ///< so from 256 bytes on: the source lies in caches, and what all such kernels
                    ///< write together is more than these hold (parts of a file that is read)
};

/// A relation made ready to run: canonical form, kernels chosen. Calling it allocates nothing and
/// looks at nothing but its own program. Copies of it share the program. The two memories must not
/// overlap, except where the relation itself reads and writes different addresses.
class CopyKernel {
public:
    CopyKernel() = default;
    /// Moves every element from `source` to `destination` (the bases that the addresses count
    /// from).
    void operator()(const void* source, void* destination) const;
    /// Names of the loops chosen, for explain: "memcpy runs of 512 B", "transpose 8 B", …
    std::string describe() const;

    struct Program;
    explicit CopyKernel(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

private:
    std::shared_ptr<const Program> program_;
};

/// A relation with the memories that it moves between, checked once. Calling it copies: nothing is
/// checked, allocated or looked up again. The memories must outlive it and stay where they are. A
/// value, cheap to copy.
class BoundCopy {
public:
    BoundCopy() = default;  ///< copies nothing
    BoundCopy(CopyKernel kernel, const void* source, void* destination)
        : kernel_(std::move(kernel)), source_(source), destination_(destination) {}
    void operator()() const { kernel_(source_, destination_); }
    /// Names of the loops chosen.
    std::string describe() const { return kernel_.describe(); }

private:
    CopyKernel kernel_;
    const void* source_ = nullptr;
    void* destination_ = nullptr;
};

/// An ordered set of (source address, destination address) pairs of elements of a fixed size in
/// bytes. A value: cheap to copy, never changed. The order is the order of a message.
class AddressRelation {
public:
    AddressRelation();  ///< the empty relation
    /// Moves are copies: what was moved from is still a relation.
    AddressRelation(const AddressRelation&) = default;
    AddressRelation& operator=(const AddressRelation&) = default;
    ~AddressRelation() = default;

    /// From element addresses, in the order given; addresses are multiplied by the element sizes.
    /// Chooses the encoding by size and predicted speed. O(n).
    /// Throws mismatch (lengths differ), invalid_argument (addresses below 0 or from about 2^62
    /// bytes on, sizes below 1 or above 2^40).
    static AddressRelation from_pairs(std::span<const std::int64_t> source,
                                      std::span<const std::int64_t> destination,
                                      std::int64_t source_elem_bytes,
                                      std::int64_t destination_elem_bytes);
    /// The same from byte addresses within about 2^62 (also negative), as strided memory has them.
    static AddressRelation from_byte_pairs(std::vector<std::int64_t> source_bytes,
                                           std::vector<std::int64_t> destination_bytes,
                                           std::int64_t source_elem_bytes,
                                           std::int64_t destination_elem_bytes);
    /// From products, in order. O(size of the tables), whatever the number of elements.
    /// Throws invalid_argument (sizes below 1 or above 2^40), out_of_range (addresses
    /// beyond about 2^62, more than 2^59 elements).
    static AddressRelation from_products(std::vector<Product> products,
                                         std::int64_t source_elem_bytes,
                                         std::int64_t destination_elem_bytes);
    /// Relates the k-th source address of `source_half` to the k-th destination address of
    /// `destination_half`. Throws mismatch when they hold different numbers of elements.
    static AddressRelation join(const AddressRelation& source_half,
                                const AddressRelation& destination_half);
    /// The relations one behind the other, in order.
    static AddressRelation concatenate(std::span<const AddressRelation> parts);

    /// A short relation may stand for very many elements: more are not taken apart unasked.
    static constexpr std::int64_t most_expanded = std::int64_t{1} << 32;
    /// The same pairs, same order, in another encoding. Time and memory O(size()), of products to
    /// products O(1). Throws invalid_argument beyond `max_elems` elements.
    AddressRelation encode(Encoding encoding, std::int64_t max_elems = most_expanded) const;
    /// The same pairs ordered by source address, or by destination address. Time and memory
    /// O(size()). Throws invalid_argument beyond `max_elems` elements.
    AddressRelation ordered_by_source(std::int64_t max_elems = most_expanded) const;
    AddressRelation ordered_by_destination(std::int64_t max_elems = most_expanded) const;
    /// Throws invalid_argument where there are more elements than `max_elems`.
    void check_expandable(std::int64_t max_elems) const;
    /// One side of a message. Source: the same sources that go to 0, 1, 2, … (times the element
    /// size): assembly. Destination: 0, 1, 2, … that go to the same destinations: disassembly.
    /// Elements of the message are as wide as those of the side that is kept unless
    /// `message_elem_bytes` says otherwise. Throws out_of_range beyond 2^62 bytes.
    AddressRelation half(Side kept, std::int64_t message_elem_bytes = 0) const;
    AddressRelation source_half(std::int64_t message_elem_bytes = 0) const {
        return half(Side::source, message_elem_bytes);
    }
    AddressRelation destination_half(std::int64_t message_elem_bytes = 0) const {
        return half(Side::destination, message_elem_bytes);
    }
    /// Destination and source exchanged.
    AddressRelation reversed() const;

    Encoding encoding() const;
    std::int64_t nbytes() const;  ///< bytes that the encoding occupies
    std::int64_t size() const;    ///< elements
    bool empty() const { return size() == 0; }
    std::int64_t source_elem_bytes() const;
    std::int64_t destination_elem_bytes() const;
    /// The addresses touched on a side. O(n), once; of products O(size of the tables).
    AddressBounds bounds(Side side) const;
    AddressBounds source_bounds() const { return bounds(Side::source); }
    AddressBounds destination_bounds() const { return bounds(Side::destination); }
    /// True when the addresses of a side are one ascending run without gaps, in order: then a
    /// message needs no packing (unpacking). O(n), once; of products O(size of the tables).
    bool contiguous(Side side) const;
    bool source_contiguous() const { return contiguous(Side::source); }
    bool destination_contiguous() const { return contiguous(Side::destination); }
    /// Whether two elements have the same destination, or destinations that overlap: then only an
    /// update that combines in any order makes sense. Known at once for products of the usual
    /// kind; else O(n), once.
    bool destinations_repeat() const;
    /// Throws out_of_range unless all addresses of a side lie in `memory` (in bytes from the base
    /// that they count from); `name` is how the message calls it.
    void require_inside(Side side, AddressBounds memory, const std::string& name) const;
    /// Throws invalid_argument when destinations repeat and `update` depends on the order, as all
    /// but sums, products, minima and maxima do.
    void require_unambiguous(const ElementUpdate& update) const;

    /// Calls visit(source_bytes, destination_bytes, elems) for maximal runs that are contiguous on
    /// both sides, in order.
    void for_each_run(
        const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& visit) const;
    /// All pairs as element-start byte addresses, in order. O(n) memory: for tests and inspection.
    void to_pairs(std::vector<std::int64_t>& source_bytes,
                  std::vector<std::int64_t>& destination_bytes) const;

    /// Canonicalises and chooses loops for this update. Throws wrong_type when the update's types
    /// do not have the relation's element sizes, unsupported for types that cannot be combined so.
    /// Where destinations repeat and the update replaces, any of the elements may remain:
    /// require_unambiguous is the caller's.
    CopyKernel kernel(const ElementUpdate& update = {}, Stores stores = Stores::chosen) const;
    /// The same, made at the first call and kept with the relation: for relations that several
    /// users share, such as those of a RelationCache. The last few updates are kept.
    CopyKernel kept_kernel(const ElementUpdate& update = {}) const;

    /// Carry the relation, or a half of it, out. Halves, kernels and what was found out about the
    /// destinations are kept with the relation, so that later calls only copy. `copy` and `scatter`
    /// throw as require_unambiguous does, before anything is written.
    void copy(const void* source, void* destination, const ElementUpdate& update = {}) const;
    void gather(const void* source, void* buffer) const;
    void scatter(const void* buffer, void* destination, const ElementUpdate& update = {}) const;

    /// The same three, checked once for use many times: of each memory its base and the byte
    /// addresses from there that it has. They throw out_of_range as require_inside does,
    /// invalid_argument as require_unambiguous does, and what `kernel` throws.
    BoundCopy bind(const void* source, AddressBounds source_memory, void* destination,
                   AddressBounds destination_memory, const ElementUpdate& update = {}) const;
    BoundCopy bind_gather(const void* source, AddressBounds source_memory, void* buffer,
                          AddressBounds buffer_memory) const;
    BoundCopy bind_scatter(const void* buffer, AddressBounds buffer_memory, void* destination,
                           AddressBounds destination_memory,
                           const ElementUpdate& update = {}) const;

    /// The pieces of memory that a side consists of, in order, as in a scatter-gather list of the
    /// operating system; those of the source are for reading. O(number of contiguous pieces).
    std::vector<MemoryPiece> pieces(Side side, const void* base) const;
    std::vector<MemoryPiece> source_pieces(const void* base) const {
        return pieces(Side::source, base);
    }
    std::vector<MemoryPiece> destination_pieces(void* base) const {
        return pieces(Side::destination, base);
    }

    /// The relation as bytes that from_bytes turns back into the same pairs in the same encoding,
    /// on machines with this machine's byte order. O(nbytes).
    std::vector<std::uint8_t> to_bytes() const;
    /// Nothing in the bytes is trusted. Work and memory are bounded by their number; what is done
    /// with the relation later takes work in its elements, of which a few bytes can stand for many:
    /// `most_elems` limits them.
    /// Throws invalid_argument when the bytes are not those of a relation (cut off, changed, of
    /// another version or byte order), out_of_range when it has more elements.
    static AddressRelation from_bytes(
        std::span<const std::uint8_t> bytes,
        std::int64_t most_elems = std::numeric_limits<std::int64_t>::max());

    struct Storage;  ///< the encodings' common face, in src/relation

private:
    explicit AddressRelation(std::shared_ptr<const Storage> storage)
        : storage_(std::move(storage)) {}
    std::shared_ptr<const Storage> storage_;
    friend struct RelationAccess;
};

}  // namespace datamover
