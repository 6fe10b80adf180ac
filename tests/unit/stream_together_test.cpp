// SPDX-License-Identifier: BSD-3-Clause
// Agreement: what a call throws is told to the other processes, and only an interruption goes on
// here as it was.
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "datamover/error.hpp"
#include "stream/wire/together.hpp"

namespace datamover::stream {
namespace {

class InterruptedWork : public std::exception, public Interruption {};

/// Remembers what this process told the others.
class Listening : public Together {
public:
    std::optional<Error> told;

    void agree(const std::optional<Error>& mine) override {
        told = mine;
        Together::agree(mine);
    }
};

TEST(StreamTogether, TellsErrorsOfTheStandardLibraryAsTheyAre) {
    struct Case {
        std::function<void()> work;
        ErrorCode code;
        std::string text;
    };
    const Case cases[] = {
        {[] { throw std::length_error("too long"); }, ErrorCode::peer_failed,
         "process 0 failed: too long"},
        {[] { throw std::bad_optional_access(); }, ErrorCode::peer_failed, "process 0 failed: "},
        {[] { throw std::bad_alloc(); }, ErrorCode::no_memory, "process 0 ran out of memory"},
        {[] { throw Error(ErrorCode::io, "no file"); }, ErrorCode::io, "no file"}};
    for (const Case& c : cases) {
        Listening others;
        try {
            collectively(others, c.work);
            ADD_FAILURE() << c.text;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), c.code);
            EXPECT_EQ(std::string(error.what()).substr(0, c.text.size()), c.text);
        }
        ASSERT_TRUE(others.told);
        EXPECT_EQ(others.told->code(), c.code);
    }
}

TEST(StreamTogether, AnInterruptionGoesOnOnceTheOthersKnow) {
    Listening others;
    EXPECT_THROW(collectively(others, [] { throw InterruptedWork(); }), InterruptedWork);
    ASSERT_TRUE(others.told);
    EXPECT_EQ(others.told->code(), ErrorCode::peer_failed);
    EXPECT_STREQ(others.told->what(), "process 0 was interrupted");
    collectively(others, [] {});
    EXPECT_FALSE(others.told);
}

}  // namespace
}  // namespace datamover::stream
