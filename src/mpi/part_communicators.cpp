// SPDX-License-Identifier: BSD-3-Clause
// Communicators of parts of a group, such as the rows of a process grid.
#include "part_communicators.hpp"

#include <algorithm>
#include <utility>

#include "checked_call.hpp"
#include "geometry/word_digest.hpp"

namespace datamover::mpi {
namespace {

/// Sums of such numbers differ if a process has another part.
std::uint64_t mixed(std::uint64_t word) {
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
    return word ^ (word >> 31);
}

}  // namespace

PartCommunicator::PartCommunicator(const ProcessGroup& group, int part) {
    check(MPI_Comm_split(group.comm(), part, group.rank(), &comm_), "MPI_Comm_split");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

PartCommunicator::~PartCommunicator() {
    if (comm_ != MPI_COMM_NULL && is_running()) MPI_Comm_free(&comm_);
}

/// The communicator that is kept for a digest, or null.
std::shared_ptr<const PartCommunicator> PartCommunicators::find(std::uint64_t digest) {
    const auto known =
        std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.digest == digest; });
    if (known == entries_.end()) return nullptr;
    std::rotate(known, known + 1, entries_.end());
    return entries_.back().communicator;
}

/// Drops the communicator that has not been used for the longest time, of those that no process
/// uses. False if all are in use.
bool PartCommunicators::make_room(const ProcessGroup& group) {
    if (entries_.size() < most) return true;
    std::vector<std::int64_t> used;
    for (const Entry& entry : entries_) used.push_back(entry.communicator.use_count() > 1);
    used = group.maximum(std::move(used));
    const auto unused = std::ranges::find(used, 0);
    if (unused == used.end()) return false;
    entries_.erase(entries_.begin() + (unused - used.begin()));
    return true;
}

std::shared_ptr<const PartCommunicator> PartCommunicators::of(const ProcessGroup& group, int part) {
    const auto kept =
        group.extension<PartCommunicators>([] { return std::make_shared<PartCommunicators>(); });
    geometry::WordDigest words;
    words.put(group.rank());
    words.put(part);
    const std::uint64_t digest = group.sum(mixed(static_cast<std::uint64_t>(words.value())));
    if (auto known = kept->find(digest)) return known;
    if (!kept->make_room(group)) return nullptr;
    std::shared_ptr<const PartCommunicator> made;
    // MPI makes communicators in a call that cannot be abandoned, so no process enters it before
    // all others have arrived: one whose reduction failed does not, and has notified the others.
    // On one node that takes no call of MPI, which could fail in turn.
    group.all_equal(0);
    collectively(group, [&] { made = std::make_shared<PartCommunicator>(group, part); });
    kept->entries_.push_back({digest, made});
    return made;
}

}  // namespace datamover::mpi
