// SPDX-License-Identifier: BSD-3-Clause
// Updates: validity for a relation's elements, and the loops that apply them.
#include "element_mover.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "copy_loops.hpp"
#include "geometry/make_error.hpp"
#include "scalar_types.hpp"

namespace datamover {
namespace {

constexpr std::int64_t chunk_elems = 256;
constexpr std::int64_t largest_scalar_bytes = 16;
const std::complex<double> one{1.0, 0.0};

bool is_complex_type(ScalarType t) {
    return t == ScalarType::complex64 || t == ScalarType::complex128;
}
bool is_floating_type(ScalarType t) {
    return t == ScalarType::float32 || t == ScalarType::float64 || scalar::is_small(t);
}

void require_size(const char* side, ScalarType type, std::int64_t elem_bytes) {
    if (type == ScalarType::opaque || scalar_bytes(type) == elem_bytes) return;
    throw make_error(ErrorCode::wrong_type, "the update's ", side, " type ", scalar_name(type),
                     " has ", scalar_bytes(type), " bytes, the relation's elements there have ",
                     elem_bytes);
}

void require_factor(const char* name, std::complex<double> factor, ScalarType type) {
    if (factor == one || is_complex_type(type)) return;
    const bool real = factor.imag() == 0.0;
    const bool whole =
        real && std::floor(factor.real()) == factor.real() && std::abs(factor.real()) < 9.0e15;
    const bool negative = factor.real() < 0.0;
    const bool is_unsigned = type == ScalarType::uint8 || type == ScalarType::uint16 ||
                             type == ScalarType::uint32 || type == ScalarType::uint64;
    if (type != ScalarType::boolean && real && is_floating_type(type)) return;
    if (type != ScalarType::boolean && whole && !(is_unsigned && negative)) return;
    throw make_error(ErrorCode::unsupported, name, " = (", factor.real(), ", ", factor.imag(),
                     ") cannot multiply elements of type ", scalar_name(type));
}

void require_typed(const ElementUpdate& u) {
    if (u.source_type != ScalarType::opaque && u.destination_type != ScalarType::opaque) return;
    throw make_error(
        u.source_type == u.destination_type ? ErrorCode::unsupported : ErrorCode::wrong_type,
        "operation ", op_name(u.op), " from ", scalar_name(u.source_type), " to ",
        scalar_name(u.destination_type),
        " needs to know both scalar types; opaque are structures, texts, times, long doubles and "
        "numbers of another byte order");
}

}  // namespace

ElementMover::ElementMover(const ElementUpdate& update, std::int64_t source_elem_bytes,
                           std::int64_t destination_elem_bytes)
    : update_(update),
      source_elem_bytes_(source_elem_bytes),
      destination_elem_bytes_(destination_elem_bytes) {
    require_size("source", update.source_type, source_elem_bytes);
    require_size("destination", update.destination_type, destination_elem_bytes);
    if (update.is_plain_copy()) {
        if (source_elem_bytes == destination_elem_bytes) return;
        throw make_error(ErrorCode::wrong_type, "a plain copy needs equal element sizes, got ",
                         source_elem_bytes, " and ", destination_elem_bytes, " bytes");
    }
    require_typed(update);
    require_factor("alpha", update.alpha, update.destination_type);
    const bool with_beta = update.op == Op::add && update.beta != one;
    if (with_beta) require_factor("beta", update.beta, update.destination_type);
    combine_ = combine_row(update.op, update.destination_type, with_beta);
    combine_listed_ = combine_listed(update.op, update.destination_type, with_beta);
    const bool conjugates = update.conjugate && is_complex_type(update.destination_type);
    const bool scales = update.alpha != one || conjugates;
    if (scales) scale_ = scale_row(update.destination_type);
    if (scales || update.source_type != update.destination_type)
        convert_ = conversion(update.source_type, update.destination_type);
}

std::string ElementMover::describe() const {
    if (copies_bytes()) return "copy";
    std::string text = op_name(update_.op);
    text += concat(" ", scalar_name(update_.destination_type));
    if (update_.source_type != update_.destination_type)
        text += concat(" from ", scalar_name(update_.source_type));
    return text;
}

void ElementMover::update(const char* source, std::int64_t source_step, char* destination,
                          std::int64_t destination_step, std::int64_t n) const {
    if (convert_.first == nullptr)
        combine_(source, source_step, destination, destination_step, n, update_.beta);
    else
        update_through_buffer(source, source_step, destination, destination_step, n);
}

void ElementMover::update_listed(const char* source, const std::int64_t* source_at,
                                 char* destination, const std::int64_t* destination_at,
                                 std::int64_t n) const {
    if (convert_.first == nullptr) {
        combine_listed_(source, source_at, destination, destination_at, n, update_.beta);
        return;
    }
    const PairsLoop gather = copy_loops().pairs[size_class(source_elem_bytes_)];
    alignas(64) char packed[chunk_elems * largest_scalar_bytes];
    alignas(64) char buffer[chunk_elems * largest_scalar_bytes];
    std::array<std::int64_t, chunk_elems> packed_at;
    std::array<std::int64_t, chunk_elems> buffer_at;
    for (std::int64_t i = 0; i < chunk_elems; ++i) {
        packed_at[static_cast<std::size_t>(i)] = i * source_elem_bytes_;
        buffer_at[static_cast<std::size_t>(i)] = i * destination_elem_bytes_;
    }
    for (std::int64_t first = 0; first < n; first += chunk_elems) {
        const std::int64_t m = std::min(chunk_elems, n - first);
        gather(source_at + first, packed_at.data(), m, source, packed);
        convert(packed, source_elem_bytes_, buffer, m);
        if (scale_ != nullptr) scale_(buffer, m, update_.alpha, update_.conjugate);
        combine_listed_(buffer, buffer_at.data(), destination, destination_at + first, m,
                        update_.beta);
    }
}

void ElementMover::convert(const char* source, std::int64_t step, char* buffer,
                           std::int64_t n) const {
    if (convert_.second == nullptr) {
        convert_.first(source, step, buffer, n);
        return;
    }
    alignas(64) char between[chunk_elems * largest_scalar_bytes];
    convert_.first(source, step, between, n);
    convert_.second(between, convert_.between_bytes, buffer, n);
}

void ElementMover::update_through_buffer(const char* source, std::int64_t source_step,
                                         char* destination, std::int64_t destination_step,
                                         std::int64_t n) const {
    alignas(64) char buffer[chunk_elems * largest_scalar_bytes];
    while (n > 0) {
        const std::int64_t m = n < chunk_elems ? n : chunk_elems;
        convert(source, source_step, buffer, m);
        if (scale_ != nullptr) scale_(buffer, m, update_.alpha, update_.conjugate);
        combine_(buffer, destination_elem_bytes_, destination, destination_step, m, update_.beta);
        source += m * source_step;
        destination += m * destination_step;
        n -= m;
    }
}

}  // namespace datamover
