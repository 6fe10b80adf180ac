/* SPDX-License-Identifier: BSD-3-Clause */
/* Version of the headers, and of the linked library, for C and C++. */
#ifndef DATAMOVER_VERSION_H
#define DATAMOVER_VERSION_H

#include <datamover/export.h>

/* Version of the headers. Before 1.0 a new minor version may break programs. */
#define DATAMOVER_VERSION_MAJOR 0
#define DATAMOVER_VERSION_MINOR 1
#define DATAMOVER_VERSION_PATCH 0
#define DATAMOVER_VERSION_STRING "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif
DATAMOVER_PUBLIC_BEGIN

/* Return the version of the library, such as "0.1.0". It fits headers whose
 * DATAMOVER_VERSION_STRING is the same. The string is static; does not need MPI. */
const char* datamover_version(void);

DATAMOVER_PUBLIC_END
#ifdef __cplusplus
}
#endif

#endif
