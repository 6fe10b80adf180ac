// SPDX-License-Identifier: BSD-3-Clause
// The communication of NAS SP: as that of BT, but each value has an array of its own, and sweeps
// hand on two layers with six coefficients and five values for each point, of fifteen and five
// that SP has, and on their way back two with five values. No solver. Arguments: as those of
// nas_bt. Source: NAS Parallel Benchmarks, SP.
#include "application.hpp"
#include "multipartition/program.hpp"

int main(int argc, char** argv) {
    return apps::run_application(argc, argv, [](const std::vector<std::string>& arguments) {
        return multipartition::run({"nas_sp", "SP", false, 2, 6, 36}, arguments);
    });
}
