// SPDX-License-Identifier: BSD-3-Clause
// How does data move within one process? By one copy between the two arrays.
#include <utility>

#include "transport.hpp"

namespace datamover::transport {
namespace {

class SelfTransport final : public Transport {
public:
    SelfTransport(const BindContext& context, const std::vector<Leg>& receives)
        : source_(context.source->base),
          destination_(context.destination->base),
          rank_(context.group->rank()) {
        for (const Leg& leg : receives)
            relation_ = plan::compile(*leg.part, context.source_side(), context.destination_side(),
                                      context.order);
        kernel_ = relation_.kernel(context.update);
    }

    void start() override { kernel_(source_, destination_); }
    bool progress() override { return true; }
    std::vector<std::int64_t> waiting_for() const override { return {}; }
    void report(std::vector<MoverLeg>& lines) const override {
        lines.push_back(leg_line(rank_, true, "self", relation_, kernel_));
    }

private:
    const std::byte* source_;
    std::byte* destination_;
    std::int64_t rank_;
    AddressRelation relation_;
    CopyKernel kernel_;
};

}  // namespace

extern const TransportKind self_kind;
const TransportKind self_kind{
    "self",
    [](const PairFacts& facts) { return facts.same_process; },
    [](const PairFacts&) { return true; },
    [](const BindContext& context, std::vector<Leg>,
       std::vector<Leg> receives) -> std::unique_ptr<Transport> {
        return std::make_unique<SelfTransport>(context, receives);
    },
};

}  // namespace datamover::transport
