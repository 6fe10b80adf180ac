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
#include "datamover/stream_options.hpp"

// Declared outside of the public part, so that shared libraries do not export them.
namespace datamover::stream {
class Consumer;
class IncomingArray;
}  // namespace datamover::stream

namespace datamover DATAMOVER_PUBLIC {

/// An array that a stream sends.
struct StreamArray {
    std::string name;
    Layout layout;      ///< over the sending processes
    std::string dtype;  ///< in NumPy's file notation, as JSON: "\"<f8\""
    std::int64_t elem_bytes = 0;
};

/// A step whose arrays are stored in the memory passed for them.
struct StreamStep {
    std::int64_t number = 0;         ///< as counted by the sending program
    std::vector<std::string> names;  ///< names of the arrays sent in it
};

/// A whole array of a step, received by a process that selected all arrays.
struct WholeStreamArray {
    std::string name;
    Layout layout;      ///< on the one process that receives
    std::string dtype;  ///< as StreamArray's
    std::int64_t elem_bytes = 0;
    /// The elements, the last dimension fastest. Valid until the next call of `next`.
    std::span<std::byte> elements;
};

/// The receiving end of a stream (`Stream`, or one of Python). Each process gets its part of an
/// array directly from the processes that hold it. A call that waits reads the connections itself;
/// while the program makes no calls, a thread of the library, which does not call MPI, reads them.
/// Only one thread at a time may use it. If a collective call fails on one process, all throw.
class StreamSource {
public:
    /// Make an object without a stream.
    StreamSource();
    /// Connect to "tcp://host:port". Throws timeout (no program listens), io (another kind of
    /// program does), invalid_argument (it requires another token), invalid_state (it has ended),
    /// peer_failed (it ends meanwhile, or already serves its largest number of consumers),
    /// invalid_argument. Collective.
    StreamSource(MPI_Comm comm, const std::string& address,
                 const StreamSourceOptions& options = {});
    /// Leave the stream, as `close`.
    ~StreamSource();
    StreamSource(StreamSource&&) noexcept;
    StreamSource& operator=(StreamSource&&) noexcept;

    /// Return the arrays sent so far, at least one. Waits up to `timeout_seconds` (see
    /// progress.hpp) for the first array, not for the end of its step. Throws timeout, and as
    /// `next`. Collective.
    std::vector<StreamArray> arrays(std::optional<double> timeout_seconds = {});
    /// Select, once, the arrays to receive, and the memory of this process's part of each: an
    /// Array's `part()`, or any other with its layout. Returns once the stream has confirmed the
    /// selection: the first step received is the next one to begin after that. Throws mismatch (a
    /// layout for other processes; processes select different arrays), invalid_argument (memory
    /// that cannot be written), invalid_state (already selected, or closed), unsupported (an index
    /// list that no process holds whole), timeout (not confirmed within the timeout of connecting),
    /// peer_failed (the stream failed meanwhile). Collective.
    void subscribe(std::map<std::string, ArrayPart> wanted);
    /// Select all arrays, whole, on a single process, including those that are first sent later.
    /// Each array is received as a step of its own, with the number of its step. Throws
    /// invalid_argument if several processes receive, invalid_state. Collective.
    void subscribe_to_all();
    /// Wait up to `timeout_seconds` (see progress.hpp) for the next step, and store its arrays in
    /// their memory; no value if the stream has ended. Each process gets the same steps. Throws
    /// timeout, mismatch (layouts that do not fit those sent; the stream has ended and sent only
    /// arrays that were not selected), wrong_type (another type is sent), peer_failed (a sending
    /// process failed; a receiving one was killed, or left without taking this step), io (received
    /// data that is malformed, or arrived damaged), no_memory, invalid_state. Local.
    std::optional<StreamStep> next(std::optional<double> timeout_seconds = {});
    /// Take the place of the next collective call on a process that cannot make it: all processes
    /// throw `why`.
    [[noreturn]] void refuse(const Error& why);

    // Local. All throw invalid_state if there is no stream.

    /// Return the array that `next` received last. Throws invalid_state if it received none, or if
    /// not all arrays were selected.
    const WholeStreamArray& whole_array() const;

    /// Leave the stream. The other processes of the communicator still get every step that this one
    /// took; for further steps, `next` throws peer_failed there.
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
