// SPDX-License-Identifier: BSD-3-Clause
// Transposes of every element size, shape and alignment: equal a plain loop, at every instruction
// set level of this processor.
#include <gtest/gtest.h>

#include "relation/copy_loops.hpp"
#include "relation_oracle.hpp"

using namespace datamover;
using namespace relation_oracle;

namespace {

struct Matrix {
    std::int64_t elem, ni, nj, source_row, destination_row, source_shift, destination_shift;
};

Matrix random_matrix(Engine& random, std::int64_t most) {
    Matrix m{};
    m.elem = std::int64_t{1} << between(random, 0, 4);
    m.ni = between(random, 1, most);
    m.nj = between(random, 1, most);
    const bool aligned = between(random, 0, 1) == 0;
    auto row = [&](std::int64_t n) {
        const std::int64_t bytes = n * m.elem + between(random, 0, 2) * m.elem;
        return aligned ? (bytes + 63) / 64 * 64 : bytes;
    };
    m.source_row = row(m.ni);
    m.destination_row = row(m.nj);
    m.source_shift = between(random, 0, 70);
    m.destination_shift = aligned ? between(random, 0, 4) * m.elem : between(random, 0, 70);
    return m;
}

void expect_transposed(const Matrix& m, ShapeLoop loop, const char* level, Engine& random) {
    const std::vector<char> source = random_bytes(random, m.source_shift + m.nj * m.source_row);
    std::vector<char> expected =
        random_bytes(random, m.destination_shift + m.ni * m.destination_row);
    std::vector<char> actual = expected;
    const LoopShape l{m.elem, {m.nj, {m.source_row, m.elem}}, {m.ni, {m.elem, m.destination_row}}};
    const char* s = source.data() + m.source_shift;
    copy_plainly(l, s, expected.data() + m.destination_shift);
    loop(l, s, actual.data() + m.destination_shift);
    EXPECT_TRUE(actual == expected) << level << ": " << m.ni << " x " << m.nj << " of " << m.elem
                                    << " B, rows " << m.source_row << ", " << m.destination_row;
}

}  // namespace

TEST(RelationTransposes, EveryLevelSizeAndAlignment) {
    Engine random(51);
    for (int i = 0; i < 400; ++i) {
        const Matrix m = random_matrix(random, i % 10 == 0 ? 300 : 90);
        const int size = size_class(m.elem);
        for (const CopyLoops* loops : usable_copy_loops()) {
            expect_transposed(m, loops->transpose[size], loops->level, random);
            if (loops->transpose_streaming[size] != nullptr)
                expect_transposed(m, loops->transpose_streaming[size], "streaming", random);
        }
        if (HasFailure()) FAIL() << "case " << i;
    }
}

TEST(RelationTransposes, LargeOnesByRelations) {
    Engine random(52);
    for (const std::int64_t elem : {1, 4, 8, 12}) {
        const std::int64_t ni = 611;
        const std::int64_t nj = 5000 / elem;
        const auto axis = [](std::int64_t n) {
            return std::make_shared<AxisTable>(AxisTable::interval(0, 0, n));
        };
        Product product;
        product.axes.push_back({axis(nj), ni * elem, elem});
        product.axes.push_back({axis(ni), elem, nj * elem});
        const AddressRelation relation = AddressRelation::from_products({product}, elem, elem);
        const std::vector<char> source = random_bytes(random, ni * nj * elem);
        std::vector<char> expected(source.size());
        std::vector<char> actual(source.size());
        for (std::int64_t i = 0; i < ni; ++i)
            for (std::int64_t j = 0; j < nj; ++j)
                std::memcpy(expected.data() + (i * nj + j) * elem,
                            source.data() + (j * ni + i) * elem, static_cast<std::size_t>(elem));
        relation.copy(source.data(), actual.data());
        EXPECT_TRUE(actual == expected) << relation.kernel().describe();
    }
}
