# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks and their figures. `datamover bench NAME`.

A benchmark is one module here: its cases, the programs of its contenders, and its references.
Programs print rows with the seconds of every repetition (`bench/row_output.hpp`); `rows` computes
their medians, `report` the JSON object and the tables.
"""
