// SPDX-License-Identifier: BSD-3-Clause
// Number of elements between two processes.
#include "datamover/advanced/pair_part.hpp"

#include <algorithm>

#include "geometry/checked.hpp"

namespace datamover {

std::int64_t BoxShape::size() const {
    std::int64_t n = 1;
    for (const BoxAxis& a : axes()) n = geometry::multiply(n, a.length);
    return n;
}

bool BoxShape::operator==(const BoxShape& other) const {
    return dims == other.dims && std::equal(axes().begin(), axes().end(), other.axes().begin());
}

std::int64_t ProductPiece::size() const {
    std::int64_t n = 1;
    for (const PieceAxis& axis : axes) n = geometry::multiply(n, axis.table->size());
    return n;
}

std::int64_t Piece::size() const {
    return std::visit([](const auto& c) { return c.size(); }, content);
}

std::int64_t PairPart::size() const {
    std::int64_t n = 0;
    for (const Piece& piece : pieces) n = geometry::add(n, piece.size());
    return n;
}

}  // namespace datamover
