// SPDX-License-Identifier: BSD-3-Clause
// Plans between layouts of programs with different numbers of processes, and their exchange as
// text.
#include "stream/plan_between.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "geometry/make_error.hpp"

namespace datamover::stream {
namespace {

std::vector<std::int64_t> coordinates_of(const Point& point) {
    std::vector<std::int64_t> coordinates;
    for (int d = 0; d < point.dims(); ++d) coordinates.push_back(point[d]);
    return coordinates;
}

/// The layout for more processes, which hold nothing.
Layout filled_up(const Layout& layout, std::int64_t nprocs) {
    if (layout.nprocs() == nprocs) return layout;
    if (const BlockCyclic* const given = layout.block_cyclic()) {
        BlockCyclicOptions options;
        options.grid = coordinates_of(given->grid());
        options.first_process = coordinates_of(given->first_process());
        options.column_major_grid = given->column_major_grid();
        options.ranks = given->ranks();
        options.replicas = given->replicas();
        return BlockCyclic(given->shape(), given->distribution(), nprocs, options);
    }
    if (const FloorPlan* const given = layout.floor_plan())
        return FloorPlan(given->dims(), given->lower_corners(), given->upper_corners(),
                         given->owners(), nprocs);
    if (const FlatCyclic* const given = layout.flat_cyclic()) {
        std::vector<std::int64_t> owners;
        for (std::int64_t n = 0; n < given->num_blocks(); ++n) owners.push_back(given->owner(n));
        return FlatCyclic(given->shape(), given->block_elems(), nprocs, owners);
    }
    const IndexList& given = *layout.index_list();
    std::vector<std::int64_t> offsets{0}, indices;
    for (std::int64_t rank = 0; rank < nprocs; ++rank) {
        if (rank < given.nprocs()) {
            const auto list = given.indices_of(rank);
            indices.insert(indices.end(), list.begin(), list.end());
        }
        offsets.push_back(static_cast<std::int64_t>(indices.size()));
    }
    return IndexList(given.shape(), offsets, indices);
}

/// What a character of base64 stands for; -1 for none.
int sextet_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/// The bytes of a text in base64 (RFC 4648); throws io where it is none.
std::vector<std::uint8_t> plan_bytes_of(std::string_view text) {
    const auto refuse = [] {
        throw Error(ErrorCode::io, "cannot read a layout: it is not base64");
    };
    if (text.size() % 4 != 0) refuse();
    std::vector<std::uint8_t> bytes;
    bytes.reserve(text.size() / 4 * 3);
    while (!text.empty()) {
        const bool is_last = text.size() == 4;
        const int missing = is_last && text[3] == '=' ? (text[2] == '=' ? 2 : 1) : 0;
        std::uint32_t word = 0;
        for (int n = 0; n < 4; ++n) {
            const int sextet = n >= 4 - missing ? 0 : sextet_of(text[static_cast<std::size_t>(n)]);
            if (sextet < 0) refuse();
            word = word << 6 | static_cast<std::uint32_t>(sextet);
        }
        for (int n = 0; n < 3 - missing; ++n)
            bytes.push_back(static_cast<std::uint8_t>(word >> (16 - 8 * n)));
        text.remove_prefix(4);
    }
    return bytes;
}

/// Bytes as a text in base64.
std::string text_of(std::span<const std::uint8_t> bytes) {
    constexpr std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        std::uint32_t word = 0;
        for (std::size_t n = 0; n < 3; ++n)
            word = word << 8 | (at + n < bytes.size() ? bytes[at + n] : 0u);
        for (std::size_t n = 0; n < 4; ++n)
            text += at + n <= bytes.size() ? digits[word >> (18 - 6 * n) & 63] : '=';
    }
    return text;
}

}  // namespace

MotionPlan plan_between(const Layout& source, const Layout& destination) {
    const std::int64_t nprocs = std::max(source.nprocs(), destination.nprocs());
    return redistribute(filled_up(source, nprocs), filled_up(destination, nprocs));
}

Layout whole_of(const Layout& layout) {
    if (layout.floor_plan()) return FloorPlan({layout.domain()}, {0}, 1);
    const Point shape = layout.domain().shape();
    std::string distribution;
    for (int d = 0; d < shape.dims(); ++d) distribution += d == 0 ? "(*" : ", *";
    return BlockCyclic(shape, distribution + ")", 1);
}

std::string text_of_layout(const Layout& layout) {
    return text_of(MotionPlan(layout, layout).to_bytes());
}

Layout layout_of_text(std::string_view text, std::int64_t nprocs) {
    const std::vector<std::uint8_t> bytes = plan_bytes_of(text);
    Layout layout;
    try {
        layout = MotionPlan::from_bytes(bytes).source();
    } catch (const Error& error) {
        throw make_error(ErrorCode::io, "cannot read a layout: ", error.what());
    }
    if (layout.nprocs() != nprocs)
        throw make_error(ErrorCode::io, "a layout has ", layout.nprocs(), " processes; ", nprocs,
                         " are expected");
    return layout;
}

}  // namespace datamover::stream
