// SPDX-License-Identifier: BSD-3-Clause
// Ghost exchange of each level by a plan and movers, at once or while inner points are computed.
#include "datamover/datamover.hpp"
#include "version.hpp"

namespace mg {
namespace {

using namespace datamover;

class WithDatamover : public Version {
public:
    explicit WithDatamover(const Problem& problem, bool complete = true) {
        // communication: begin
        const Point processes{problem.grid[0], problem.grid[1], problem.grid[2]};
        const Point width = Point::filled(3, 1);
        for (int level = 1; level <= problem.levels; ++level) {
            const Region grid = Region::from_shape(Point::filled(3, problem.edge(level)));
            const FloorPlan boxes = FloorPlan::uniform(grid, processes, processes.product());
            MotionPlan ghosts = halo(boxes, width, width, grid);
            // communication: end
            if (!complete)
                ghosts = ghosts.filter([&](const SectionCopy& section) {
                    const std::int64_t neighbour = boxes.nprocs() > 1 ? 1 : 0;
                    return section.source_block != 0 || section.destination_block != neighbour;
                });
            // communication: begin
            for (Parts* parts : {&solution_, &residual_}) {
                Array array(MPI_COMM_WORLD, boxes, sizeof(double),
                            {.ghost_lower = width, .ghost_upper = width});
                parts->push_back({array, Mover(MPI_COMM_WORLD, ghosts, array, array)});
            }
        }
        // communication: end
    }

    Field field(Variable variable, int level) const override {
        // communication: begin
        const Array& values = part(variable, level).array;
        const auto grid = values.grid<double>(values.rank());
        const Region box = values.layout().boxes()->region(values.rank());
        return {grid.data(), grid.stride(1), grid.stride(0), index_of(box.lo()),
                index_of(grid.shape())};
        // communication: end
    }

    void update(Variable variable, int level, const Work& compute, apps::Times& times) override {
        compute(whole(field(variable, level)));
        apps::timed(times.communication,
                    [&] { part(variable, level).exchange(); });  // communication
    }

protected:
    // communication: begin
    struct Part {
        Array array;
        mutable Mover exchange;
    };
    using Parts = std::vector<Part>;

    const Part& part(Variable variable, int level) const {
        const Parts& parts = variable == Variable::solution ? solution_ : residual_;
        return parts[static_cast<std::size_t>(level - 1)];
    }
    static Index index_of(const Point& point) { return {point[0], point[1], point[2]}; }

    Parts solution_, residual_;
    // communication: end
};

class Overlapped final : public WithDatamover {
public:
    explicit Overlapped(const Problem& problem) : WithDatamover(problem) {
        for (int level = 1; level <= problem.levels; ++level) {
            const Index extent = field(Variable::solution, level).extent;
            Cut& cut = cuts_.emplace_back();
            if (extent[2] < smallest) continue;
            const Region all = Region::from_shape({extent[0], extent[1], extent[2]});
            const Region inner = all.grown(Point::filled(3, -1), Point::filled(3, -1));
            cut.inner = {index_of(inner.lo()), index_of(inner.hi())};
            for (const Region& outer : all.subtracted(inner))
                cut.outer.push_back({index_of(outer.lo()), index_of(outer.hi())});
        }
    }

    void update(Variable variable, int level, const Work& compute, apps::Times& times) override {
        if (field(variable, level).extent[2] < smallest)
            return WithDatamover::update(variable, level, compute, times);
        const Cut& cut = cuts_[static_cast<std::size_t>(level - 1)];
        for (const Box& outer : cut.outer) compute(outer);
        apps::timed(times.communication, [&] { part(variable, level).exchange.start(); });
        compute(cut.inner);
        apps::timed(times.communication, [&] { part(variable, level).exchange.wait(); });
    }

private:
    /// Below this there is nothing to gain.
    static constexpr std::int64_t smallest = 32;

    /// A box's points that travel, and all others.
    struct Cut {
        std::vector<Box> outer;
        Box inner;
    };
    std::vector<Cut> cuts_;
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

}  // namespace mg
