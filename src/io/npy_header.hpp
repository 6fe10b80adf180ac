// SPDX-License-Identifier: BSD-3-Clause
// NumPy's .npy header: reading and writing.
#pragma once

#include <cstdint>
#include <string>

#include "datamover/element_update.hpp"
#include "datamover/point.hpp"

namespace datamover::io {

/// What a file says of itself.
struct NpyHeader {
    std::string descr;  ///< NumPy's word for the type, such as "<f8"; empty: a structured one
    bool fortran_order = false;
    Point shape;
    std::int64_t bytes = 0;  ///< of the header: where the elements begin
};

/// The word for elements of a type, in this machine's byte order.
std::string npy_descr(ScalarType type, std::int64_t elem_bytes);
/// The type that elements of a file have for an array of such elements: another number type than
/// the array's is one to convert from, under NumPy's "same_kind". Opaque arrays take all elements
/// of their size. Throws wrong_type where they cannot be taken.
ScalarType stored_type(const std::string& descr, ScalarType type, std::int64_t elem_bytes);

/// The header of an array in C order, as many bytes as a multiple of 64.
std::string npy_header(const std::string& descr, const Point& shape);
/// How many bytes of a file its header takes, by its first 12. Throws io where it is no .npy file.
std::int64_t npy_header_bytes(const std::string& begin);
/// From as many bytes. Nothing in them is trusted. Throws io.
NpyHeader parsed_npy_header(const std::string& bytes);

}  // namespace datamover::io
