// SPDX-License-Identifier: BSD-3-Clause
// Initial values and checksums of NAS FT. Source: as in problem.hpp.
#include "problem.hpp"

#include "arguments.hpp"
#include "nas_random.hpp"

namespace ft {

Problem problem_of(const std::string& name) {
    if (name == "S")
        return {name,
                64,
                64,
                64,
                {{554.6087004964, 484.5363331978},
                 {554.6385409189, 486.5304269511},
                 {554.6148406171, 488.3910722336},
                 {554.5423607415, 490.1273169046},
                 {554.4255039624, 491.7475857993},
                 {554.2683411902, 493.2597244941}}};
    if (name == "W")
        return {name,
                128,
                128,
                32,
                {{567.3612178944, 529.3246849175},
                 {563.1436885271, 528.2149986629},
                 {559.4024089970, 527.0996558037},
                 {556.0698047020, 526.0027904925},
                 {553.0898991250, 524.9400845633},
                 {550.4159734538, 523.9212247086}}};
    if (name == "A")
        return {name,
                256,
                256,
                128,
                {{504.6735008193, 511.4047905510},
                 {505.9412319734, 509.8809666433},
                 {506.9376896287, 509.8144042213},
                 {507.7892868474, 510.1336130759},
                 {508.5233095391, 510.4914655194},
                 {509.1487099959, 510.7917842803}}};
    throw apps::BadInput("there is no class '" + name + "' of FT here; there are S, W and A");
}

void fill_planes(const Problem& problem, std::int64_t z0, std::int64_t mz, Complex* planes) {
    const std::int64_t plane = problem.nx * problem.ny;
    apps::NasRandom random(static_cast<std::uint64_t>(2 * plane * z0));
    for (std::int64_t i = 0; i < mz * plane; ++i) {
        const double real = random.next();
        planes[i] = {real, random.next()};
    }
}

Complex checksum_of_planes(const Problem& problem, std::int64_t z0, std::int64_t mz,
                           const Complex* planes) {
    Complex sum = 0;
    for (std::int64_t j = 1; j <= 1024; ++j) {
        const std::int64_t x = j % problem.nx, y = 3 * j % problem.ny, z = 5 * j % problem.nz;
        if (z >= z0 && z < z0 + mz) sum += planes[((z - z0) * problem.ny + y) * problem.nx + x];
    }
    return sum / static_cast<double>(problem.points());
}

}  // namespace ft
