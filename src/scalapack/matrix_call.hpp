// SPDX-License-Identifier: BSD-3-Clause
// Calls with ScaLAPACK's and PBLAS's arguments as calls of datamover, and the last one's error.
#pragma once

#include <exception>
#include <new>

#include "blacs.hpp"
#include "datamover/datamover.h"
#include "datamover/error.hpp"

namespace datamover {

/// Of a thread's last call.
struct LastCall {
    int code = 0;      ///< 0: it succeeded
    int argument = 0;  ///< the position of the wrong one, as datamover_gemr2d_argument tells it
};
LastCall& last_call() noexcept;

/// Runs a call, which may throw; its code and message stay.
template <class Call>
int remembered(Call&& call) noexcept {
    last_call() = {};
    int code = 0;
    try {
        code = call();
    } catch (const Error& e) {
        code = datamover_error_set(static_cast<int>(e.code()), e.what());
    } catch (const std::bad_alloc&) {
        code = datamover_error_set(DATAMOVER_NO_MEMORY, "out of memory");
    } catch (const std::exception& e) {
        code = datamover_error_set(DATAMOVER_INVALID_STATE, e.what());
    }
    return last_call().code = code;
}

/// Tells ScaLAPACK's error handler of a call that failed.
void tell_pxerbla(int code, const char* routine, int context);

/// A call, but for what BLACS says.
struct MatrixCall {
    int m, n;
    datamover_matrix a, b;  ///< nothing is looked at where m or n is 0
    datamover_type type = DATAMOVER_OPAQUE;
    int elem_bytes;
    int transposed = 0;
    const datamover_mover_options* options = nullptr;
    char uplo = 0, diag = 0;  ///< of a trapezoid; 0: the whole section
};

/// Moves among the processes of a context. Returns the code, and keeps the wrong argument's
/// position as p?gemr2d's arguments are counted. Collective over the context. Throws
/// invalid_argument, mpi.
int move_in_context(int context, const MatrixCall& call);

/// p?gemr2d and p?trmr2d of elements of `elem_bytes`. Return the code, and keep it with the wrong
/// argument's position as the last call's. Collective over the context.
int gemr2d(int elem_bytes, int m, int n, const void* a, int ia, int ja, const int* desca, void* b,
           int ib, int jb, const int* descb, int context);
int trmr2d(int elem_bytes, const char* uplo, const char* diag, int m, int n, const void* a, int ia,
           int ja, const int* desca, void* b, int ib, int jb, const int* descb, int context);

/// The arguments as PBLAS has them.
struct Tran {
    const BlacsInt *m, *n;
    const void *alpha, *a;
    const BlacsInt *ia, *ja, *desca;
    const void *beta, *c;
    const BlacsInt *ic, *jc, *descc;
};

/// A name that programs call, and what it means.
struct Routine {
    const char* symbol;
    const char* name;
    datamover_type type;
    int elem_bytes;
    int conjugate;
};

/// Calls one of the routines, and reports an error to pxerbla. Collective over the context.
void call_tran(const Routine& routine, const Tran& t);

}  // namespace datamover
