// SPDX-License-Identifier: BSD-3-Clause
// Hand-written messages of LU: faces, and the pencils of sweeps. The packing is in apps/exchange.
// Source: `exchange_3` and `exchange_1` of NAS LU.
#include "exchange/original_exchange.hpp"
#include "exchange/packed_exchange.hpp"
#include "exchange/typed_exchange.hpp"
#include "version.hpp"

namespace lu {
namespace {

using apps::Box;
using apps::Message;
using apps::Values;

template <class Exchange>
class ByHand final : public Version {
public:
    explicit ByHand(const Problem& problem) : problem_(problem) {
        // communication: begin
        int rank = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        place_ = {rank % problem.rows, rank / problem.rows};
        places_ = {problem.rows, problem.columns};
        // communication: end
        u_ = array(u_memory_, 2);
        rsd_ = array(rsd_memory_, 1);
        // communication: begin
        faces_ = std::make_unique<Exchange>(faces(u_, 2, false), faces(u_, 2, true));
        for (std::int64_t z = 0; z < problem.n; ++z) {
            for (const Sweep way : {Sweep::up, Sweep::down}) {
                auto& stages = way == Sweep::up ? up_ : down_;
                stages.push_back({{pencils(z, way, false), {}}, {{}, pencils(z, way, true)}});
            }
        }
        // communication: end
    }

    Values u() const override { return u_; }
    Values rsd() const override { return rsd_; }

    void faces(apps::Times& times) override {
        // communication: begin
        apps::timed(times.communication, [&] {
            faces_->start(times);
            faces_->finish(times);
        });
        // communication: end
    }

    void sweep(Sweep way, const std::function<void(std::int64_t)>& compute,
               apps::Times& times) override {
        // communication: begin
        std::vector<Stage>& stages = way == Sweep::up ? up_ : down_;
        apps::timed(times.communication, [&] {
            for (std::int64_t i = 0; i < problem_.n; ++i) stages[at(way, i)].before.start(times);
        });
        // communication: end
        for (std::int64_t i = 0; i < problem_.n; ++i) {
            Stage& stage = stages[at(way, i)];                                      // communication
            apps::timed(times.communication, [&] { stage.before.finish(times); });  // communication
            compute(static_cast<std::int64_t>(at(way, i)));
            apps::timed(times.communication, [&] { stage.after.start(times); });  // communication
        }
        // communication: begin
        apps::timed(times.communication, [&] {
            for (Stage& stage : stages) stage.after.finish(times);
        });
        // communication: end
    }

private:
    Values array(std::vector<double>& memory, std::int64_t ghosts) const {
        Values v;
        v.count = 5;
        v.grid = v.extent = {problem_.n, problem_.n, problem_.n};
        v.ghosts = {ghosts, ghosts, 0};
        // communication: begin
        for (std::size_t d = 0; d < 2; ++d) {
            const apps::Share share = apps::share_of(problem_.n, places_[d], place_[d]);
            v.lo[d] = share.lo;
            v.extent[d] = share.extent;
        }
        // communication: end
        v.strides[0] = v.count;
        v.strides[1] = v.strides[0] * (v.extent[0] + 2 * ghosts);
        v.strides[2] = v.strides[1] * (v.extent[1] + 2 * ghosts);
        memory.resize(static_cast<std::size_t>(v.strides[2] * v.extent[2]));
        v.origin = memory.data() + ghosts * (v.strides[0] + v.strides[1]);
        return v;
    }

    // communication: begin
    /// What a plane needs before it is computed, and hands on after that.
    struct Stage {
        Exchange before, after;
    };

    std::size_t at(Sweep way, std::int64_t i) const {
        return static_cast<std::size_t>(way == Sweep::up ? i : problem_.n - 1 - i);
    }

    /// The rank of the neighbour in x or y, if there is one.
    int neighbour(std::size_t d, std::int64_t step) const {
        std::array<std::int64_t, 2> at = place_;
        at[d] += step;
        const bool exists = at[d] >= 0 && at[d] < places_[d];
        return exists ? static_cast<int>(at[1] * places_[0] + at[0]) : MPI_PROC_NULL;
    }

    /// The message through the lower (step -1) or upper side in x or y: `depth` layers of points.
    /// Sent are points of the box, received ghosts. The tag says which way it goes.
    static Message face(const Values& v, int peer, std::size_t d, std::int64_t step,
                        std::int64_t depth, bool sent) {
        Box box = v.all();
        if (step < 0)
            box.lo[d] = sent ? 0 : -depth;
        else
            box.lo[d] = v.extent[d] - (sent ? depth : 0);
        box.hi[d] = box.lo[d] + depth;
        const bool upwards = (step > 0) == sent;
        return {peer, static_cast<int>(2 * d) + (upwards ? 1 : 0), {{v, box}}};
    }

    std::vector<Message> faces(const Values& v, std::int64_t depth, bool sent) const {
        std::vector<Message> messages;
        for (std::size_t d = 0; d < 2; ++d)
            for (const std::int64_t step : {-1, 1})
                if (const int peer = neighbour(d, step); peer != MPI_PROC_NULL)
                    messages.push_back(face(v, peer, d, step, depth, sent));
        return messages;
    }

    /// A plane's part of the faces where the sweep comes from (received) or goes to (sent).
    std::vector<Message> pencils(std::int64_t z, Sweep way, bool sent) const {
        std::vector<Message> messages;
        const std::int64_t step = (way == Sweep::up) == sent ? 1 : -1;
        for (std::size_t d = 0; d < 2; ++d)
            if (const int peer = neighbour(d, step); peer != MPI_PROC_NULL) {
                Message message = face(rsd_, peer, d, step, 1, sent);
                message.sections[0].box.lo[2] = z;
                message.sections[0].box.hi[2] = z + 1;
                messages.push_back(message);
            }
        return messages;
    }

    std::array<std::int64_t, 2> place_{}, places_{};
    std::unique_ptr<Exchange> faces_;
    std::vector<Stage> up_, down_;
    // communication: end
    Problem problem_;
    std::vector<double> u_memory_, rsd_memory_;
    Values u_, rsd_;
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

}  // namespace lu
