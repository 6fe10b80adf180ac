# SPDX-License-Identifier: BSD-3-Clause
"""Rows per contender from the repetitions that programs report, and ratios between them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

#: Fields that identify a row.
KEY = ("case", "phase", "contender", "processes", "mpi")

RANDOM_PREFIX = "random-"

Row = dict[str, Any]


def key_of(row: Row) -> tuple[Any, ...]:
    """Return what identifies a row."""
    return tuple(row[name] for name in KEY)


def rows_of(lines: Iterable[Row], with_samples: bool = False) -> list[Row]:
    """Return the rows among the lines that any number of programs printed in any number of rounds.

    Lines of the same case, phase, contender, number of processes and MPI are one row; its seconds
    are the median over all repetitions of all rounds.

    Parameters
    ----------
    lines : iterable of dict
        That of a row has `case`, `phase`, `contender`, `processes`, `bytes` and either `samples`
        (seconds of each repetition) or `seconds` (already a median) and `runs`; other entries are
        kept.
    with_samples : bool
        Whether the rows keep the samples.

    Examples
    --------
    >>> from datamover.bench.rows import rows_of
    >>> line = {"case": "a", "phase": "move", "contender": "x", "processes": 2, "bytes": 8,
    ...         "mpi": "MPICH 5.0.2", "samples": [3.0, 1.0, 2.0]}
    >>> rows_of([line])[0]["seconds"], rows_of([line, line])[0]["runs"]
    (2.0, 6)
    """
    found: dict[tuple[Any, ...], Row] = {}
    for line in lines:
        if "contender" in line:
            facts = {"mpi": "", **line}
            median = facts.pop("seconds", None)
            samples = facts.pop("samples", None) or [median]
            row = found.setdefault(key_of(facts), {"samples": [], "runs": 0})
            sums = {"runs": row["runs"] + facts.get("runs", len(samples))}
            row |= facts | sums | {"samples": row["samples"] + samples}
    return [
        {
            **{name: row[name] for name in KEY[:4]},
            "seconds": statistics.median(row["samples"]),
            "runs": row["runs"],
            "seconds_fastest": min(row["samples"]),
            "seconds_slowest": max(row["samples"]),
            **{k: v for k, v in row.items() if with_samples or k != "samples"},
        }
        for row in found.values()
    ]


def best_of(lines: Iterable[Row], name: str, ways: tuple[str, ...]) -> list[Row]:
    """Return, for every case and phase, a line with the best of several contenders.

    Parameters
    ----------
    lines : iterable of dict
    name : str
        Name of the contender in the new line.
    ways : tuple of str
        How the names of the contenders begin.
    """
    places: dict[tuple[str, str], list[Row]] = {}
    for row in rows_of(lines, with_samples=True):
        if row["contender"].startswith(ways):
            places.setdefault((row["case"], row["phase"]), []).append(row)
    best = (min(rows, key=lambda row: row["seconds"]) for rows in places.values())
    return [{**row, "contender": name, "best_is": row["contender"]} for row in best]


def notes_of(lines: Iterable[Row]) -> list[dict[str, str]]:
    """Return which contenders did not take part, and why; in all cases if none is named."""
    notes = [
        {"contender": line["left_out"], "reason": line["reason"], "case": line.get("case", "")}
        for line in lines
        if "left_out" in line
    ]
    return [note for i, note in enumerate(notes) if note not in notes[:i]]


def pairs_of(
    rows: Iterable[Row], contenders: Iterable[str], references: Iterable[str], benchmark: str = ""
) -> list[Row]:
    """Return the pairs of contenders and references that took part in the same case and phase.

    The `ratio` of a pair is how many times as fast the contender is as the reference. `of` is
    whether its case is listed or random.

    Examples
    --------
    >>> from datamover.bench.rows import pairs_of
    >>> rows = [{"case": "a", "phase": "move", "contender": c, "seconds": s}
    ...         for c, s in (("ours", 1.0), ("theirs", 3.0))]
    >>> [pair["ratio"] for pair in pairs_of(rows, ["ours"], ["theirs"])]
    [3.0]
    """
    seconds = {(row["case"], row["phase"], row["contender"]): row["seconds"] for row in rows}
    return [
        {
            "benchmark": benchmark,
            "case": case,
            "phase": phase,
            "contender": ours,
            "seconds": time,
            "reference": theirs,
            "reference_seconds": other,
            "ratio": other / time,
            "of": "random" if case.startswith(RANDOM_PREFIX) else "listed",
        }
        for ours, theirs in product(contenders, references)
        for (case, phase, contender), time in seconds.items()
        for other in [seconds.get((case, phase, theirs))]
        if contender == ours != theirs and other is not None and time > 0
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


def spreads(pairs: Iterable[Row], *names: str) -> list[dict[str, Any]]:
    """Return the median, worst decile and worst ratio of each group of pairs.

    Parameters
    ----------
    pairs : iterable of dict
        Have a `case` and a `ratio`.
    *names : str
        The entries that the pairs of a group have in common; entries of the result too.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for pair in pairs:
        groups.setdefault(tuple(pair[name] for name in names), []).append(pair)
    found = []
    for group, members in groups.items():
        worst, ratios = min(members, key=lambda p: p["ratio"]), [p["ratio"] for p in members]
        figures = {"cases": len(members), "median": statistics.median(ratios)}
        figures |= {"worst_decile": worst_decile(ratios), "worst": worst["ratio"]}
        found.append(dict(zip(names, group, strict=True)) | figures | {"worst_case": worst["case"]})
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
