/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations of the BLACS functions that the tests call, because BLACS has no header. */
#ifndef DATAMOVER_TESTS_BLACS_H
#define DATAMOVER_TESTS_BLACS_H

#ifdef __cplusplus
extern "C" {
#endif
void Cblacs_get(int context, int what, int* value);
void Cblacs_gridmap(int* context, int* map, int lda, int nprow, int npcol);
void Cblacs_gridinit(int* context, const char* order, int nprow, int npcol);
void Cblacs_gridinfo(int context, int* nprow, int* npcol, int* row, int* column);
void Cblacs_gridexit(int context);
#ifdef __cplusplus
}
#endif

#endif
