# SPDX-License-Identifier: BSD-3-Clause
"""Selection of a benchmark. The command `datamover bench`."""

from __future__ import annotations

import typer

from datamover.bench import (
    applications,
    distribute,
    files,
    flat,
    halo,
    latency,
    model,
    overlap,
    plan,
    redistribute,
    relations,
    stream,
    transports,
)

app = typer.Typer(
    help="Compare the speed with other libraries and MPI, in one run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("applications")(applications.bench)
app.command("distribute")(distribute.bench)
app.command("files")(files.bench)
app.command("flat")(flat.bench)
app.command("halo")(halo.bench)
app.command("latency")(latency.bench)
app.command("overlap")(overlap.bench)
app.command("redistribute")(redistribute.bench)
app.command("plan")(plan.bench)
app.command("relations")(relations.bench)
app.command("model")(model.bench)
app.command("stream")(stream.bench)
app.command("transports")(transports.bench)
