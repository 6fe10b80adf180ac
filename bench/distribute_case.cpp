// SPDX-License-Identifier: BSD-3-Clause
// Elements and targets of Examples A, B and C of the paper on distribution.
#include "distribute_case.hpp"

#include <cmath>
#include <cstring>

#include "datamover/targets.hpp"

namespace bench {
namespace {

constexpr std::int64_t cells_per_side = 64;
constexpr std::int64_t cells = cells_per_side * cells_per_side * cells_per_side;

datamover::TargetMap z_order(int nprocs) {
    const datamover::CellBox box{
        {0, 0, 0}, {1, 1, 1}, {cells_per_side, cells_per_side, cells_per_side}, true};
    return datamover::TargetMap::cells(box, datamover::CellOrder::morton, nprocs);
}

void set_targets(std::vector<Particle>& all, int nprocs) {
    std::vector<std::int64_t> targets(all.size());
    z_order(nprocs).evaluate({all.data(), datamover::ScalarType::float64, 3, sizeof(Particle)}, 0,
                             static_cast<std::int64_t>(all.size()), targets.data());
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i].tproc = static_cast<std::int32_t>(targets[i]);
}

Elements as_elements(const std::vector<Particle>& all) {
    Elements result{std::vector<std::byte>(all.size() * sizeof(Particle)), sizeof(Particle),
                    offsetof(Particle, tproc)};
    std::memcpy(result.bytes.data(), all.data(), result.bytes.size());
    return result;
}

Particle somewhere(std::mt19937_64& random, int rank) {
    std::uniform_real_distribution<double> unit(0, 1);
    Particle p{};
    for (double& x : p.pos) x = unit(random);
    for (double& v : p.vel) v = unit(random);
    p.q = unit(random);
    p.home = rank;
    return p;
}

}  // namespace

Elements integers(std::int64_t count, int rank, int nprocs) {
    std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
    std::uniform_int_distribution<std::int32_t> target(0, nprocs - 1);
    Elements result{std::vector<std::byte>(static_cast<std::size_t>(count) * 4), 4, 0};
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int32_t value = target(random);
        std::memcpy(result.bytes.data() + i * 4, &value, 4);
    }
    return result;
}

Elements particles(std::int64_t count, int rank, int nprocs) {
    std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
    std::vector<Particle> all;
    for (std::int64_t i = 0; i < count; ++i) all.push_back(somewhere(random, rank));
    set_targets(all, nprocs);
    return as_elements(all);
}

Elements moved_particles(std::int64_t count, int rank, int nprocs) {
    std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
    std::vector<Particle> mine;
    while (static_cast<std::int64_t>(mine.size()) < count) {
        std::vector<Particle> some;
        for (int i = 0; i < 100000; ++i) some.push_back(somewhere(random, rank));
        set_targets(some, nprocs);
        for (const Particle& p : some)
            if (p.tproc == rank && static_cast<std::int64_t>(mine.size()) < count)
                mine.push_back(p);
    }
    std::uniform_real_distribution<double> step(-0.5 / cells_per_side, 0.5 / cells_per_side);
    for (Particle& p : mine)
        for (double& x : p.pos) {
            x += step(random);
            x -= std::floor(x);
        }
    set_targets(mine, nprocs);
    return as_elements(mine);
}

}  // namespace bench
