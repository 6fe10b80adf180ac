// SPDX-License-Identifier: BSD-3-Clause
// Hand-written messages of BT and SP: the faces of all cells, and the data that one stage of a
// sweep passes to the next. The packing is in apps/exchange. Source: `copy_faces` and `x_solve`,
// `y_solve`, `z_solve` of NAS BT and SP.
#include "exchange/original_exchange.hpp"
#include "exchange/packed_exchange.hpp"
#include "exchange/typed_exchange.hpp"
#include "version.hpp"

namespace multipartition {
namespace {

using apps::Box;
using apps::Index;
using apps::Message;
using apps::Section;
using apps::Values;

template <class Exchange>
class ByHand final : public Version {
public:
    explicit ByHand(const Problem& problem) : problem_(problem) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);  // communication
        const Scheme& scheme = problem.scheme;
        for (std::int64_t z = 0; z < problem.edge; ++z)
            cells_.push_back({array(z, 2, 5), array(z, scheme.depth, 5),
                              array(z, scheme.depth, scheme.coefficients)});
        // communication: begin
        std::vector<Message> receives, sends;
        for (std::size_t d = 0; d < 3 && problem.edge > 1; ++d)
            for (const std::int64_t step : {-1, 1}) {
                sends.push_back(faces(d, step, true));
                receives.push_back(faces(d, step, false));
            }
        faces_ = std::make_unique<Exchange>(receives, sends);
        for (std::size_t d = 0; d < 3; ++d)
            for (std::int64_t stage = 0; stage < problem.edge; ++stage) {
                sweeps_[d].push_back(handed_on(d, stage, 1));
                sweeps_[3 + d].push_back(handed_on(d, stage, -1));
            }
        // communication: end
    }

    const std::vector<Cell>& cells() const override { return cells_; }

    void faces(apps::Times& times) override {
        // communication: begin
        apps::timed(times.communication, [&] {
            faces_->start(times);
            faces_->finish(times);
        });
        // communication: end
    }

    void sweep(std::size_t d, bool backwards, const std::function<void(const Cell&)>& compute,
               apps::Times& times) override {
        // communication: begin
        std::vector<Stage>& stages = sweeps_[backwards ? 3 + d : d];
        const auto place = [&](std::int64_t i) { return backwards ? problem_.edge - 1 - i : i; };
        apps::timed(times.communication, [&] {
            for (std::int64_t i = 0; i < problem_.edge; ++i)
                stages[at(place(i))].before.start(times);
        });
        // communication: end
        for (std::int64_t i = 0; i < problem_.edge; ++i) {
            Stage& stage = stages[at(place(i))];                                    // communication
            apps::timed(times.communication, [&] { stage.before.finish(times); });  // communication
            compute(cell(d, place(i)));
            apps::timed(times.communication, [&] { stage.after.start(times); });  // communication
        }
        // communication: begin
        apps::timed(times.communication, [&] {
            for (Stage& stage : stages) stage.after.finish(times);
        });
        // communication: end
    }

private:
    Values array(std::int64_t z, std::int64_t ghosts, std::int64_t count) {
        Values v;
        v.count = count;
        v.ghosts = {ghosts, ghosts, ghosts};
        v.grid = {problem_.n, problem_.n, problem_.n};
        // communication: begin
        const Index place = cell_of(problem_.edge, rank_, 2, z);
        for (std::size_t d = 0; d < 3; ++d) {
            const apps::Share share = apps::share_of(problem_.n, problem_.edge, place[d]);
            v.lo[d] = share.lo;
            v.extent[d] = share.extent;
        }
        // communication: end
        std::int64_t elems = problem_.scheme.values_together ? count : 1;
        for (std::size_t d = 0; d < 3; ++d) {
            v.strides[d] = elems;
            elems *= v.extent[d] + 2 * ghosts;
        }
        if (!problem_.scheme.values_together) {
            v.value_stride = elems;
            elems *= count;
        }
        memory_.emplace_back(static_cast<std::size_t>(elems));
        v.origin = memory_.back().data() + ghosts * (v.strides[0] + v.strides[1] + v.strides[2]);
        return v;
    }

    // communication: begin
    /// What a stage needs before it is computed, and hands on after that.
    struct Stage {
        Exchange before, after;
    };

    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
    const Cell& cell(std::size_t d, std::int64_t stage) const {
        return cells_[at(cell_of(problem_.edge, rank_, d, stage)[2])];
    }

    /// The process that has the cells after (step 1) or before (-1) mine along a dimension.
    int neighbour(std::size_t d, std::int64_t step) const {
        const std::int64_t edge = problem_.edge;
        Index place = cell_of(edge, rank_, d, step > 0 ? 0 : 1);
        place[d] += step;
        return static_cast<int>(owner_of(edge, place));
    }

    /// Some layers of points of a cell on its lower (step -1) or upper side; received are ghosts.
    static Section face(const Values& v, std::size_t d, std::int64_t step, std::int64_t depth,
                        bool sent) {
        Box box = v.all();
        if (step < 0)
            box.lo[d] = sent ? 0 : -depth;
        else
            box.lo[d] = v.extent[d] - (sent ? depth : 0);
        box.hi[d] = box.lo[d] + depth;
        return {v, box};
    }

    /// The tag says which way a message goes.
    Message message(std::size_t d, std::int64_t step, bool sent) const {
        const bool upwards = (step > 0) == sent;
        return {neighbour(d, step), static_cast<int>(2 * d) + (upwards ? 1 : 0), {}};
    }

    /// Of all cells that have a neighbour there.
    Message faces(std::size_t d, std::int64_t step, bool sent) const {
        Message all = message(d, step, sent);
        for (std::int64_t stage = 0; stage < problem_.edge; ++stage)
            if (stage + step >= 0 && stage + step < problem_.edge)
                all.sections.push_back(face(cell(d, stage).u, d, step, 2, sent));
        return all;
    }

    /// Forward (step 1) rhs and lhs, backwards rhs.
    Stage handed_on(std::size_t d, std::int64_t stage, std::int64_t step) const {
        const auto carried = [&](std::int64_t side, bool sent) {
            Message both = message(d, side, sent);
            const Cell& from = cell(d, stage);
            both.sections.push_back(face(from.rhs, d, side, problem_.scheme.depth, sent));
            if (step > 0)
                both.sections.push_back(face(from.lhs, d, side, problem_.scheme.depth, sent));
            return both;
        };
        std::vector<Message> receives, sends;
        if (stage - step >= 0 && stage - step < problem_.edge)
            receives.push_back(carried(-step, false));
        if (stage + step >= 0 && stage + step < problem_.edge) sends.push_back(carried(step, true));
        return {{receives, {}}, {{}, sends}};
    }

    int rank_ = 0;
    std::unique_ptr<Exchange> faces_;
    std::array<std::vector<Stage>, 6> sweeps_;
    // communication: end
    Problem problem_;
    std::vector<std::vector<double>> memory_;
    std::vector<Cell> cells_;
};

}  // namespace

std::unique_ptr<Version> by_hand(const Problem& problem) {
    return std::make_unique<ByHand<apps::PackedExchange>>(problem);
}

std::unique_ptr<Version> by_datatypes(const Problem& problem) {
    return std::make_unique<ByHand<apps::TypedExchange>>(problem);
}

std::unique_ptr<Version> as_original(const Problem& problem) {
    return std::make_unique<ByHand<apps::OriginalExchange>>(problem);
}

}  // namespace multipartition
