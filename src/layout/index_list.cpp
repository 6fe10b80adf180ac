// SPDX-License-Identifier: BSD-3-Clause
// Index lists.
#include "datamover/index_list.hpp"

#include <algorithm>
#include <tuple>

#include "bounds.hpp"
#include "geometry/checked.hpp"
#include "geometry/make_error.hpp"
#include "geometry/word_digest.hpp"

namespace datamover {

struct [[gnu::visibility("hidden")]] IndexList::Table {
    std::vector<std::int64_t> offsets;
    std::vector<std::int64_t> indices;
    std::vector<Holder> holders;  ///< sorted by index, rank, position
    std::int64_t digest = 0;
    std::int64_t known_rank = -1;      ///< whose list `indices` is; -1: they are all ranks'
    std::vector<std::int64_t> unheld;  ///< known to have no holder; only where known_rank is set
};

namespace {

void check_index(std::int64_t index, std::int64_t n, std::int64_t rank) {
    if (index < 0 || index >= n)
        throw make_error(ErrorCode::out_of_range, "index ", index, " in the list of rank ", rank,
                         " is not in 0..", n - 1);
}

}  // namespace

IndexList::IndexList(const Point& shape, std::span<const std::int64_t> offsets,
                     std::span<const std::int64_t> indices)
    : shape_(shape) {
    if (offsets.size() < 2 || offsets.front() != 0 ||
        offsets.back() != static_cast<std::int64_t>(indices.size()) ||
        !std::ranges::is_sorted(offsets))
        throw make_error(ErrorCode::mismatch,
                         "offsets of an index list must ascend from 0 to the number of indices, ",
                         indices.size());
    const std::int64_t n = Region::from_shape(shape).empty() ? 0 : shape.product();
    layout::check_nprocs(static_cast<std::int64_t>(offsets.size()) - 1);
    auto table = std::make_shared<Table>();
    table->offsets.assign(offsets.begin(), offsets.end());
    table->indices.assign(indices.begin(), indices.end());
    table->holders.reserve(indices.size());
    for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
        for (std::int64_t i = offsets[r]; i < offsets[r + 1]; ++i) {
            const std::int64_t index = indices[static_cast<std::size_t>(i)];
            check_index(index, n, static_cast<std::int64_t>(r));
            table->holders.push_back({index, static_cast<std::int64_t>(r), i - offsets[r]});
        }
    }
    sort_holders(*table);
    geometry::WordDigest digest;
    digest.put_all(shape_.to_vector());
    digest.put_all(offsets);
    digest.put_all(indices);
    table->digest = digest.value();
    table_ = std::move(table);
}

IndexList::IndexList(const Point& shape, Part part) : shape_(shape) {
    layout::check_nprocs(static_cast<std::int64_t>(part.counts.size()));
    layout::check_number("rank", part.rank, static_cast<std::int64_t>(part.counts.size()));
    auto table = std::make_shared<Table>();
    table->offsets.assign(1, 0);
    for (const std::int64_t count : part.counts)
        table->offsets.push_back(geometry::add(table->offsets.back(), count));
    table->indices = std::move(part.own);
    table->holders = std::move(part.holders);
    table->unheld = std::move(part.unheld);
    table->known_rank = part.rank;
    table->digest = part.digest;
    sort_holders(*table);
    table_ = std::move(table);
}

void IndexList::check_indices(const Point& shape, std::int64_t rank,
                              std::span<const std::int64_t> indices) {
    const std::int64_t n = Region::from_shape(shape).empty() ? 0 : shape.product();
    for (const std::int64_t index : indices) check_index(index, n, rank);
}

void IndexList::sort_holders(Table& table) const {
    const auto before = [](const Holder& a, const Holder& b) {
        return std::tie(a.index, a.rank, a.position) < std::tie(b.index, b.rank, b.position);
    };
    if (!std::ranges::is_sorted(table.holders, before)) std::ranges::sort(table.holders, before);
}

std::int64_t IndexList::nprocs() const {
    return table_ ? static_cast<std::int64_t>(table_->offsets.size()) - 1 : 0;
}

std::span<const std::int64_t> IndexList::indices_of(std::int64_t rank) const {
    layout::check_number("rank", rank, nprocs());
    if (table_->known_rank >= 0) {
        if (rank == table_->known_rank) return table_->indices;
        throw make_error(ErrorCode::unsupported, "the list of rank ", rank,
                         " is known to that process alone");
    }
    const auto r = static_cast<std::size_t>(rank);
    const auto first = static_cast<std::size_t>(table_->offsets[r]);
    const auto last = static_cast<std::size_t>(table_->offsets[r + 1]);
    return {table_->indices.data() + first, last - first};
}

std::int64_t IndexList::count_of(std::int64_t rank) const {
    layout::check_number("rank", rank, nprocs());
    const auto r = static_cast<std::size_t>(rank);
    return table_->offsets[r + 1] - table_->offsets[r];
}

bool IndexList::knows_all() const {
    return !table_ || table_->known_rank < 0;
}

std::span<const IndexList::Holder> IndexList::holders(std::int64_t flat_index) const {
    layout::check_number("index", flat_index, table_ ? shape_.product() : 0);
    const auto& all = table_->holders;
    const auto less = [](const Holder& h, std::int64_t i) { return h.index < i; };
    const auto first = std::lower_bound(all.begin(), all.end(), flat_index, less);
    // Mostly one or two.
    auto last = first;
    const auto near = first + std::min<std::ptrdiff_t>(4, all.end() - first);
    while (last != near && last->index == flat_index) ++last;
    if (last == near)
        last = std::upper_bound(near, all.end(), flat_index,
                                [](std::int64_t i, const Holder& h) { return i < h.index; });
    if (first == last && !knows_all() && !std::ranges::binary_search(table_->unheld, flat_index))
        throw make_error(ErrorCode::unsupported, "rank ", table_->known_rank,
                         " does not know who holds index ", flat_index,
                         ": where lists are made of each process's own, name the layouts that they "
                         "meet (partners)");
    return {first, last};
}

std::span<const IndexList::Holder> IndexList::holders_between(std::int64_t first,
                                                              std::int64_t end) const {
    const auto less = [](const Holder& h, std::int64_t i) { return h.index < i; };
    const auto& all = table_->holders;
    const auto begin = std::lower_bound(all.begin(), all.end(), first, less);
    return {begin, std::lower_bound(begin, all.end(), end, less)};
}

std::int64_t IndexList::digest() const {
    return table_ ? table_->digest : 0;
}

bool IndexList::operator==(const IndexList& other) const {
    if (!(shape_ == other.shape_)) return false;
    if (table_ == other.table_) return true;
    return table_ && other.table_ && table_->digest == other.table_->digest &&
           table_->known_rank == other.table_->known_rank &&
           table_->offsets == other.table_->offsets && table_->indices == other.table_->indices;
}

}  // namespace datamover
