// SPDX-License-Identifier: BSD-3-Clause
// Finding the holders of indices if no process knows all lists.
//
// A directory is cut into equal ranges of indices, one for each process. All tell it what they hold
// and ask it about what they hold; three migrations carry that.
#include "datamover/index_lists.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "datamover/migration.hpp"
#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"
#include "geometry/record_index.hpp"
#include "mpi/collectives.hpp"
#include "mpi/process_group.hpp"

namespace datamover {
namespace {

/// Element `position` of list number `list` of process `rank` is `index`.
struct Held {
    std::int64_t index, list, rank, position;
};

/// Elements that arrived, and the process that each came from.
template <class Element>
struct Arrived {
    std::vector<Element> elems;
    std::vector<std::int64_t> source;
};

template <class Element>
Arrived<Element> carry(MPI_Comm comm, const std::vector<Element>& elems,
                       const std::vector<std::int64_t>& targets) {
    TargetList list;
    list.elems = static_cast<std::int64_t>(targets.size());
    list.data = targets.data();
    list.type = ScalarType::int64;
    list.stride_bytes = sizeof(std::int64_t);
    Migration migration(comm, list);
    Arrived<Element> arrived;
    const auto received = static_cast<std::size_t>(migration.received());
    try {
        arrived.elems.resize(received);
        arrived.source.reserve(received);
        std::int64_t rank = 0;
        for (const std::int64_t count : migration.receive_counts())
            arrived.source.insert(arrived.source.end(), static_cast<std::size_t>(count), rank++);
    } catch (const std::exception&) {
        migration.refuse(Error(ErrorCode::no_memory, "there is no memory for what arrives"));
    }
    const ElementColumn column{elems.data(), sizeof(Element)};
    const ElementBuffer result{reinterpret_cast<std::byte*>(arrived.elems.data()),
                               static_cast<std::int64_t>(received * sizeof(Element))};
    migration.move({&column, 1}, {&result, 1});
    return arrived;
}

/// An index that is flat in an array of shape `from`, flat in one of shape `to`.
std::int64_t flat_in(std::int64_t index, const Point& from, const Point& to) {
    std::int64_t flat = 0, stride = 1;
    for (int d = from.dims() - 1; d >= 0; --d) {
        flat += index % from[d] * stride;
        index /= from[d];
        stride *= to[d];
    }
    return flat;
}

/// Calls visit(flat index) for every element that a process holds of a layout within `shape`.
template <class Visit>
void for_each_own(const Layout& layout, const Point& shape, std::int64_t rank, Visit&& visit) {
    if (const IndexList* list = layout.index_list()) {
        for (const std::int64_t index : list->indices_of(rank))
            visit(flat_in(index, list->shape(), shape));
        return;
    }
    if (const FlatCyclic* ranges = layout.flat_cyclic()) {
        for (const std::int64_t block : layout.blocks_of(rank)) {
            const AxisSet set = ranges->flat_set(block);
            for (std::int64_t i = 0; i < set.size(); ++i)
                visit(flat_in(set.global(i), ranges->shape(), shape));
        }
        return;
    }
    for (const std::int64_t block : layout.blocks_of(rank)) {
        const std::vector<AxisSet> sets = layout.axis_sets(block);
        Region::from_shape(layout.block_extents(block)).for_each([&](const Point& local) {
            std::int64_t flat = 0;
            for (int d = 0; d < local.dims(); ++d)
                flat = flat * shape[d] + sets[static_cast<std::size_t>(d)].global(local[d]);
            visit(flat);
        });
    }
}

/// The size of the range of indices that each process has in the directory.
std::int64_t range_of(const Point& shape, int processes) {
    const std::int64_t n = Region::from_shape(shape).empty() ? 0 : shape.product();
    return std::max<std::int64_t>(1, n / processes + (n % processes != 0));
}

std::int64_t index_of(std::int64_t index) {
    return index;
}
std::int64_t index_of(const Held& held) {
    return held.index;
}

/// What a process was told of its range of the directory, found by index in O(1): chains of those
/// with one place in a table, which is the index's own where enough of the range is held.
class Told {
public:
    Told(const std::vector<Held>& held, std::int64_t first, std::int64_t range)
        : held_(held), first_(first), next_(held.size()) {
        const std::size_t hashed = std::bit_ceil(2 * held.size() + 1);
        dense_ = range <= static_cast<std::int64_t>(4 * hashed);
        heads_.assign(dense_ ? static_cast<std::size_t>(range) : hashed, none);
        for (std::size_t k = held.size(); k-- > 0;) {  // so that chains keep the order
            std::size_t& head = heads_[place(held[k].index)];
            next_[k] = head;
            head = k;
        }
    }
    template <class Visit>
    void for_each(std::int64_t index, Visit&& visit) const {
        for (std::size_t k = heads_[place(index)]; k != none; k = next_[k])
            if (held_[k].index == index) visit(held_[k]);
    }

private:
    static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

    std::size_t place(std::int64_t index) const {
        if (dense_) return static_cast<std::size_t>(index - first_);
        return static_cast<std::size_t>(geometry::hash_words({&index, 1})) & (heads_.size() - 1);
    }

    const std::vector<Held>& held_;
    std::int64_t first_;
    bool dense_ = false;
    std::vector<std::size_t> heads_, next_;
};

/// One process's way through index_lists; its steps are taken by all processes in this order.
class Maker {
public:
    Maker(MPI_Comm comm, mpi::ProcessGroupPtr group, const Point& shape)
        : comm_(comm),
          group_(std::move(group)),
          shape_(shape),
          range_(range_of(shape, group_->size())) {}

    void read(std::span<const std::span<const std::int64_t>> mine,
              std::span<const Layout> partners) {
        for (std::size_t k = 0; k < mine.size(); ++k) read_list(mine[k], k);
        for (const Layout& partner : partners) read_partner(partner);
        asked_.erase(std::unique(asked_.begin(), asked_.end()), asked_.end());
    }

    /// What all processes are told: words that have to be the same, then each list's length and
    /// digest.
    void summarise(std::span<const std::span<const std::int64_t>> mine,
                   std::span<const Layout> partners) {
        words_ = shape_.to_vector();
        words_.push_back(static_cast<std::int64_t>(mine.size()));
        for (const Layout& partner : partners) words_.push_back(partner.digest());
        head_words_ = words_.size();
        for (const auto& list : mine) {
            geometry::WordDigest digest;
            digest.put_all(list);
            words_.push_back(static_cast<std::int64_t>(list.size()));
            words_.push_back(digest.value());
        }
    }

    void tell() { told_ = group_->gather(words_); }

    /// Collective.
    void compare(std::size_t num_lists, std::span<const Layout> partners) const {
        const auto head = std::span(words_).first(head_words_);
        const auto is_same = [&](const std::vector<std::int64_t>& told) {
            return told.size() == words_.size() &&
                   std::ranges::equal(std::span(told).first(head_words_), head);
        };
        if (std::ranges::all_of(told_, is_same)) return;
        std::vector<mpi::PassedValue> passed = {
            {"shapes", shape_.to_string()},
            {"numbers of lists", std::to_string(num_lists)},
            {"numbers of partners", std::to_string(partners.size())}};
        for (const Layout& partner : partners) passed.push_back({"partners", partner.describe()});
        mpi::require_same(*group_, passed);
        throw Error(ErrorCode::mismatch, "processes passed different partners");
    }

    void ask() {
        std::vector<std::int64_t> homes_of_held, homes_of_asked;
        mpi::collectively(*group_, [&] {
            homes_of_held = homes(held_);
            homes_of_asked = homes(asked_);
        });
        const auto held = carry(comm_, held_, homes_of_held);
        const auto asked = carry(comm_, asked_, homes_of_asked);
        std::vector<Held> answers;
        std::vector<std::int64_t> askers;
        mpi::collectively(*group_, [&] { answer(held, asked, answers, askers); });
        answers_ = carry(comm_, answers, askers).elems;
    }

    IndexList made(std::size_t number, std::span<const std::int64_t> own) const {
        IndexList::Part part;
        part.rank = group_->rank();
        part.own.assign(own.begin(), own.end());
        geometry::WordDigest digest;
        digest.put_all(shape_.to_vector());
        for (const auto& words : told_) {
            part.counts.push_back(words[head_words_ + 2 * number]);
            digest.put(words[head_words_ + 2 * number]);
            digest.put(words[head_words_ + 2 * number + 1]);
        }
        part.digest = digest.value();
        std::vector<std::int64_t> found;
        for (const Held& h : answers_)
            if (h.list == static_cast<std::int64_t>(number)) {
                part.holders.push_back({h.index, h.rank, h.position});
                found.push_back(h.index);
            }
        if (!std::ranges::is_sorted(found)) std::ranges::sort(found);
        std::set_difference(asked_.begin(), asked_.end(), found.begin(), found.end(),
                            std::back_inserter(part.unheld));
        return {shape_, std::move(part)};
    }

private:
    void read_list(std::span<const std::int64_t> list, std::size_t number) {
        IndexList::check_indices(shape_, group_->rank(), list);
        const std::size_t before = asked_.size();
        std::int64_t position = 0;
        for (const std::int64_t index : list) {
            held_.push_back({index, static_cast<std::int64_t>(number), group_->rank(), position++});
            asked_.push_back(index);
        }
        merge_asked(before);
    }

    void read_partner(const Layout& partner) {
        const Region all = Region::from_shape(shape_), domain = partner.domain();
        if (partner.nprocs() != group_->size() || domain.dims() != all.dims() ||
            !(domain.intersected(all) == domain))
            throw make_error(ErrorCode::mismatch, "a partner is over ", domain, " and ",
                             partner.nprocs(), " processes, the lists over ", all, " and ",
                             group_->size());
        const std::size_t before = asked_.size();
        for_each_own(partner, shape_, group_->rank(),
                     [&](std::int64_t index) { asked_.push_back(index); });
        merge_asked(before);
    }

    /// Puts what stands from `first` on in order with what ascends before it; mostly it ascends
    /// too.
    void merge_asked(std::size_t first) {
        const auto middle = asked_.begin() + static_cast<std::ptrdiff_t>(first);
        if (!std::is_sorted(middle, asked_.end())) std::sort(middle, asked_.end());
        std::inplace_merge(asked_.begin(), middle, asked_.end());
    }

    /// The processes that have what elements are about in the directory.
    template <class Element>
    std::vector<std::int64_t> homes(const std::vector<Element>& elems) const {
        std::vector<std::int64_t> targets;
        targets.reserve(elems.size());
        for (const Element& elem : elems) targets.push_back(index_of(elem) / range_);
        return targets;
    }

    /// This process's part of the directory: to each who asks, all that hold the index.
    void answer(const Arrived<Held>& held, const Arrived<std::int64_t>& asked,
                std::vector<Held>& answers, std::vector<std::int64_t>& askers) const {
        const Told told(held.elems, group_->rank() * range_, range_);
        answers.reserve(asked.elems.size());
        askers.reserve(asked.elems.size());
        for (std::size_t q = 0; q < asked.elems.size(); ++q)
            told.for_each(asked.elems[q], [&](const Held& h) {
                answers.push_back(h);
                askers.push_back(asked.source[q]);
            });
    }

    MPI_Comm comm_;
    mpi::ProcessGroupPtr group_;
    Point shape_;
    std::int64_t range_;  ///< of indices in the directory, for each process
    std::vector<Held> held_, answers_;
    std::vector<std::int64_t> asked_;  ///< ascending: own indices of all lists and partners
    std::vector<std::int64_t> words_;
    std::vector<std::vector<std::int64_t>> told_;
    std::size_t head_words_ = 0;
};

}  // namespace

std::vector<IndexList> index_lists(MPI_Comm comm, const Point& shape,
                                   std::span<const std::span<const std::int64_t>> mine,
                                   std::span<const Layout> partners) {
    const mpi::ProcessGroupPtr group = mpi::ProcessGroup::of(comm);
    std::optional<Maker> maker;
    mpi::collectively(*group, [&] {
        maker.emplace(comm, group, shape);
        maker->read(mine, partners);
        maker->summarise(mine, partners);
    });
    maker->tell();
    maker->compare(mine.size(), partners);
    maker->ask();
    std::vector<IndexList> lists;
    mpi::collectively(*group, [&] {
        for (std::size_t k = 0; k < mine.size(); ++k) lists.push_back(maker->made(k, mine[k]));
    });
    return lists;
}

void refuse_index_lists(MPI_Comm comm, const Error& error) {
    mpi::ProcessGroup::of(comm)->agree(error);
    throw error;
}

}  // namespace datamover
