// SPDX-License-Identifier: BSD-3-Clause
// Communicators: values kept with them, their first and last use by all processes, parts of a
// group.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <span>

#include "mpi/checked_call.hpp"
#include "process_group.hpp"

namespace datamover::mpi {

/// One value of a type with each communicator; copies of communicators begin with none. The type is
/// one of an unnamed namespace: of two libraries in a program, none sees what the other one keeps.
template <class Value>
class Attribute {
public:
    /// Null where none is kept yet.
    static Value* find(MPI_Comm comm) {
        void* found = nullptr;
        int present = 0;
        check(MPI_Comm_get_attr(comm, key(), static_cast<void*>(&found), &present),
              "MPI_Comm_get_attr");
        return present ? static_cast<Value*>(found) : nullptr;
    }
    static Value& keep(MPI_Comm comm, std::unique_ptr<Value> value) {
        check(MPI_Comm_set_attr(comm, key(), value.get()), "MPI_Comm_set_attr");
        return *value.release();
    }
    static void drop(MPI_Comm comm) {
        check(MPI_Comm_delete_attr(comm, key()), "MPI_Comm_delete_attr");
    }

private:
    /// Called by MPI when the communicator goes, or at MPI_Finalize.
    static int delete_value(MPI_Comm, int, void* value, void*) {
        delete static_cast<Value*>(value);
        return MPI_SUCCESS;
    }
    static int key() {
        static const int key = [] {
            int made = MPI_KEYVAL_INVALID;
            check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_value, &made, nullptr),
                  "MPI_Comm_create_keyval");
            return made;
        }();
        return key;
    }
};

/// A duplicate of a communicator, made once all its processes have called this. Throws timeout at
/// the deadline, Interrupted, mpi; where some processes have thrown and others have not, a call by
/// all of them makes up for it. Collective.
MPI_Comm duplicate_when_all_came(MPI_Comm comm);

/// Frees a communicator once each of its processes has called this; before that, another one may
/// still send messages with it, such as the notice of a failure. MPI could otherwise give its
/// context to a new communicator, which would receive these. Later calls of this or of `free_left`
/// free those that all processes have left. Communicators that a process never leaves stay, and so
/// do all if memory is short. Local: begins a barrier and does not wait for it.
void free_when_all_left(MPI_Comm comm) noexcept;
/// Frees what all processes have left by now. Local, from any thread.
void free_left() noexcept;

/// A communicator of the processes that pass the same part, in order of their ranks. Unlike a
/// duplicate, it has no attributes of the user's. Collective, blocks in MPI.
MPI_Comm split(const ProcessGroup& group, int part);

/// A communicator for one user, given back with its last reference and kept for later users: of all
/// processes of a group or, where `parts` has the lowest rank of each process's part, the same on
/// all, of this process's part. Operations of one user alone come in the same order on all
/// processes. Made where all such communicators are in use; those of parts in a call that blocks in
/// MPI until all processes have called. Throws unsupported, on all processes, if too many are in
/// use. Collective.
std::shared_ptr<const MPI_Comm> claim_communicator(const ProcessGroup& group,
                                                   std::span<const std::int64_t> parts = {});

}  // namespace datamover::mpi
