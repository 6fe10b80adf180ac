// SPDX-License-Identifier: BSD-3-Clause
// Finding the holders of indices if no process knows all lists.
//
// A directory is cut into equal ranges of indices, one for each process. All tell it what they hold
// and ask it about what they hold; three migrations carry that.
#include "datamover/index_lists.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "datamover/migration.hpp"
#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"
#include "geometry/radix_sort.hpp"
#include "mpi/collectives.hpp"
#include "mpi/process_group.hpp"

namespace datamover {
namespace {

/// Element `position` of list number `list` of process `rank` is `index`.
struct Held {
    std::int64_t index, list, rank, position;
};

/// Elements that arrived, in order of the processes that they came from, and how many of each.
template <class Element>
struct Arrived {
    std::vector<Element> elems;
    std::vector<std::int64_t> counts;
};

/// target_of(i) is the process that element number i goes to. Collective.
template <class Element, class TargetOf>
Arrived<Element> carry(MPI_Comm comm, const std::vector<Element>& elems, TargetOf&& target_of) {
    TargetList list;
    list.elems = std::ssize(elems);
    list.evaluate = [&](std::int64_t first, std::int64_t count, std::int64_t* targets) {
        for (std::int64_t i = 0; i < count; ++i)
            targets[i] = target_of(static_cast<std::size_t>(first + i));
    };
    Migration migration(comm, list);
    Arrived<Element> arrived;
    const auto received = static_cast<std::size_t>(migration.received());
    try {
        arrived.elems.resize(received);
        const auto counts = migration.receive_counts();
        arrived.counts.assign(counts.begin(), counts.end());
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

    /// Requires that all processes pass the same shape, partners and numbers of lists, then gathers
    /// the lengths and digests of all lists. Collective.
    void tell(std::span<const std::span<const std::int64_t>> mine,
              std::span<const Layout> partners) {
        std::vector<mpi::PassedValue> passed;
        std::vector<std::int64_t> digests, words;
        mpi::collectively(*group_, [&] {
            passed = {{"shapes", shape_.to_string()},
                      {"numbers of lists", std::to_string(mine.size())},
                      {"numbers of partners", std::to_string(partners.size())}};
            for (const Layout& partner : partners) digests.push_back(partner.digest());
            for (const auto& list : mine) {
                geometry::WordDigest digest;
                digest.put_all(list);
                words.insert(words.end(), {std::ssize(list), digest.value()});
            }
        });
        mpi::require_same(*group_, passed);
        mpi::require_same(*group_, digests, [&](std::size_t i) {
            return mpi::PassedValue{"partners", partners[i].describe()};
        });
        told_ = group_->gather(words);
    }

    void ask() {
        const auto held =
            carry(comm_, held_, [&](std::size_t i) { return held_[i].index / range_; });
        const auto asked = carry(comm_, asked_, [&](std::size_t i) { return asked_[i] / range_; });
        std::vector<Held> answers;
        std::vector<std::int64_t> askers;
        mpi::collectively(*group_, [&] { answer(held, asked, answers, askers); });
        answers_ = carry(comm_, answers, [&](std::size_t i) { return askers[i]; }).elems;
    }

    IndexList made(std::size_t number, std::span<const std::int64_t> own) const {
        IndexList::Part part;
        part.rank = group_->rank();
        part.own.assign(own.begin(), own.end());
        geometry::WordDigest digest;
        digest.put_all(shape_.to_vector());
        for (const auto& words : told_) {
            part.counts.push_back(words[2 * number]);
            digest.put(words[2 * number]);
            digest.put(words[2 * number + 1]);
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
        // At once an error, if the memory does not suffice for all.
        asked_.reserve(before + static_cast<std::size_t>(partner.local_elems(group_->rank())));
        for_each_own(partner, shape_, group_->rank(),
                     [&](std::int64_t index) { asked_.push_back(index); });
        merge_asked(before);
    }

    /// Puts what stands from `first` on in order with what ascends before it; mostly it ascends
    /// too.
    void merge_asked(std::size_t first) {
        const auto middle = asked_.begin() + static_cast<std::ptrdiff_t>(first);
        geometry::sort_by(std::span(middle, asked_.end()), std::identity{});
        std::inplace_merge(asked_.begin(), middle, asked_.end());
    }

    /// This process's part of the directory: to each who asks, all that hold the index.
    void answer(const Arrived<Held>& held, const Arrived<std::int64_t>& asked,
                std::vector<Held>& answers, std::vector<std::int64_t>& askers) const {
        const std::int64_t first = group_->rank() * range_;
        std::vector<std::int64_t> indices;
        indices.reserve(held.elems.size());
        for (const Held& h : held.elems) indices.push_back(h.index - first);
        const IndexList directory({range_}, std::array{std::int64_t{0}, std::ssize(indices)},
                                  indices);
        answers.reserve(asked.elems.size());
        askers.reserve(asked.elems.size());
        auto index = asked.elems.begin();
        for (std::size_t asker = 0; asker < asked.counts.size(); ++asker)
            for (const auto end = index + asked.counts[asker]; index != end; ++index)
                for (const IndexList::Holder& holder : directory.holders(*index - first)) {
                    answers.push_back(held.elems[static_cast<std::size_t>(holder.position)]);
                    askers.push_back(static_cast<std::int64_t>(asker));
                }
    }

    MPI_Comm comm_;
    mpi::ProcessGroupPtr group_;
    Point shape_;
    std::int64_t range_;  ///< of indices in the directory, for each process
    std::vector<Held> held_, answers_;
    std::vector<std::int64_t> asked_;  ///< ascending: own indices of all lists and partners
    std::vector<std::vector<std::int64_t>> told_;  ///< per process: length and digest of each list
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
    });
    maker->tell(mine, partners);
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
