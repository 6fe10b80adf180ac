// SPDX-License-Identifier: BSD-3-Clause
// Face exchange by persistent MPI requests, packed and unpacked by loops.
#include <cstring>

#include "version.hpp"

namespace redblack {
namespace {

// communication: begin

/// A face of the box, and the process behind it.
struct Face {
    Box inside;   ///< the outermost points of the box
    Box outside;  ///< the ghosts beyond them
    std::vector<double> outgoing, incoming;
};

std::size_t points(const Box& box) {
    std::int64_t product = 1;
    for (std::size_t d = 0; d < 3; ++d) product *= box.hi[d] - box.lo[d];
    return static_cast<std::size_t>(product);
}

void pack(const Field& u, const Box& box, double* buffer) {
    const std::int64_t width = box.hi[2] - box.lo[2];
    for (std::int64_t i = box.lo[0]; i < box.hi[0]; ++i) {
        const double* from = u.row(i, box.lo[1]) + box.lo[2];
        for (std::int64_t j = box.lo[1]; j < box.hi[1]; ++j, from += u.stride_j, buffer += width)
            if (width == 1)
                *buffer = *from;
            else
                std::memcpy(buffer, from, static_cast<std::size_t>(width) * sizeof(double));
    }
}

void unpack(const Field& u, const Box& box, const double* buffer) {
    const std::int64_t width = box.hi[2] - box.lo[2];
    for (std::int64_t i = box.lo[0]; i < box.hi[0]; ++i) {
        double* to = u.row(i, box.lo[1]) + box.lo[2];
        for (std::int64_t j = box.lo[1]; j < box.hi[1]; ++j, to += u.stride_j, buffer += width)
            if (width == 1)
                *to = *buffer;
            else
                std::memcpy(to, buffer, static_cast<std::size_t>(width) * sizeof(double));
    }
}

// communication: end

class ByHand final : public Version {
public:
    explicit ByHand(const Problem& problem) {
        // communication: begin
        int rank = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        const Index& grid = problem.grid;
        const Index place{rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]};
        for (std::size_t d = 0; d < 3; ++d) {
            const std::int64_t part = problem.n / grid[d], rest = problem.n % grid[d];
            u_.extent[d] = part + (place[d] < rest ? 1 : 0);
            u_.lo[d] = place[d] * part + std::min(place[d], rest);
        }
        // communication: end
        u_.stride_j = u_.extent[2] + 2;
        u_.stride_i = (u_.extent[1] + 2) * u_.stride_j;
        memory_.resize(static_cast<std::size_t>((u_.extent[0] + 2) * u_.stride_i));
        u_.origin = memory_.data() + u_.stride_i + u_.stride_j + 1;
        // communication: begin
        const Index steps{grid[1] * grid[2], grid[2], 1};
        faces_.reserve(6);
        for (std::size_t d = 0; d < 3; ++d) {
            if (place[d] > 0) add_face(d, false, rank - static_cast<int>(steps[d]));
            if (place[d] + 1 < grid[d]) add_face(d, true, rank + static_cast<int>(steps[d]));
        }
        // communication: end
    }

    // communication: begin
    ~ByHand() override {
        for (MPI_Request& request : receives_) MPI_Request_free(&request);
        for (MPI_Request& request : sends_) MPI_Request_free(&request);
    }
    ByHand(const ByHand&) = delete;
    ByHand& operator=(const ByHand&) = delete;
    // communication: end

    Field values() const override { return u_; }

    void iterate(const Field& f, apps::Times& times) override {
        for (const int color : {0, 1}) {
            apps::timed(times.communication, [&] { exchange(times); });  // communication
            sweep(u_, f, whole(u_), color);
        }
    }

private:
    // communication: begin
    void add_face(std::size_t d, bool upper, int neighbour) {
        Face face{whole(u_), whole(u_), {}, {}};
        face.inside.lo[d] = upper ? u_.extent[d] - 1 : 0;
        face.outside.lo[d] = upper ? u_.extent[d] : -1;
        face.inside.hi[d] = face.inside.lo[d] + 1;
        face.outside.hi[d] = face.outside.lo[d] + 1;
        face.outgoing.resize(points(face.inside));
        face.incoming.resize(points(face.outside));
        faces_.push_back(std::move(face));
        Face& kept = faces_.back();
        const int side = upper ? 1 : 0, tag = 2 * static_cast<int>(d);
        const int count = static_cast<int>(kept.outgoing.size());
        MPI_Send_init(kept.outgoing.data(), count, MPI_DOUBLE, neighbour, tag + side,
                      MPI_COMM_WORLD, &sends_.emplace_back());
        MPI_Recv_init(kept.incoming.data(), count, MPI_DOUBLE, neighbour, tag + 1 - side,
                      MPI_COMM_WORLD, &receives_.emplace_back());
    }

    void exchange(apps::Times& times) {
        const int count = static_cast<int>(faces_.size());
        if (count == 0) return;  // a process alone: some MPIs refuse to start no request
        MPI_Startall(count, receives_.data());
        for (std::size_t i = 0; i < faces_.size(); ++i) {
            Face& face = faces_[i];
            apps::timed(times.pack, [&] { pack(u_, face.inside, face.outgoing.data()); });
            MPI_Start(&sends_[i]);
        }
        for (std::size_t i = 0; i < faces_.size(); ++i) {
            const Face& face = faces_[i];
            apps::timed(times.wait, [&] { MPI_Wait(&receives_[i], MPI_STATUS_IGNORE); });
            apps::timed(times.pack, [&] { unpack(u_, face.outside, face.incoming.data()); });
        }
        apps::timed(times.wait, [&] { MPI_Waitall(count, sends_.data(), MPI_STATUSES_IGNORE); });
    }
    // communication: end

    Field u_;
    std::vector<double> memory_;
    std::vector<Face> faces_;                    // communication
    std::vector<MPI_Request> sends_, receives_;  // communication
};

}  // namespace

std::unique_ptr<Version> by_hand(const Problem& problem) {
    return std::make_unique<ByHand>(problem);
}

}  // namespace redblack
