// SPDX-License-Identifier: BSD-3-Clause
// Ghost exchange of each level axis by axis, packed by MPI datatypes.
#include "twin.hpp"

namespace mg {
namespace {

class ByDatatypes final : public Twin {
public:
    explicit ByDatatypes(const Problem& problem) : Twin(problem) {
        // communication: begin
        for (int level = 1; level <= levels(); ++level)
            for (std::size_t d = 0; d < 3; ++d) {
                const Field f = field(Variable::solution, level);
                Axis& axis = axes_.emplace_back();
                for (std::size_t side = 0; side < 2; ++side) {
                    axis.inside[side] = type_of(f, faces(level, d)[side].inside);
                    axis.outside[side] = type_of(f, faces(level, d)[side].outside);
                }
            }
        // communication: end
    }

    // communication: begin
    ~ByDatatypes() override {
        for (Axis& axis : axes_)
            for (std::size_t side = 0; side < 2; ++side) {
                MPI_Type_free(&axis.inside[side]);
                MPI_Type_free(&axis.outside[side]);
            }
    }
    ByDatatypes(const ByDatatypes&) = delete;
    ByDatatypes& operator=(const ByDatatypes&) = delete;

private:
    struct Axis {
        std::array<MPI_Datatype, 2> inside{}, outside{};
    };

    /// A section of a box with its ghosts.
    static MPI_Datatype type_of(const Field& f, const Box& box) {
        std::array<int, 3> sizes{}, extents{}, starts{};
        for (std::size_t d = 0; d < 3; ++d) {
            sizes[d] = static_cast<int>(f.extent[d] + 2);
            extents[d] = static_cast<int>(box.hi[d] - box.lo[d]);
            starts[d] = static_cast<int>(box.lo[d] + 1);
        }
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_Type_create_subarray(3, sizes.data(), extents.data(), starts.data(), MPI_ORDER_C,
                                 MPI_DOUBLE, &type);
        MPI_Type_commit(&type);
        return type;
    }

    void exchange(const Field& f, int level, std::size_t d, apps::Times& times) override {
        const Axis& axis = axes_[static_cast<std::size_t>(3 * (level - 1)) + d];
        double* const all = f.row(-1, -1) - 1;
        std::array<MPI_Request, 4> requests{};
        for (std::size_t side = 0; side < 2; ++side)
            MPI_Irecv(all, 1, axis.outside[side], faces(level, d)[side].peer,
                      1 - static_cast<int>(side), MPI_COMM_WORLD, &requests[side]);
        for (std::size_t side = 0; side < 2; ++side)
            MPI_Isend(all, 1, axis.inside[side], faces(level, d)[side].peer, static_cast<int>(side),
                      MPI_COMM_WORLD, &requests[2 + side]);
        apps::timed(times.wait, [&] { MPI_Waitall(4, requests.data(), MPI_STATUSES_IGNORE); });
    }

    std::vector<Axis> axes_;  // of each level
    // communication: end
};

}  // namespace

std::unique_ptr<Version> by_datatypes(const Problem& problem) {
    return std::make_unique<ByDatatypes>(problem);
}

}  // namespace mg
