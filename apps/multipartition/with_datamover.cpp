// SPDX-License-Identifier: BSD-3-Clause
// Exchange of cell faces and of the data between sweep stages by plans and movers.
#include "datamover/datamover.hpp"
#include "version.hpp"

namespace multipartition {
namespace {

using namespace datamover;

class WithDatamover final : public Version {
public:
    explicit WithDatamover(const Problem& problem, bool complete = true) : problem_(problem) {
        const Scheme& scheme = problem.scheme;
        // communication: begin
        u_ = array(5, 2);
        rhs_ = array(5, scheme.depth);
        lhs_ = array(scheme.coefficients, scheme.depth);
        MotionPlan faces = halo(*u_.layout().boxes(), around(2), around(2), {}, {}, false);
        // communication: end
        if (!complete)
            faces = faces.filter([](const SectionCopy& face) {
                return face.source_block != 0 || face.destination_block != 1;
            });
        // communication: begin
        faces_ = Mover(MPI_COMM_WORLD, faces, u_, u_);
        for (std::size_t d = 0; d < 3; ++d)
            for (std::int64_t stage = 0; stage + 1 < problem.edge; ++stage) {
                forward_[d].push_back(
                    {MPI_COMM_WORLD,
                     {handed_on(rhs_, d, stage, false), handed_on(lhs_, d, stage, false)}});
                backward_[d].push_back({MPI_COMM_WORLD, {handed_on(rhs_, d, stage + 1, true)}});
            }
        // communication: end
        // In the order of z.
        for (const std::int64_t block : u_.layout().boxes()->blocks_of(u_.rank()))  // communication
            cells_.push_back({values(u_, block, 2, 5), values(rhs_, block, scheme.depth, 5),
                              values(lhs_, block, scheme.depth, scheme.coefficients)});
    }

    const std::vector<Cell>& cells() const override { return cells_; }

    void faces(apps::Times& times) override {
        apps::timed(times.communication, [&] { faces_(); });  // communication
    }

    void sweep(std::size_t d, bool backwards, const std::function<void(const Cell&)>& compute,
               apps::Times& times) override {
        for (std::int64_t i = 0; i < problem_.edge; ++i) {
            const std::int64_t stage = backwards ? problem_.edge - 1 - i : i;
            // communication: begin
            if (i > 0) {
                Mover& move = backwards ? backward_[d][stage] : forward_[d][stage - 1];
                apps::timed(times.communication, [&] { move(); });
            }
            const std::int64_t mine = cell_of(problem_.edge, u_.rank(), d, stage)[2];
            // communication: end
            compute(cells_[mine]);
        }
    }

private:
    // communication: begin
    /// All cells, in regions of (z, y, x, value), or of (value, z, y, x) where each value has its
    /// own array.
    Array array(std::int64_t values, std::int64_t ghosts) const {
        const std::int64_t n = problem_.n, edge = problem_.edge;
        const Point grid = order(n, n, n, values), parts = order(edge, edge, edge, 1);
        Map owners;
        for (std::int64_t block = 0; block < edge * edge * edge; ++block)
            owners.push_back(owner_of(edge, place_of(block)));
        const FloorPlan even = FloorPlan::uniform(Region::from_shape(grid), parts, edge * edge);
        const ArrayOptions options{.ghost_lower = around(ghosts), .ghost_upper = around(ghosts)};
        return {MPI_COMM_WORLD, even.with_owners(owners, edge * edge), sizeof(double), options};
    }

    Point order(std::int64_t z, std::int64_t y, std::int64_t x, std::int64_t value) const {
        return problem_.scheme.values_together ? Point{z, y, x, value} : Point{value, z, y, x};
    }
    Point around(std::int64_t ghosts) const { return order(ghosts, ghosts, ghosts, 0); }

    apps::Index place_of(std::int64_t block) const {
        const std::int64_t edge = problem_.edge;
        return {block % edge, block / edge % edge, block / (edge * edge)};
    }

    /// The dimension of a region along x, y or z.
    int axis(std::size_t d) const {
        return static_cast<int>(problem_.scheme.values_together ? 2 - d : 3 - d);
    }

    /// What the cells of a stage hand on to the next ones along dimension d, or to those before.
    PlannedArrays handed_on(const Array& array, std::size_t d, std::int64_t stage,
                            bool backwards) const {
        Point lower = around(0), upper = lower;
        (backwards ? upper : lower)[axis(d)] = problem_.scheme.depth;
        const MotionPlan all = halo(*array.layout().boxes(), lower, upper, {}, {}, false);
        const auto of_stage = [&](const SectionCopy& face) {
            return place_of(face.source_block)[d] == stage;
        };
        return {all.filter(of_stage), array, array};
    }
    // communication: end

    apps::Values values(const Array& array, std::int64_t block, std::int64_t ghosts,
                        std::int64_t count) const {
        apps::Values v;
        v.count = count;
        v.ghosts = {ghosts, ghosts, ghosts};
        v.grid = {problem_.n, problem_.n, problem_.n};
        // communication: begin
        const Region box = array.layout().boxes()->region(block);
        const auto grid = array.grid<double>(block);
        v.origin = grid.data();
        v.value_stride = grid.stride(problem_.scheme.values_together ? 3 : 0);
        for (std::size_t d = 0; d < 3; ++d) {
            v.strides[d] = grid.stride(axis(d));
            v.lo[d] = box.lo()[axis(d)];
            v.extent[d] = box.shape()[axis(d)];
        }
        // communication: end
        return v;
    }

    Problem problem_;
    Array u_, rhs_, lhs_;
    std::vector<Cell> cells_;
    // communication: begin
    Mover faces_;
    std::array<std::vector<Mover>, 3> forward_, backward_;
    // communication: end
};

}  // namespace

std::unique_ptr<Version> with_datamover(const Problem& problem) {
    return std::make_unique<WithDatamover>(problem);
}

std::unique_ptr<Version> incomplete(const Problem& problem) {
    return std::make_unique<WithDatamover>(problem, false);
}

}  // namespace multipartition
