// SPDX-License-Identifier: BSD-3-Clause
// Faces that the MPI versions exchange. Each version sends them in its own way. Source: `comm3` of
// NAS MG.
#pragma once

#include "version.hpp"

namespace mg {

// communication: begin

/// The ghosts beyond one end of an axis, and the points that the process there wants. Where the
/// axis is not divided, that is this process itself.
struct Face {
    Box inside, outside;
    int peer = 0;
};

inline std::size_t points(const Box& box) {
    std::int64_t product = 1;
    for (std::size_t d = 0; d < 3; ++d) product *= box.hi[d] - box.lo[d];
    return static_cast<std::size_t>(product);
}

// communication: end

/// Boxes on all levels, and their faces. Ghosts are filled axis by axis.
class Twin : public Version {
public:
    explicit Twin(const Problem& problem) {
        // communication: begin
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        grid_ = problem.grid;
        place_ = {rank_ / (grid_[1] * grid_[2]), rank_ / grid_[2] % grid_[1], rank_ % grid_[2]};
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
            find_faces(level);  // communication
        }
    }

    Field field(Variable variable, int level) const override {
        const Level& l = levels_[static_cast<std::size_t>(level - 1)];
        Field f = l.box;
        const std::vector<double>& memory = l.memory[static_cast<std::size_t>(variable)];
        f.origin = const_cast<double*>(memory.data()) + f.stride_i + f.stride_j + 1;
        return f;
    }

    void update(Variable variable, int level, const Work& compute, apps::Times& times) override {
        const Field f = field(variable, level);
        compute(whole(f));
        // communication: begin
        apps::timed(times.communication, [&] {
            for (const std::size_t d : {2U, 1U, 0U}) exchange(f, level, d, times);
        });
        // communication: end
    }

protected:
    // communication: begin
    /// Fills the ghosts at both ends of an axis.
    virtual void exchange(const Field& f, int level, std::size_t d, apps::Times& times) = 0;

    int levels() const { return static_cast<int>(levels_.size()); }
    const std::array<Face, 2>& faces(int level, std::size_t d) const {
        return levels_[static_cast<std::size_t>(level - 1)].faces[d];
    }
    bool divided(std::size_t d) const { return grid_[d] > 1; }
    // communication: end

private:
    struct Level {
        Field box;
        std::array<std::vector<double>, 2> memory;
        std::array<std::array<Face, 2>, 3> faces;  // communication
    };

    // communication: begin
    /// The rank of the neighbour along an axis; the grid of processes wraps around.
    int neighbour(std::size_t d, std::int64_t step) const {
        Index at = place_;
        at[d] = (at[d] + step + grid_[d]) % grid_[d];
        return static_cast<int>((at[0] * grid_[1] + at[1]) * grid_[2] + at[2]);
    }

    void find_faces(Level& level) const {
        Box all = whole(level.box);
        for (const std::size_t d : {2U, 1U, 0U}) {
            for (std::size_t side = 0; side < 2; ++side) {
                Face& face = level.faces[d][side];
                face.peer = neighbour(d, side == 0 ? -1 : 1);
                face.inside = face.outside = all;
                face.inside.lo[d] = side == 0 ? 0 : level.box.extent[d] - 1;
                face.outside.lo[d] = side == 0 ? -1 : level.box.extent[d];
                face.inside.hi[d] = face.inside.lo[d] + 1;
                face.outside.hi[d] = face.outside.lo[d] + 1;
            }
            // Later axes carry these ghosts on, so that corners arrive.
            all.lo[d] = -1;
            all.hi[d] = level.box.extent[d] + 1;
        }
    }

    int rank_ = 0;
    Index grid_{}, place_{};
    // communication: end
    std::vector<Level> levels_;
};

}  // namespace mg
