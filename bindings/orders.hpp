// SPDX-License-Identifier: BSD-3-Clause
// Element orders by NumPy's letters "C" and "F".
#pragma once

#include <string>

#include "datamover/error.hpp"
#include "datamover/memory_layout.hpp"

namespace datamover::bindings {

/// True for "F", false for "C"; throws invalid_argument, naming the argument, for other words.
inline bool column_major(const std::string& order, const char* argument) {
    if (order == "C" || order == "F") return order == "F";
    throw Error(ErrorCode::invalid_argument,
                std::string(argument) + " is '" + order + "', it must be 'C' or 'F'");
}

inline ElementOrder element_order(const std::string& order) {
    return column_major(order, "order") ? ElementOrder::column_major : ElementOrder::row_major;
}

}  // namespace datamover::bindings
