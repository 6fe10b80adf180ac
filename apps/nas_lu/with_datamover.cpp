// SPDX-License-Identifier: BSD-3-Clause
// Exchange of faces and of the pencils of sweeps by plans and movers.
#include <array>

#include "datamover/datamover.hpp"
#include "version.hpp"

namespace lu {
namespace {

using namespace datamover;

class WithDatamover final : public Version {
public:
    explicit WithDatamover(const Problem& problem, bool complete = true) : problem_(problem) {
        // communication: begin
        const Point processes{1, problem.columns, problem.rows}, one{0, 1, 1}, none{0, 0, 0};
        const Region grid = Region::from_shape(Point::filled(3, problem.n));
        boxes_ = FloorPlan::uniform(grid, processes, processes.product());
        u_ = array(two_);
        rsd_ = array(one);
        MotionPlan faces = halo(boxes_, two_, two_, {}, {}, false);
        // communication: end
        if (!complete)
            faces = faces.filter([](const SectionCopy& face) {
                return face.source_block != 0 || face.destination_block != 1;
            });
        // communication: begin
        faces_ = Mover(MPI_COMM_WORLD, faces, u_, u_);
        const MotionPlan from_below = halo(boxes_, one, none, {}, {}, false);
        const MotionPlan from_above = halo(boxes_, none, one, {}, {}, false);
        // Through slots or messages, after which the sender computes on; a direct copy would have
        // it wait for those behind it.
        const MoverOptions ahead{.transport = "staged+p2p"};
        for (std::int64_t step = 0; step < steps(); ++step) {
            const MotionPlan up = front(from_below, Sweep::up, step);
            const MotionPlan down = front(from_above, Sweep::down, step);
            up_.emplace_back(MPI_COMM_WORLD, up, rsd_, rsd_, ahead);
            down_.emplace_back(MPI_COMM_WORLD, down, rsd_, rsd_, ahead);
        }
        // communication: end
    }

    apps::Values u() const override { return values(u_, 2); }
    apps::Values rsd() const override { return values(rsd_, 1); }

    void faces(apps::Times& times) override {
        apps::timed(times.communication, [&] { faces_(); });  // communication
    }

    void sweep(Sweep way, const std::function<void(std::int64_t)>& compute,
               apps::Times& times) override {
        // communication: begin
        for (std::int64_t step = 0; step < steps(); ++step) {
            apps::timed(times.communication, [&] { (way == Sweep::up ? up_ : down_)[step](); });
            const std::int64_t z = plane(u_.rank(), way, step);
            if (z >= 0 && z < problem_.n) compute(z);
        }
        // communication: end
    }

private:
    // communication: begin
    Array array(const Point& ghosts) const {
        const ArrayOptions options{.ghost_lower = ghosts, .ghost_upper = ghosts};
        return {MPI_COMM_WORLD, boxes_, 5 * sizeof(double), options};
    }
    // communication: end

    apps::Values values(const Array& array, std::int64_t ghosts) const {
        // communication: begin
        const Region box = boxes_.region(array.rank());
        const auto grid = array.grid<std::array<double, 5>>(array.rank());
        // communication: end
        apps::Values v;
        v.count = 5;
        v.grid = {problem_.n, problem_.n, problem_.n};
        v.ghosts = {ghosts, ghosts, 0};
        // communication: begin
        v.origin = grid.data()->data();
        v.strides = {5 * grid.stride(2), 5 * grid.stride(1), 5 * grid.stride(0)};
        v.lo = {box.lo()[2], box.lo()[1], box.lo()[0]};
        v.extent = {box.shape()[2], box.shape()[1], box.shape()[0]};
        // communication: end
        return v;
    }

    // communication: begin
    /// A sweep goes through the processes as a front: each is a plane behind those before it.
    std::int64_t steps() const { return problem_.n + problem_.rows + problem_.columns - 2; }
    std::int64_t plane(std::int64_t rank, Sweep way, std::int64_t step) const {
        const std::int64_t behind = rank % problem_.rows + rank / problem_.rows;
        return way == Sweep::up ? step - behind : steps() - 1 - step - behind;
    }

    /// Of the ghosts of all planes those that the processes need for a step.
    MotionPlan front(const MotionPlan& ghosts, Sweep way, std::int64_t step) const {
        MotionPlan plan(boxes_, boxes_);
        ghosts.for_each_section([&](const SectionCopy& face) {
            const std::int64_t z = plane(face.destination_block, way, step);
            if (z < 0 || z >= problem_.n) return;
            const Region pencil =
                face.source_region.intersected(Region({z, 0, 0}, {z + 1, problem_.n, problem_.n}));
            plan.add_section(face.source_block, pencil, face.destination_block, pencil);
        });
        return plan;
    }

    const Point two_{0, 2, 2};
    FloorPlan boxes_;
    // communication: end
    Problem problem_;
    Array u_, rsd_;
    // communication: begin
    Mover faces_;
    std::vector<Mover> up_, down_;
    // communication: end
};

}  // namespace

std::unique_ptr<Version> with_datamover(const Problem& problem) {
    return std::make_unique<WithDatamover>(problem);
}

std::unique_ptr<Version> incomplete(const Problem& problem) {
    return std::make_unique<WithDatamover>(problem, false);
}

}  // namespace lu
