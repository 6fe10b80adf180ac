// SPDX-License-Identifier: BSD-3-Clause
// Python bindings: arrays in shared MPI windows.
#include "datamover/shared_window.hpp"

#include <memory>

#include "module.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace datamover::bindings {
namespace {

/// Keeps the memory known.
struct WindowMemory {
    std::shared_ptr<const void> memory;
};

}  // namespace

void bind_windows(nb::module_& m) {
    nb::class_<WindowMemory>(m, "WindowMemory", "Memory of a shared window, known as such.");
    m.def(
        "in_window",
        [](std::uintptr_t window, std::uintptr_t address, std::int64_t bytes) {
            return WindowMemory{in_window(*reinterpret_cast<MPI_Win*>(window),
                                          reinterpret_cast<void*>(address), bytes)};
        },
        "window_address"_a, "address"_a, "bytes"_a,
        "Makes known that bytes of this process lie in a shared window. Local.");
}

}  // namespace datamover::bindings
