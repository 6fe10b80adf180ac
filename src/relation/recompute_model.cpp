// SPDX-License-Identifier: BSD-3-Clause
// The paper's model of decoding a relation compared with recomputing its addresses.
#include "datamover/advanced/recompute_model.hpp"

#include <algorithm>
#include <cmath>

#include "geometry/make_error.hpp"

namespace datamover {
namespace {

void require_rate(const char* name, double rate) {
    if (rate > 0 && std::isfinite(rate)) return;
    throw make_error(ErrorCode::invalid_argument, "the rate ", name, " must be positive, got ",
                     rate);
}

void require_instructions(const char* name, double count) {
    if (count >= 0 && std::isfinite(count)) return;
    throw make_error(ErrorCode::invalid_argument, "the instruction count ", name,
                     " must not be negative, got ", count);
}

}  // namespace

RecomputeModel::RecomputeModel(const MachineRates& machine, const LoopInstructions& loops)
    : machine_(machine), loops_(loops) {
    require_rate("instructions", machine.instructions);
    require_rate("read_contiguous", machine.read_contiguous);
    require_rate("read_random", machine.read_random);
    require_rate("write_contiguous", machine.write_contiguous);
    require_instructions("generate", loops.generate);
    require_instructions("recompute", loops.recompute);
    require_instructions("decode", loops.decode);
    require_instructions("encode", loops.encode);
}

double RecomputeModel::recompute_seconds() const {
    return (loops_.generate + loops_.recompute) / machine_.instructions + 1 / machine_.read_random +
           2 / machine_.write_contiguous;
}

double RecomputeModel::decode_seconds() const {
    return loops_.decode / machine_.instructions + 2 / machine_.read_contiguous +
           1 / machine_.read_random + 2 / machine_.write_contiguous;
}

double RecomputeModel::amortised_seconds(std::int64_t uses) const {
    if (uses < 1)
        throw make_error(ErrorCode::invalid_argument, "a relation is used at least once, got ",
                         uses);
    const double make =
        (loops_.generate + loops_.encode) / machine_.instructions + 2 / machine_.write_contiguous;
    return make / static_cast<double>(uses) + decode_seconds();
}

double RecomputeModel::threshold_instructions() const {
    return 2 * machine_.instructions / machine_.read_contiguous + loops_.decode - loops_.recompute;
}

std::int64_t RecomputeModel::break_even_uses() const {
    if (!decoding_pays()) return never;
    const double make =
        (loops_.generate + loops_.encode) * machine_.write_contiguous + 2 * machine_.instructions;
    const double saved =
        (loops_.generate + loops_.recompute - loops_.decode) * machine_.read_contiguous -
        2 * machine_.instructions;
    const double uses =
        std::ceil(machine_.read_contiguous / machine_.write_contiguous * make / saved);
    return uses < 9e18 ? std::max<std::int64_t>(1, static_cast<std::int64_t>(uses)) : never;
}

double RecomputeModel::ultimate_speedup() const {
    return recompute_seconds() / decode_seconds();
}

}  // namespace datamover
