// SPDX-License-Identifier: BSD-3-Clause
// Communicators with a neighbor graph.
#include "neighbour_graph.hpp"

#include <algorithm>
#include <utility>

#include "byte_message.hpp"
#include "checked_call.hpp"
#include "datatype.hpp"
#include "geometry/make_error.hpp"
#include "geometry/word_digest.hpp"

namespace datamover::mpi {
namespace {

/// Sums of such numbers differ where a process has other neighbours.
std::uint64_t mixed(std::uint64_t word) {
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
    return word ^ (word >> 31);
}

/// What a digest is of.
enum class Kind : std::int64_t { neighbours, part };

geometry::WordDigest digest_from(const ProcessGroup& group, Kind kind) {
    geometry::WordDigest digest;
    digest.put(static_cast<std::int64_t>(kind));
    digest.put(group.rank());
    return digest;
}

/// Collective.
std::uint64_t together(const ProcessGroup& group, const geometry::WordDigest& digest) {
    return group.sum(mixed(static_cast<std::uint64_t>(digest.value())));
}

std::uint64_t digest_of(const ProcessGroup& group, const Neighbours& neighbours) {
    geometry::WordDigest digest = digest_from(group, Kind::neighbours);
    for (const auto* ranks : {&neighbours.sources, &neighbours.destinations}) {
        digest.put(static_cast<std::int64_t>(ranks->size()));
        for (const int rank : *ranks) digest.put(rank);
    }
    return together(group, digest);
}

/// An exchange of a word per neighbour, in the form in which data moves.
struct Trial {
    struct Half {
        std::vector<std::int64_t> words;
        std::vector<int> counts;
        std::vector<MPI_Aint> places;
        std::vector<MPI_Datatype> types;

        explicit Half(std::size_t neighbours)
            : words(neighbours, -1),
              counts(neighbours, sizeof(std::int64_t)),
              types(neighbours, MPI_BYTE) {
            for (const std::int64_t& word : words) places.push_back(displacement_of(&word));
        }
    };

    Half sent, received;

    explicit Trial(const Neighbours& neighbours)
        : sent(neighbours.destinations.size()), received(neighbours.sources.size()) {}
};

std::int64_t word_for(std::int64_t from, std::int64_t to) {
    constexpr std::int64_t most_ranks = std::int64_t{1} << 31;
    return from * most_ranks + to;
}

/// Whether every neighbour's word arrives, here.
bool works(const ProcessGroup& group, const NeighbourGraph& graph, const Neighbours& neighbours) {
    const auto trial = std::make_shared<Trial>(neighbours);
    for (std::size_t i = 0; i < neighbours.destinations.size(); ++i)
        trial->sent.words[i] = word_for(group.rank(), neighbours.destinations[i]);
    group.carry_out("MPI_Ineighbor_alltoallw", trial, [&](MPI_Request* request) {
        const Trial::Half &s = trial->sent, &r = trial->received;
        return MPI_Ineighbor_alltoallw(MPI_BOTTOM, s.counts.data(), s.places.data(), s.types.data(),
                                       MPI_BOTTOM, r.counts.data(), r.places.data(), r.types.data(),
                                       graph.comm(), request);
    });
    for (std::size_t i = 0; i < neighbours.sources.size(); ++i)
        if (trial->received.words[i] != word_for(neighbours.sources[i], group.rank())) return false;
    return true;
}

/// MPI makes communicators in a call that cannot be given up, so nobody goes there before all
/// others have come: whose reduction failed does not come, and has told so. On one node no call of
/// MPI is needed for that, which could fail in turn.
void wait_for_all(const ProcessGroup& group) {
    group.all_equal(0);
}

}  // namespace

NeighbourGraph::NeighbourGraph(const ProcessGroup& group, const Neighbours& neighbours) {
    constexpr int keep_ranks = 0;
    const auto count = [](const std::vector<int>& ranks) {
        return to_int(static_cast<std::int64_t>(ranks.size()), "a number of neighbours");
    };
    check(MPI_Dist_graph_create_adjacent(
              group.comm(), count(neighbours.sources), neighbours.sources.data(), MPI_UNWEIGHTED,
              count(neighbours.destinations), neighbours.destinations.data(), MPI_UNWEIGHTED,
              MPI_INFO_NULL, keep_ranks, &comm_),
          "MPI_Dist_graph_create_adjacent");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

NeighbourGraph::NeighbourGraph(const ProcessGroup& group, int part) {
    check(MPI_Comm_split(group.comm(), part, group.rank(), &comm_), "MPI_Comm_split");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

NeighbourGraph::~NeighbourGraph() {
    if (comm_ != MPI_COMM_NULL && is_running()) MPI_Comm_free(&comm_);
}

/// The graph that is kept for a digest, or null.
std::shared_ptr<const NeighbourGraph> NeighbourGraphs::find(std::uint64_t digest) {
    const auto known =
        std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.digest == digest; });
    if (known == entries_.end()) return nullptr;
    std::rotate(known, known + 1, entries_.end());
    return entries_.back().graph;
}

/// Gives back the graph that has not been used for the longest time, of those that no process uses.
/// False where all are in use.
bool NeighbourGraphs::make_room(const ProcessGroup& group) {
    if (entries_.size() < most) return true;
    std::vector<std::int64_t> used;
    for (const Entry& entry : entries_) used.push_back(entry.graph.use_count() > 1);
    used = group.maximum(std::move(used));
    const auto unused = std::ranges::find(used, 0);
    if (unused == used.end()) return false;
    entries_.erase(entries_.begin() + (unused - used.begin()));
    return true;
}

std::shared_ptr<const NeighbourGraph> neighbour_graph(const ProcessGroup& group,
                                                      const Neighbours& neighbours) {
    auto& kept = group.neighbour_graphs();
    if (!kept) kept = std::make_shared<NeighbourGraphs>();
    NeighbourGraphs& graphs = *kept;
    const auto refuse = [&] { throw Error(ErrorCode::unsupported, graphs.why_not_); };
    if (!graphs.why_not_.empty()) refuse();
    const std::uint64_t digest = digest_of(group, neighbours);
    if (auto known = graphs.find(digest)) return known;
    if (!graphs.make_room(group))
        throw make_error(
            ErrorCode::unsupported, "transport \"neighbour\" cannot carry here: movers with ",
            NeighbourGraphs::most, " other graphs of neighbours are in use on this communicator");
    std::shared_ptr<const NeighbourGraph> made;
    wait_for_all(group);
    collectively(group, [&] { made = std::make_shared<NeighbourGraph>(group, neighbours); });
    const bool wrong = !works(group, *made, neighbours);
    if (group.maximum({wrong})[0] > 0) {
        graphs.why_not_ =
            "transport \"neighbour\" cannot carry here: MPI_Ineighbor_alltoallw of this MPI brings "
            "wrong data";
        refuse();
    }
    graphs.entries_.push_back({digest, made});
    return made;
}

std::shared_ptr<const NeighbourGraph> part_graph(const ProcessGroup& group, int part) {
    auto& kept = group.neighbour_graphs();
    if (!kept) kept = std::make_shared<NeighbourGraphs>();
    geometry::WordDigest words = digest_from(group, Kind::part);
    words.put(part);
    const std::uint64_t digest = together(group, words);
    if (auto known = kept->find(digest)) return known;
    if (!kept->make_room(group)) return nullptr;
    std::shared_ptr<const NeighbourGraph> made;
    wait_for_all(group);
    collectively(group, [&] { made = std::make_shared<NeighbourGraph>(group, part); });
    kept->entries_.push_back({digest, made});
    return made;
}

}  // namespace datamover::mpi
