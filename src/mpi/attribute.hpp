// SPDX-License-Identifier: BSD-3-Clause
// Attributes cached on a communicator.
#pragma once

#include <mpi.h>

#include <memory>

#include "mpi/checked_call.hpp"

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

}  // namespace datamover::mpi
