// SPDX-License-Identifier: BSD-3-Clause
// Measured transport choices of this program and earlier ones.
#include "tuning_memory.hpp"

#include <mpi.h>

#include "check.hpp"
#include "datamover/version.h"
#include "geometry/word_digest.hpp"
#include "mpi/environment.hpp"

namespace datamover {
namespace {

constexpr std::size_t most_kept = 4096;
/// What begins here begins with a cache line. Where within a line an array begins is another chance
/// in each run of a program whose arrays are NumPy's: only whether it begins with one is told
/// apart.
constexpr std::uintptr_t array_line_bytes = 64;

using geometry::WordDigest;

void put(WordDigest& digest, const std::string& text) {
    for (const char c : text) digest.put(c);
    digest.put(static_cast<std::int64_t>(text.size()));
}

void put(WordDigest& digest, const ArrayPart& part) {
    // A process without elements learns their type from the others.
    if (part.memory.blocks.empty()) return;
    digest.put(part.elem_bytes);
    digest.put(static_cast<std::int64_t>(part.type));
    digest.put(part.allocation && part.allocation->segment);
    digest.put(reinterpret_cast<std::uintptr_t>(part.base) % array_line_bytes == 0);
    for (const BlockMemory& block : part.memory.blocks) {
        digest.put(block.block);
        digest.put(block.offset_bytes);
        for (int d = 0; d < block.valid.dims(); ++d) {
            digest.put(block.strides_bytes[d]);
            digest.put(block.valid.extent(d));
        }
    }
}

/// Of the machine and the software that moves.
std::int64_t system_digest() {
    static const std::int64_t made = [] {
        WordDigest digest;
        char text[MPI_MAX_LIBRARY_VERSION_STRING];
        int length = 0;
        if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) length = 0;
        put(digest, std::string(text, static_cast<std::size_t>(length)));
        put(digest, DATAMOVER_VERSION);
        digest.put(mpi::count(mpi::usable_processors()));
        return digest.value();
    }();
    return made;
}

}  // namespace

std::int64_t text_digest(const std::string& text) {
    WordDigest digest;
    put(digest, text);
    return digest.value() | 1;
}

std::int64_t tuning_key(const mpi::ProcessGroup& group, const Moves& moves,
                        const MoverOptions& options) {
    WordDigest digest;
    digest.put(system_digest());
    digest.put(transport::transport_kinds_digest());
    digest.put(digest_of(moves));
    digest.put(moves.phases);
    digest.put(static_cast<std::int64_t>(options.op));
    digest.put(options.alpha != 1.0 || options.conjugate);
    digest.put(options.max_bytes);
    digest.put(group.size());
    digest.put(group.rank());
    digest.put(group.peers_readable());
    for (const int rank : group.node_ranks()) digest.put(rank);
    for (const Motion& motion : moves.motions)
        for (const Side side : both_sides) put(digest, motion.array[side]);
    return digest.value();
}

TuningMemory& TuningMemory::of_process() {
    static auto* memory = new TuningMemory;
    return *memory;
}

std::string TuningMemory::find(const mpi::ProcessGroup& group, const Moves& moves,
                               const MoverOptions& options) const {
    const std::lock_guard lock(mutex_);
    if (fastest_.empty()) return {};
    const auto found = fastest_.find(tuning_key(group, moves, options));
    return found == fastest_.end() ? std::string() : found->second;
}

void TuningMemory::keep(const mpi::ProcessGroup& group, const Moves& moves,
                        const MoverOptions& options, const std::string& transports) {
    const std::lock_guard lock(mutex_);
    if (fastest_.size() >= most_kept) fastest_.clear();
    fastest_[tuning_key(group, moves, options)] = transports;
}

}  // namespace datamover
