# SPDX-License-Identifier: BSD-3-Clause
"""Rows per contender from the repetitions that programs report."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

#: Entries that identify a row.
Key = tuple[str, str, str, int, str]


@dataclass(frozen=True)
class LeftOut:
    """A contender that did not take part, and why; `case` is "" for all cases."""

    contender: str
    reason: str
    case: str = ""


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
    ...              "samples": [3.0, 1.0, 2.0]}, mpi="MPICH 5.0.2")
    >>> results.rows()[0]["seconds"], results.rows()[0]["runs"]
    (2.0, 3)
    """

    left_out: list[LeftOut] = field(default_factory=list)
    _samples: dict[Key, list[float]] = field(default_factory=dict)
    _runs: dict[Key, int] = field(default_factory=dict)
    _facts: dict[Key, dict[str, Any]] = field(default_factory=dict)

    def add(self, line: dict[str, Any], mpi: str) -> None:
        """Add a line of a program's output: a row, or a note that a contender was left out.

        Parameters
        ----------
        line : dict
            A row has `case`, `phase`, `contender`, `processes`, `bytes` and either `samples`
            (seconds of each repetition) or `seconds` (already a median) and `runs`; other entries
            are kept.
        mpi : str
            The MPI of the program.
        """
        if "left_out" in line:
            self.leave_out(line["left_out"], line["reason"], line.get("case", ""))
            return
        if "contender" not in line:
            return
        facts = {"mpi": mpi, **line}
        samples = facts.pop("samples", None) or [facts.pop("seconds")]
        key = _key(facts)
        self._runs[key] = self._runs.get(key, 0) + facts.pop("runs", len(samples))
        self._facts.setdefault(key, {}).update(facts)
        self._samples.setdefault(key, []).extend(samples)

    def leave_out(self, contender: str, reason: str, case: str = "") -> None:
        """Record that a contender did not take part."""
        note = LeftOut(contender, reason, case)
        if note not in self.left_out:
            self.left_out.append(note)

    def add_best(self, name: str, among: Callable[[str], bool]) -> None:
        """Add, for every case and phase, a row with the best of several variants.

        Parameters
        ----------
        name : str
            Name of the contender in the new row.
        among : callable
            Returns whether the contender with a name is one of the variants.
        """
        best: dict[tuple[str, str], dict[str, Any]] = {}
        for row in self.rows():
            place = (row["case"], row["phase"])
            if among(row["contender"]) and (
                place not in best or row["seconds"] < best[place]["seconds"]
            ):
                best[place] = row
        for row in best.values():
            facts = {**row, "contender": name, "best_is": row["contender"]}
            self._facts[_key(facts)] = facts

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per contender, with `seconds` (median) and `runs`."""
        return [self._row(key) for key in self._facts]

    def samples(self) -> dict[tuple[str, str], list[float]]:
        """Return all samples by case and contender, of one phase, number of processes and MPI."""
        return {(key[0], key[2]): list(samples) for key, samples in self._samples.items()}

    def _row(self, key: Key) -> dict[str, Any]:
        row = dict(zip(("case", "phase", "contender", "processes"), key, strict=False))
        samples = self._samples.get(key)
        if samples:
            row["seconds"] = statistics.median(samples)
            row["runs"] = self._runs[key]
            row["seconds_fastest"], row["seconds_slowest"] = min(samples), max(samples)
        return {**row, **{k: v for k, v in self._facts[key].items() if k not in row}}


def _key(facts: dict[str, Any]) -> Key:
    return (facts["case"], facts["phase"], facts["contender"], facts["processes"], facts["mpi"])


def speed_ratios(
    rows: Iterable[dict[str, Any]], contender: str, reference: str
) -> dict[tuple[str, str], float]:
    """Return how many times as fast a contender is as a reference, per case and phase.

    Parameters
    ----------
    rows : iterable of dict
    contender, reference : str

    Returns
    -------
    dict
        From (case, phase) to the reference's seconds over the contender's, if both took part.

    Examples
    --------
    >>> from datamover.bench.rows import speed_ratios
    >>> rows = [{"case": "a", "phase": "move", "contender": c, "seconds": s}
    ...         for c, s in (("ours", 1.0), ("theirs", 3.0))]
    >>> speed_ratios(rows, "ours", "theirs")
    {('a', 'move'): 3.0}
    """
    seconds: dict[str, dict[tuple[str, str], float]] = {contender: {}, reference: {}}
    for row in rows:
        if row["contender"] in seconds:
            seconds[row["contender"]][row["case"], row["phase"]] = row["seconds"]
    return {
        place: seconds[reference][place] / s
        for place, s in seconds[contender].items()
        if place in seconds[reference] and s > 0
    }


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
