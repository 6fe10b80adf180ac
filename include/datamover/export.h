/* SPDX-License-Identifier: BSD-3-Clause */
/* Marks of exported names: the shared libraries export only what is declared under them. */
#ifndef DATAMOVER_EXPORT_H
#define DATAMOVER_EXPORT_H

#if defined(__GNUC__)
/* For a namespace body: `namespace datamover DATAMOVER_PUBLIC {`. */
#define DATAMOVER_PUBLIC __attribute__((visibility("default")))
#define DATAMOVER_PUBLIC_BEGIN _Pragma("GCC visibility push(default)")
#define DATAMOVER_PUBLIC_END _Pragma("GCC visibility pop")
#else
#define DATAMOVER_PUBLIC
#define DATAMOVER_PUBLIC_BEGIN
#define DATAMOVER_PUBLIC_END
#endif

#endif
