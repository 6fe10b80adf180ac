// SPDX-License-Identifier: BSD-3-Clause
// Streams of a communicator that share a manager.
#include "datamover/stream.hpp"

#include <mutex>
#include <utility>

#include "io/group_together.hpp"
#include "stream/sender/places.hpp"
#include "stream/sender/producer.hpp"

namespace datamover {

struct StreamManager::State {
    mpi::ProcessGroupPtr group;
    std::shared_ptr<stream::Places> places;

    static const State& of(const std::shared_ptr<const State>& state) {
        if (state == nullptr) throw Error(ErrorCode::invalid_state, "there is no stream manager");
        return *state;
    }
    std::unique_ptr<stream::Producer> open(const mpi::ProcessGroupPtr& of, const std::string& name,
                                           const std::string& address,
                                           const StreamOptions& options) const {
        return std::make_unique<stream::Producer>(std::make_shared<io::GroupTogether>(of), address,
                                                  io::with_timeout(options), places, name);
    }
};

StreamManager::StreamManager(MPI_Comm comm, const StreamManagerOptions& options) {
    State state{mpi::ProcessGroup::of(comm), nullptr};
    io::GroupTogether together(state.group);
    stream::collectively(together,
                         [&] { state.places = std::make_shared<stream::Places>(options); });
    state_ = std::make_shared<const State>(std::move(state));
}

Stream StreamManager::open(const std::string& name, const std::string& address,
                           const StreamOptions& options) const {
    const State& state = State::of(state_);
    return Stream(state.open(state.group, name, address, options));
}

Stream StreamManager::open(MPI_Comm comm, const std::string& name, const std::string& address,
                           const StreamOptions& options) const {
    const State& state = State::of(state_);
    return Stream(state.open(mpi::ProcessGroup::of(comm), name, address, options));
}

std::int64_t StreamManager::active() const {
    stream::Places& places = *State::of(state_).places;
    const std::lock_guard lock(places.lock);
    return places.active();
}

}  // namespace datamover
