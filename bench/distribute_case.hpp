// SPDX-License-Identifier: BSD-3-Clause
// Elements and targets of Examples A, B and C of the paper on distribution.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace bench {

/// The paper's particle; its last four bytes would be padding and hold where it comes from.
struct Particle {
    double pos[3];
    double q;
    double vel[3];
    std::int32_t tproc;
    std::int32_t home;
};
static_assert(sizeof(Particle) == 64);

/// Elements of one process as bytes, and where in each its target stands.
struct Elements {
    std::vector<std::byte> bytes;
    std::int64_t elem_bytes = 0;
    std::int64_t target_offset_bytes = 0;

    std::int64_t count() const { return static_cast<std::int64_t>(bytes.size()) / elem_bytes; }
};

/// Example A: integers that are their own targets.
Elements integers(std::int64_t count, int rank, int nprocs);
/// Example B: particles anywhere in the unit cube, 8^6 cells in Z order dealt to processes.
Elements particles(std::int64_t count, int rank, int nprocs);
/// Example C: particles that each lie in a cell of this process, then have moved by up to half a
/// cell in every dimension, around the periodic cube; `home` is this process.
Elements moved_particles(std::int64_t count, int rank, int nprocs);

}  // namespace bench
