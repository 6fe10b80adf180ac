// SPDX-License-Identifier: BSD-3-Clause
// The transport "self": copies within one process. By one copy between the two arrays.
#include "transport.hpp"

namespace datamover::transport {
namespace {

class SelfTransport final : public Transport {
public:
    SelfTransport(const BindContext& context, const std::vector<Pair>& pairs)
        : rank_(context.group->rank()) {
        for (const Pair& pair : pairs)
            if (!pair.sends()) program_ = context.copy_program(pair);
    }

    void start() override { program_.copy(); }
    Progress progress() override { return Progress::complete; }
    std::vector<std::int64_t> waiting_for() const override { return {}; }
    void report(std::vector<MoverPair>& lines) const override {
        lines.push_back(pair_line(rank_, true, "self", program_));
    }

private:
    std::int64_t rank_;
    PairProgram program_;
};

}  // namespace

extern const TransportKind self_kind;
const TransportKind self_kind{
    "self",
    MessageMemory::none,
    AcceptedOption::nothing,
    false,
    [](const PairFacts& facts) { return facts.same_process; },
    [](const PairFacts&) { return true; },
    [](const PairFacts&) { return std::string("within the process"); },
    [](const BindContext& context, const std::vector<Pair>& pairs) -> std::unique_ptr<Transport> {
        return std::make_unique<SelfTransport>(context, pairs);
    },
    false,
    [](const PairFacts&) { return std::string("they are two processes"); },
};

}  // namespace datamover::transport
