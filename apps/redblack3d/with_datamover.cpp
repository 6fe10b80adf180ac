// SPDX-License-Identifier: BSD-3-Clause
// How do the faces travel by a plan and a mover, at once or while inner points are computed?
#include "datamover/datamover.hpp"
#include "version.hpp"

namespace redblack {
namespace {

using namespace datamover;

Point point(const Index& x) {
    return {x[0], x[1], x[2]};
}

class WithDatamover : public Version {
public:
    explicit WithDatamover(const Problem& problem, bool complete = true) {
        // communication: begin
        const Region grid = Region::from_shape(Point::filled(3, problem.n));
        const Point processes = point(problem.grid);
        const FloorPlan boxes = FloorPlan::uniform(grid, processes, processes.product());
        const Point width = Point::filled(3, 1);
        u_ = XArray(MPI_COMM_WORLD, boxes, sizeof(double), {.ghost_lower = width, .ghost_upper = width});
        MotionPlan faces = halo(boxes, width, width, {}, {}, false);
        // communication: end
        if (!complete)
            faces = faces.filter([](const SectionCopy& face) {
                return face.source_block != 0 || face.destination_block != 1;
            });
        // communication: begin
        exchange_ = Mover(MPI_COMM_WORLD, faces, u_, u_);
        box_ = boxes.region(u_.rank());
        // communication: end
    }

    Field values() const override {
        const Point& strides = u_.block_memory(u_.rank()).strides_bytes;
        const Point &lo = box_.lo(), shape = box_.shape();
        return {reinterpret_cast<double*>(u_.origin(u_.rank())),
                strides[0] / static_cast<std::int64_t>(sizeof(double)),
                strides[1] / static_cast<std::int64_t>(sizeof(double)),
                {lo[0], lo[1], lo[2]},
                {shape[0], shape[1], shape[2]}};
    }

    void iterate(const Field& f, apps::Times& times) override {
        const Field u = values();
        for (const int colour : {0, 1}) {
            apps::timed(times.communication, [&] { exchange_(); });  // communication
            sweep(u, f, whole(u), colour);
        }
    }

protected:
    XArray u_;
    Mover exchange_;
    Region box_;  ///< this process's, in the whole grid
};

class Overlapped final : public WithDatamover {
public:
    explicit Overlapped(const Problem& problem) : WithDatamover(problem) {
        const Region all = Region::from_shape(box_.shape());
        const Region inner = all.grown(Point::filled(3, -1));
        inner_ = box(inner);
        for (const Region& part : all.subtracted(inner)) shell_.push_back(box(part));
    }

    void iterate(const Field& f, apps::Times& times) override {
        const Field u = values();
        for (const int colour : {0, 1}) {
            apps::timed(times.communication, [&] { exchange_.start(); });
            sweep(u, f, inner_, colour);
            apps::timed(times.communication, [&] { exchange_.wait(); });
            for (const Box& part : shell_) sweep(u, f, part, colour);
        }
    }

private:
    static Box box(const Region& r) {
        return {{r.lo()[0], r.lo()[1], r.lo()[2]}, {r.hi()[0], r.hi()[1], r.hi()[2]}};
    }

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
