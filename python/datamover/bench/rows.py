# SPDX-License-Identifier: BSD-3-Clause
"""Rows per contender from the repetitions that programs report, and ratios between them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

#: Fields that identify a row.
KEY = ("case", "phase", "contender", "processes", "mpi")

RANDOM_PREFIX = "random-"

Row = dict[str, Any]


def key_of(row: Row) -> tuple[Any, ...]:
    """Return what identifies a row."""
    return tuple(row[name] for name in KEY)


@dataclass
class Results:
    """The rows of one benchmark, gathered from any number of programs and rounds.

    Rows of the same case, phase, contender, number of processes and MPI are one row; its seconds
    are the median over all repetitions of all rounds.

    Examples
    --------
    >>> from datamover.bench.rows import Results
    >>> results = Results()
    >>> results.add({"case": "a", "phase": "move", "contender": "x", "processes": 2, "bytes": 8,
    ...              "mpi": "MPICH 5.0.2", "samples": [3.0, 1.0, 2.0]})
    >>> results.rows()[0]["seconds"], results.rows()[0]["runs"]
    (2.0, 3)
    """

    left_out: list[dict[str, str]] = field(default_factory=list)
    compilers: set[str] = field(default_factory=set)
    others: list[Row] = field(default_factory=list)
    _facts: dict[tuple[Any, ...], Row] = field(default_factory=dict)

    def add(self, line: Row) -> None:
        """Add a line of a program: a row, a note that a contender was left out, or a header.

        Parameters
        ----------
        line : dict
            A row has `case`, `phase`, `contender`, `processes`, `bytes` and either `samples`
            (seconds of each repetition) or `seconds` (already a median) and `runs`; other entries
            are kept. Other lines are in `others`.
        """
        if "left_out" in line:
            self.leave_out(line["left_out"], line["reason"], line.get("case", ""))
        elif "contender" in line:
            facts = {"mpi": "", **line}
            median = facts.pop("seconds", None)
            samples = facts.pop("samples", None) or [median]
            runs = facts.pop("runs", len(samples))
            row = self._facts.setdefault(key_of(facts), {"samples": [], "runs": 0})
            row |= facts
            row["samples"] += samples
            row["runs"] += runs
        elif "compiler" in line:
            self.compilers.add(line["compiler"])
        else:
            self.others.append(line)

    def leave_out(self, contender: str, reason: str, case: str = "") -> None:
        """Note that a contender did not take part, and why; in all cases if none is named."""
        note = {"contender": contender, "reason": reason, "case": case}
        if note not in self.left_out:
            self.left_out.append(note)

    def add_best(self, name: str, ways: tuple[str, ...]) -> None:
        """Add, for every case and phase, a row with the best of several contenders.

        Parameters
        ----------
        name : str
            Name of the contender in the new row.
        ways : tuple of str
            How the names of the contenders begin.
        """
        best: dict[tuple[str, str], tuple[float, Row]] = {}
        for row in self._facts.values():
            if row["contender"].startswith(ways):
                place = (row["case"], row["phase"])
                found = (statistics.median(row["samples"]), row)
                best[place] = min(best.get(place, found), found, key=lambda entry: entry[0])
        for _, row in best.values():
            facts = {**row, "contender": name, "best_is": row["contender"]}
            self._facts[key_of(facts)] = facts

    def rows(self) -> list[Row]:
        """Return one row per contender, with `seconds` (median) and `runs`."""
        return [
            {
                **{name: row[name] for name in KEY[:4]},
                "seconds": statistics.median(row["samples"]),
                "runs": row["runs"],
                "seconds_fastest": min(row["samples"]),
                "seconds_slowest": max(row["samples"]),
                **{k: v for k, v in row.items() if k not in (*KEY[:4], "runs", "samples")},
            }
            for row in self._facts.values()
        ]

    def samples(self) -> dict[tuple[str, str], list[float]]:
        """Return all samples by case and contender, of one phase, number of processes and MPI."""
        return {(row["case"], row["contender"]): row["samples"] for row in self._facts.values()}


@dataclass(frozen=True)
class Pair:
    """The times of a contender and of a reference in a case and phase."""

    contender: str
    reference: str
    case: str
    phase: str
    seconds: float
    reference_seconds: float
    benchmark: str = ""

    @property
    def ratio(self) -> float:
        """How many times as fast the contender is as the reference."""
        return self.reference_seconds / self.seconds

    @property
    def of(self) -> str:
        """Whether the case is listed or random."""
        return "random" if self.case.startswith(RANDOM_PREFIX) else "listed"


def pairs_of(
    rows: Iterable[Row], contenders: Iterable[str], references: Iterable[str], benchmark: str = ""
) -> list[Pair]:
    """Return the pairs of contenders and references that took part in the same case and phase.

    Examples
    --------
    >>> from datamover.bench.rows import pairs_of
    >>> rows = [{"case": "a", "phase": "move", "contender": c, "seconds": s}
    ...         for c, s in (("ours", 1.0), ("theirs", 3.0))]
    >>> [pair.ratio for pair in pairs_of(rows, ["ours"], ["theirs"])]
    [3.0]
    """
    seconds = {(row["case"], row["phase"], row["contender"]): row["seconds"] for row in rows}
    return [
        Pair(ours, theirs, case, phase, time, seconds[case, phase, theirs], benchmark)
        for ours, theirs in product(contenders, references)
        for (case, phase, contender), time in seconds.items()
        if contender == ours != theirs and (case, phase, theirs) in seconds and time > 0
    ]


def worst_decile(ratios: Iterable[float]) -> float:
    """Return the ratio that nine out of ten cases reach.

    Examples
    --------
    >>> from datamover.bench.rows import worst_decile
    >>> worst_decile([5.0, 1.0, 2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0])
    2.0
    """
    ordered = sorted(ratios)
    return ordered[len(ordered) // 10]


def spreads(pairs: Iterable[Pair], *names: str) -> list[dict[str, Any]]:
    """Return the median, worst decile and worst ratio of each group of pairs.

    Parameters
    ----------
    pairs : iterable of Pair
    *names : str
        The attributes that the pairs of a group have in common; entries of the result too.
    """
    groups: dict[tuple[str, ...], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(tuple(getattr(pair, name) for name in names), []).append(pair)
    found = []
    for group, members in groups.items():
        worst, ratios = min(members, key=lambda p: p.ratio), [p.ratio for p in members]
        figures = {"cases": len(members), "median": statistics.median(ratios)}
        figures |= {"worst_decile": worst_decile(ratios), "worst": worst.ratio}
        found.append(dict(zip(names, group, strict=True)) | figures | {"worst_case": worst.case})
    return found


def summarize(
    rows: Sequence[Row], references: Sequence[str], judged: tuple[str, ...] = ("datamover",)
) -> list[dict[str, Any]]:
    """Return ratios of speed over all cases: median, worst decile and worst, per phase.

    Listed cases and random ones have entries of their own, as `of` names them.

    Parameters
    ----------
    rows : sequence of dict
    references : sequence of str
        Contenders to compare with.
    judged : tuple of str
        Beginnings of the names of the contenders that are compared.
    """
    contenders = dict.fromkeys(r["contender"] for r in rows if r["contender"].startswith(judged))
    found = spreads(pairs_of(rows, contenders, references), "of", "phase", "contender", "reference")
    return sorted(found, key=lambda entry: (entry["of"], entry["phase"]))  # stable within a phase
