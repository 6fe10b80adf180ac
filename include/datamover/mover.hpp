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

#include "datamover/array.hpp"
#include "datamover/array_part.hpp"
#include "datamover/error.hpp"
#include "datamover/export.h"
#include "datamover/motion_plan.hpp"

namespace datamover DATAMOVER_PUBLIC {

/// Options of a mover, all with defaults.
struct MoverOptions {
    /// How received elements are combined with those in place. An element whose source and
    /// destination are the same memory is left unchanged, whatever op and alpha are.
    Op op = Op::replace;
    /// "auto", or the name of a transport: "shared", "read", "staged", "p2p", "datatype",
    /// "collective", "get", "put". Several names joined by "+" are a list: each pair uses the
    /// first that can carry it. A name may be followed by which side copies or by the
    /// longest message ("shared:receiver", "p2p:64K"; see docs/transports.md). "measure" uses the
    /// fastest transports, as measured earlier or by tune(0.2).
    std::string transport = "auto";
    std::complex<double> alpha = 1;  ///< factor of received elements
    std::complex<double> beta = 1;   ///< factor of elements in place, with Op::add
    bool conjugate = false;          ///< whether received complex elements are conjugated
    /// Check at binding, byte by byte, that no element is written twice, that none is both read and
    /// written, and that sizes match for each pair. If one process sets it, all processes check.
    /// Takes time and memory proportional to the elements moved. Throws mismatch and
    /// invalid_argument. Two checks are always made: that all processes pass the same plans and
    /// options, and, as far as a few comparisons for each can detect it, that no box or product is
    /// both read and written.
    bool check = false;
    /// Limit of message buffers and staging memory on this process, in bytes; 0 for no limit.
    /// Messages are then sent in rounds. The least is one element, rounded up to lines of 64 bytes,
    /// plus 128 bytes, for each process that it sends to and each that it receives from. Throws
    /// invalid_argument if the limit is smaller.
    std::int64_t max_bytes = 0;
    /// Throw wrong_type for conversions that NumPy refuses under "same_kind", such as floats to
    /// integers, also if no process holds elements of both arrays.
    bool same_kind = false;
};

/// Counters of a mover on this process.
struct MoverCounters {
    std::int64_t rounds = 0;         ///< completed start/wait pairs
    std::int64_t messages_sent = 0;  ///< per round, to other processes
    std::int64_t messages_received = 0;
    std::int64_t bytes_sent = 0;  ///< per round, to other processes
    std::int64_t bytes_received = 0;
    std::int64_t bytes_kept = 0;  ///< per round, copied within this process
    double wait_seconds = 0;  ///< spent in wait, in all rounds, less the first microsecond of each
};

/// How the elements sent to or received from one process are transferred, for explain.
struct MoverPair {
    std::int64_t peer = 0;
    bool sends = false;
    std::string transport;
    std::string why;  ///< why this transport was chosen
    std::int64_t elems = 0;
    std::int64_t bytes = 0;
    std::string encoding;
    std::int64_t relation_bytes = 0;
    std::string kernel;
    std::int64_t chunks = 1;  ///< number of pieces per round
};

/// One candidate of the search for the fastest transports.
struct MoverTrial {
    std::string transport;
    double seconds = 0;       ///< per round, of the slowest process; 0 if it cannot carry the plan
    std::int64_t rounds = 0;  ///< number of rounds run
    std::string why_not;      ///< why it cannot carry the plan
    bool chosen = false;
    std::string passed_over;  ///< why it was not chosen although it was at least as fast
};

/// A plan and the arrays to execute it between: source k is moved to destination k.
struct PlannedArrays {
    PlannedArrays() = default;
    PlannedArrays(MotionPlan carried, std::vector<ArrayPart> from, std::vector<ArrayPart> to)
        : plan(std::move(carried)), sources(std::move(from)), destinations(std::move(to)) {}
    PlannedArrays(MotionPlan carried, const Array& source, const Array& destination)
        : PlannedArrays(std::move(carried), std::vector{source.part()},
                        std::vector{destination.part()}) {}

    MotionPlan plan;
    std::vector<ArrayPart> sources, destinations;
    std::complex<double> alpha = 1;  ///< factor of received elements, times that of the options
};

/// Executes plans between arrays as one collective operation, any number of times: one plan between
/// two arrays, or several arrays and several plans at once, with one message per pair of processes
/// and round. Arrays of different number types are converted as by NumPy's astype; the narrower
/// type is sent. After binding, a mover allocates nothing and calls no collective.
///
/// Between start and wait the caller must write neither source nor destination. All processes must
/// start movers between the same processes in the same order. Several movers may be in flight, and
/// they may be waited for in any order. A mover in flight must not write elements that another one
/// reads or writes, whatever its op; to add up such writes, bind the plans to one mover.
///
/// A mover that is destroyed in flight has failed, and all processes are notified: the others throw
/// peer_failed from their wait or from their next call. Memory that peers may still access is kept.
/// Source: KeLP's Mover.
class Mover {
public:
    Mover() = default;
    /// Bind a plan to two arrays. Throws on all processes or on none, before anything is moved:
    /// mismatch (plans or options that differ between processes; a plan and arrays that do not fit
    /// each other or the communicator), wrong_type, out_of_range (a section outside a block's
    /// memory), invalid_argument (unknown transport, read-only destination), unsupported,
    /// no_memory. Collective over `comm`: a reduction, an exchange on each node (two if data is
    /// moved through buffers there) and a second reduction.
    Mover(MPI_Comm comm, const MotionPlan& plan, const ArrayPart& source,
          const ArrayPart& destination, const MoverOptions& options = {});
    Mover(MPI_Comm comm, const MotionPlan& plan, const Array& source, const Array& destination,
          const MoverOptions& options = {});
    /// Bind several plans, each between one or several pairs of arrays, with the same options.
    /// Throws as above, and invalid_argument if a plan has no sources or a different number of
    /// destinations. Collective.
    Mover(MPI_Comm comm, std::span<const PlannedArrays> moves, const MoverOptions& options = {});
    Mover(MPI_Comm comm, std::initializer_list<PlannedArrays> moves,
          const MoverOptions& options = {})
        : Mover(comm, std::span(moves.begin(), moves.size()), options) {}
    /// Bind several plans as one mover that executes them one after the other: the elements that a
    /// plan moves to this process are in place before the next plan reads them here. start begins
    /// the first plan; test, wait, any other wait of the process and the progress thread advance
    /// through all of them. Use it for halos axis by axis, in which later axes also move the
    /// corners (see axis_halo). Each plan is bound as by a mover of its own. Throws as that does,
    /// and mismatch if processes pass different numbers of plans. Collective.
    static Mover in_phases(MPI_Comm comm, std::span<const PlannedArrays> phases,
                           const MoverOptions& options = {});
    /// Take the place of a constructor call on a process that cannot make it. All processes throw
    /// `error`, or the error of a lower rank. Collective with the constructor on the others.
    [[noreturn]] static void refuse(MPI_Comm comm, const Error& error);
    /// Take the place of a rebind of this mover, whose communicator may have been freed; otherwise
    /// as `refuse`. Collective.
    [[noreturn]] void refuse_rebind(const Error& error);

    /// Bind to other arrays of the same plans, without planning again. Arrays are given in the
    /// order of the constructor. Throws as the constructor, after which the mover is bound as
    /// before, and invalid_state in flight. Collective.
    void rebind(const ArrayPart& source, const ArrayPart& destination);
    void rebind(std::span<const ArrayPart> sources, std::span<const ArrayPart> destinations);

    /// Measure which transports are the fastest here, and switch to them. The measurement takes
    /// about `seconds`, besides the time to bind the candidates. Each transport that can carry the
    /// plan runs three to nine rounds; those that seem faster than "auto" run 6 to 60, until one is
    /// faster. The last quarter of the time tries other copying sides and other message lengths.
    /// The arrays are not accessed: memory of their size is used in their place, and if there is
    /// not enough, nothing changes. All processes agree on the result. This program uses it for
    /// later movers with transport "auto". Later programs find it for "measure" in the file named
    /// by DATAMOVER_TUNING_FILE (default: datamover/tuning in the user's cache directory; empty: no
    /// file). Throws invalid_state in flight, invalid_argument unless `seconds` is above 0, and the
    /// errors of a round. Collective.
    void tune(double seconds = 0.2);
    /// Take the place of a tune on a process that cannot call it, as `refuse_rebind` for a rebind.
    /// Collective.
    [[noreturn]] void refuse_tune(const Error& error);
    /// Return the candidates that tune or "measure" has tried; empty if neither has run. Local.
    std::vector<MoverTrial> trials() const;

    /// Begin a round. Never waits for another process, but does the work that can be done now; on a
    /// node that is often all the copying. With a progress thread it only announces the move (see
    /// progress.hpp). Without one the mover advances only in calls that test or wait, so this
    /// process must not wait elsewhere, before its own wait, for a peer that waits for it in this
    /// mover. Throws invalid_state if already started, peer_failed.
    void start();
    /// Do the work that can be done now, and return whether the round is complete here. Once
    /// complete, the mover is no longer in flight, and wait would throw. Throws invalid_state if
    /// not started.
    bool test();
    /// Wait until the destination is complete here and the source may be overwritten. Throws
    /// invalid_state if not started, and timeout, naming the processes waited for, after
    /// `timeout_seconds` (default: default_timeout() of progress.hpp); the mover is then still in
    /// flight and can be waited for again.
    void wait(std::optional<double> timeout_seconds = {});
    /// Start and wait.
    void operator()(std::optional<double> timeout_seconds = {});
    bool in_flight() const;

    MoverCounters counters() const;
    /// Return how each pair is transferred. Local.
    std::vector<MoverPair> pairs() const;
    /// Return the bytes of buffers, not counting the arrays.
    std::int64_t extra_bytes() const;
    /// Release buffers and references to the arrays. Throws invalid_state in flight. Local.
    void close();
    /// Release the mover as `close` does; in flight, abandon the round and notify all processes.
    /// Never waits. Local.
    void abort() noexcept;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace datamover
