// SPDX-License-Identifier: BSD-3-Clause
// Updates: how an arriving element is combined with the value at its destination.
#pragma once

#include <complex>
#include <cstdint>
#include <string>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// The scalar types of updates and conversions; `opaque` elements can only be copied.
enum class ScalarType : std::uint8_t {
    opaque,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    float32,
    float64,
    complex64,
    complex128,
    boolean,
    float16,
    bfloat16,
    float8_e4m3fn,  ///< no infinities: values above 448 become NaN
    float8_e5m2,
};
inline constexpr int scalar_type_count = 18;

/// Return the bytes of one scalar; 0 for opaque. Local, O(1).
std::int64_t scalar_bytes(ScalarType type) noexcept;
/// Return NumPy's name ("float64"), or "opaque".
const char* scalar_name(ScalarType type) noexcept;

/// How a received element is combined with the one in place.
enum class Op : std::uint8_t { replace, add, multiply, minimum, maximum };

/// Convert "replace", "add", "multiply", "min" or "max" to Op. Throws invalid_argument for any
/// other name.
Op op_from_name(const std::string& name);
const char* op_name(Op op) noexcept;

/// An update: destination = op(beta * destination, alpha * conj?(converted source)). By default,
/// bytes are copied. NaN behaves as in NumPy's add, multiply, minimum and maximum; conversion as in
/// NumPy's astype. Floats of 8 and 16 bits are computed as floats of 32, and rounded after every
/// operation.
struct ElementUpdate {
    Op op = Op::replace;
    ScalarType source_type = ScalarType::opaque;
    ScalarType destination_type = ScalarType::opaque;
    bool conjugate = false;
    std::complex<double> alpha{1.0, 0.0};
    std::complex<double> beta{1.0, 0.0};  ///< only used with Op::add

    /// Return whether bytes are copied unchanged.
    bool is_plain_copy() const noexcept {
        return op == Op::replace && source_type == destination_type && !conjugate &&
               alpha == std::complex<double>{1.0, 0.0};
    }
    bool operator==(const ElementUpdate&) const = default;
};

}  // namespace datamover
