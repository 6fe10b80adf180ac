// SPDX-License-Identifier: BSD-3-Clause
// Names of scalar types and update operations, and scalar sizes.
#include "datamover/element_update.hpp"

#include <array>

#include "geometry/make_error.hpp"

namespace datamover {
namespace {

struct ScalarFacts {
    std::int64_t bytes;
    const char* name;
};

constexpr std::array<ScalarFacts, scalar_type_count> scalars{{{0, "opaque"},
                                                              {1, "int8"},
                                                              {2, "int16"},
                                                              {4, "int32"},
                                                              {8, "int64"},
                                                              {1, "uint8"},
                                                              {2, "uint16"},
                                                              {4, "uint32"},
                                                              {8, "uint64"},
                                                              {4, "float32"},
                                                              {8, "float64"},
                                                              {8, "complex64"},
                                                              {16, "complex128"},
                                                              {1, "bool"},
                                                              {2, "float16"},
                                                              {2, "bfloat16"},
                                                              {1, "float8_e4m3fn"},
                                                              {1, "float8_e5m2"}}};

constexpr std::array<const char*, 5> ops{"replace", "add", "multiply", "min", "max"};

}  // namespace

std::int64_t scalar_bytes(ScalarType type) noexcept {
    const auto i = static_cast<std::size_t>(type);
    return i < scalars.size() ? scalars[i].bytes : 0;
}

const char* scalar_name(ScalarType type) noexcept {
    const auto i = static_cast<std::size_t>(type);
    return i < scalars.size() ? scalars[i].name : "unknown";
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
