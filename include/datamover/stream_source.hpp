// SPDX-License-Identifier: BSD-3-Clause
// Stream sources: receive, step by step, the arrays that another program sends.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datamover/array_part.hpp"
#include "datamover/error.hpp"
#include "datamover/export.h"
#include "datamover/layout.hpp"
#include "datamover/stream_source_options.hpp"

namespace datamover DATAMOVER_PUBLIC {

namespace stream {
class Consumer;
class IncomingArray;
}  // namespace stream

/// An array that a stream sends.
struct StreamArray {
    std::string name;
    Layout layout;      ///< of the sending processes
    std::string dtype;  ///< as NumPy writes it into a file, as JSON: "\"<f8\""
    std::int64_t elem_bytes = 0;
};

/// A step whose arrays are in the memory that was given for them.
struct StreamStep {
    std::int64_t number = 0;         ///< as the sending program counts
    std::vector<std::string> names;  ///< of the arrays that were sent in it
};

/// An array of a step that came whole, to a process that wants all.
struct WholeStreamArray {
    std::string name;
    Layout layout;      ///< of the one process that receives
    std::string dtype;  ///< as StreamArray's
    std::int64_t elem_bytes = 0;
    /// Its elements, the last dimension fastest; until the next step is waited for.
    std::span<std::byte> elements;
};

/// The receiving end of a stream (`Stream`, or one of Python). Each process gets its part of an
/// array straight from those that hold it. While a call waits it reads the connections itself; a
/// thread of its own, without MPI, does so where the program stays away. Used by one thread at a
/// time. Where a collective call fails on one process, all throw.
class StreamSource {
public:
    /// No stream.
    StreamSource();
    /// Connects to "tcp://host:port". Collective. Throws timeout (nobody listens), io (somebody
    /// else does), invalid_state (the stream has ended, or wants another token), peer_failed (it
    /// ends meanwhile, or serves as many as it can), invalid_argument.
    StreamSource(MPI_Comm comm, const std::string& address,
                 const StreamSourceOptions& options = {});
    /// Leaves it, as `close`.
    ~StreamSource();
    StreamSource(StreamSource&&) noexcept;
    StreamSource& operator=(StreamSource&&) noexcept;

    /// The arrays that were sent so far, at least one. Waits so long (nothing: for ever) for the
    /// first, not for the end of its step. Collective. Throws timeout, and as `next`.
    std::vector<StreamArray> arrays(std::optional<double> timeout_seconds = {});
    /// Says once which arrays are wanted, and where this process's part of each is put: an XArray's
    /// `part()`, or any other with its layout. Steps come from those on that begin from now on.
    /// Collective. Throws mismatch (a layout for other processes; processes want different
    /// arrays), invalid_argument (memory that cannot be written), invalid_state (said before, or
    /// closed), unsupported (a list of indices that no process knows whole).
    void subscribe(std::map<std::string, ArrayPart> wanted);
    /// The same of a process alone that wants all arrays whole, also those that are sent first
    /// later: each comes as a step of its own, with the number of its step. Collective. Throws
    /// invalid_argument where several processes receive, invalid_state.
    void subscribe_to_all();
    /// Waits so long (nothing: for ever) for the next step and puts its arrays into their memory;
    /// none where the stream has ended. Each process gets the same steps. Local. Throws timeout,
    /// mismatch (layouts that do not fit what is sent; it has ended and sent only other arrays than
    /// those that are wanted), wrong_type (another type is sent),
    /// peer_failed (a sending process failed; a receiving one was killed, or left without taking
    /// this step), io (what came makes no sense, or was damaged again and again), no_memory,
    /// invalid_state.
    std::optional<StreamStep> next(std::optional<double> timeout_seconds = {});
    /// Has the others throw `why` from the collective call that they make, where this process
    /// cannot make it; throws it here, too.
    [[noreturn]] void refuse(const Error& why);

    // Local. They throw invalid_state where there is no stream.

    /// The array that `next` gave last. Throws invalid_state where it gave none, or not all are
    /// wanted.
    const WholeStreamArray& whole_array() const;

    /// Leaves the stream. The other processes of the communicator still get every step that this
    /// one took; `next` throws peer_failed there in place of a further one.
    void close();
    StreamSourceCounters counters() const;

private:
    stream::Consumer& consumer() const;

    void unpack_whole(const stream::IncomingArray& array);

    std::unique_ptr<stream::Consumer> consumer_;
    std::map<std::string, ArrayPart> wanted_;
    bool wants_all_ = false;
    std::shared_ptr<std::byte> whole_memory_;
    std::optional<WholeStreamArray> whole_;
};

}  // namespace datamover
