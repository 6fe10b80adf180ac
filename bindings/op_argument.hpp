// SPDX-License-Identifier: BSD-3-Clause
// Conversion of Python's operations (None, a name, a NumPy ufunc, an MPI.Op) to Op.
// Every file that binds functions with an Op includes this one.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "datamover/element_update.hpp"

namespace nanobind::detail {

/// The argument must allow None. Errors are those of `datamover.arguments.operation`; they are
/// raised when the value is taken, since from_python may not throw.
template <>
struct type_caster<datamover::Op> {
    using Value = datamover::Op;
    static constexpr auto Name = const_name("typing.Any");
    template <typename>
    using Cast = Value;
    template <typename>
    static constexpr bool can_cast() {
        return true;
    }

    bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
        source_ = source;
        return true;
    }

    explicit operator Value() {
        if (source_.is_none()) return datamover::Op::replace;
        const object name = module_::import_("datamover.arguments").attr("operation")(source_);
        return datamover::op_from_name(cast<std::string>(name));
    }

private:
    handle source_;
};

}  // namespace nanobind::detail
