# SPDX-License-Identifier: BSD-3-Clause
"""Runs a benchmark and returns the figures that it writes."""

import atexit
import functools
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from datamover import launch


@functools.cache
def compilers():
    """A folder with Open MPI's compiler, which compiles each program once; none: there is none."""
    compiler = shutil.which("mpicxx.openmpi")
    if compiler is None:
        return None
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    once = Path(__file__).with_name("compile_once.py")
    command = shlex.join(map(str, (sys.executable, once, compiler, folder)))
    found = folder / "bin" / Path(compiler).name
    found.parent.mkdir()
    found.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    found.chmod(0o755)
    return found.parent


def bench(name, file, *arguments):
    """Run `datamover bench NAME`, and return what it writes: rows, and who was left out."""
    command = [sys.executable, "-m", "datamover.cli", "bench", name, "--json", file]
    environment = launch.outer_environment() | launch.open_mpi_environment()
    if folder := compilers():
        environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        [str(word) for word in (*command, *arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text())
