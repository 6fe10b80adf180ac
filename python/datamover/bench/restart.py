# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of saving arrays and loading them on other processes. Cases of `bench files`.

A phase is a run of `restart_contenders` under mpiexec, of one contender. The seconds are those of
its slowest process, after a barrier. Processes, MPI and the contents exist before.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamover.bench import process_trees, programs
from datamover.bench.rows import Results

ARRAYS = 8
#: Extent of chunks; boxes of 2 and 4 processes are whole numbers of them.
PARTS = 4
OTHERS = ("tensorstore", "mpi-io")


@dataclass(frozen=True)
class Case:
    """Eight cubes of doubles are saved on some processes, and loaded on others."""

    name: str
    savers: int
    loaders: int
    #: Whether the last dimension is cut first, instead of the first one.
    columns: bool = False

    def description(self, path: Path, gigabytes: float) -> dict[str, Any]:
        """Return the description of the case for contenders."""
        edge = max(16, round((gigabytes * 1e9 / 8 / ARRAYS) ** (1 / 3) / 16) * 16)
        part = edge // PARTS
        return {
            "path": str(path),
            "edge": edge,
            "arrays": ARRAYS,
            "columns": self.columns,
            "chunks": [part, part, 2 * part],
        }


CASES = (
    Case("restart-4-2", 4, 2),
    Case("restart-2-3", 2, 3),
    Case("restart-columns-4-2", 4, 2, columns=True),
    Case("restart-columns-2-3", 2, 3, columns=True),
)


def measure(
    results: Results, case: Case, place: Path, gigabytes: float, rounds: int, python: str
) -> None:
    """Add the rows of a case: phases "save" and "load" of all contenders, in turns.

    Parameters
    ----------
    results : Results
    case : Case
    place : Path
        A directory for the files.
    gigabytes : float
        Size of all arrays together.
    rounds : int
    python : str
        The interpreter with the other contenders.
    """
    turns = list(_turns(python))
    for k in range(rounds):
        for name, interpreter in turns[k % len(turns) :] + turns[: k % len(turns)]:
            path = place / f"restart{'.bin' if name == 'mpi-io' else '.zarr'}"
            described = case.description(path, gigabytes)
            _one_turn(results, case, name, interpreter, described)
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _turns(python: str) -> Iterator[tuple[str, str]]:
    """Yield contenders and interpreters; datamover and MPI-IO have datamover's mpi4py."""
    own = sys.executable
    yield "datamover", own
    yield "datamover:numpy", own
    for name in OTHERS:
        yield name, own if name == "mpi-io" else python


def _one_turn(
    results: Results, case: Case, name: str, python: str, described: dict[str, Any]
) -> None:
    """Save and load once."""
    program = str(Path(__file__).with_name("restart_contenders.py"))
    rows = []
    for phase, processes in (("save", case.savers), ("load", case.loaders)):
        command = [python, program, name, phase, json.dumps(described | {"processes": processes})]
        mpi = programs.own_mpi()
        ended = process_trees.run(
            [mpi.mpiexec, "-n", str(processes), *command], mpi.settings(processes), looks=False
        )
        said = next(map(json.loads, ended.printed.splitlines()), {})
        reason = said.get("reason") or ended.failure()
        if reason is None and not said["right"]:
            reason = "wrong data"
        if reason is not None:
            results.leave_out(name, reason, case.name)
            return
        row = {"case": case.name, "phase": phase, "contender": name, "processes": processes}
        row |= {"bytes": described["arrays"] * described["edge"] ** 3 * 8}
        rows.append(row | {"samples": [said["seconds"]], "mpi": mpi.name})
    for row in rows:
        results.add(row, row["mpi"])
