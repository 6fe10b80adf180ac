# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks and the figures made of them. `datamover bench NAME`.

A benchmark is one module here: its cases, the programs that play its contenders, and what is the
reference. Programs print rows with the seconds of every repetition (`bench/row_output.hpp`);
`rows` makes medians of them, `report` the JSON object and the tables.
"""
