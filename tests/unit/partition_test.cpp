// SPDX-License-Identifier: BSD-3-Clause
// Partition of elements by target codes, and the codes: equal plain loops, for every instruction
// set of this processor, random sizes and any alignment.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "datamover/error.hpp"
#include "distribute/partition.hpp"

using namespace datamover;
using namespace datamover::distribute;

namespace {

using ByteVector = std::vector<std::byte>;

class Draws {
public:
    explicit Draws(unsigned seed) : engine_(seed) {}
    std::int64_t between(std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
    }
    ByteVector bytes(std::int64_t n) {
        ByteVector all(static_cast<std::size_t>(n));
        for (std::byte& b : all) b = static_cast<std::byte>(between(0, 255));
        return all;
    }

private:
    std::mt19937_64 engine_;
};

/// Draws elements with random codes, and room for each target's elements between bytes that must
/// not change.
struct PartitionCase {
    static constexpr std::int64_t line = 64;

    std::int64_t elem_bytes, stride_bytes, begin, n;
    std::uint32_t targets;
    std::vector<std::uint32_t> codes;
    TargetCodes packed;
    ByteVector source, room;
    std::vector<std::int64_t> places;  ///< offset of each target's next element
    ElementRange range;

    PartitionCase(Draws& random, std::int64_t bytes, std::uint32_t targets_, bool lines)
        : elem_bytes(bytes),
          stride_bytes(random.between(0, 3) ? bytes : bytes + random.between(1, 9)),
          begin(random.between(0, 5)),
          n(random.between(0, random.between(0, 1) ? 40 : 3000)),
          targets(targets_) {
        const bool drops = random.between(0, 1) == 1;
        const auto used = random.between(1, targets);  // no elements for the others
        for (std::int64_t i = 0; i < begin + n; ++i) {
            const bool dropped = drops && random.between(0, 9) == 0;
            codes.push_back(dropped ? targets
                                    : static_cast<std::uint32_t>(random.between(0, used - 1)));
        }
        if (random.between(0, 3) == 0) std::sort(codes.begin() + begin, codes.end());
        pack();
        source = random.bytes((begin + n) * stride_bytes + line);
        const std::int64_t align = lines ? line : 1;
        std::int64_t end = lines ? 0 : random.between(0, line);
        std::vector<std::int64_t> counts(targets + 1);
        for (std::int64_t i = begin; i < begin + n; ++i) ++counts[codes[at(i)]];
        for (std::uint32_t t = 0; t < targets; ++t) {
            places.push_back(end);
            end += (counts[t] * elem_bytes + align - 1) / align * align;
        }
        room = random.bytes(end + 2 * line);
        range = {&packed, {}, begin, begin + n, targets, drops, lines};
    }

    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

    void pack() {
        packed.width_bytes = targets < 256 ? 1 : targets < 65536 ? 2 : 4;
        packed.entries = begin + n;
        auto memory = std::make_shared<ByteVector>();
        for (const std::uint32_t code : codes)
            for (int b = 0; b < packed.width_bytes; ++b)
                memory->push_back(static_cast<std::byte>(code >> 8 * b));
        auto allocation = std::make_shared<memory::Allocation>();
        allocation->data = memory->data();
        packed.memory = {allocation.get(), [memory, allocation](const auto*) {}};
    }

    /// The room after a plain loop.
    ByteVector expected() const {
        ByteVector result = room;
        auto next = places;
        for (std::int64_t i = begin; i < begin + n; ++i) {
            if (codes[at(i)] == targets) continue;
            std::int64_t& place = next[codes[at(i)]];
            std::memcpy(result.data() + place, source.data() + 1 + i * stride_bytes,
                        at(elem_bytes));
            place += elem_bytes;
        }
        return result;
    }

    std::string describe(const char* level) const {
        return std::string(level) + ": " + std::to_string(n) + " elements of " +
               std::to_string(elem_bytes) + " bytes from " + std::to_string(begin) + " to " +
               std::to_string(targets) + " targets";
    }
};

/// Memory that begins at a cache line.
struct AlignedBytes {
    ByteVector memory;
    std::byte* data;
    explicit AlignedBytes(const ByteVector& content)
        : memory(content.size() + PartitionCase::line) {
        const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
        data = memory.data() +
               (PartitionCase::line - address % PartitionCase::line) % PartitionCase::line;
        std::copy(content.begin(), content.end(), data);
    }
};

void expect_partitioned_and_collected(Draws& random, const PartitionCase& c,
                                      const CopyLoops& loops) {
    AlignedBytes room(c.room);
    std::vector<std::byte*> places;
    for (const std::int64_t offset : c.places) places.push_back(room.data + offset);
    places.push_back(nullptr);
    const std::vector<const std::byte*> starts(places.begin(), places.end());
    const ElementColumn column{c.source.data() + 1, c.elem_bytes, c.stride_bytes};
    fan_out(c.range, column, places.data(), loops.partition);
    const ByteVector expected = c.expected();
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), room.data)) << c.describe(loops.level);

    auto from = starts;
    const ByteVector before = random.bytes((c.begin + c.n) * c.elem_bytes + 1);
    ByteVector result = before, back = before;
    collect(c.range, from.data(), result.data(), c.elem_bytes);
    for (std::int64_t i = c.begin; i < c.begin + c.n; ++i)
        if (c.codes[PartitionCase::at(i)] != c.targets)
            std::memcpy(back.data() + i * c.elem_bytes, c.source.data() + 1 + i * c.stride_bytes,
                        PartitionCase::at(c.elem_bytes));
    ASSERT_TRUE(result == back) << c.describe("collect");
    for (std::uint32_t t = 0; t < c.targets; ++t) ASSERT_EQ(from[t], places[t]);
}

}  // namespace

TEST(Partition, EveryLevelSizeAndNumberOfTargets) {
    Draws random(71);
    for (const std::int64_t bytes : {1, 4, 8, 12, 16, 20, 64, 128})
        for (const std::uint32_t targets : {1, 2, 3, 4, 5, 6, 7, 8, 9, 64, 255, 300, 70000})
            for (int k = 0; k < (targets < 10 ? 20 : 4); ++k) {
                const PartitionCase c(random, bytes, targets, k % 2 == 1);
                for (const CopyLoops* loops : usable_copy_loops())
                    expect_partitioned_and_collected(random, c, *loops);
            }
}

TEST(TargetCodes, EveryLevelEncodesAndCounts) {
    Draws random(72);
    for (int k = 0; k < 300; ++k) {
        const auto nprocs = static_cast<int>(random.between(1, 255));
        const auto n = random.between(0, random.between(0, 1) ? 70 : 20000);
        std::vector<std::int64_t> targets;
        for (std::int64_t i = 0; i < n; ++i) targets.push_back(random.between(-1, nprocs - 1));
        const std::int64_t wrong[] = {-2, nprocs, 255, 1 << 20, INT32_MIN, INT32_MAX};
        const bool refused = n > 0 && random.between(0, 2) == 0;
        if (refused) {
            const std::int64_t bad = wrong[random.between(0, 5)];
            targets[PartitionCase::at(random.between(0, n - 1))] =
                bad == 255 && nprocs == 255 ? 256 : bad;
        }
        ByteVector four(PartitionCase::at(n * 4 + 1)), eight(PartitionCase::at(n * 8 + 1));
        std::vector<std::uint8_t> expected;
        std::vector<std::int64_t> counts(PartitionCase::at(nprocs + 1));
        for (std::int64_t i = 0; i < n; ++i) {
            const auto narrow = static_cast<std::int32_t>(targets[PartitionCase::at(i)]);
            std::memcpy(four.data() + 1 + 4 * i, &narrow, 4);
            std::memcpy(eight.data() + 1 + 8 * i, &targets[PartitionCase::at(i)], 8);
            expected.push_back(static_cast<std::uint8_t>(narrow < 0 ? nprocs : narrow));
            if (!refused) ++counts[expected.back()];
        }
        for (const CopyLoops* loops : usable_copy_loops()) {
            const PartitionLoops& l = loops->partition;
            std::vector<std::uint8_t> codes(expected.size()), wide(expected.size());
            EXPECT_EQ(l.encode_int32(four.data() + 1, n, codes.data(), nprocs), refused);
            EXPECT_EQ(l.encode_int64(eight.data() + 1, n, wide.data(), nprocs), refused);
            if (refused) continue;
            EXPECT_TRUE(codes == expected && wide == expected) << loops->level << ", " << n;
            std::vector<std::int64_t> counted(counts.size());
            l.count(codes.data(), n, counted.data(), nprocs + 1);
            EXPECT_EQ(counted, counts) << loops->level << ", " << n;
        }
    }
}

/// By every width of the codes, type and stride of the targets.
TEST(TargetCodes, AreReadCheckedAndCounted) {
    Draws random(73);
    memory::SegmentPool& pool = memory::SegmentPool::of_process();
    for (const int nprocs : {1, 2, 16, 17, 255, 256, 70000})
        for (const std::int64_t stride : {4, 8, 20, 40}) {
            const std::int64_t n = random.between(1, 9000);
            ByteVector memory(PartitionCase::at(n * stride));
            std::vector<std::int64_t> counts(PartitionCase::at(nprocs) + 1);
            std::vector<std::int32_t> expected;
            for (std::int64_t i = 0; i < n; ++i) {
                const auto target = static_cast<std::int32_t>(random.between(-1, nprocs - 1));
                std::memcpy(memory.data() + i * stride, &target, 4);
                expected.push_back(target < 0 ? nprocs : target);
                ++counts[PartitionCase::at(expected.back())];
            }
            TargetList list;
            list.elems = n;
            list.data = memory.data();
            list.stride_bytes = stride;
            const TargetCount found = read_targets(list, 0, nprocs, pool);
            EXPECT_EQ(found.counts, counts);
            with_codes(found.codes, [&](const auto* codes) {
                EXPECT_TRUE(std::equal(expected.begin(), expected.end(), codes,
                                       [](auto a, auto b) { return std::cmp_equal(a, b); }));
            });
            const std::int64_t bad = random.between(0, n - 1);
            std::memcpy(memory.data() + bad * stride, &nprocs, 4);
            try {
                read_targets(list, 3, nprocs, pool);
                ADD_FAILURE() << "a target of " << nprocs << " was accepted";
            } catch (const Error& error) {
                const std::string text = "element " + std::to_string(bad) + " of process 3";
                EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
            }
        }
}
