# SPDX-License-Identifier: BSD-3-Clause
"""Selection of a benchmark. The command `datamover bench`."""

from __future__ import annotations

import typer

from datamover.bench import all_benchmarks, options

app = typer.Typer(
    help="Compare the speed with other libraries and MPI, in one run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for benchmark in all_benchmarks.BENCHMARKS:
    options.add_command(app, benchmark)
app.command("all")(all_benchmarks.bench)
