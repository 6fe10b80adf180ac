// SPDX-License-Identifier: BSD-3-Clause
// The communication of NAS BT: the faces of all cells, two points deep, and sweeps that hand on a
// block of 5 x 5 and five values for each point, and on their way back five values. No solver.
// Arguments: versions (datamover, by_hand, datatypes, original; comma-separated), the class,
// iterations, how often the versions take turns, and a JSON file if one is wanted. Source: NAS
// Parallel Benchmarks, BT.
#include "application.hpp"
#include "multipartition/program.hpp"

int main(int argc, char** argv) {
    return apps::run_application(argc, argv, [](const std::vector<std::string>& arguments) {
        return multipartition::run({"nas_bt", "BT", true, 1, 25, 24}, arguments);
    });
}
