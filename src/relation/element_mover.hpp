// SPDX-License-Identifier: BSD-3-Clause
// Rows of evenly spaced elements, copied or updated.
#pragma once

#include <complex>
#include <cstdint>
#include <string>

#include "datamover/element_update.hpp"

namespace datamover {

/// Converts n elements (source step in bytes) into a packed buffer of another type.
using ConvertRow = void (*)(const char* source, std::int64_t step, char* buffer, std::int64_t n);
/// Combines n elements into a destination; steps in bytes.
using CombineRow = void (*)(const char* source, std::int64_t source_step, char* destination,
                            std::int64_t destination_step, std::int64_t n,
                            std::complex<double> beta);
/// Combines n elements between addresses that stand in lists.
using CombineListed = void (*)(const char* source, const std::int64_t* source_at, char* destination,
                               const std::int64_t* destination_at, std::int64_t n,
                               std::complex<double> beta);
/// Multiplies n packed elements by alpha, conjugating them first where asked.
using ScaleRow = void (*)(char* buffer, std::int64_t n, std::complex<double> alpha, bool conjugate);

/// How a row becomes one of another type: at once, or by way of floats of 32 or 64 bits, which
/// every float of 8 or 16 bits passes through, so that not every pair of types needs a loop of its
/// own.
struct Conversion {
    ConvertRow first = nullptr;
    ConvertRow second = nullptr;     ///< of packed elements; nullptr where the first does it all
    std::int64_t between_bytes = 0;  ///< of an element between the two
};
Conversion conversion(ScalarType from, ScalarType to);
/// How elements are combined; null if bytes are copied.
struct CombineLoops {
    CombineRow row = nullptr;
    CombineListed listed = nullptr;
};
CombineLoops combine_loops(Op op, ScalarType type, bool with_beta);
ScaleRow scale_row(ScalarType type);

/// Moves rows of elements under one ElementUpdate. Made once per kernel; a value.
class ElementMover {
public:
    ElementMover() = default;
    /// Throws wrong_type when element sizes and types disagree, unsupported for a combination that
    /// has no meaning (adding opaque bytes, a fractional factor on integers).
    ElementMover(const ElementUpdate& update, std::int64_t source_elem_bytes,
                 std::int64_t destination_elem_bytes);

    bool copies_bytes() const { return combine_.row == nullptr; }
    std::int64_t source_elem_bytes() const { return source_elem_bytes_; }
    std::int64_t destination_elem_bytes() const { return destination_elem_bytes_; }
    std::string describe() const;

    /// Updates n elements; only for movers that do more than copy bytes.
    void update(const char* source, std::int64_t source_step, char* destination,
                std::int64_t destination_step, std::int64_t n) const;
    /// Updates n elements between addresses that stand in lists; destinations may repeat.
    void update_listed(const char* source, const std::int64_t* source_at, char* destination,
                       const std::int64_t* destination_at, std::int64_t n) const;

private:
    /// Converts and scales n elements into a packed buffer.
    void prepare(const char* source, std::int64_t step, char* buffer, std::int64_t n) const;
    void convert_twice(const char* source, std::int64_t step, char* buffer, std::int64_t n) const;
    void update_through_buffer(const char* source, std::int64_t source_step, char* destination,
                               std::int64_t destination_step, std::int64_t n) const;

    ElementUpdate update_;
    std::int64_t source_elem_bytes_ = 0;
    std::int64_t destination_elem_bytes_ = 0;
    Conversion convert_;  ///< set when elements pass through a packed buffer
    ScaleRow scale_ = nullptr;
    CombineLoops combine_;
};

}  // namespace datamover
