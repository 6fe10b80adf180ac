// SPDX-License-Identifier: BSD-3-Clause
// Integer types of BLACS and ScaLAPACK (32 and 64 bits).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace datamover {

/// Those of the ScaLAPACK that the program is linked with: 64 bits in datamover_scalapack_ilp64.
#ifdef DATAMOVER_ILP64
using BlacsInt = std::int64_t;
#else
using BlacsInt = int;
#endif

/// A number that does not fit becomes -1, which every argument is refused for on all processes.
inline int narrow(BlacsInt value) {
    return std::in_range<int>(value) ? static_cast<int>(value) : -1;
}

/// The entries of a descriptor as int, while this lives.
class Entries {
public:
    explicit Entries(const BlacsInt* descriptor) {
        if (!descriptor) return;
        for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i] = narrow(descriptor[i]);
        begin_ = entries_.data();
    }
    Entries(const Entries&) = delete;
    Entries& operator=(const Entries&) = delete;
    operator const int*() const { return begin_; }

private:
    std::array<int, 9> entries_{};
    const int* begin_ = nullptr;
};

}  // namespace datamover
