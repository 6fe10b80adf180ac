// SPDX-License-Identifier: BSD-3-Clause
// Docstrings of Python functions, from comments of the bindings.
#pragma once

#include <string_view>

namespace datamover::bindings {

struct Docstring {
    std::string_view name;  ///< of a class, or Class.member
    const char* text;
};

// Written by docstrings.py when the bindings are built.
#include "docstrings.inc"

/// The docstring of the comment `/** Python name`. Does not compile if there is none.
consteval const char* doc(std::string_view name) {
    for (const Docstring& docstring : docstrings)
        if (docstring.name == name) return docstring.text;
    throw "no comment of this name";
}

}  // namespace datamover::bindings
