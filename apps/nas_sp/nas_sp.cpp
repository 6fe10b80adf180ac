// SPDX-License-Identifier: BSD-3-Clause
// Communication of NAS SP: as that of BT, but each value has an array of its own. For each point,
// sweeps pass on two layers with six coefficients and five values, of the fifteen and five that SP
// has, and on the way back two layers with five values. It has no solver. Source: NAS Parallel
// Benchmarks, SP.
// Arguments: as those of nas_bt.
#include "application.hpp"
#include "multipartition/program.hpp"

int main(int argc, char** argv) {
    return apps::run_application(argc, argv, [](const std::vector<std::string>& arguments) {
        return multipartition::run({"nas_sp", "SP", false, 2, 6, 36}, arguments);
    });
}
