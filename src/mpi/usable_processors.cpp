// SPDX-License-Identifier: BSD-3-Clause
// Processors that this process may run on.
#include "mpi/usable_processors.hpp"

#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#endif

#include <bit>
#include <cstddef>
#include <tuple>

namespace datamover::mpi {
namespace {

constexpr int word_bits = 64;

void add(ProcessorSet& processors, int number) {
    processors[static_cast<std::size_t>(number / word_bits)] |= std::uint64_t{1}
                                                                << number % word_bits;
}

}  // namespace

ProcessorSet usable_processors() {
    ProcessorSet usable{};
    constexpr int most = word_bits * static_cast<int>(std::tuple_size_v<ProcessorSet>);
#ifdef __linux__
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        for (int n = 0; n < most && n < CPU_SETSIZE; ++n)
            if (CPU_ISSET(n, &allowed)) add(usable, n);
        return usable;
    }
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    for (int n = 0; n < most && n < online; ++n) add(usable, n);
    return usable;
}

std::int64_t count(const ProcessorSet& processors) {
    std::int64_t found = 0;
    for (const std::uint64_t word : processors) found += std::popcount(word);
    return found;
}

}  // namespace datamover::mpi
