// SPDX-License-Identifier: BSD-3-Clause
// Python bindings: index lists of which each process passes its own.
#include "datamover/index_lists.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <span>
#include <string>
#include <vector>

#include "casters.hpp"
#include "errors.hpp"
#include "interpreter_lock.hpp"
#include "module.hpp"
#include "numpy_arrays.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace datamover::bindings {
namespace {

struct OwnLists {
    Point shape;
    std::vector<std::vector<std::int64_t>> lists;
    std::vector<Layout> partners;
};

std::vector<IndexList> make(std::uintptr_t comm, const OwnLists& own) {
    const Unlocked released;
    const std::vector<std::span<const std::int64_t>> mine(own.lists.begin(), own.lists.end());
    return index_lists(comm_at(comm), own.shape, mine, own.partners);
}

}  // namespace

/// Arguments are read first, where nothing is collective yet: what is wrong with them is told by
/// refuse_index_lists.
void bind_index_lists(nb::module_& m) {
    nb::class_<OwnLists>(m, "OwnLists", "This process's lists, and the layouts that they meet.")
        .def(
            "__init__",
            [](OwnLists* self, const Point& shape, const nb::list& lists,
               const std::vector<Layout>& partners) {
                std::vector<std::vector<std::int64_t>> read;
                for (nb::handle list : lists)
                    read.push_back(Integers(list, "indices of a list").to_vector());
                new (self) OwnLists{shape, std::move(read), partners};
            },
            "shape"_a, "lists"_a, "partners"_a)
        .def(
            "make", [](const OwnLists& own, std::uintptr_t comm) { return make(comm, own); },
            "comm_address"_a, "The layouts. Collective.");
    m.def(
        "refuse_index_lists",
        [](std::uintptr_t comm, const std::string& code, const std::string& message) {
            refuse_index_lists(comm_at(comm), Error(error_code_from_name(code), message));
        },
        "comm_address"_a, "code"_a, "message"_a, nb::call_guard<Unlocked>(),
        "Takes part in a making of index lists as one that cannot. Collective.");
}

}  // namespace datamover::bindings
