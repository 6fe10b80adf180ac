# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks and their figures. `datamover bench NAME`.

A benchmark is one description: its cases, the players that run its contenders, and its references
(`benchmark`). Programs print rows with the seconds of every repetition: in C++ by
`bench/row_output.hpp`, in Python by `contest`. `rows` makes medians of them, `report` the JSON
object and the tables, `chart` the picture, `compare` a comparison with an earlier run, and
`results_page` the page of all benchmarks.
"""
