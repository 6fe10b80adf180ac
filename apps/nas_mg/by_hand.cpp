// SPDX-License-Identifier: BSD-3-Clause
// Ghost exchange of each level by persistent MPI requests, axis by axis, packed and unpacked by
// loops. Source: `comm3` of NAS MG.
#include <cstring>

#include "twin.hpp"

namespace mg {
namespace {

// communication: begin

void pack(const Field& f, const Box& box, double* buffer) {
    const std::int64_t width = box.hi[2] - box.lo[2];
    for (std::int64_t i = box.lo[0]; i < box.hi[0]; ++i) {
        const double* from = f.row(i, box.lo[1]) + box.lo[2];
        for (std::int64_t j = box.lo[1]; j < box.hi[1]; ++j, from += f.stride_j, buffer += width)
            if (width == 1)
                *buffer = *from;
            else
                std::memcpy(buffer, from, static_cast<std::size_t>(width) * sizeof(double));
    }
}

void unpack(const Field& f, const Box& box, const double* buffer) {
    const std::int64_t width = box.hi[2] - box.lo[2];
    for (std::int64_t i = box.lo[0]; i < box.hi[0]; ++i) {
        double* to = f.row(i, box.lo[1]) + box.lo[2];
        for (std::int64_t j = box.lo[1]; j < box.hi[1]; ++j, to += f.stride_j, buffer += width)
            if (width == 1)
                *to = *buffer;
            else
                std::memcpy(to, buffer, static_cast<std::size_t>(width) * sizeof(double));
    }
}

/// From the inside of one face to the ghosts of another of the same box.
void copy(const Field& f, const Box& inside, const Box& outside) {
    const std::int64_t width = inside.hi[2] - inside.lo[2];
    const std::int64_t step_i = outside.lo[0] - inside.lo[0], step_j = outside.lo[1] - inside.lo[1];
    for (std::int64_t i = inside.lo[0]; i < inside.hi[0]; ++i) {
        const double* from = f.row(i, inside.lo[1]) + inside.lo[2];
        double* to = f.row(i + step_i, inside.lo[1] + step_j) + outside.lo[2];
        for (std::int64_t j = inside.lo[1]; j < inside.hi[1]; ++j) {
            if (width == 1)
                *to = *from;
            else
                std::memcpy(to, from, static_cast<std::size_t>(width) * sizeof(double));
            from += f.stride_j;
            to += f.stride_j;
        }
    }
}

// communication: end

class ByHand final : public Twin {
public:
    explicit ByHand(const Problem& problem) : Twin(problem) {
        // communication: begin
        for (int level = 1; level <= levels(); ++level)
            for (std::size_t d = 0; d < 3; ++d)
                connect(axes_.emplace_back(), faces(level, d), divided(d));
        // communication: end
    }

    // communication: begin
    ~ByHand() override {
        for (Axis& axis : axes_)
            for (std::size_t side = 0; axis.divided && side < 2; ++side) {
                MPI_Request_free(&axis.sends[side]);
                MPI_Request_free(&axis.receives[side]);
            }
    }
    ByHand(const ByHand&) = delete;
    ByHand& operator=(const ByHand&) = delete;

private:
    /// The buffers and requests for both ends of an axis.
    struct Axis {
        bool divided = false;
        std::array<std::vector<double>, 2> outgoing, incoming;
        std::array<MPI_Request, 2> sends{}, receives{};
    };

    static void connect(Axis& axis, const std::array<Face, 2>& faces, bool divided) {
        axis.divided = divided;
        for (std::size_t side = 0; divided && side < 2; ++side) {
            axis.outgoing[side].resize(points(faces[side].inside));
            axis.incoming[side].resize(points(faces[side].outside));
            const int tag = static_cast<int>(side), peer = faces[side].peer;
            const int count = static_cast<int>(axis.outgoing[side].size());
            MPI_Send_init(axis.outgoing[side].data(), count, MPI_DOUBLE, peer, tag, MPI_COMM_WORLD,
                          &axis.sends[side]);
            MPI_Recv_init(axis.incoming[side].data(), count, MPI_DOUBLE, peer, 1 - tag,
                          MPI_COMM_WORLD, &axis.receives[side]);
        }
    }

    void exchange(const Field& f, int level, std::size_t d, apps::Times& times) override {
        const std::array<Face, 2>& ends = faces(level, d);
        Axis& axis = axes_[static_cast<std::size_t>(3 * (level - 1)) + d];
        if (!axis.divided) {
            apps::timed(times.pack, [&] {
                copy(f, ends[0].inside, ends[1].outside);
                copy(f, ends[1].inside, ends[0].outside);
            });
            return;
        }
        MPI_Startall(2, axis.receives.data());
        for (std::size_t side = 0; side < 2; ++side) {
            apps::timed(times.pack,
                        [&] { pack(f, ends[side].inside, axis.outgoing[side].data()); });
            MPI_Start(&axis.sends[side]);
        }
        for (std::size_t side = 0; side < 2; ++side) {
            apps::timed(times.wait, [&] { MPI_Wait(&axis.receives[side], MPI_STATUS_IGNORE); });
            apps::timed(times.pack,
                        [&] { unpack(f, ends[side].outside, axis.incoming[side].data()); });
        }
        apps::timed(times.wait, [&] { MPI_Waitall(2, axis.sends.data(), MPI_STATUSES_IGNORE); });
    }

    std::vector<Axis> axes_;  // of each level
    // communication: end
};

}  // namespace

std::unique_ptr<Version> by_hand(const Problem& problem) {
    return std::make_unique<ByHand>(problem);
}

}  // namespace mg
