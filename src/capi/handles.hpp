// SPDX-License-Identifier: BSD-3-Clause
// Handles of the C interface, and how arguments and exceptions cross it. All its files include this
// one, and do not repeat what it includes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "generated/handles.hpp"
#include "geometry/make_error.hpp"
#include "mpi/process_group.hpp"

namespace datamover::capi {

/// Keeps the message for datamover_error_message and returns the code.
int fail(ErrorCode code, const char* message) noexcept;

/// Runs `work`; an exception becomes its code.
template <class Work>
int guarded(Work&& work) noexcept {
    try {
        work();
        return DATAMOVER_SUCCESS;
    } catch (const Error& e) {
        return fail(e.code(), e.what());
    } catch (const std::bad_alloc&) {
        return fail(ErrorCode::no_memory, "out of memory");
    } catch (const std::length_error&) {
        return fail(ErrorCode::no_memory, "more entries than memory can hold");
    } catch (const std::exception& e) {
        return fail(ErrorCode::invalid_state, e.what());
    } catch (...) {
        return fail(ErrorCode::invalid_state, "an exception of unknown type was thrown");
    }
}

/// The error that a caller of C passes; without a message, that of its last call that failed.
inline Error error_of(int code, const char* message) {
    if (code < 1 || code > static_cast<int>(ErrorCode::unsupported))
        return make_error(ErrorCode::invalid_argument, "code ", code, " is not an error code");
    return Error(static_cast<ErrorCode>(code), message ? message : datamover_error_message());
}

/// Runs `convert`; where it throws, the others throw from the call that they make.
template <class Collective, class Convert>
auto converted(Collective& collective, Convert&& convert) {
    std::optional<Error> error;
    try {
        return convert();
    } catch (const Error& e) {
        error = e;
    } catch (const std::exception&) {
        error = Error(ErrorCode::no_memory, "out of memory");
    }
    collective.refuse(*error);
    throw *error;
}

/// Converted arguments: references to objects, and values of everything else.
template <class... Values>
std::tuple<Values...> held(Values&&... values) {
    return {std::forward<Values>(values)...};
}

/// What a pointer argument points to. Throws invalid_argument when it is NULL.
template <class T>
T& given(T* pointer, const char* name) {
    if (!pointer) throw make_error(ErrorCode::invalid_argument, name, " is NULL");
    return *pointer;
}

/// A text argument, for its copy.
inline const char* text(const char* characters, const char* name) {
    return &given(characters, name);
}

/// The value behind a handle.
template <class Handle>
auto& value_of(Handle* handle, const char* name) {
    return given(handle, name).value;
}

/// Gives the caller a new handle of `value`.
template <class Handle, class Value>
void hand_out(Handle** handle, const char* name, Value&& value) {
    Handle*& place = given(handle, name);  // first, or a NULL pointer would lose the handle
    place = new Handle{std::forward<Value>(value)};
}

/// Frees what a handle stands for.
template <class Handle>
int release(Handle** handle, const char* name) noexcept {
    return guarded([&] { delete std::exchange(given(handle, name), nullptr); });
}

/// The memory for `elems` elements, which may be NULL for none.
template <class T>
T* memory_for(std::int64_t elems, T* memory, const char* name) {
    if (!memory && elems > 0)
        throw make_error(ErrorCode::invalid_argument, name, " is NULL, and there are ", elems,
                         " elements for it");
    return memory;
}

/// Seconds to wait; no value, for below 0: the default of set_default_timeout.
inline std::optional<double> timeout_of(double timeout_seconds) {
    if (std::isnan(timeout_seconds))
        throw Error(ErrorCode::invalid_argument, "timeout_seconds is not a number");
    return timeout_seconds < 0 ? std::nullopt : std::optional<double>(timeout_seconds);
}

/// `count` values that start at a pointer, NULL being right for none.
template <class T>
std::vector<T> values(const T* first, std::int64_t count, const char* name) {
    if (count < 0) throw make_error(ErrorCode::invalid_argument, name, " has ", count, " entries");
    if (count > 0) given(first, name);
    if (static_cast<std::uint64_t>(count) > std::vector<T>().max_size())
        throw make_error(ErrorCode::no_memory, name, " has ", count,
                         " entries, more than memory can hold");
    return std::vector<T>(first, first + count);
}

/// `count` values, at least one; none for NULL.
template <class T>
std::vector<T> values_or_none(const T* first, std::int64_t count, const char* name) {
    if (!first && count == 0) return {};
    if (count < 1)
        throw make_error(ErrorCode::invalid_argument, name, " has ", count,
                         " entries; it needs at least 1");
    return values(first, count, name);
}

/// Sets `count` to the number of results. Throws out_of_range when results are asked for and there
/// is not room for all.
inline void announce_count(std::int64_t needed, bool asked_for, std::int64_t capacity,
                           std::int64_t* count, const char* what) {
    if (asked_for && capacity < needed)
        throw make_error(ErrorCode::out_of_range, "there is room for ", capacity, " ", what,
                         ", there are ", needed);
    given(count, "count") = needed;
}

/// Checked before as many entries are read.
inline int checked_dims(int dims) {
    if (dims < 1 || dims > max_dims)
        throw make_error(ErrorCode::invalid_argument, "dims is ", dims, "; it must be 1 to ",
                         max_dims);
    return dims;
}

inline Point point(const std::int64_t* coordinates, int dims, const char* name) {
    return Point(std::span<const std::int64_t>(values(coordinates, checked_dims(dims), name)));
}

/// The point, or one without dimensions for NULL.
inline Point point_or_none(const std::int64_t* coordinates, int dims, const char* name) {
    return coordinates ? point(coordinates, dims, name) : Point{};
}

inline Region region(const std::int64_t* lo, const std::int64_t* hi, int dims, const char* name) {
    return Region(point(lo, dims, name), point(hi, dims, name));
}

inline std::vector<int> axes_or_none(const int* axes, int dims) {
    return axes ? values(axes, dims, "axes") : std::vector<int>{};
}

inline void write_point(const Point& point, std::int64_t* coordinates, const char* name) {
    for (int d = 0; d < point.dims(); ++d) (&given(coordinates, name))[d] = point[d];
}

inline void write_region(const Region& region, std::int64_t* lo, const char* lo_name,
                         std::int64_t* hi, const char* hi_name) {
    given(lo, lo_name), given(hi, hi_name);
    write_point(region.lo(), lo, lo_name);
    write_point(region.hi(), hi, hi_name);
}

/// Writes all results, or only their number if `to` is NULL.
template <class Results, class Result>
void write_list(const Results& results, Result* to, const char* what, std::int64_t capacity,
                std::int64_t* count) {
    announce_count(std::ssize(results), to, capacity, count, what);
    if (to) std::copy(results.begin(), results.end(), to);
}

/// Long texts are cut.
template <std::size_t n>
void write_text(const std::string& text, char (&to)[n]) {
    to[text.copy(to, n - 1)] = 0;
}

inline ScalarType scalar_type(datamover_type type) {
    if (type < DATAMOVER_OPAQUE || type > DATAMOVER_FLOAT8_E5M2)
        throw make_error(ErrorCode::invalid_argument, "element type ", static_cast<int>(type),
                         " is unknown");
    return static_cast<ScalarType>(type);
}

inline Side side_of(datamover_side side) {
    if (side != DATAMOVER_SOURCE && side != DATAMOVER_DESTINATION)
        throw make_error(ErrorCode::invalid_argument, "side is ", static_cast<int>(side),
                         "; it must be DATAMOVER_SOURCE or DATAMOVER_DESTINATION");
    return static_cast<Side>(side);
}

/// The type of elements of a size.
inline ScalarType scalar_type(datamover_type type, std::int64_t elem_bytes) {
    const ScalarType scalar = scalar_type(type);
    const std::int64_t bytes = scalar_bytes(scalar);
    if (elem_bytes < 1 || (bytes != 0 && bytes != elem_bytes))
        throw make_error(
            ErrorCode::wrong_type, "elem_bytes is ", elem_bytes, "; it must be ",
            bytes == 0 ? "at least 1" : std::to_string(bytes) + " for " + scalar_name(scalar));
    return scalar;
}

/// Converts the arguments of a collective call; where that throws on one process, all throw.
template <class Convert>
auto collectively(MPI_Comm comm, Convert&& convert) {
    std::optional<decltype(convert())> converted;
    mpi::collectively(*mpi::ProcessGroup::of(comm), [&] { converted.emplace(convert()); });
    return *std::move(converted);
}

}  // namespace datamover::capi
