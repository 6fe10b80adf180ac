// SPDX-License-Identifier: BSD-3-Clause
// Lanes: elements between this process and others in one operation of a migration.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "migration_state.hpp"
#include "mpi/part_messages.hpp"

namespace datamover::distribute {

/// The elements that one process sends here, portion by portion.
struct LaneSource {
    int rank = 0, position = -1;  ///< on the node
    std::int64_t left = 0;        ///< elements that have not come
    std::int64_t elems = 0;       ///< of the portion that comes now
    /// Addresses of the portion's parts in the sender's memory; empty if they came in a message.
    std::vector<const std::byte*> places{};
    std::optional<std::size_t> message{};
};

/// Memory that a message is received into.
struct LaneRoom {
    std::vector<mpi::Part> parts;
    std::shared_ptr<const void> memory;
};

/// The lanes of one operation. On a node the receiver reads elements where they lie, if shared
/// memory reaches them; else they go in a message. Never waits.
class Lanes {
public:
    /// `elem_bytes`: of an element that comes, in all columns. `in_portions`: it cannot be known
    /// how many come at once.
    Lanes(State& state, NodeSlot& slot, std::int64_t elem_bytes, bool in_portions)
        : s_(state),
          slot_(slot),
          elem_bytes_(elem_bytes),
          in_portions_(in_portions),
          sends_(*state.group, slot.tag()),
          receives_(*state.group, slot.tag()) {}

    /// Gives elements to a process, as parts in `memory`, which stay as they are until all are
    /// taken.
    void give(int rank, std::int64_t elems, std::span<const mpi::Part> parts,
              std::shared_ptr<const void> memory);
    /// Whether all that was given has been taken.
    bool all_taken();

    /// Sets how many elements come from each other process, by rank.
    void expect(std::span<const std::int64_t> elems) {
        for (int r = 0; r < s_.nprocs(); ++r)
            if (r != s_.rank())
                sources_.push_back(
                    {r, s_.channel->position(r), elems[static_cast<std::size_t>(r)]});
    }
    /// Takes what has come: use(source) has the elements of a portion, for which room(source) gives
    /// a LaneRoom if they come in a message. `in_order`: those of a process only after all of those
    /// before it. True when everything has come.
    template <class Room, class Use>
    bool take(bool in_order, Room&& room, Use&& use) {
        bool all = true;
        for (LaneSource& source : sources_) {
            if (source.left > 0 && has_come(source, room)) {
                use(source);
                source.left -= source.elems;
                if (source.position >= 0) taken_from_.push_back(source.position);
            }
            all = all && source.left == 0;
            if (!all && in_order) break;
        }
        return all;
    }
    /// Tells the processes of the node that what was taken of them is not looked at any more.
    void acknowledge();

    /// Ranks that this process waits for.
    std::vector<std::int64_t> waiting_for() const;

private:
    template <class Room>
    bool has_come(LaneSource& source, Room& room) {
        if (!source.message) {
            if (!looks_ahead(source)) return false;
            if (source.elems == 0 || !source.places.empty()) return source.elems > 0;
            const LaneRoom found = room(source);
            source.message = receives_.receive(found.parts, source.rank, found.memory);
        }
        if (!receives_.is_complete(*source.message)) return false;
        source.message.reset();
        return true;
    }
    /// Whether it is known how many elements come next; none where they have been written to where
    /// they were wanted.
    bool looks_ahead(LaneSource& source);

    State& s_;
    NodeSlot& slot_;
    std::int64_t elem_bytes_;
    bool in_portions_;
    mpi::Messages sends_, receives_;
    std::vector<LaneSource> sources_;
    std::vector<int> readers_, taken_from_;  ///< positions on the node
};

}  // namespace datamover::distribute
