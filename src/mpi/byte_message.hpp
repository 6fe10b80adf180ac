// SPDX-License-Identifier: BSD-3-Clause
// How is a message of any 64-bit number of bytes described to an MPI with int counts?
#pragma once

#include <mpi.h>

#include <cstdint>

namespace datamover::mpi {

/// A count and a datatype that together stand for `bytes` bytes: MPI_BYTE below 2^31, above it a
/// datatype of its own (so that it works without MPI-4's large counts), freed with this object.
class ByteMessage {
public:
    explicit ByteMessage(std::int64_t bytes);
    ~ByteMessage();
    ByteMessage(const ByteMessage&) = delete;
    ByteMessage& operator=(const ByteMessage&) = delete;

    int count() const { return count_; }
    MPI_Datatype type() const { return type_; }

private:
    int count_ = 0;
    MPI_Datatype type_ = MPI_BYTE;
    bool owned_ = false;
};

/// Persistent requests for messages of bytes; the caller frees them with free_request.
MPI_Request persistent_send(const void* buffer, std::int64_t bytes, int peer, int tag,
                            MPI_Comm comm);
MPI_Request persistent_receive(void* buffer, std::int64_t bytes, int peer, int tag, MPI_Comm comm);

/// True between MPI_Init and MPI_Finalize.
bool is_running();

/// Frees an inactive request, if MPI still runs.
void free_request(MPI_Request& request);

}  // namespace datamover::mpi
