// SPDX-License-Identifier: BSD-3-Clause
// Memory pool: memory returns to it wherever it is released.
#include "stream/wire/message_memory.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace datamover::stream {
namespace {

TEST(StreamMemoryPool, GivesWhatNobodyHasAnyMore) {
    const auto pool = std::make_shared<MemoryPool>(1);
    std::shared_ptr<std::byte> one = pool->take_bytes(100), other = pool->take_bytes(100);
    const std::byte* const first = one.get();
    one.reset();
    EXPECT_NE(pool->take_bytes(99).get(), first);
    EXPECT_EQ(pool->take_bytes(100).get(), first);
    std::thread([other = std::move(other)] {}).join();
}

TEST(StreamMemoryPool, MayEndBeforeItsMemory) {
    auto pool = std::make_shared<MemoryPool>();
    const std::shared_ptr<std::byte> memory = pool->take_bytes(8);
    pool.reset();
    *memory = std::byte{7};
}

/// Another thread may be in the pool while a process forks.
TEST(StreamMemoryPool, IsLeftAloneByAForkedChild) {
#ifdef __SANITIZE_ADDRESS__
    constexpr int forks = 60;  // copying the shadow memory makes a fork slow
#else
    constexpr int forks = 300;
#endif
    constexpr unsigned longest_seconds = 10;
    const auto pool = std::make_shared<MemoryPool>();
    std::atomic<bool> ends = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i)
        threads.emplace_back([&] {
            while (!ends) pool->take_bytes(8);
        });
    std::shared_ptr<std::byte> memory = pool->take_bytes(16);
    int failed = 0;
    for (int i = 0; i < forks && failed == 0; ++i) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            ::alarm(longest_seconds);
            memory.reset();
            ::_exit(0);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        failed += status != 0;
    }
    ends = true;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(failed, 0) << "a forked child did not end";
}

}  // namespace
}  // namespace datamover::stream
