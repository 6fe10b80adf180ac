// SPDX-License-Identifier: BSD-3-Clause
// Address, strides and element type of an array that a user passes.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "datamover/advanced/address_relation.hpp"
#include "datamover/element_update.hpp"
#include "datamover/error.hpp"
#include "numpy_arrays.hpp"

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

namespace datamover::bindings {

/// The scalar type of NumPy's type string, such as "<f8", or of the name of a type that has no such
/// string, such as "bfloat16"; opaque for structures, dates, texts and the other byte order.
inline ScalarType scalar_type_of(std::string_view typestr) {
    for (const ScalarType type :
         {ScalarType::bfloat16, ScalarType::float8_e4m3fn, ScalarType::float8_e5m2})
        if (typestr == scalar_name(type)) return type;
    constexpr char native = std::endian::native == std::endian::little ? '<' : '>';
    if (typestr.size() < 3 || (typestr[0] != native && typestr[0] != '|'))
        return ScalarType::opaque;
    const std::string_view name = typestr.substr(1);
    constexpr std::pair<std::string_view, ScalarType> known[] = {
        {"b1", ScalarType::boolean},   {"i1", ScalarType::int8},       {"i2", ScalarType::int16},
        {"i4", ScalarType::int32},     {"i8", ScalarType::int64},      {"u1", ScalarType::uint8},
        {"u2", ScalarType::uint16},    {"u4", ScalarType::uint32},     {"u8", ScalarType::uint64},
        {"f2", ScalarType::float16},   {"f4", ScalarType::float32},    {"f8", ScalarType::float64},
        {"c8", ScalarType::complex64}, {"c16", ScalarType::complex128}};
    for (const auto& [text, type] : known)
        if (name == text) return type;
    return ScalarType::opaque;
}

/// The memory of a NumPy array, of anything else with NumPy's array interface, or of any buffer
/// (bytes, bytearray, memoryview, mmap). Keeps the object alive.
class ArrayMemory {
public:
    /// `name` stands for the array in messages. Throws wrong_type where there is no such memory,
    /// for masked arrays, and for Python objects as elements.
    ArrayMemory(nb::handle array, std::string name)
        : name_(std::move(name)), array_(as_array(nb::borrow(array))) {
        if (read_buffer()) {
            stretch();
            return;
        }
        const nb::dict face = nb::cast<nb::dict>(array_.attr("__array_interface__"));
        const nb::tuple data = nb::cast<nb::tuple>(face["data"]);
        data_ = reinterpret_cast<std::byte*>(nb::cast<std::uintptr_t>(data[0]));
        read_only_ = nb::cast<bool>(data[1]);
        typestr_ = nb::cast<std::string>(face["typestr"]);
        // Types of other packages have no string of their own; bytes of any kind share theirs.
        if (typestr_.size() == 3 && (typestr_[1] == 'V' || typestr_.substr(1) == "f1")) {
            std::string name = nb::cast<std::string>(array_.attr("dtype").attr("name"));
            if (scalar_type_of(name) != ScalarType::opaque) typestr_ = std::move(name);
        }
        shape_ = nb::cast<std::vector<std::int64_t>>(array_.attr("shape"));
        strides_bytes_ = nb::cast<std::vector<std::int64_t>>(array_.attr("strides"));
        elem_bytes_ = nb::cast<std::int64_t>(array_.attr("dtype").attr("itemsize"));
        if (nb::cast<bool>(array_.attr("dtype").attr("hasobject")))
            throw Error(ErrorCode::wrong_type,
                        name_ + " holds Python objects, which cannot be moved as bytes");
        stretch();
    }

    std::byte* data() const { return data_; }
    nb::handle object() const { return array_; }
    const std::string& name() const { return name_; }
    const std::string& typestr() const { return typestr_; }
    std::int64_t elem_bytes() const { return elem_bytes_; }
    ScalarType scalar_type() const { return scalar_type_of(typestr_); }
    const std::vector<std::int64_t>& shape() const { return shape_; }
    const std::vector<std::int64_t>& strides_bytes() const { return strides_bytes_; }
    /// The range of addresses of its elements, counted from data(); negative strides reach below 0.
    const AddressBounds& bounds() const { return bounds_; }

    /// Throws invalid_argument for a read-only array.
    void require_writable() const {
        if (read_only_) throw Error(ErrorCode::invalid_argument, name_ + " is read-only");
    }

private:
    /// Reads numbers of this machine's byte order through the buffer protocol, which takes a tenth
    /// of the time. False when the array is of another kind; nothing is changed then.
    bool read_buffer() {
        Py_buffer view;
        if (PyObject_GetBuffer(array_.ptr(), &view, PyBUF_FULL_RO) != 0) {
            PyErr_Clear();
            return false;
        }
        const std::string_view format = view.format != nullptr ? view.format : "B";
        const char kind = kind_of(format);
        if (kind != 0) {
            data_ = static_cast<std::byte*>(view.buf);
            read_only_ = view.readonly != 0;
            elem_bytes_ = view.itemsize;
            constexpr char native = std::endian::native == std::endian::little ? '<' : '>';
            typestr_ = {elem_bytes_ == 1 ? '|' : native, kind};
            typestr_ += std::to_string(elem_bytes_);
            shape_.assign(view.shape, view.shape + view.ndim);
            strides_bytes_.assign(view.strides, view.strides + view.ndim);
        }
        PyBuffer_Release(&view);
        return kind != 0;
    }

    /// NumPy's letter for the numbers of a buffer's format; 0 for all others.
    static char kind_of(std::string_view format) {
        if (format == "Zf" || format == "Zd") return 'c';
        if (format.size() != 1) return 0;
        if (format[0] == '?') return 'b';
        if (std::string_view("bhilq").find(format[0]) != std::string_view::npos) return 'i';
        if (std::string_view("BHILQ").find(format[0]) != std::string_view::npos) return 'u';
        return std::string_view("efd").find(format[0]) != std::string_view::npos ? 'f' : char{0};
    }

    /// A NumPy array over the same memory. Scalars of NumPy are buffers too, and read-only.
    nb::object as_array(const nb::object& object) const {
        refuse_mask(object, name_);
        const nb::module_ numpy = nb::module_::import_("numpy");
        if (nb::isinstance(object, numpy.attr("ndarray"))) return object;
        if (PyObject_CheckBuffer(object.ptr())) {
            const nb::object view = nb::steal(PyMemoryView_FromObject(object.ptr()));
            if (view.is_valid()) return numpy.attr("asarray")(view);
            PyErr_Clear();
        } else if (nb::hasattr(object, "__array_interface__")) {
            return numpy.attr("asarray")(object);
        }
        throw Error(ErrorCode::wrong_type,
                    name_ + " has no memory of elements: " + nb::repr(object.type()).c_str());
    }

    void stretch() {
        if (std::find(shape_.begin(), shape_.end(), 0) != shape_.end()) return;
        bounds_.end_bytes = elem_bytes_;
        for (std::size_t d = 0; d < shape_.size(); ++d) {
            const std::int64_t reach = (shape_[d] - 1) * strides_bytes_[d];
            bounds_.begin_bytes += std::min<std::int64_t>(reach, 0);
            bounds_.end_bytes += std::max<std::int64_t>(reach, 0);
        }
    }

    std::string name_, typestr_;
    nb::object array_;
    std::byte* data_ = nullptr;
    bool read_only_ = false;
    std::int64_t elem_bytes_ = 0;
    AddressBounds bounds_;
    std::vector<std::int64_t> shape_, strides_bytes_;
};

/// What happens to elements that go from one array to another: copied as bytes where the types are
/// the same or one side is a buffer of bare bytes, else converted by NumPy's rules; combined under
/// `op`. Throws wrong_type if types cannot be converted.
inline ElementUpdate update_between(const ArrayMemory& source, const ArrayMemory& destination,
                                    Op op, bool bare_bytes = false) {
    ElementUpdate update;
    update.op = op;
    const bool same = source.typestr() == destination.typestr();
    if (update.op == Op::replace && (same || bare_bytes)) return update;
    update.source_type = source.scalar_type();
    update.destination_type = destination.scalar_type();
    const bool known =
        update.source_type != ScalarType::opaque && update.destination_type != ScalarType::opaque;
    if (!known)
        throw Error(ErrorCode::wrong_type,
                    std::string(update.op == Op::replace ? "converting" : op_name(update.op)) +
                        " from " + source.typestr() + " (" + source.name() + ") to " +
                        destination.typestr() + " (" + destination.name() +
                        ") is not possible: only booleans, integers, floats of 8 (e4m3fn, e5m2), "
                        "16, 32 and 64 bits and complex numbers of 64 and 128 bits, in this "
                        "machine's byte order, are converted or combined");
    return update;
}

}  // namespace datamover::bindings
