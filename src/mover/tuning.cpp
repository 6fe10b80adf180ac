// SPDX-License-Identifier: BSD-3-Clause
// Tuning: measures which transports are fastest for a mover.
//
// Each candidate is a mover of its own between arrays of the same shape. They take turns, several
// times, since other things happen on a machine meanwhile; of each turn the middle one of its
// rounds after the first counts, with its slowest process, and of the turns the best. What is
// faster than "auto" must not be slower with the caches full of other things. Then the transports
// that were found carry in other manners: the other side copies, messages have other lengths. Every
// figure that something follows from is the same on all processes.
#include "tuning.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>

#include "bound_operation.hpp"
#include "geometry/checked.hpp"
#include "geometry/digest.hpp"
#include "geometry/make_error.hpp"
#include "memory/large_pages.hpp"
#include "mpi/collectives.hpp"
#include "mpi/waiting.hpp"
#include "tuning_turn.hpp"

namespace datamover {
namespace {

using transport::AcceptedOption;

constexpr int passes = 3;
/// A candidate that is so many times slower than the best at first is not tried again. A single
/// round may be slow for other reasons.
constexpr std::int64_t hopeless = 5;
constexpr int first_rounds = 5;
/// "auto" stays unless another one needs less than this part of its time.
constexpr double clearly_faster = 0.97;
constexpr double longest_seconds = 3600;
constexpr std::int64_t other_bytes = std::int64_t{4} << 20;
constexpr std::int64_t most_cool_rounds = 10, most_cool_ns = 20'000'000;  ///< of a turn
constexpr std::int64_t most_ns = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t most_rounds = 10000;  ///< of a turn
constexpr double nanoseconds = 1e9;
/// Of the time, for other manners; each of them takes so many rounds at the least.
constexpr double manners_share = 0.25;
constexpr double least_manner_rounds = 2 + 2 * passes;

struct Candidate {
    MoverTrial line;
    std::vector<Moves> phases;
    BoundOperation operation;
    Round round;
    std::int64_t first_ns = 0, best_ns = 0;  ///< of one round

    Candidate(const mpi::ProcessGroupPtr& group, const std::string& transports)
        : operation(group), round(group, operation, "mover on trial") {
        line.transport = transports;
    }
};

/// What can be tried, the same on all processes; "auto" first. Collective.
std::vector<std::string> candidates(const mpi::ProcessGroup& group,
                                    const std::vector<Moves>& phases) {
    std::int64_t near = 0, far = 0;
    for (const Moves& moves : phases)
        for (const PlannedParts& parts : moves.plans)
            for (const PeerPart& peer : parts.outgoing)
                if (peer.rank != group.rank())
                    (group.node().position(peer.rank) < 0 ? far : near) = 1;
    const auto any = group.maximum({near, far});
    std::vector<std::string> names{"auto"}, on_node, anywhere;
    for (const auto& kind : transport::transport_kinds())
        if (kind.name != "self")
            (reaches_other_nodes(kind) ? anywhere : on_node).push_back(kind.name);
    if (any[0] + any[1] > 0) names.insert(names.end(), anywhere.begin(), anywhere.end());
    if (any[0] == 0) return names;
    for (const std::string& near_name : on_node) {
        if (any[1] == 0) names.push_back(near_name);
        for (const std::string& far_name : anywhere)
            if (any[1] > 0) names.push_back(near_name + "+" + far_name);
    }
    return names;
}

/// What all processes together bring. Collective.
std::int64_t common_key(const mpi::ProcessGroup& group, const std::vector<Moves>& phases,
                        const MoverOptions& options) {
    std::vector<std::int64_t> mine;
    for (const Moves& moves : phases) mine.push_back(tuning_key(group, moves, options));
    geometry::WordDigest digest;
    for (const auto& keys : group.gather(mine)) digest.put_all(keys);
    return digest.value();
}

/// The candidate that the file names, in a manner that is tried; none: an empty text. Collective;
/// process 0 reads.
std::string found_in_file(const mpi::ProcessGroup& group, std::int64_t key,
                          const std::vector<std::string>& names) {
    std::string known;
    if (group.rank() == 0) {
        known = find_in_tuning_file(tuning_file_path(), key);
        const auto is_tried = [&](const std::string& name) {
            return name == known || std::ranges::count(transport::other_options(name), known) > 0;
        };
        if (std::ranges::none_of(names, is_tried)) known.clear();
    }
    return mpi::broadcast(group, 0, std::move(known));
}

class Trials {
public:
    Trials(const mpi::ProcessGroupPtr& group, const std::vector<Moves>& bound,
           const MoverOptions& options)
        : group_(group), options_(options) {
        // The sum over the processes of this machine: each alone might find room.
        std::int64_t needed_bytes = 0;
        const auto of_all = group_->gather({scratch_bytes(bound)});
        for (const int rank : group_->node().machine_ranks)
            needed_bytes =
                geometry::bounded_add(needed_bytes, of_all[static_cast<std::size_t>(rank)][0]);
        mpi::collectively(*group_, [&] {
            memory::require_available(needed_bytes);
            stand_in_ = between_scratch_arrays(bound);
            other_ = memory::SegmentPool::allocate_private(other_bytes);
        });
    }

    /// Binds what is to be tried. Throws no_memory where none of it can be bound. Collective.
    void bind(const std::vector<std::string>& names) {
        for (const std::string& name : names) add(name);
        if (able_.empty()) throw Error(ErrorCode::no_memory, all_.front()->line.why_not);
    }

    std::vector<MoverTrial> run(double seconds) {
        measure(seconds * (1 - manners_share) * nanoseconds);
        Candidate& found = choose(*all_.front());
        Candidate& chosen = in_best_manner(found, seconds * manners_share * nanoseconds);
        chosen.line.chosen = true;
        return lines(chosen.best_ns);
    }

private:
    using Clock = std::chrono::steady_clock;

    /// Of all that is able, in about so much time.
    void measure(double all_ns) {
        for (Candidate* c : able_)
            look_at(*c, all_ns / static_cast<double>(able_.size() * first_rounds));
        drop_hopeless();
        const double share_ns = all_ns / static_cast<double>(able_.size() * passes);
        for (int pass = 0; pass < passes; ++pass)
            for (Candidate* c : able_) {
                run_rounds(*c, 1);  // the caches hold what the candidate before moved
                const std::int64_t middle_ns = run_rounds(*c, most_rounds, share_ns);
                c->best_ns = pass == 0 ? middle_ns : std::min(c->best_ns, middle_ns);
            }
    }

    /// What was found, or the same transports in another manner that is faster. What these need is
    /// told in parts of what the usual manner needs beside them, whose time stays as it was.
    Candidate& in_best_manner(Candidate& found, double all_ns) {
        const std::int64_t found_ns = found.best_ns;
        const auto manners = manners_worth_a_trial(found, all_ns);
        if (manners.empty()) return found;
        able_ = {&found};
        for (const std::string& name : manners) add(name);
        measure(all_ns);
        Candidate& chosen = choose(found);
        const double scale = static_cast<double>(found_ns) / static_cast<double>(found.best_ns);
        for (const auto& c : all_)
            if (c.get() == &found)
                c->best_ns = found_ns;
            else if (std::ranges::find(manners, c->line.transport) != manners.end())
                c->best_ns = static_cast<std::int64_t>(scale * static_cast<double>(c->best_ns));
        return chosen;
    }

    /// Other manners that change what a candidate does, as many as there is time for: who copies,
    /// and lengths below the longest message, with the next one above where that goes in parts.
    /// Collective.
    std::vector<std::string> manners_worth_a_trial(const Candidate& c, double all_ns) const {
        const auto uses = uses_of(c);
        std::vector<std::string> worth;
        for (const std::string& name : transport::other_options(c.line.transport))
            if (changes_something(name, uses)) worth.push_back(name);
        const double most = all_ns / (least_manner_rounds * static_cast<double>(c.best_ns)) - 1;
        if (static_cast<double>(worth.size()) > most)
            worth.resize(static_cast<std::size_t>(std::max(0.0, most)));
        return worth;
    }

    /// Of each kind of transport in turn, on any process: the bytes of the longest message, and the
    /// most chunks of one. Collective.
    std::vector<std::int64_t> uses_of(const Candidate& c) const {
        const auto& kinds = transport::transport_kinds();
        std::vector<std::int64_t> uses(2 * kinds.size(), 0);
        for (const Binding& phase : c.operation.phases())
            for (const auto& t : phase.transports)
                for (const MoverPair& pair : t->lines()) {
                    const auto found =
                        std::ranges::find(kinds, pair.transport, &transport::TransportKind::name);
                    const auto k = static_cast<std::size_t>(found - kinds.begin());
                    uses[2 * k] = std::max(uses[2 * k], pair.bytes);
                    uses[2 * k + 1] = std::max(uses[2 * k + 1], pair.chunks);
                }
        return group_->maximum(std::move(uses));
    }

    /// Elements that are combined are so by the receiver.
    bool changes_something(const std::string& name, const std::vector<std::int64_t>& uses) const {
        constexpr std::int64_t step = 4;  // from length to length
        const auto& kinds = transport::transport_kinds();
        for (std::size_t k = 0; k < kinds.size(); ++k) {
            const std::int64_t longest_bytes = uses[2 * k], above = uses[2 * k + 1] > 1 ? step : 1;
            const auto manner = transport::options_of_transport(name, kinds[k].name);
            if (kinds[k].takes == AcceptedOption::who_copies && manner.receivers_copy &&
                longest_bytes > 0 && options_.op == Op::replace)
                return true;
            if (kinds[k].takes == AcceptedOption::chunk_bytes && manner.chunk_bytes > 0 &&
                manner.chunk_bytes / above < longest_bytes)
                return true;
        }
        return false;
    }

    /// Binds a candidate; one that cannot carry the moves says why.
    void add(const std::string& name) {
        auto& c = *all_.emplace_back(std::make_unique<Candidate>(group_, name));
        BindRequest request(options_);
        request.transports = name;
        request.options.transport = "measure";
        request.options.check = false;
        c.phases = stand_in_;
        std::vector<Binding> bindings;
        try {
            for (Moves& moves : c.phases) bindings.push_back(bind_moves(group_, moves, request));
        } catch (const Error& e) {
            if (e.code() != ErrorCode::unsupported && e.code() != ErrorCode::no_memory &&
                e.code() != ErrorCode::invalid_argument)
                throw;
            c.line.why_not = e.what();
            return;
        }
        c.operation.take(std::move(bindings));
        able_.push_back(&c);
    }

    /// A first round, which finds the memory, and the best of some more; of one where that takes
    /// longer than `most_ns`.
    void look_at(Candidate& c, double most_ns) {
        run_rounds(c, 1);
        c.first_ns = run_rounds(c, 1);
        for (int i = 1; i < first_rounds && static_cast<double>(c.first_ns) < most_ns; ++i)
            c.first_ns = std::min(c.first_ns, run_rounds(c, 1));
        c.best_ns = c.first_ns;
    }

    /// The time of the middle one of several rounds, as many as fit a time: of each that of its
    /// slowest process, from when all have come to it. No round meets the next: else a sender could
    /// pack while the receiver is still busy with what came before, and what is slow for a single
    /// round would look fast. `cool`: the caches hold other things when it begins. Collective.
    std::int64_t run_rounds(Candidate& c, std::int64_t rounds,
                            double within_ns = static_cast<double>(most_ns),
                            bool cool = false) const {
        const auto ns_since = [](Clock::time_point begin) {
            return std::chrono::nanoseconds(Clock::now() - begin).count();
        };
        const auto begin = Clock::now();
        auto times_ns = rounds_within(within_ns, rounds, [&] {
            look_for_interrupt();
            if (cool) touch_other_memory();
            ++c.line.rounds;
            group_->maximum({0});
            const auto all_came = Clock::now();
            c.round.start();
            c.round.wait({});
            const auto most = group_->maximum({ns_since(all_came), ns_since(begin)});
            return RoundTime{most[0], most[1]};
        });
        const auto middle = times_ns.begin() + (std::ssize(times_ns) - 1) / 2;
        std::nth_element(times_ns.begin(), middle, times_ns.end());
        return *middle;
    }

    /// Rounds are too short for their waits to look.
    void look_for_interrupt() const {
        constexpr std::chrono::milliseconds interval{30};
        const auto now = Clock::now();
        if (now - looked_ < interval) return;
        looked_ = now;
        mpi::check_interrupt();
    }

    void touch_other_memory() const {
        constexpr std::int64_t line_bytes = 64;
        for (std::int64_t at = 0; at < other_->bytes; at += line_bytes) {
            volatile auto* line = reinterpret_cast<volatile unsigned char*>(other_->data + at);
            *line = static_cast<unsigned char>(*line + 1);
        }
    }

    /// Whether a candidate is at least not clearly slower than the usual one where the caches hold
    /// other things, as in a program that computes between its rounds. Rounds that follow each
    /// other flatter what touches more memory, such as a packed exchange.
    bool holds_when_cool(Candidate& c, Candidate& usual) const {
        const std::int64_t rounds =
            std::clamp<std::int64_t>(most_cool_ns / usual.best_ns, 1, most_cool_rounds);
        const auto most = static_cast<double>(most_ns);
        std::int64_t own_ns = most_ns, usual_ns = most_ns;
        for (int pass = 0; pass < passes; ++pass) {
            usual_ns = std::min(usual_ns, run_rounds(usual, rounds, most, true));
            own_ns = std::min(own_ns, run_rounds(c, rounds, most, true));
        }
        return !clearly_below(usual_ns, own_ns);
    }

    static bool clearly_below(std::int64_t own_ns, std::int64_t usual_ns) {
        return static_cast<double>(own_ns) < clearly_faster * static_cast<double>(usual_ns);
    }

    /// The fastest that is clearly faster than the usual one, or that. What is not tried any more
    /// is not among them.
    Candidate& choose(Candidate& usual) {
        std::ranges::stable_sort(
            able_, [](const Candidate* a, const Candidate* b) { return a->best_ns < b->best_ns; });
        for (Candidate* c : able_) {
            if (c->best_ns >= usual.best_ns) break;
            if (!clearly_below(c->best_ns, usual.best_ns)) {
                c->line.passed_over = "less than 3 % faster than " + usual.line.transport;
            } else if (!holds_when_cool(*c, usual)) {
                c->line.passed_over =
                    concat("slower than ", usual.line.transport, " with cold caches");
            } else {
                return *c;
            }
        }
        return usual;
    }

    void drop_hopeless() {
        std::int64_t best_ns = able_.front()->first_ns;
        for (const Candidate* c : able_) best_ns = std::min(best_ns, c->first_ns);
        std::erase_if(able_, [&](const Candidate* c) { return c->first_ns / hopeless > best_ns; });
    }

    /// Each that was faster than what was chosen says why it was not, and no other does. On a busy
    /// machine the first rounds of what was dropped may lie below all that came later.
    std::vector<MoverTrial> lines(std::int64_t chosen_ns) const {
        std::vector<MoverTrial> made;
        for (const auto& c : all_) {
            MoverTrial& line = made.emplace_back(c->line);
            line.seconds = static_cast<double>(c->best_ns) / nanoseconds;
            if (c->best_ns > chosen_ns)
                line.passed_over.clear();
            else if (c->best_ns > 0 && c->best_ns < chosen_ns && line.passed_over.empty())
                line.passed_over = "others were far faster when it was tried";
        }
        return made;
    }

    mpi::ProcessGroupPtr group_;
    MoverOptions options_;
    std::vector<Moves> stand_in_;
    std::vector<std::unique_ptr<Candidate>> all_;
    std::vector<Candidate*> able_;
    mutable Clock::time_point looked_;
    memory::AllocationPtr other_;  ///< more than a core's own caches hold
};

}  // namespace

bool reaches_other_nodes(const transport::TransportKind& kind) {
    transport::PairFacts far;
    far.destination_rank = 1;
    return kind.carries(far);
}

TuningResult tuned(const mpi::ProcessGroupPtr& group, const std::vector<Moves>& bound,
                   const MoverOptions& options, double seconds, bool looks_in_file) {
    mpi::collectively(*group, [&] {
        if (!(seconds > 0) || seconds > longest_seconds)
            throw make_error(ErrorCode::invalid_argument, "seconds is ", seconds, " on process ",
                             group->rank(), "; it must be a number above 0, of at most one hour");
    });
    const auto names = candidates(*group, bound);
    if (names.size() == 1) return {"auto", "nothing leaves a process", {}};
    seconds =
        static_cast<double>(group->maximum({static_cast<std::int64_t>(seconds * nanoseconds)})[0]) /
        nanoseconds;
    const std::int64_t key = common_key(*group, bound, options);
    const auto remember = [&](const std::string& transports) {
        for (const Moves& moves : bound) remember_transports(*group, moves, options, transports);
    };
    if (looks_in_file) {
        const std::string found = found_in_file(*group, key, names);
        if (!found.empty()) {
            remember(found);
            return {found, "measured by an earlier program", {}};
        }
    }
    std::optional<Trials> trials;
    try {
        trials.emplace(group, bound, options);
        trials->bind(names);
    } catch (const Error& e) {
        if (e.code() != ErrorCode::no_memory) throw;
        return {"", "", {{"auto", 0, 0, concat("not measured: ", e.what()), true, {}}}};
    }
    TuningResult result{"", "measured", trials->run(seconds)};
    for (const MoverTrial& trial : result.trials)
        if (trial.chosen) result.transports = trial.transport;
    remember(result.transports);
    if (group->rank() == 0) add_to_tuning_file(tuning_file_path(), key, result.transports);
    return result;
}

}  // namespace datamover
