// SPDX-License-Identifier: BSD-3-Clause
// Communication of NAS BT: the faces of all cells, two points deep, and sweeps that pass on a block
// of 5 x 5 and five values for each point, and five values on the way back. It has no solver.
// Source: NAS Parallel Benchmarks, BT.
// Arguments: versions (datamover, by_hand, datatypes, original; comma-separated), the class,
// iterations, number of turns of each version, and optionally a JSON file.
#include "application.hpp"
#include "multipartition/program.hpp"

int main(int argc, char** argv) {
    return apps::run_application(argc, argv, [](const std::vector<std::string>& arguments) {
        return multipartition::run({"nas_bt", "BT", true, 1, 25, 24}, arguments);
    });
}
