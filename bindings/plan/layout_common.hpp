// SPDX-License-Identifier: BSD-3-Clause
// Methods that all layouts have in Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/vector.h>

#include "casters.hpp"
#include "datamover/layout.hpp"

namespace datamover::bindings {

template <class Kind>
void add_common(nanobind::class_<Kind>& c) {
    namespace nb = nanobind;
    using namespace nb::literals;
    c.def_prop_ro(
         "dims", [](const Kind& l) { return l.dims(); }, "Number of dimensions.")
        .def_prop_ro(
            "nprocs", [](const Kind& l) { return l.nprocs(); }, "Number of processes.")
        .def_prop_ro(
            "num_blocks", [](const Kind& l) { return l.num_blocks(); },
            "Number of blocks: the units of local storage, each with one owner.")
        .def_prop_ro(
            "domain", [](const Kind& l) { return Layout(l).domain(); },
            "The index space: all of the shape, or a floor plan's bounding box.")
        .def(
            "owner", [](const Kind& l, std::int64_t block) { return Layout(l).owner(block); },
            "block"_a, "The rank that holds a block. Raises OutOfRange.")
        .def(
            "blocks_of", [](const Kind& l, std::int64_t rank) { return Layout(l).blocks_of(rank); },
            "rank"_a, "The blocks of a rank, ascending. Raises OutOfRange.")
        .def(
            "block_extents",
            [](const Kind& l, std::int64_t block) { return Layout(l).block_extents(block); },
            "block"_a, "The shape of a block's local array. Raises OutOfRange.")
        .def(
            "local_elems",
            [](const Kind& l, std::int64_t rank) { return Layout(l).local_elems(rank); }, "rank"_a,
            "Number of elements that a rank holds. Raises OutOfRange.")
        .def("__eq__", [](const Kind& a, const Kind& b) { return a == b; }, nb::is_operator());
}

}  // namespace datamover::bindings
