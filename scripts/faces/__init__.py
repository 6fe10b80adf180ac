# SPDX-License-Identifier: BSD-3-Clause
"""Generators of what follows from the C headers: Fortran module, C wrappers, lists and tables."""
