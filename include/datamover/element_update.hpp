// SPDX-License-Identifier: BSD-3-Clause
// Updates: how an arriving element is combined with the value at its destination.
#pragma once

#include <complex>
#include <cstdint>
#include <string>

#include "datamover/export.h"

namespace datamover DATAMOVER_PUBLIC {

/// The scalar types that updates and conversions know; `opaque` elements can only be copied.
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
    float8_e4m3fn,  ///< no infinities: what exceeds 448 becomes NaN
    float8_e5m2,
};
inline constexpr int scalar_type_count = 18;

/// Bytes of one scalar; 0 for opaque. Local, O(1).
std::int64_t scalar_bytes(ScalarType type) noexcept;
/// NumPy's name ("float64"), or "opaque".
const char* scalar_name(ScalarType type) noexcept;

/// How an arriving element is combined with the one in place.
enum class Op : std::uint8_t { replace, add, multiply, minimum, maximum };

/// "replace", "add", "multiply", "min", "max" to Op. Throws invalid_argument on any other word.
Op op_from_name(const std::string& name);
const char* op_name(Op op) noexcept;

/// destination = op(beta * destination, alpha * conj?(converted source)). The default copies bytes.
/// NaN behaves as in NumPy's add, multiply, minimum and maximum; conversion as in NumPy's astype.
/// Floats of 8 and 16 bits are computed with as floats of 32, and rounded after every operation.
struct ElementUpdate {
    Op op = Op::replace;
    ScalarType source_type = ScalarType::opaque;
    ScalarType destination_type = ScalarType::opaque;
    bool conjugate = false;
    std::complex<double> alpha{1.0, 0.0};
    std::complex<double> beta{1.0, 0.0};  ///< used with Op::add only

    /// True when bytes are moved unchanged.
    bool is_plain_copy() const noexcept {
        return op == Op::replace && source_type == destination_type && !conjugate &&
               alpha == std::complex<double>{1.0, 0.0};
    }
    bool operator==(const ElementUpdate&) const = default;
};

}  // namespace datamover
