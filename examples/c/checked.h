/* SPDX-License-Identifier: BSD-3-Clause */
/* Check of the examples: ends the program with the message of a failed call. */
#ifndef CHECKED_H
#define CHECKED_H

#include <datamover/datamover.h>
#include <stdio.h>
#include <stdlib.h>

/* The library's functions return 0 or a code; the message describes the error. */
static void succeed(int code) {
    if (code == DATAMOVER_SUCCESS) return;
    fprintf(stderr, "%s: %s\n", datamover_error_name(code), datamover_error_message());
    MPI_Abort(MPI_COMM_WORLD, code);
    exit(code); /* MPI_Abort may return before the process ends */
}

/* Checks of the results. */
static void expect(int holds, const char* what) {
    if (holds) return;
    fprintf(stderr, "not so: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

#endif
