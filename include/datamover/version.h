/* SPDX-License-Identifier: BSD-3-Clause */
/* Version of the headers, and of the linked library, for C and C++. */
#ifndef DATAMOVER_VERSION_H
#define DATAMOVER_VERSION_H

#include <datamover/export.h>

/* Of the headers. Before 1.0 another minor version may break programs. */
#define DATAMOVER_VERSION_MAJOR 0
#define DATAMOVER_VERSION_MINOR 1
#define DATAMOVER_VERSION_PATCH 0
#define DATAMOVER_VERSION_STRING "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif
DATAMOVER_PUBLIC_BEGIN

/* Of the library, as "0.1.0": it fits headers whose DATAMOVER_VERSION_STRING is the same. Static;
 * needs no MPI. */
const char* datamover_version(void);

DATAMOVER_PUBLIC_END
#ifdef __cplusplus
}
#endif

#endif
