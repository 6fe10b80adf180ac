// SPDX-License-Identifier: BSD-3-Clause
// How do ghosts of each level travel by persistent MPI requests, axis by axis, packed and unpacked
// by loops? Source: `comm3` of NAS MG.
#include <cstring>

#include "version.hpp"

namespace mg {
namespace {

// communication: begin

/// The ghosts beyond one end of an axis, and the points that the process there wants.
struct Face {
    Box inside, outside;
    std::vector<double> outgoing, incoming;
};

/// Both ends of an axis. Where the axis is not divided, the box is its own neighbour.
struct Axis {
    bool divided = false;
    std::array<Face, 2> faces;
    std::array<MPI_Request, 2> sends{}, receives{};
};

std::size_t points(const Box& box) {
    std::int64_t product = 1;
    for (std::size_t d = 0; d < 3; ++d) product *= box.hi[d] - box.lo[d];
    return static_cast<std::size_t>(product);
}

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

class ByHand final : public Version {
public:
    explicit ByHand(const Problem& problem) {
        // communication: begin
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        grid_ = problem.grid;
        place_ = {rank_ / (grid_[1] * grid_[2]), rank_ / grid_[2] % grid_[1], rank_ % grid_[2]};
        levels_.reserve(static_cast<std::size_t>(problem.levels));
        // communication: end
        for (int l = 1; l <= problem.levels; ++l) {
            Level& level = levels_.emplace_back();
            Field& box = level.box;
            box.extent = {problem.edge(l), problem.edge(l), problem.edge(l)};
            // communication: begin
            for (std::size_t d = 0; d < 3; ++d) {
                box.extent[d] /= grid_[d];
                box.lo[d] = place_[d] * box.extent[d];
            }
            // communication: end
            box.stride_j = box.extent[2] + 2;
            box.stride_i = (box.extent[1] + 2) * box.stride_j;
            for (std::vector<double>& memory : level.memory)
                memory.resize(static_cast<std::size_t>((box.extent[0] + 2) * box.stride_i));
            connect(level);  // communication
        }
    }

    // communication: begin
    ~ByHand() override {
        for (Level& level : levels_)
            for (Axis& axis : level.axes)
                for (std::size_t side = 0; axis.divided && side < 2; ++side) {
                    MPI_Request_free(&axis.sends[side]);
                    MPI_Request_free(&axis.receives[side]);
                }
    }
    ByHand(const ByHand&) = delete;
    ByHand& operator=(const ByHand&) = delete;
    // communication: end

    Field field(Array array, int level) const override {
        const Level& l = levels_[static_cast<std::size_t>(level - 1)];
        Field f = l.box;
        const std::vector<double>& memory = l.memory[static_cast<std::size_t>(array)];
        f.origin = const_cast<double*>(memory.data()) + f.stride_i + f.stride_j + 1;
        return f;
    }

    void update(Array array, int level, const Work& compute, apps::Times& times) override {
        const Field f = field(array, level);
        compute(whole(f));
        // communication: begin
        Level& l = levels_[static_cast<std::size_t>(level - 1)];
        apps::timed(times.communication, [&] {
            for (const std::size_t d : {2U, 1U, 0U}) exchange(f, l.axes[d], times);
        });
        // communication: end
    }

private:
    struct Level {
        Field box;
        std::array<std::vector<double>, 2> memory;
        std::array<Axis, 3> axes;  // communication
    };

    // communication: begin
    /// The rank of the neighbour along an axis; the grid of processes wraps around.
    int neighbour(std::size_t d, std::int64_t step) const {
        Index at = place_;
        at[d] = (at[d] + step + grid_[d]) % grid_[d];
        return static_cast<int>((at[0] * grid_[1] + at[1]) * grid_[2] + at[2]);
    }

    void connect(Level& level) {
        Box all = whole(level.box);
        for (const std::size_t d : {2U, 1U, 0U}) {
            Axis& axis = level.axes[d];
            axis.divided = grid_[d] > 1;
            for (std::size_t side = 0; side < 2; ++side) {
                Face& face = axis.faces[side];
                face.inside = face.outside = all;
                face.inside.lo[d] = side == 0 ? 0 : level.box.extent[d] - 1;
                face.outside.lo[d] = side == 0 ? -1 : level.box.extent[d];
                face.inside.hi[d] = face.inside.lo[d] + 1;
                face.outside.hi[d] = face.outside.lo[d] + 1;
                if (axis.divided) connect(axis, d, side);
            }
            // Later axes carry these ghosts on, so that corners arrive.
            all.lo[d] = -1;
            all.hi[d] = level.box.extent[d] + 1;
        }
    }

    void connect(Axis& axis, std::size_t d, std::size_t side) {
        Face& face = axis.faces[side];
        face.outgoing.resize(points(face.inside));
        face.incoming.resize(points(face.outside));
        const int peer = neighbour(d, side == 0 ? -1 : 1), tag = static_cast<int>(side);
        const int count = static_cast<int>(face.outgoing.size());
        MPI_Send_init(face.outgoing.data(), count, MPI_DOUBLE, peer, tag, MPI_COMM_WORLD,
                      &axis.sends[side]);
        MPI_Recv_init(face.incoming.data(), count, MPI_DOUBLE, peer, 1 - tag, MPI_COMM_WORLD,
                      &axis.receives[side]);
    }

    static void exchange(const Field& f, Axis& axis, apps::Times& times) {
        if (!axis.divided) {
            apps::timed(times.pack, [&] {
                copy(f, axis.faces[0].inside, axis.faces[1].outside);
                copy(f, axis.faces[1].inside, axis.faces[0].outside);
            });
            return;
        }
        MPI_Startall(2, axis.receives.data());
        for (std::size_t side = 0; side < 2; ++side) {
            Face& face = axis.faces[side];
            apps::timed(times.pack, [&] { pack(f, face.inside, face.outgoing.data()); });
            MPI_Start(&axis.sends[side]);
        }
        for (int arrived = 0; arrived < 2; ++arrived) {
            int side = 0;
            apps::timed(times.wait,
                        [&] { MPI_Waitany(2, axis.receives.data(), &side, MPI_STATUS_IGNORE); });
            const Face& face = axis.faces[static_cast<std::size_t>(side)];
            apps::timed(times.pack, [&] { unpack(f, face.outside, face.incoming.data()); });
        }
        apps::timed(times.wait, [&] { MPI_Waitall(2, axis.sends.data(), MPI_STATUSES_IGNORE); });
    }

    int rank_ = 0;
    Index grid_{}, place_{};
    // communication: end
    std::vector<Level> levels_;
};

}  // namespace

std::unique_ptr<Version> by_hand(const Problem& problem) {
    return std::make_unique<ByHand>(problem);
}

}  // namespace mg
