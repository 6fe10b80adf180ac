// SPDX-License-Identifier: BSD-3-Clause
// Updates: validity for a relation's elements, and the loops that apply them.
#include "element_mover.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>

#include "copy_loops.hpp"
#include "datamover/element_update.hpp"
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
    combine_ = combine_loops(update.op, update.destination_type, with_beta);
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

// Without a buffer on its stack: a short row takes no longer than finding its loop.
void ElementMover::update(const char* source, std::int64_t source_step, char* destination,
                          std::int64_t destination_step, std::int64_t n) const {
    if (convert_.first == nullptr)
        combine_.row(source, source_step, destination, destination_step, n, update_.beta);
    else
        update_through_buffer(source, source_step, destination, destination_step, n);
}

void ElementMover::update_through_buffer(const char* source, std::int64_t source_step,
                                         char* destination, std::int64_t destination_step,
                                         std::int64_t n) const {
    alignas(64) char buffer[chunk_elems * largest_scalar_bytes];
    for (std::int64_t first = 0; first < n; first += chunk_elems) {
        const std::int64_t m = std::min(chunk_elems, n - first);
        prepare(source + first * source_step, source_step, buffer, m);
        combine_.row(buffer, destination_elem_bytes_, destination + first * destination_step,
                     destination_step, m, update_.beta);
    }
}

void ElementMover::update_listed(const char* source, const std::int64_t* source_at,
                                 char* destination, const std::int64_t* destination_at,
                                 std::int64_t n) const {
    if (convert_.first == nullptr)
        return combine_.listed(source, source_at, destination, destination_at, n, update_.beta);
    const PairsLoop gather = copy_loops().pairs[size_class(source_elem_bytes_)];
    alignas(64) char packed[chunk_elems * largest_scalar_bytes];
    alignas(64) char buffer[chunk_elems * largest_scalar_bytes];
    std::array<std::int64_t, chunk_elems> packed_at;
    std::array<std::int64_t, chunk_elems> buffer_at;
    for (std::size_t i = 0; i < packed_at.size(); ++i) {
        packed_at[i] = static_cast<std::int64_t>(i) * source_elem_bytes_;
        buffer_at[i] = static_cast<std::int64_t>(i) * destination_elem_bytes_;
    }
    for (std::int64_t first = 0; first < n; first += chunk_elems) {
        const std::int64_t m = std::min(chunk_elems, n - first);
        gather(source_at + first, packed_at.data(), m, source, packed);
        prepare(packed, source_elem_bytes_, buffer, m);
        combine_.listed(buffer, buffer_at.data(), destination, destination_at + first, m,
                        update_.beta);
    }
}

void ElementMover::prepare(const char* source, std::int64_t step, char* buffer,
                           std::int64_t n) const {
    if (convert_.second == nullptr)
        convert_.first(source, step, buffer, n);
    else
        convert_twice(source, step, buffer, n);
    if (scale_ != nullptr) scale_(buffer, n, update_.alpha, update_.conjugate);
}

void ElementMover::convert_twice(const char* source, std::int64_t step, char* buffer,
                                 std::int64_t n) const {
    alignas(64) char between[chunk_elems * largest_scalar_bytes];
    convert_.first(source, step, between, n);
    convert_.second(between, convert_.between_bytes, buffer, n);
}

// Loops that convert, scale or combine a row of scalars.

namespace {

using scalar::load;
using scalar::store;

template <class From, class To>
void convert_loop(const char* source, std::int64_t step, char* buffer, std::int64_t n) {
    constexpr std::int64_t from = sizeof(From);
    constexpr std::int64_t to = sizeof(To);
    const auto convert_all = [=](std::int64_t apart) {
        for (std::int64_t i = 0; i < n; ++i)
            store(buffer + i * to, scalar::convert<To>(load<From>(source + i * apart)));
    };
    // Twice, so that one of the loops has a step that the compiler knows.
    if (step == from)
        convert_all(from);
    else
        convert_all(step);
}

template <Op op, class T, bool with_beta>
inline T combined(T in_place, T arriving, T beta) {
    if constexpr (with_beta)
        return scalar::add(scalar::multiply(beta, in_place), arriving);
    else
        return scalar::combine<op>(in_place, arriving);
}

template <Op op, class T, bool with_beta>
void combine_loop(const char* source, std::int64_t source_step, char* destination,
                  std::int64_t destination_step, std::int64_t n, std::complex<double> factor) {
    constexpr std::int64_t size = sizeof(T);
    const T beta = scalar::convert<T>(factor);
    const auto combine_all = [=](std::int64_t from_step, std::int64_t to_step) {
        for (std::int64_t i = 0; i < n; ++i) {
            char* d = destination + i * to_step;
            const T arriving = load<T>(source + i * from_step);
            store(d, combined<op, T, with_beta>(load<T>(d), arriving, beta));
        }
    };
    // Twice, so that one of the loops has steps that the compiler knows.
    if (source_step == size && destination_step == size)
        combine_all(size, size);
    else
        combine_all(source_step, destination_step);
}

template <Op op, class T, bool with_beta>
void combine_listed_loop(const char* source, const std::int64_t* source_at, char* destination,
                         const std::int64_t* destination_at, std::int64_t n,
                         std::complex<double> factor) {
    const T beta = scalar::convert<T>(factor);
    for (std::int64_t i = 0; i < n; ++i) {
        char* d = destination + destination_at[i];
        store(d, combined<op, T, with_beta>(load<T>(d), load<T>(source + source_at[i]), beta));
    }
}

template <class T>
void scale_loop(char* buffer, std::int64_t n, std::complex<double> factor, bool conjugate) {
    constexpr std::int64_t size = sizeof(T);
    const T alpha = scalar::convert<T>(factor);
    const bool scales = factor != std::complex<double>{1.0, 0.0};
    for (std::int64_t i = 0; i < n; ++i) {
        T value = load<T>(buffer + i * size);
        if constexpr (scalar::is_complex<T>)
            if (conjugate) value = std::conj(value);
        if (scales) value = scalar::multiply(alpha, value);
        store(buffer + i * size, value);
    }
}

/// Between types that are no small floats.
ConvertRow wide_row(ScalarType from, ScalarType to) {
    return scalar::with_wide_type(from, [&]<class From>() {
        return scalar::with_wide_type(
            to, []<class To>() -> ConvertRow { return convert_loop<From, To>; });
    });
}

/// From a small float to a float of 32 bits, and from Wide to a small float.
ConvertRow widening_row(ScalarType from) {
    return scalar::with_small_type(
        from, []<class From>() -> ConvertRow { return convert_loop<From, float>; });
}
template <class Wide>
ConvertRow rounding_row(ScalarType to) {
    return scalar::with_small_type(to,
                                   []<class To>() -> ConvertRow { return convert_loop<Wide, To>; });
}

/// Small floats of one type, as they are.
ConvertRow copy_row(ScalarType type) {
    return scalar_bytes(type) == 1 ? convert_loop<std::uint8_t, std::uint8_t>
                                   : convert_loop<std::uint16_t, std::uint16_t>;
}

/// Calls make.operator()<op, with_beta>() for the combination.
template <class Make>
auto with_op(Op op, bool with_beta, Make&& make) {
    switch (op) {
        case Op::add:
            return with_beta ? make.template operator()<Op::add, true>()
                             : make.template operator()<Op::add, false>();
        case Op::multiply:
            return make.template operator()<Op::multiply, false>();
        case Op::minimum:
            return make.template operator()<Op::minimum, false>();
        case Op::maximum:
            return make.template operator()<Op::maximum, false>();
        case Op::replace:
            break;
    }
    return make.template operator()<Op::replace, false>();
}

}  // namespace

Conversion conversion(ScalarType from, ScalarType to) {
    using scalar::is_small;
    constexpr std::int64_t float_bytes = 4;
    const bool is_double = from == ScalarType::float64 || from == ScalarType::complex128;
    if (!is_small(from) && !is_small(to)) return {wide_row(from, to)};
    if (from == to) return {copy_row(from)};
    if (is_small(from) && to == ScalarType::float32) return {widening_row(from)};
    if (is_small(from))
        return {widening_row(from),
                is_small(to) ? rounding_row<float>(to) : wide_row(ScalarType::float32, to),
                float_bytes};
    if (from == ScalarType::float32) return {rounding_row<float>(to)};
    if (from == ScalarType::float64) return {rounding_row<double>(to)};
    if (is_double)
        return {wide_row(from, ScalarType::float64), rounding_row<double>(to), 2 * float_bytes};
    return {wide_row(from, ScalarType::float32), rounding_row<float>(to), float_bytes};
}

CombineLoops combine_loops(Op op, ScalarType type, bool with_beta) {
    return scalar::with_type(type, [&]<class T>() {
        return with_op(op, with_beta, []<Op o, bool beta>() -> CombineLoops {
            return {combine_loop<o, T, beta>, combine_listed_loop<o, T, beta>};
        });
    });
}

ScaleRow scale_row(ScalarType type) {
    return scalar::with_type(type, [&]<class T>() -> ScaleRow { return scale_loop<T>; });
}

// Names of scalar types and update operations, and scalar sizes.

namespace {

constexpr std::array<const char*, scalar_type_count> scalar_names{
    "opaque",     "int8",   "int16",   "int32",    "int64",         "uint8",
    "uint16",     "uint32", "uint64",  "float32",  "float64",       "complex64",
    "complex128", "bool",   "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"};

constexpr std::array<std::int64_t, scalar_type_count> scalar_sizes = [] {
    std::array<std::int64_t, scalar_type_count> sizes{};
    for (std::size_t i = 1; i < sizes.size(); ++i)
        sizes[i] = scalar::with_type(static_cast<ScalarType>(i), []<class T>() {
            return static_cast<std::int64_t>(sizeof(T));
        });
    return sizes;
}();

constexpr std::array<const char*, 5> ops{"replace", "add", "multiply", "min", "max"};

}  // namespace

std::int64_t scalar_bytes(ScalarType type) noexcept {
    const auto i = static_cast<std::size_t>(type);
    return i < scalar_sizes.size() ? scalar_sizes[i] : 0;
}

const char* scalar_name(ScalarType type) noexcept {
    const auto i = static_cast<std::size_t>(type);
    return i < scalar_names.size() ? scalar_names[i] : "unknown";
}

Op op_from_name(const std::string& name) {
    for (std::size_t i = 0; i < ops.size(); ++i)
        if (name == ops[i]) return static_cast<Op>(i);
    throw make_error(ErrorCode::invalid_argument, "unknown operation \"", name,
                     "\"; known are replace, add, multiply, min, max");
}

const char* op_name(Op op) noexcept {
    const auto i = static_cast<std::size_t>(op);
    return i < ops.size() ? ops[i] : "unknown";
}

}  // namespace datamover
