// SPDX-License-Identifier: BSD-3-Clause
// Transpose from planes of z to planes of y by MPI_Alltoall and packing loops.
#include "version.hpp"

namespace ft {
namespace {

class ByHand final : public Version {
public:
    explicit ByHand(const Problem& problem) {
        // communication: begin
        int rank = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size_);
        block_z_ = (problem.nz + size_ - 1) / size_;
        block_y_ = (problem.ny + size_ - 1) / size_;
        share_.problem = problem;
        share_.z0 = std::min(rank * block_z_, problem.nz);
        share_.mz = std::min(block_z_, problem.nz - share_.z0);
        share_.y0 = std::min(rank * block_y_, problem.ny);
        share_.my = std::min(block_y_, problem.ny - share_.y0);
        // communication: end
        space_.resize(share_.space_elems());
        spectrum_.resize(share_.spectrum_elems());
        // communication: begin
        // Every pair exchanges equally much; the last planes may be padding.
        message_ = block_z_ * block_y_ * problem.nx;
        outgoing_.resize(static_cast<std::size_t>(message_ * size_));
        incoming_.resize(outgoing_.size());
        // communication: end
    }

    const Share& share() const override { return share_; }
    Complex* space() override { return space_.data(); }
    Complex* spectrum() override { return spectrum_.data(); }

    void forward(Transforms& transforms, apps::Times& times) override {
        transforms.along_x(space(), Direction::forward);
        transforms.along_y(space(), Direction::forward);
        apps::timed(times.communication, [&] { turn(times); });  // communication
        transforms.along_z(spectrum(), Direction::forward);
    }

    void inverse(Transforms& transforms, apps::Times& times) override {
        transforms.along_z(spectrum(), Direction::inverse);
        apps::timed(times.communication, [&] { turn_back(times); });  // communication
        transforms.along_y(space(), Direction::inverse);
        transforms.along_x(space(), Direction::inverse);
    }

private:
    // communication: begin
    void turn(apps::Times& times) {
        apps::timed(times.pack, [&] {
            for (int peer = 0; peer < size_; ++peer) transpose_out(peer);
        });
        apps::timed(times.wait, [&] { all_to_all(); });
        apps::timed(times.pack, [&] {
            for (int peer = 0; peer < size_; ++peer) insert(peer);
        });
    }

    void turn_back(apps::Times& times) {
        apps::timed(times.pack, [&] {
            for (int peer = 0; peer < size_; ++peer) extract(peer);
        });
        apps::timed(times.wait, [&] { all_to_all(); });
        apps::timed(times.pack, [&] {
            for (int peer = 0; peer < size_; ++peer) transpose_in(peer);
        });
    }

    void all_to_all() {
        const int count = static_cast<int>(message_);
        MPI_Alltoall(outgoing_.data(), count, MPI_C_DOUBLE_COMPLEX, incoming_.data(), count,
                     MPI_C_DOUBLE_COMPLEX, MPI_COMM_WORLD);
    }

    /// What a peer's planes hold of mine: z from z0 to z1 - 1, or y.
    std::int64_t z0(int peer) const { return std::min(peer * block_z_, share_.problem.nz); }
    std::int64_t y0(int peer) const { return std::min(peer * block_y_, share_.problem.ny); }
    std::int64_t z1(int peer) const { return z0(peer + 1); }
    std::int64_t y1(int peer) const { return y0(peer + 1); }

    /// Visits (y, x, z), y within a peer's planes and z within mine, in tiles of x and z that
    /// lie in cache on both sides.
    template <class Visit>
    void for_each_tiled(int peer, Visit&& visit) const {
        constexpr std::int64_t tile = 16;
        const std::int64_t nx = share_.problem.nx, mz = share_.mz;
        for (std::int64_t y = y0(peer); y < y1(peer); ++y)
            for (std::int64_t xt = 0; xt < nx; xt += tile)
                for (std::int64_t zt = 0; zt < mz; zt += tile)
                    for (std::int64_t x = xt; x < std::min(xt + tile, nx); ++x)
                        for (std::int64_t z = zt; z < std::min(zt + tile, mz); ++z) visit(y, x, z);
    }

    /// From my planes of z to a message in which z runs fastest.
    void transpose_out(int peer) {
        const std::int64_t nx = share_.problem.nx, ny = share_.problem.ny, mz = share_.mz;
        Complex* const message = outgoing_.data() + peer * message_;
        const std::int64_t first = y0(peer);
        for_each_tiled(peer, [&](std::int64_t y, std::int64_t x, std::int64_t z) {
            message[((y - first) * nx + x) * mz + z] =
                space_[static_cast<std::size_t>((z * ny + y) * nx + x)];
        });
    }

    void transpose_in(int peer) {
        const std::int64_t nx = share_.problem.nx, ny = share_.problem.ny, mz = share_.mz;
        const Complex* const message = incoming_.data() + peer * message_;
        const std::int64_t first = y0(peer);
        for_each_tiled(peer, [&](std::int64_t y, std::int64_t x, std::int64_t z) {
            space_[static_cast<std::size_t>((z * ny + y) * nx + x)] =
                message[((y - first) * nx + x) * mz + z];
        });
    }

    /// From a message to the part of my planes of y that comes from a peer.
    void insert(int peer) {
        const std::int64_t nz = share_.problem.nz, part = z1(peer) - z0(peer);
        const Complex* from = incoming_.data() + peer * message_;
        Complex* to = spectrum_.data() + z0(peer);
        for (std::int64_t line = 0; line < share_.my * share_.problem.nx; ++line) {
            std::copy(from, from + part, to);
            from += part;
            to += nz;
        }
    }

    void extract(int peer) {
        const std::int64_t nz = share_.problem.nz, part = z1(peer) - z0(peer);
        Complex* to = outgoing_.data() + peer * message_;
        const Complex* from = spectrum_.data() + z0(peer);
        for (std::int64_t line = 0; line < share_.my * share_.problem.nx; ++line) {
            std::copy(from, from + part, to);
            from += nz;
            to += part;
        }
    }
    // communication: end

    Share share_;
    std::vector<Complex> space_, spectrum_;
    // communication: begin
    int size_ = 1;
    std::int64_t block_z_ = 0, block_y_ = 0, message_ = 0;
    std::vector<Complex> outgoing_, incoming_;
    // communication: end
};

}  // namespace

std::unique_ptr<Version> by_hand(const Problem& problem) {
    return std::make_unique<ByHand>(problem);
}

}  // namespace ft
