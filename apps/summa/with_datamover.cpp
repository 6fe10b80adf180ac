// SPDX-License-Identifier: BSD-3-Clause
// Panel broadcasts along rows and columns of processes by plans and movers, one after the other or
// during the multiplication of the previous panels.
#include <map>

#include "datamover/datamover.hpp"
#include "version.hpp"

namespace summa {
namespace {

using namespace datamover;

class WithDatamover : public Version {
public:
    /// With so many pairs of panels in turns.
    explicit WithDatamover(const Problem& problem, std::int64_t pairs = 1, bool complete = true) {
        a_ = matrix(problem, {problem.m, problem.k});
        b_ = matrix(problem, {problem.k, problem.n});
        c_ = matrix(problem, {problem.m, problem.n});
        for (std::int64_t k = 0; k < problem.k; k += problem.block) {
            const std::int64_t end = std::min(k + problem.block, problem.k);
            // communication: begin
            const Region columns({0, k}, {problem.m, end}), rows({k, 0}, {end, problem.n});
            MotionPlan to_rows = panel_broadcast(a_.array.layout(), columns, 1);
            MotionPlan to_columns = panel_broadcast(b_.array.layout(), rows, 0);
            // communication: end
            if (!complete)
                to_rows = to_rows.filter([](const SectionCopy& section) {
                    return section.source_block != 0 || section.destination_block != 0;
                });
            // communication: begin
            auto& [left, right] = panels_[{end - k, k / problem.block % pairs}];
            if (!left.layout().valid()) {
                left = {MPI_COMM_WORLD, to_rows.destination(), sizeof(double)};
                right = {MPI_COMM_WORLD, to_columns.destination(), sizeof(double)};
            }
            Mover both(MPI_COMM_WORLD, {{to_rows, a_.array, left}, {to_columns, b_.array, right}});
            steps_.push_back(
                {both, left.local<double>().data(), right.local<double>().data(), end - k});
            // communication: end
        }
    }

    const Part& a() const override { return a_.part; }
    const Part& b() const override { return b_.part; }
    const Part& c() const override { return c_.part; }

    void multiply(apps::Times& times) override {
        for (Step& step : steps_) {
            apps::timed(times.communication, [&] { step.move(); });  // communication
            add_product(c(), step.left, step.right, step.depth);
        }
    }

protected:
    /// Panels of A and B in their places, and what brings them there.
    struct Step {
        Mover move;  // communication
        const double *left, *right;
        std::int64_t depth;
    };
    std::vector<Step> steps_;

private:
    struct Matrix {
        Array array;  // communication
        Part part;
    };

    static Matrix matrix(const Problem& problem, const Point& shape) {
        // communication: begin
        const Point blocks{problem.block, problem.block};
        const Point grid{problem.grid_rows, problem.grid_columns};
        const BlockCyclic layout = BlockCyclic::cyclic(shape, blocks, grid);
        const Array array(MPI_COMM_WORLD, layout, sizeof(double));
        const auto held = layout.global_indices(array.rank());
        return {array, {array.local<double>().data(), held[0], held[1]}};
        // communication: end
    }

    // communication: begin
    using Panels = std::pair<Array, Array>;
    std::map<std::pair<std::int64_t, std::int64_t>, Panels> panels_;  // by depth and turn
    // communication: end
    Matrix a_, b_, c_;
};

class Overlapped final : public WithDatamover {
public:
    explicit Overlapped(const Problem& problem) : WithDatamover(problem, 2) {}

    void multiply(apps::Times& times) override {
        apps::timed(times.communication, [&] { steps_.front().move.start(); });
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            apps::timed(times.communication, [&] {
                steps_[i].move.wait();
                if (i + 1 < steps_.size()) steps_[i + 1].move.start();
            });
            add_product(c(), steps_[i].left, steps_[i].right, steps_[i].depth);
        }
    }
};

}  // namespace

std::unique_ptr<Version> with_datamover(const Problem& problem) {
    return std::make_unique<WithDatamover>(problem);
}

std::unique_ptr<Version> overlapped(const Problem& problem) {
    return std::make_unique<Overlapped>(problem);
}

std::unique_ptr<Version> incomplete(const Problem& problem) {
    return std::make_unique<WithDatamover>(problem, 1, false);
}

}  // namespace summa
