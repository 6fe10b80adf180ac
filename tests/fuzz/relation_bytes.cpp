// SPDX-License-Identifier: BSD-3-Clause
// Fuzzing of relations, get requests and put messages: any bytes are either valid or rejected with
// an error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "datamover/advanced/address_relation.hpp"
#include "datamover/advanced/decoding_costs.hpp"
#include "datamover/advanced/relation_messages.hpp"
#include "datamover/error.hpp"
#include "relation/serial.hpp"

using namespace datamover;

namespace {

constexpr std::int64_t most_elems = 100'000;

/// What can be asked of a relation that was read must work, and writing it gives the bytes again.
void use(const AddressRelation& relation, std::span<const std::uint8_t> bytes) {
    const std::vector<std::uint8_t> written = relation.to_bytes();
    if (!std::equal(written.begin(), written.end(), bytes.begin(), bytes.end()) &&
        AddressRelation::from_bytes(written).size() != relation.size())
        __builtin_trap();
    const AddressBounds s = relation.source_bounds();
    const AddressBounds d = relation.destination_bounds();
    if (s.begin_bytes > s.end_bytes || d.begin_bytes > d.end_bytes) __builtin_trap();
    explain_encoding(relation, 1000);
    if (relation.size() > most_elems || relation.size() == 0) return;
    std::vector<std::int64_t> source;
    std::vector<std::int64_t> destination;
    relation.to_pairs(source, destination);
    if (static_cast<std::int64_t>(source.size()) != relation.size()) __builtin_trap();
    // No memory has a base so far away.
    constexpr std::int64_t farthest = std::int64_t{1} << 44;
    if (std::max(std::abs(s.begin_bytes), std::abs(d.begin_bytes)) > farthest) return;
    const std::int64_t span = (s.end_bytes - s.begin_bytes) + (d.end_bytes - d.begin_bytes);
    if (span > 10'000'000 || relation.source_elem_bytes() != relation.destination_elem_bytes())
        return;
    const std::vector<char> from(static_cast<std::size_t>(s.end_bytes - s.begin_bytes), 'a');
    std::vector<char> to(static_cast<std::size_t>(d.end_bytes - d.begin_bytes), 'b');
    relation.copy(from.data() - s.begin_bytes, to.data() - d.begin_bytes);
}

/// An answer is no longer than what is answered at most.
void ask(std::span<const std::uint8_t> request) {
    static const std::vector<char> memory(1000, 'a');
    const auto most = static_cast<std::size_t>(1000 + 64 * request.size());
    const AddressBounds bounds{-100, 900};
    if (answer_get(request, memory.data() + 100, bounds).size() > most) __builtin_trap();
    if (answer_get(request, memory.data() + 100, bounds, 10).size() > 10) __builtin_trap();
}

/// A put message of these bytes and of as many elements as they speak of, up to a bound.
void put(std::span<const std::uint8_t> bytes) {
    const AddressRelation relation = AddressRelation::from_bytes(bytes, most_elems);
    const std::int64_t elem_bytes = std::min<std::int64_t>(relation.source_elem_bytes(), 64);
    std::vector<std::uint8_t> message(8 + bytes.size() +
                                      static_cast<std::size_t>(relation.size() * elem_bytes));
    const std::uint64_t length = bytes.size();
    std::memcpy(message.data(), &length, 8);
    std::memcpy(message.data() + 8, bytes.data(), bytes.size());
    std::vector<char> memory(1000);
    accept_put(message, memory.data() + 100, {-100, 900});
}

/// Errors that a caller expects of bytes from outside; all others are defects.
template <class Call>
void try_out(Call&& call) {
    try {
        call();
    } catch (const Error& e) {
        if (e.code() != ErrorCode::invalid_argument && e.code() != ErrorCode::wrong_type &&
            e.code() != ErrorCode::out_of_range)
            __builtin_trap();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    // The checksum is made right, so that what lies behind it is reached.
    std::vector<std::uint8_t> bytes(data, data + size / 8 * 8);
    if (bytes.size() >= 8) std::memcpy(bytes.data(), &serial_magic, 8);
    const std::uint64_t checksum = serial_checksum(bytes);
    bytes.resize(bytes.size() + 8);
    std::memcpy(bytes.data() + bytes.size() - 8, &checksum, 8);
    try_out([&] { use(AddressRelation::from_bytes(bytes), bytes); });
    try_out([&] { ask(bytes); });
    try_out([&] { put(bytes); });
    return 0;
}
