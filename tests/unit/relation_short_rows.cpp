// SPDX-License-Identifier: BSD-3-Clause
// Rows of a few elements, such as both sides of a halo: copied as by a plain loop, at every
// instruction set level of this processor.
#include <gtest/gtest.h>

#include "relation/copy_loops.hpp"
#include "relation_oracle.hpp"

using namespace datamover;
using namespace relation_oracle;

namespace {

/// Rows that lie apart at both sides; those of a side may run backwards, and so may their elements.
struct Rows {
    LoopShape shape;
    std::int64_t source_first, destination_first, source_bytes, destination_bytes;
};

/// Steps of one side, and where its first element lies in how many bytes.
struct Steps {
    std::int64_t inner, outer, first, bytes;
};

Steps random_steps(Engine& random, std::int64_t elem, std::int64_t count, std::int64_t rows) {
    Steps s{};
    s.inner = elem * between(random, 1, 5);
    s.outer = s.inner * count + elem * between(random, 0, 40);
    s.bytes = s.outer * rows;
    const auto turn = [&](std::int64_t& step, std::int64_t n) {
        if (between(random, 0, 2) > 0) return;
        s.first += (n - 1) * step;
        step = -step;
    };
    turn(s.inner, count);
    turn(s.outer, rows);
    return s;
}

Rows random_rows(Engine& random, std::int64_t elem, std::int64_t count) {
    const std::int64_t rows = between(random, 1, 70);
    const Steps source = random_steps(random, elem, count, rows);
    const Steps destination = random_steps(random, elem, count, rows);
    const std::int64_t planes = between(random, 1, 3);
    return {{elem, rows, source.outer, destination.outer, count, source.inner, destination.inner,
             planes, source.bytes, destination.bytes},
            source.first,
            destination.first,
            planes * source.bytes,
            planes * destination.bytes};
}

std::vector<char> moved(const Rows& r, const std::vector<char>& source, std::vector<char> to) {
    copy_plainly(r.shape, source.data() + r.source_first, to.data() + r.destination_first);
    return to;
}

}  // namespace

TEST(RelationShortRows, EveryLevelSizeAndLength) {
    Engine random(61);
    for (const std::int64_t elem : {1, 2, 4, 8, 16, 24, 32, 40, 48})
        for (std::int64_t count = 2; count <= longest_short_row; ++count)
            for (int repeat = 0; repeat < 5; ++repeat) {
                Rows rows = random_rows(random, elem, count);
                if (size_class(elem) < 0 && !(count == 2 && go_in_pairs(elem)))
                    rows.shape.planes.count = 1;
                const std::vector<char> source = random_bytes(random, rows.source_bytes);
                const std::vector<char> before = random_bytes(random, rows.destination_bytes);
                const std::vector<char> expected = moved(rows, source, before);
                for (const CopyLoops* loops : usable_copy_loops()) {
                    const int size = size_class(elem);
                    const ShapeLoop loop =
                        size < 0 ? loops->fixed_pieces[elem] : loops->short_rows[size][count];
                    std::vector<char> actual = before;
                    loop(rows.shape, source.data() + rows.source_first,
                         actual.data() + rows.destination_first);
                    ASSERT_TRUE(actual == expected)
                        << loops->level << ": " << count << " of " << elem << " B";
                }
            }
}

TEST(RelationShortRows, AreWhatRelationsOfThemRun) {
    Engine random(62);
    for (const std::int64_t elem : {1, 2, 4, 8, 16})
        for (std::int64_t count = 2; count <= longest_short_row; ++count) {
            const std::int64_t planes = between(random, 1, 5);
            const std::int64_t rows = between(random, planes > 1 ? 6 : 8, 70);
            const std::int64_t step = 3 * count * elem;
            const std::int64_t plane = rows * step + elem * between(random, 1, 9);
            const auto axis = [](std::int64_t n) {
                return std::make_shared<AxisTable>(AxisTable::interval(0, 0, n));
            };
            Product product;
            if (planes > 1) product.axes.push_back({axis(planes), plane, plane + rows * elem});
            product.axes.push_back({axis(rows), step, step + elem});
            product.axes.push_back({axis(count), 2 * elem, 3 * elem});
            const auto relation = AddressRelation::from_products({product}, elem, elem);
            const Rows same{{elem, rows, step, step + elem, count, 2 * elem, 3 * elem, planes,
                             plane, plane + rows * elem},
                            0,
                            0,
                            planes * plane,
                            planes * (plane + rows * elem)};
            const std::vector<char> source = random_bytes(random, same.source_bytes);
            std::vector<char> actual = random_bytes(random, same.destination_bytes);
            const std::vector<char> expected = moved(same, source, actual);
            relation.copy(source.data(), actual.data());
            EXPECT_TRUE(actual == expected) << relation.kernel().describe();
            EXPECT_NE(relation.kernel().describe().find("short rows"), std::string::npos)
                << relation.kernel().describe();
        }
}
