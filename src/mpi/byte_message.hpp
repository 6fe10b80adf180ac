// SPDX-License-Identifier: BSD-3-Clause
// Messages of MPI: lengths beyond int, derived datatypes and requests; whether MPI can be called.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace datamover::mpi {

/// A derived datatype, freed with this object.
class Datatype {
public:
    Datatype() = default;
    explicit Datatype(MPI_Datatype type) : type_(type) {}
    Datatype(Datatype&& other) noexcept : type_(other.release()) {}
    Datatype& operator=(Datatype&& other) noexcept {
        std::swap(type_, other.type_);
        return *this;
    }
    ~Datatype();

    MPI_Datatype get() const { return type_; }
    MPI_Datatype release() { return std::exchange(type_, MPI_DATATYPE_NULL); }
    /// Before it is used for messages.
    void commit();

private:
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

struct PlacedDatatype {
    std::int64_t displacement_bytes;
    Datatype type;
};

/// `count` elements of a type, without gaps; not committed.
Datatype contiguous(std::int64_t count, MPI_Datatype of);

/// One of each, in this order.
Datatype sequence(std::vector<PlacedDatatype> parts);

/// The bytes at a place in memory, counted from MPI_BOTTOM, committed.
Datatype bytes_at(const void* memory, std::int64_t bytes);

/// The place of memory as a displacement from MPI_BOTTOM.
std::int64_t displacement_of(const void* memory);

/// A count and a datatype that together stand for `bytes` bytes: MPI_BYTE below 2^31, above it a
/// datatype of its own (so that it works without MPI-4's large counts), freed with this object.
class ByteMessage {
public:
    explicit ByteMessage(std::int64_t bytes);
    /// One of a committed datatype.
    explicit ByteMessage(Datatype type) : count_(1), long_(std::move(type)) {}

    int count() const { return count_; }
    MPI_Datatype type() const { return long_.get() == MPI_DATATYPE_NULL ? MPI_BYTE : long_.get(); }

private:
    int count_ = 0;
    Datatype long_;
};

/// What lengths of messages are fastest between processes of one machine (measured with MPICH 5 and
/// Open MPI 4; docs/decisions/0011). Pieces of `quick_message_bytes` MPI hands over one after the
/// other, up to so many bytes together: its longest ones that the receiver need not ask for. The
/// second limit is for messages that nobody packs. Where all send as much as they receive, pieces
/// have `two_way_message_bytes`.
#ifdef OPEN_MPI
inline constexpr std::int64_t quick_message_bytes = 4032, quick_total_bytes = 32 << 10,
                              quick_unpacked_total_bytes = 16 << 10,
                              two_way_message_bytes = 256 << 10;
#else
inline constexpr std::int64_t quick_message_bytes = 8064, quick_total_bytes = 512 << 10,
                              quick_unpacked_total_bytes = 0, two_way_message_bytes = 1 << 20;
#endif

/// Frees a request that nobody waits for any more; a receive under way is cancelled first. False:
/// it could not be ended, its memory has to stay. Never waits.
bool end(MPI_Request& request, bool is_send) noexcept;

/// True between MPI_Init and MPI_Finalize, but not in a child forked meanwhile.
bool is_running();
/// Throws where it is not: a call of MPI would end the process, or, in such a child, take messages
/// from its parent.
void check_running();
/// Throws also for a communicator that nothing can be done with.
void check_usable(MPI_Comm comm);
/// As check_running where it was running before; takes no time.
void check_still_running();
/// Whether MPI_Finalize has begun, which calls destructors while MPI still runs.
bool is_ending();
/// In a child forked from the process that uses MPI: it has copies of objects whose memory and
/// communicators are its parent's, and letting them go must change nothing there.
bool is_forked_child();

/// Requests in places, tested together: at most one is under way in each.
class Requests {
public:
    void assign(std::size_t places);
    /// MPI_REQUEST_NULL where none is under way.
    MPI_Request& operator[](std::size_t place) { return requests_[place]; }
    /// Begins to send or to receive a message in a place. Allocates nothing.
    void begin(std::size_t place, bool sends, void* buffer, int count, MPI_Datatype type, int peer,
               int tag, MPI_Comm comm);
    /// The places of those that have ended since the last call, valid until the next one. Throws
    /// what MPI says of any of them. Allocates nothing.
    std::span<const int> ended();
    /// Frees a message under way (its round failed), if MPI still runs; one that is received is
    /// cancelled first. False: it could not be ended, its memory has to stay. Never waits.
    bool free(std::size_t place) noexcept;

private:
    std::vector<MPI_Request> requests_;
    std::vector<char> sends_;
    std::vector<int> ended_;
    std::vector<MPI_Status> statuses_;
};

}  // namespace datamover::mpi
