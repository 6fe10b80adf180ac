/* SPDX-License-Identifier: BSD-3-Clause */
/* Which calls of BLACS do the tests make? It brings no header of its own. */
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
