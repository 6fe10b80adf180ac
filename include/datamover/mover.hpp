// SPDX-License-Identifier: BSD-3-Clause
// Movers: execute a plan between arrays, repeatedly.
#pragma once

#include <mpi.h>

#include <complex>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "datamover/array_part.hpp"
#include "datamover/error.hpp"
#include "datamover/export.h"
#include "datamover/motion_plan.hpp"
#include "datamover/x_array.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// How a mover works; all optional.
struct MoverOptions {
    /// How arriving elements are combined. An element that goes to itself, in the same memory,
    /// stays as it is, whatever op and alpha are.
    Op op = Op::replace;
    /// Or the name of one: "shared", "read", "staged", "p2p", "datatype", "collective",
    /// "neighbour", "get", "put"; several, joined by "+", of which the first that can carry a pair
    /// does, each alone or with who copies or the longest message behind it ("shared:receiver",
    /// "p2p:64K"; docs/transports.md); or "measure": the fastest, as by tune(0.2) or by what was
    /// measured before. For tests, "poison:" before any but "measure": the mover works on copies
    /// and complains, by mismatch, of a transport that reads or writes what the plan does not.
    std::string transport = "auto";
    std::complex<double> alpha = 1;  ///< factor of arriving elements
    std::complex<double> beta = 1;   ///< factor of those in place, with Op::add
    bool conjugate = false;          ///< arriving complex elements are conjugated
    /// Verifies at binding, byte by byte, that no element is written twice and none is read that is
    /// written, and that sizes match per pair. Where one process asks, all do. Takes time and
    /// memory in the elements moved; errors are mismatch and invalid_argument. (Always verified are
    /// that all processes hold the same plans and options, and that no box or product is read that
    /// is written, as far as a few comparisons for each tell.)
    bool check = false;
    /// Most bytes of message buffers and staging memory of this process, 0 for no limit. Messages
    /// then go in rounds. Too little (an element, in whole lines of 64 bytes, and 128 bytes more
    /// for each process that it sends to and each that it receives from): invalid_argument.
    std::int64_t max_bytes = 0;
};

/// What a mover has done so far on this process.
struct MoverCounters {
    std::int64_t rounds = 0;         ///< completed start/wait pairs
    std::int64_t messages_sent = 0;  ///< per round, to other processes
    std::int64_t messages_received = 0;
    std::int64_t bytes_sent = 0;  ///< per round, to other processes
    std::int64_t bytes_received = 0;
    std::int64_t bytes_kept = 0;  ///< per round, copied within this process
    double wait_seconds = 0;      ///< spent in wait, all rounds, each without its first microsecond
};

/// How what goes to or comes from one process is carried, for explain.
struct MoverPair {
    std::int64_t peer = 0;
    bool sends = false;
    std::string transport;
    std::string why;  ///< why this transport
    std::int64_t elems = 0;
    std::int64_t bytes = 0;
    std::string encoding;
    std::int64_t relation_bytes = 0;
    std::string kernel;
    std::int64_t chunks = 1;  ///< in so many pieces it goes, per round
};

/// What was tried to find the fastest transports.
struct MoverTrial {
    std::string transport;
    double seconds = 0;       ///< of a round, of the slowest process; 0 where it cannot carry
    std::int64_t rounds = 0;  ///< that were run
    std::string why_not;      ///< why it cannot carry the plan
    bool chosen = false;
    std::string passed_over;  ///< why it was not taken although it took no longer than what was
};

/// A plan, and the arrays between which it is carried out: source k goes to destination k.
struct PlannedArrays {
    PlannedArrays() = default;
    PlannedArrays(MotionPlan carried, std::vector<ArrayPart> from, std::vector<ArrayPart> to)
        : plan(std::move(carried)), sources(std::move(from)), destinations(std::move(to)) {}
    PlannedArrays(MotionPlan carried, const XArray& source, const XArray& destination)
        : PlannedArrays(std::move(carried), std::vector{source.part()},
                        std::vector{destination.part()}) {}

    MotionPlan plan;
    std::vector<ArrayPart> sources, destinations;
};

/// Carries out plans between arrays as one collective operation, any number of times: one plan
/// between two arrays, or several arrays and several plans at once, in one message per pair of
/// processes and round. Arrays of different number types convert as NumPy's astype does; the
/// narrower type crosses the wire. Between start and wait the caller writes neither source nor
/// destination. Movers between the same processes are started in the same order everywhere; several
/// may be in flight, and are waited for in any order; none of them may write elements that another
/// one reads or writes, whatever its op (one mover of several plans may add them up). After binding
/// nothing is allocated and no collective is called.
///
/// A mover that goes while it is in flight has failed, and all processes are told: the others raise
/// peer_failed where they wait, or at their next call. Memory that peers may still touch stays.
/// Source: KeLP's Mover.
class Mover {
public:
    Mover() = default;
    /// Binds. Collective over `comm`: a reduction, an exchange on each node (two where data goes
    /// through buffers there) and a second reduction. Throws, on all processes or none and before
    /// anything moves: mismatch (plans or options that differ between processes; a plan and arrays
    /// that do not fit each other or the communicator), wrong_type, out_of_range (a section outside
    /// what a block's memory holds), invalid_argument (unknown transport, read-only destination),
    /// unsupported, no_memory.
    Mover(MPI_Comm comm, const MotionPlan& plan, const ArrayPart& source,
          const ArrayPart& destination, const MoverOptions& options = {});
    Mover(MPI_Comm comm, const MotionPlan& plan, const XArray& source, const XArray& destination,
          const MoverOptions& options = {});
    /// Several plans, each between one or several pairs of arrays, with the same options. Errors as
    /// above, and invalid_argument where a plan has no or not equally many sources and
    /// destinations.
    Mover(MPI_Comm comm, std::span<const PlannedArrays> moves, const MoverOptions& options = {});
    Mover(MPI_Comm comm, std::initializer_list<PlannedArrays> moves,
          const MoverOptions& options = {})
        : Mover(comm, std::span(moves.begin(), moves.size()), options) {}
    /// Several plans one after the other as one mover: what a plan brings to this process is there
    /// before the next one reads it here. start begins the first; test, wait, any other wait of the
    /// process and the progress thread push on through all of them. Halos axis by axis go so (see
    /// axis_halo), with corners that travel with the later axes. Each plan is bound as by a mover
    /// of its own; errors as there, and mismatch where processes bring different numbers of plans.
    /// Collective.
    static Mover in_phases(MPI_Comm comm, std::span<const PlannedArrays> phases,
                           const MoverOptions& options = {});
    /// Takes part in a binding of the other processes as one that cannot: all throw `error`, or
    /// that of a lower process. Collective.
    [[noreturn]] static void refuse(MPI_Comm comm, const Error& error);
    /// The same in a rebind of this mover, whose communicator may have been freed. Collective.
    [[noreturn]] void refuse_rebind(const Error& error);

    /// Goes over to other arrays of the same plans, without planning again; arrays are given in the
    /// order of the constructor. Collective; errors as in the constructor, after which the mover is
    /// bound as before. Throws invalid_state in flight.
    void rebind(const ArrayPart& source, const ArrayPart& destination);
    void rebind(std::span<const ArrayPart> sources, std::span<const ArrayPart> destinations);

    /// Measures which transports are the fastest here and goes over to them. Those that can carry
    /// the plan are tried for about `seconds` in all, besides binding each of them, three to nine
    /// rounds of each, and 6 to 60 of those that seem faster than "auto", until one is; in the last
    /// quarter of it others copy, and messages have other lengths. The arrays are not touched:
    /// memory of their size stands in for them meanwhile. Where there is none, nothing changes. All
    /// processes agree; this program remembers the result for movers with transport "auto", and
    /// later programs find it for "measure" in the file that DATAMOVER_TUNING_FILE names (empty:
    /// none; else datamover/tuning in the user's cache folder). Collective. Throws invalid_state in
    /// flight, unsupported for a mover with "poison:", invalid_argument unless `seconds` is above
    /// 0, and as a round does.
    void tune(double seconds = 0.2);
    /// Takes part in a tune of the other processes as `refuse_rebind` does in a rebind. Collective.
    [[noreturn]] void refuse_tune(const Error& error);
    /// What tune tried, or "measure"; empty where nothing was. Local.
    std::vector<MoverTrial> trials() const;

    /// Begins to move. Never waits for another process, but does by itself what can be done now:
    /// on a node that is often all the copying. With a progress thread it only announces the move
    /// (see progress.hpp); without one the mover goes on only in calls that test or wait, so this
    /// process must not wait elsewhere, before its own wait, for a peer that waits for it here.
    /// Throws invalid_state when already started, peer_failed.
    void start();
    /// Does what can be done now; true when complete here: then it is no longer in flight, and wait
    /// would throw. Throws invalid_state when not started.
    bool test();
    /// Returns when the destination is complete here and the source may be overwritten. Throws
    /// invalid_state when not started, and timeout (naming the processes waited for) when
    /// `timeout_seconds` (default: default_timeout() of progress.hpp) pass first; the mover is then
    /// still in flight and can be waited for again.
    void wait(std::optional<double> timeout_seconds = {});
    /// start and wait.
    void operator()(std::optional<double> timeout_seconds = {});
    bool in_flight() const;

    MoverCounters counters() const;
    /// How each pair is carried. Local.
    std::vector<MoverPair> pairs() const;
    /// Bytes of buffers besides the arrays.
    std::int64_t extra_bytes() const;
    /// Gives back buffers and references to the arrays. Local. Throws invalid_state in flight.
    void free();
    /// The same; in flight it gives the round up, which all processes are told. Local, never waits.
    void give_up() noexcept;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace datamover
