// SPDX-License-Identifier: BSD-3-Clause
// Index lists.
#include "datamover/index_list.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>

#include "bounds.hpp"
#include "geometry/checked.hpp"
#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"
#include "geometry/radix_sort.hpp"

namespace datamover {

struct [[gnu::visibility("hidden")]] IndexList::Table {
    std::vector<std::int64_t> offsets;
    std::vector<std::int64_t> indices;
    std::vector<Holder> holders;  ///< sorted by index, rank, position
    /// Where in `holders` the indices from first_index + (k << bucket_bits) on begin: mostly a few
    /// of them are in one bucket.
    std::vector<std::int64_t> buckets;
    std::int64_t first_index = 0;
    int bucket_bits = 0;
    std::int64_t digest = 0;
    std::int64_t known_rank = -1;      ///< whose list `indices` is; -1: they are all ranks'
    std::vector<std::int64_t> unheld;  ///< known to have no holder; only where known_rank is set

    /// Takes `count` holders, those of one index in the order in which for_each(visit)
    /// gives them whenever it is called. O(count) where indices lie evenly.
    template <class ForEach>
    void sort_holders(std::size_t count, ForEach&& for_each);
    std::size_t bucket_of(std::int64_t index) const {
        return static_cast<std::size_t>(index - first_index) >> bucket_bits;
    }
    /// The list of a rank, of lists that are all known.
    std::span<const std::int64_t> list(std::size_t rank) const {
        return std::span(indices).subspan(
            static_cast<std::size_t>(offsets[rank]),
            static_cast<std::size_t>(offsets[rank + 1] - offsets[rank]));
    }
    /// The first holder of an index that is `index` or larger. O(1) where indices lie evenly, else
    /// O(log n).
    std::vector<Holder>::const_iterator first_from(std::int64_t index) const;
};

IndexList::IndexList(const Point& shape, std::span<const std::int64_t> offsets,
                     std::span<const std::int64_t> indices)
    : shape_(shape) {
    if (offsets.size() < 2 || offsets.front() != 0 ||
        offsets.back() != static_cast<std::int64_t>(indices.size()) ||
        !std::ranges::is_sorted(offsets))
        throw make_error(ErrorCode::mismatch,
                         "offsets of an index list must ascend from 0 to the number of indices, ",
                         indices.size());
    layout::check_nprocs(static_cast<std::int64_t>(offsets.size()) - 1);
    auto table = std::make_shared<Table>();
    table->offsets.assign(offsets.begin(), offsets.end());
    table->indices.assign(indices.begin(), indices.end());
    for (std::size_t r = 0; r + 1 < offsets.size(); ++r)
        check_indices(shape, static_cast<std::int64_t>(r), table->list(r));
    table->sort_holders(indices.size(), [&](auto&& visit) {
        for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
            std::int64_t position = 0;
            for (const std::int64_t index : table->list(r))
                visit(Holder{index, static_cast<std::int64_t>(r), position++});
        }
    });
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
    table->unheld = std::move(part.unheld);
    table->known_rank = part.rank;
    table->digest = part.digest;
    const auto in_lists = [](const Holder& a, const Holder& b) {
        return std::tie(a.rank, a.position) < std::tie(b.rank, b.position);
    };
    if (!std::ranges::is_sorted(part.holders, in_lists)) std::ranges::sort(part.holders, in_lists);
    table->sort_holders(part.holders.size(),
                        [&](auto&& visit) { std::ranges::for_each(part.holders, visit); });
    table_ = std::move(table);
}

void IndexList::check_indices(const Point& shape, std::int64_t rank,
                              std::span<const std::int64_t> indices) {
    const std::int64_t n = Region::from_shape(shape).empty() ? 0 : shape.product();
    for (const std::int64_t index : indices)
        if (index < 0 || index >= n)
            throw make_error(ErrorCode::out_of_range, "index ", index, " in the list of rank ",
                             rank, " is not in 0..", n - 1);
}

template <class ForEach>
void IndexList::Table::sort_holders(std::size_t count, ForEach&& for_each) {
    if (count == 0) return;
    std::int64_t last_index = std::numeric_limits<std::int64_t>::min();
    first_index = std::numeric_limits<std::int64_t>::max();
    for_each([&](const Holder& h) {
        first_index = std::min(first_index, h.index);
        last_index = std::max(last_index, h.index);
    });
    const auto range = static_cast<std::uint64_t>(last_index - first_index);
    while (range >> bucket_bits > count) ++bucket_bits;
    // One entry ahead, so that each is where the next holder goes, and in the end its bucket's end.
    buckets.resize(static_cast<std::size_t>(range >> bucket_bits) + 3);
    for_each([&](const Holder& h) { ++buckets[bucket_of(h.index) + 2]; });
    std::partial_sum(buckets.begin(), buckets.end(), buckets.begin());
    holders.resize(count);
    for_each([&](const Holder& h) {
        holders[static_cast<std::size_t>(buckets[bucket_of(h.index) + 1]++)] = h;
    });
    if (bucket_bits == 0) return;
    for (std::size_t b = 0; b + 2 < buckets.size(); ++b)
        if (buckets[b + 1] - buckets[b] > 1)
            geometry::sort_by(
                std::span(holders).subspan(static_cast<std::size_t>(buckets[b]),
                                           static_cast<std::size_t>(buckets[b + 1] - buckets[b])),
                &Holder::index);
}

std::vector<IndexList::Holder>::const_iterator IndexList::Table::first_from(
    std::int64_t index) const {
    if (holders.empty() || index <= first_index) return holders.begin();
    if (index > holders.back().index) return holders.end();
    const std::size_t bucket = bucket_of(index);
    return std::lower_bound(holders.begin() + buckets[bucket],
                            holders.begin() + buckets[bucket + 1], index,
                            [](const Holder& h, std::int64_t i) { return h.index < i; });
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
    return table_->list(static_cast<std::size_t>(rank));
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
    const auto first = table_->first_from(flat_index), end = table_->holders.end();
    // Mostly one or two.
    auto last = first;
    for (int few = 4; last != end && last->index == flat_index; ++last)
        if (--few == 0) {
            last = table_->first_from(flat_index + 1);
            break;
        }
    if (first == last && !knows_all() && !std::ranges::binary_search(table_->unheld, flat_index))
        throw make_error(ErrorCode::unsupported, "rank ", table_->known_rank,
                         " does not know who holds index ", flat_index,
                         ": where lists are made of each process's own, name the layouts that they "
                         "meet (partners)");
    return {first, last};
}

std::span<const IndexList::Holder> IndexList::holders_between(std::int64_t first,
                                                              std::int64_t end) const {
    const auto begin = table_->first_from(first);
    return {begin, std::max(begin, table_->first_from(end))};
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
