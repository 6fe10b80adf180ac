// SPDX-License-Identifier: BSD-3-Clause
// Ghost exchange of each level as in NPB itself: axis by axis, through buffers longer than the
// largest face. The buffers are set to 0 before each message, which is unnecessary, because the
// message overwrites all values that are read. If an axis is not divided, the process sends the
// messages to itself. Source: `comm3`, `ready`, `give3` and `take3` of NAS MG.
#include <algorithm>

#include "twin.hpp"

namespace mg {
namespace {

class AsOriginal final : public Twin {
public:
    AsOriginal(const Problem& problem, bool zeroing) : Twin(problem), zeroing_(zeroing) {
        // communication: begin
        int size = 1, halvings = 0;
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        while (size >> (halvings + 1) != 0) ++halvings;
        const std::int64_t edge = 2 + problem.edge(problem.levels - halvings / 3);
        for (auto* buffers : {&incoming_, &outgoing_})
            for (std::vector<double>& buffer : *buffers)
                buffer.resize(static_cast<std::size_t>(2 * edge * edge));
        // communication: end
    }

private:
    // communication: begin
    void exchange(const Field& f, int level, std::size_t d, apps::Times& times) override {
        const std::array<Face, 2>& ends = faces(level, d);
        std::array<MPI_Request, 4> requests{};
        for (std::size_t side = 0; side < 2; ++side) {
            std::vector<double>& buffer = incoming_[side];
            if (zeroing_)
                apps::timed(times.pack, [&] { std::fill(buffer.begin(), buffer.end(), 0.0); });
            MPI_Irecv(buffer.data(), static_cast<int>(buffer.size()), MPI_DOUBLE, ends[side].peer,
                      1 - static_cast<int>(side), MPI_COMM_WORLD, &requests[side]);
        }
        for (std::size_t side = 0; side < 2; ++side) {
            std::size_t p = 0;
            apps::timed(times.pack, [&] {
                for_each_value(f, ends[side].inside,
                               [&](const double& value) { outgoing_[side][p++] = value; });
            });
            MPI_Isend(outgoing_[side].data(), static_cast<int>(p), MPI_DOUBLE, ends[side].peer,
                      static_cast<int>(side), MPI_COMM_WORLD, &requests[2 + side]);
        }
        for (std::size_t side = 0; side < 2; ++side) {
            apps::timed(times.wait, [&] { MPI_Wait(&requests[side], MPI_STATUS_IGNORE); });
            std::size_t p = 0;
            apps::timed(times.pack, [&] {
                for_each_value(f, ends[side].outside,
                               [&](double& value) { value = incoming_[side][p++]; });
            });
        }
        apps::timed(times.wait, [&] { MPI_Waitall(2, &requests[2], MPI_STATUSES_IGNORE); });
    }

    template <class Visit>
    static void for_each_value(const Field& f, const Box& box, Visit&& visit) {
        for_each_row(box, [&](std::int64_t i, std::int64_t j) {
            double* const row = f.row(i, j);
            for (std::int64_t k = box.lo[2]; k < box.hi[2]; ++k) visit(row[k]);
        });
    }

    bool zeroing_;
    std::array<std::vector<double>, 2> incoming_, outgoing_;
    // communication: end
};

}  // namespace

std::unique_ptr<Version> as_original(const Problem& problem) {
    return std::make_unique<AsOriginal>(problem, true);
}

std::unique_ptr<Version> as_original_without_zeroing(const Problem& problem) {
    return std::make_unique<AsOriginal>(problem, false);
}

}  // namespace mg
