// SPDX-License-Identifier: BSD-3-Clause
// What becomes of a step of a stream when the call that sends an array of it is interrupted?
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "datamover/block_cyclic.hpp"
#include "datamover/error.hpp"
#include "stream/producer.hpp"

namespace datamover::stream {
namespace {

class Interrupted : public std::exception {};

/// A process alone, interrupted in one of the calls in which it would hear of others.
class InterruptedAlone : public Together {
public:
    int calls_left = -1;

    std::vector<Numbers> gather(const Numbers& mine) override {
        if (calls_left >= 0 && calls_left-- == 0) throw Interrupted();
        return {mine};
    }
};

class StreamProducer : public ::testing::TestWithParam<int> {
protected:
    void send(const std::string& name, std::int64_t step) {
        producer_.send(name,
                       {line_,
                        reinterpret_cast<const std::byte*>(values_.data()),
                        &memory_,
                        {0, static_cast<std::int64_t>(values_.size()) * 8},
                        "\"<f8\"",
                        8},
                       step);
    }

    const std::shared_ptr<InterruptedAlone> alone_ = std::make_shared<InterruptedAlone>();
    const Layout line_ = BlockCyclic({6}, "(block)", 1);
    const MemoryLayout memory_ = dense_memory(line_, 0, 8);
    const std::vector<double> values_ = std::vector<double>(6, 1.0);
    Producer producer_{alone_, "tcp://127.0.0.1:0", {}};
};

TEST_P(StreamProducer, AnInterruptedStepIsSentAgainWholeOrGoesOn) {
    send("u", 3);
    alone_->calls_left = GetParam();
    EXPECT_THROW(send("v", 3), Interrupted);
    // Before anything was decided the step goes on; after that it has ended, and begins again.
    if (GetParam() == 0) {
        EXPECT_THROW(send("u", 3), Error) << "it was sent in this step before";
    } else {
        send("u", 3);
    }
    send("v", 3);
    EXPECT_THROW(send("v", 3), Error);
    send("u", 4);
    producer_.close(1.0);
}

INSTANTIATE_TEST_SUITE_P(Calls, StreamProducer, ::testing::Values(0, 1));

}  // namespace
}  // namespace datamover::stream
