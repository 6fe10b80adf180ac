// SPDX-License-Identifier: BSD-3-Clause
// Compilation of a part: the addresses are right, the halves agree on both sides, and memory that
// does not hold the required elements is rejected.
#include "plan/compile.hpp"

#include "layout_oracle.hpp"

namespace datamover {
namespace {

using layout_oracle::expect_error;
using plan::RelationSide;
using Addresses = std::vector<std::int64_t>;

struct CompiledPairs {
    Addresses source, destination;
    bool operator==(const CompiledPairs&) const = default;
};

CompiledPairs compiled_pairs(const AddressRelation& relation) {
    CompiledPairs pairs;
    relation.to_pairs(pairs.source, pairs.destination);
    return pairs;
}

RelationSide side(const Layout& layout, const MemoryLayout& memory, std::int64_t elem_bytes) {
    return {&layout, &memory, elem_bytes, 0};
}

const Layout rows = BlockCyclic(Point{4, 6}, "(block, *)", 2);
const Layout columns = BlockCyclic(Point{4, 6}, "(*, block)", 2);

TEST(Compile, AddressesAreThoseOfTheTwoMemories) {
    const MemoryLayout from = dense_memory(rows, 0, 8);
    const MemoryLayout to = dense_memory(columns, 1, 8, ElementOrder::column_major);
    const PairPart part = redistribute(rows, columns).part(0, 1);
    const CompiledPairs expected{{24, 32, 40, 72, 80, 88}, {0, 32, 64, 8, 40, 72}};
    EXPECT_EQ(compiled_pairs(plan::compile(part, side(rows, from, 8), side(columns, to, 8))),
              expected);
}

TEST(Compile, ColumnMajorMessagesRunAlongTheFirstDimension) {
    const MemoryLayout from = dense_memory(rows, 0, 8);
    const RelationSide message{nullptr, nullptr, 8, 0};
    const PairPart part = redistribute(rows, columns).part(0, 1);
    const CompiledPairs expected{{24, 72, 32, 80, 40, 88}, {0, 8, 16, 24, 32, 40}};
    EXPECT_EQ(compiled_pairs(plan::compile(part, side(rows, from, 8), message,
                                           plan::MessageOrder::column_major)),
              expected);
}

TEST(Compile, HalvesJoinedAreTheDirectRelation) {
    for (std::int64_t i = 0; i < layout_oracle::cases(200); ++i) {
        layout_oracle::Random random(layout_oracle::seed_of(i));
        const Point shape =
            layout_oracle::random_shape(random, static_cast<int>(random.integer(1, 3)));
        const std::int64_t nprocs = random.integer(1, 4);
        const auto kind = [&] { return static_cast<layout_oracle::Kind>(random.integer(0, 2)); };
        const Layout a = layout_oracle::random_layout(random, kind(), shape, nprocs);
        const Layout b = layout_oracle::random_layout(random, kind(), shape, nprocs);
        const std::int64_t source_rank = random.integer(0, nprocs - 1);
        const std::int64_t destination_rank = random.integer(0, nprocs - 1);
        const PairPart part = redistribute(a, b).part(source_rank, destination_rank);
        const MemoryLayout from = dense_memory(a, source_rank, 8);
        const MemoryLayout to = dense_memory(b, destination_rank, 4);
        const RelationSide wide{nullptr, nullptr, 8, 0}, narrow{nullptr, nullptr, 4, 0};
        const auto direct = plan::compile(part, side(a, from, 8), side(b, to, 4));
        const auto assembly = plan::compile(part, side(a, from, 8), narrow);
        const auto disassembly = plan::compile(part, wide, side(b, to, 4));
        const CompiledPairs all = compiled_pairs(direct);
        ASSERT_EQ(direct.size(), part.size());
        ASSERT_EQ(compiled_pairs(assembly).source, all.source) << "case " << i;
        ASSERT_EQ(compiled_pairs(disassembly).destination, all.destination) << "case " << i;
        ASSERT_EQ(compiled_pairs(AddressRelation::join(assembly, disassembly)), all)
            << "case " << i;
        EXPECT_EQ(direct.source_elem_bytes(), 8);
        EXPECT_EQ(direct.destination_elem_bytes(), 4);
    }
}

TEST(Compile, AnEmptyPartIsTheEmptyRelation) {
    const MemoryLayout memory = dense_memory(rows, 0, 8);
    EXPECT_TRUE(plan::compile({}, side(rows, memory, 8), side(rows, memory, 8)).empty());
}

TEST(Compile, RefusesGhostsThatAreTooShallow) {
    const FloorPlan tiles = FloorPlan::uniform(Region(Point{0, 0}, Point{8, 8}), Point{2, 1}, 2);
    const Layout layout(tiles);
    const PairPart part = halo(tiles, Point{2, 0}, Point{2, 0}).part(0, 1);
    const MemoryLayout from = dense_memory(layout, 0, 8);
    const auto compiled_into = [&](const Point& lower, const Point& upper) {
        const MemoryLayout to = dense_memory(layout, 1, 8, ElementOrder::row_major, lower, upper);
        return plan::compile(part, side(layout, from, 8), side(layout, to, 8));
    };
    EXPECT_EQ(compiled_into(Point{2, 0}, Point{0, 0}).size(), 16);
    expect_error(ErrorCode::out_of_range, [&] { compiled_into(Point{1, 0}, Point{2, 2}); });
    expect_error(ErrorCode::out_of_range, [&] { compiled_into({}, {}); });
}

TEST(Compile, RefusesMemoryWithoutTheBlock) {
    const MemoryLayout from = dense_memory(rows, 0, 8), wrong = dense_memory(columns, 0, 8);
    const PairPart part = redistribute(rows, columns).part(0, 1);
    expect_error(ErrorCode::mismatch,
                 [&] { plan::compile(part, side(rows, from, 8), side(columns, wrong, 8)); });
}

TEST(Compile, RefusesMemoryThatIsSmallerThanTheBlock) {
    const Layout lists = IndexList(Point{6}, Addresses{0, 4, 6}, Addresses{5, 4, 3, 2, 1, 0});
    const PairPart part = redistribute(lists, lists).part(0, 0);
    MemoryLayout memory = dense_memory(lists, 0, 8);
    memory.blocks.front().valid = Region(Point{0}, Point{3});
    expect_error(ErrorCode::out_of_range,
                 [&] { plan::compile(part, side(lists, memory, 8), side(lists, memory, 8)); });
}

TEST(Compile, RefusesAddressesThatAreTooFarApart) {
    const MemoryLayout to = dense_memory(columns, 1, 8);
    const PairPart part = redistribute(rows, columns).part(0, 1);
    constexpr std::int64_t far = std::int64_t{1} << 62;
    for (const auto& [offset, stride] :
         {std::pair{far, std::int64_t{8}}, {-far, -8}, {0, far / 4}, {0, -far / 4}}) {
        MemoryLayout from = dense_memory(rows, 0, 8);
        from.blocks.front().offset_bytes = offset;
        from.blocks.front().strides_bytes[1] = stride;
        expect_error(ErrorCode::out_of_range,
                     [&] { plan::compile(part, side(rows, from, 8), side(columns, to, 8)); });
    }
}

}  // namespace
}  // namespace datamover
