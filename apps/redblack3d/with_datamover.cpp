// SPDX-License-Identifier: BSD-3-Clause
// Face exchange by a plan and a mover, at once or while inner points are computed.
#include "array_field.hpp"
#include "version.hpp"

namespace redblack {
namespace {

using namespace datamover;

class WithDatamover : public Version {
public:
    explicit WithDatamover(const Problem& problem, bool complete = true) {
        // communication: begin
        const Region grid = Region::from_shape(Point::filled(3, problem.n));
        const Point processes{problem.grid[0], problem.grid[1], problem.grid[2]};
        const FloorPlan boxes = FloorPlan::uniform(grid, processes, processes.product());
        const Point width = Point::filled(3, 1);
        u_ = Array(MPI_COMM_WORLD, boxes, sizeof(double),
                   {.ghost_lower = width, .ghost_upper = width});
        MotionPlan faces = halo(boxes, width, width, {}, {}, false);
        // communication: end
        if (!complete)
            faces = faces.filter([](const SectionCopy& face) {
                return face.source_block != 0 || face.destination_block != 1;
            });
        // communication: begin
        exchange_ = Mover(MPI_COMM_WORLD, faces, u_, u_);
        // communication: end
    }

    Field values() const override { return field_of(u_, u_.rank()); }  // communication

    void iterate(const Field& f, apps::Times& times) override {
        const Field u = values();
        for (const int color : {0, 1}) {
            apps::timed(times.communication, [&] { exchange_(); });  // communication
            sweep(u, f, whole(u), color);
        }
    }

protected:
    Array u_;
    Mover exchange_;  // communication
};

class Overlapped final : public WithDatamover {
public:
    explicit Overlapped(const Problem& problem) : WithDatamover(problem) {
        const Field u = values();
        const Region all = Region::from_shape({u.extent[0], u.extent[1], u.extent[2]});
        Point lower = Point::filled(3, 0), upper = lower;
        for (std::size_t d = 0; d < 3; ++d) {
            if (u.lo[d] > 0) lower[static_cast<int>(d)] = -1;
            if (u.lo[d] + u.extent[d] < problem.n) upper[static_cast<int>(d)] = -1;
        }
        const Region inner = all.grown(lower, upper);
        inner_ = box(inner);
        for (const Region& part : all.subtracted(inner)) shell_.push_back(box(part));
    }

    void iterate(const Field& f, apps::Times& times) override {
        const Field u = values();
        for (const int color : {0, 1}) {
            apps::timed(times.communication, [&] { exchange_.start(); });
            sweep(u, f, inner_, color);
            apps::timed(times.communication, [&] { exchange_.wait(); });
            for (const Box& part : shell_) sweep(u, f, part, color);
        }
    }

private:
    static Box box(const Region& r) { return {index_of(r.lo()), index_of(r.hi())}; }

    Box inner_;               ///< the points that need no ghosts
    std::vector<Box> shell_;  ///< all others
};

}  // namespace

std::unique_ptr<Version> with_datamover(const Problem& problem) {
    return std::make_unique<WithDatamover>(problem);
}

std::unique_ptr<Version> overlapped(const Problem& problem) {
    return std::make_unique<Overlapped>(problem);
}

std::unique_ptr<Version> incomplete(const Problem& problem) {
    return std::make_unique<WithDatamover>(problem, false);
}

}  // namespace redblack
