// SPDX-License-Identifier: BSD-3-Clause
// Pattern of a case, both as plans of the library and as hand-written transfers.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "datamover/memory_layout.hpp"
#include "datamover/motion_plan.hpp"
#include "transports_piece.hpp"

namespace bench {

/// One array to another (or to itself) in the library's terms. Hand-written contenders have memory
/// of the same layout: dense, from offset 0 on.
struct ArrayMotion {
    datamover::MotionPlan plan;
    std::int64_t elem_bytes = 8;
    datamover::ElementOrder order = datamover::ElementOrder::row_major;
    datamover::Point ghost{};
    bool in_place = false;
};

/// What a process exchanges with a peer (which may be itself) in a step: pieces of the arrays that
/// the step's motions come from, and of those that they go to.
struct Transfer {
    int peer = 0;
    std::vector<Piece> sent, received;
};

/// Steps follow each other: an exchange has one, a ping-pong two. All arrays of a step go at once,
/// in one message per pair of processes.
struct Pattern {
    std::string name;
    std::vector<std::vector<ArrayMotion>> steps;
    std::function<std::vector<Transfer>(std::size_t step, int rank)> transfers;
};

/// Reads the next case as the harness writes them (transport_cases.py). Throws runtime_error for
/// one that is cut off or of a kind that is not known.
std::optional<Pattern> read_pattern(std::istream& in, int processes);

}  // namespace bench
