// SPDX-License-Identifier: BSD-3-Clause
// Transpose from planes of z to planes of y by plans and movers, at once or in slabs.
#include "datamover/datamover.hpp"
#include "version.hpp"

namespace ft {
namespace {

using namespace datamover;

class WithDatamover : public Version {
public:
    explicit WithDatamover(const Problem& problem, bool complete = true) {
        const std::int64_t nx = problem.nx, ny = problem.ny, nz = problem.nz;
        // communication: begin
        int size = 1;
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        planes_of_z_ = BlockCyclic({nz, ny, nx}, "(block, *, *)", size);
        planes_of_y_ = BlockCyclic({ny, nx, nz}, "(block, *, *)", size);
        space_ = Array(MPI_COMM_WORLD, planes_of_z_, sizeof(Complex));
        spectrum_ = Array(MPI_COMM_WORLD, planes_of_y_, sizeof(Complex));
        MotionPlan turn = redistribute(planes_of_z_, planes_of_y_, {1, 2, 0});
        MotionPlan turn_back = redistribute(planes_of_y_, planes_of_z_, {2, 0, 1});
        // communication: end
        if (!complete)
            turn_back = turn_back.filter([](const SectionCopy& section) {
                return section.source_block != 0 || section.destination_block != 0;
            });
        // communication: begin
        turn_ = Mover(MPI_COMM_WORLD, turn, space_, spectrum_);
        turn_back_ = Mover(MPI_COMM_WORLD, turn_back, spectrum_, space_);
        const int rank = space_.rank();
        share_ = {problem, first(planes_of_z_, rank), planes_of_z_.local_shape(rank)[0],
                  first(planes_of_y_, rank), planes_of_y_.local_shape(rank)[0]};
        // communication: end
    }

    const Share& share() const override { return share_; }
    Complex* space() override { return data(space_); }        // communication
    Complex* spectrum() override { return data(spectrum_); }  // communication

    void forward(Transforms& transforms, apps::Times& times) override {
        transforms.along_x(space(), Direction::forward);
        transforms.along_y(space(), Direction::forward);
        apps::timed(times.communication, [&] { turn_(); });  // communication
        transforms.along_z(spectrum(), Direction::forward);
    }

    void inverse(Transforms& transforms, apps::Times& times) override {
        transforms.along_z(spectrum(), Direction::inverse);
        apps::timed(times.communication, [&] { turn_back_(); });  // communication
        transforms.along_y(space(), Direction::inverse);
        transforms.along_x(space(), Direction::inverse);
    }

protected:
    // communication: begin
    static std::int64_t first(const BlockCyclic& planes, int rank) {
        return std::min(rank * planes.block()[0], planes.shape()[0]);
    }
    static Complex* data(const Array& array) {
        return array.holds(array.rank()) ? array.grid<Complex>(array.rank()).data() : nullptr;
    }

    BlockCyclic planes_of_z_, planes_of_y_;
    // communication: end
    Array space_, spectrum_;
    Mover turn_, turn_back_;  // communication
    Share share_;
};

class Overlapped final : public WithDatamover {
public:
    explicit Overlapped(const Problem& problem) : WithDatamover(problem) {
        const std::int64_t nx = problem.nx, ny = problem.ny, nz = problem.nz, slabs = 4;
        for (std::int64_t i = 0; i < slabs; ++i) {
            const std::int64_t x0 = nx * i / slabs, x1 = nx * (i + 1) / slabs;
            const Region here({0, 0, x0}, {nz, ny, x1}), there({0, x0, 0}, {ny, x1, nz});
            slabs_.push_back(
                {x0, x1,
                 Mover(MPI_COMM_WORLD,
                       redistribute(planes_of_z_, here, planes_of_y_, there, {1, 2, 0}), space_,
                       spectrum_),
                 Mover(MPI_COMM_WORLD,
                       redistribute(planes_of_y_, there, planes_of_z_, here, {2, 0, 1}), spectrum_,
                       space_)});
        }
    }

    void forward(Transforms& transforms, apps::Times& times) override {
        transforms.along_x(space(), Direction::forward);
        for (Slab& slab : slabs_) {
            transforms.along_y(space(), slab.x0, slab.x1, Direction::forward);
            apps::timed(times.communication, [&] { slab.turn.start(); });
        }
        for (Slab& slab : slabs_) {
            apps::timed(times.communication, [&] { slab.turn.wait(); });
            transforms.along_z(spectrum(), slab.x0, slab.x1, Direction::forward);
        }
    }

    void inverse(Transforms& transforms, apps::Times& times) override {
        for (Slab& slab : slabs_) {
            transforms.along_z(spectrum(), slab.x0, slab.x1, Direction::inverse);
            apps::timed(times.communication, [&] { slab.turn_back.start(); });
        }
        for (Slab& slab : slabs_) {
            apps::timed(times.communication, [&] { slab.turn_back.wait(); });
            transforms.along_y(space(), slab.x0, slab.x1, Direction::inverse);
        }
        transforms.along_x(space(), Direction::inverse);
    }

private:
    /// The points with x from x0 to x1 - 1, of all processes.
    struct Slab {
        std::int64_t x0, x1;
        Mover turn, turn_back;
    };
    std::vector<Slab> slabs_;
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

}  // namespace ft
