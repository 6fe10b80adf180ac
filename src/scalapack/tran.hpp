// SPDX-License-Identifier: BSD-3-Clause
// Transposing sections with PBLAS's arguments.
#pragma once

#include "blacs_integers.hpp"
#include "datamover/datamover.h"

namespace datamover {

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
