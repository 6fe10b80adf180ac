# SPDX-License-Identifier: BSD-3-Clause
"""A benchmark: its cases, the programs that play them, and the one way to run it.

A benchmark is described once (`Benchmark`). Its table, JSON object and chart, the command line of
`datamover bench NAME` and its part of `datamover bench all` are made from that.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from datamover.bench import programs, report
from datamover.bench.chart import Panel, panels_by_phase
from datamover.bench.programs import Line
from datamover.bench.rows import RANDOM_PREFIX, best_of
from datamover.errors import InvalidArgument

#: Random cases are small: a program plays this many in the time of one listed case.
RANDOM_BATCH = 25


@dataclass(frozen=True)
class Case:
    """A case: its name, and the words that programs read after the name."""

    name: str
    words: tuple[Any, ...] = ()


def named(case: Any) -> tuple[Any, ...]:
    """Return the words that most programs read of a case: its name, and its own."""
    return (case.name, *case.words)


@dataclass(frozen=True)
class Player:
    """Contenders that run together, and the cases that they can play.

    Parameters
    ----------
    play : callable
        Takes cases and the seconds to measure each; returns lines as programs print them.
    plays : callable
        Whether it can play a case.
    """

    play: Callable[[Sequence[Any], float], Iterable[Line]]
    plays: Callable[[Any], bool] = lambda case: True


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """The description of a benchmark.

    Parameters
    ----------
    name, help : str
        As `datamover bench` shows them.
    options : mapping
        Names of the options of `options.OPTIONS` that it takes besides the common ones, with their
        defaults.
    cases : callable
        Returns the listed cases of a run: objects with a `name`.
    parse : callable, optional
        Returns the case of a name that is not listed, or raises `InvalidArgument`.
    random_case : callable, optional
        Returns a case from a `random.Random`, a name and the run.
    together : bool
        Whether a program plays all cases. By default, each case has a program of its own, so that
        its first call is a first call.
    threads : bool
        Whether contenders use all cores, whatever the number of processes.
    players : callable
        Returns what plays the cases of a run, after noting the contenders that cannot be built.
    references : tuple of str
        Contenders that the others are compared with, a column each.
    judged : tuple of str
        Beginnings of the names of the contenders in the summary.
    shown : tuple of str, optional
        Names of the contenders on the page of `datamover bench all`. By default, all in the
        summary.
    best : mapping
        Names of rows for the best of several contenders, and how the names of these begin.
    figures : callable, optional
        Returns further entries of the JSON object.
    tables : callable, optional
        Returns lines and tables (as `report.table` takes them) of further entries of the object.
    panels : callable
        Returns the panels of the chart from all rows.
    quick : mapping
        Options of `datamover bench all` without `--full`.
    """

    name: str
    help: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    cases: Callable[[Run], Iterable[Any]] = lambda run: ()
    parse: Callable[[str], Any] | None = None
    random_case: Callable[[random.Random, str, Run], Any] | None = None
    together: bool = False
    threads: bool = False
    players: Callable[[Run], Iterable[Player]] = lambda run: ()
    references: tuple[str, ...] = ()
    judged: tuple[str, ...] = ("datamover",)
    shown: tuple[str, ...] | None = None
    best: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    figures: Callable[[Run], dict[str, Any]] = lambda run: {}
    tables: Callable[[dict[str, Any]], Iterable[str | tuple[Any, ...]]] = lambda document: ()
    panels: Callable[[list[dict[str, Any]]], list[Panel]] = panels_by_phase
    quick: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Run:
    """One run of a benchmark: options (as attributes), cases, and what programs printed.

    Parameters
    ----------
    benchmark : Benchmark
    options : mapping
    scratch : Path
        A directory that is removed at the end.
    stack : ExitStack
        Closed at the end.
    lines : list of dict
        Rows, notes on contenders that were left out, and others.
    """

    benchmark: Benchmark
    options: Mapping[str, Any]
    scratch: Path
    stack: ExitStack
    lines: list[Line] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["options"][name]
        except KeyError:
            raise AttributeError(name) from None

    @cached_property
    def mpi(self) -> programs.Mpi:
        """The MPI of the programs, with the launcher that the user chose."""
        return programs.own_mpi(self.options.get("launcher"))

    @cached_property
    def cases(self) -> list[Any]:
        """The chosen cases, and random ones."""
        b, draw = self.benchmark, random.Random(self.options.get("seed"))
        chosen = choose(b.cases(self), self.case, b.parse)
        if b.random_case is not None:
            names = (f"{RANDOM_PREFIX}{i}" for i in range(self.random))
            chosen += [b.random_case(draw, name, self) for name in names]
        return chosen

    def player(
        self,
        *command: str,
        words: Callable[[Any], Iterable[Any]] = named,
        before: Sequence[Any] = (),
        in_file: bool = False,
        arguments: Callable[[Sequence[Any], float], Sequence[Any]] | None = None,
        mpi: programs.Mpi | None = None,
        processes: int | None = None,
        patience: float = 1.0,
        environment: dict[str, str] | None = None,
        plays: Callable[[Any], bool] = lambda case: True,
    ) -> Player:
        """Return a player that runs a program.

        Parameters
        ----------
        *command : str
            The program: the path, or the name of one that is installed with the benchmarks.
        words : callable
            Returns the words that the program reads of a case.
        before : sequence
            Arguments after the seconds, before those words.
        in_file : bool
            Whether the program reads the cases from a file, a line each, whose name comes first.
        arguments : callable, optional
            Returns the arguments for cases and seconds, if they are others.
        mpi : Mpi, optional
            By default, the run's.
        processes : int, optional
            By default, as many as the run has. 0: one, without MPI.
        patience : float
            By this factor a program may take longer than the seconds of its cases.
        environment : dict, optional
        plays : callable
        """

        def usual(cases: Sequence[Any], seconds: float) -> list[Any]:
            if not in_file:
                return [seconds, *before, *itertools.chain(*map(words, cases))]
            file = self.scratch / "cases"
            file.write_text("".join(" ".join(map(str, words(case))) + "\n" for case in cases))
            return [file, seconds, *before]

        name, *more = command
        program = name if os.sep in name else programs.program(name)

        def play(cases: Sequence[Any], seconds: float) -> list[Line]:
            return programs.run(
                None if processes == 0 else mpi or self.mpi,
                self.nprocs if processes is None else processes,
                [program, *more, *map(str, (arguments or usual)(cases, seconds))],
                patience * seconds * len(cases),
                environment,
            )

        return Player(play, plays)

    def python_player(self, measure: Callable[..., None], *before: Any, **how: Any) -> Player:
        """Return a player that calls a function of a module on all processes (`contest.main`).

        Parameters
        ----------
        measure : callable
            Takes a communicator, the seconds, what is in `before`, and a case's name and words. It
            prints rows.
        *before
        **how
            As `player` takes it.
        """

        def arguments(cases: Sequence[Any], seconds: float) -> list[str]:
            return [json.dumps([[seconds, *before, *named(case)] for case in cases])]

        program = (sys.executable, "-m", "datamover.bench.contest")
        function = (measure.__module__, measure.__name__)
        return self.player(*program, *function, arguments=arguments, **how)

    def groups(self) -> Iterator[list[Any]]:
        """Give the cases that a program plays at once."""
        drawn = [c for c in self.cases if c.name.startswith(RANDOM_PREFIX)]
        listed = [c for c in self.cases if c not in drawn]
        yield from [listed] if self.benchmark.together else ([case] for case in listed)
        yield from (drawn[i : i + RANDOM_BATCH] for i in range(0, len(drawn), RANDOM_BATCH))

    def measure(self) -> dict[str, Any]:
        """Let all players play all cases in turns, and return the JSON object."""
        b, rounds = self.benchmark, self.options.get("rounds", 1)
        cases = self.cases  # unknown ones are an error before anything is compiled
        players = list(b.players(self)) if cases else []
        for group in self.groups():
            seconds = self.options.get("seconds", 0.0) / rounds / len(group)
            for turn in range(rounds):
                first = turn % max(1, len(players))
                for player in players[first:] + players[:first]:
                    played = [case for case in group if player.plays(case)]
                    self.lines += player.play(played, seconds) if played else ()
        for name, ways in b.best.items():
            self.lines += best_of(self.lines, name, ways)
        document = report.as_json(self.lines, b.references, b.judged)
        judged = (r["contender"] for r in document["rows"] if r["contender"].startswith(b.judged))
        shown = list(dict.fromkeys(judged) if b.shown is None else b.shown)
        page = {"contenders": shown, "references": b.references}
        return {**document, "page": page, **b.figures(self)}


def match(pattern: str, name: str, usage: str) -> re.Match[str]:
    """Return the match of a whole name; raise `InvalidArgument` with the usage if there is none."""
    found = re.fullmatch(pattern, name, re.ASCII)
    if found is None:
        raise InvalidArgument(f"{name!r} is not {usage}")
    return found


def choose(
    cases: Iterable[Any],
    wanted: Sequence[str] | None,
    parse: Callable[[str], Any] | None = None,
) -> list[Any]:
    """Return the cases that `parse` makes of names, else those whose names begin so.

    Raises
    ------
    InvalidArgument
        `parse` does not take a name, and no case begins so.
    """
    cases = list(cases)
    chosen = [] if wanted else cases
    for name in wanted or ():
        try:
            if parse is None:
                names = ", ".join(case.name for case in cases)
                raise InvalidArgument(f"no case begins with {name}; there are {names}")
            found = [parse(name)]
        except InvalidArgument:
            found = [case for case in cases if case.name.startswith(name)]
            if not found:
                raise
        chosen += [case for case in found if case not in chosen]
    return chosen


def measure(benchmark: Benchmark, options: Mapping[str, Any]) -> dict[str, Any]:
    """Run a benchmark and return its JSON object."""
    place = options.get("directory")
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="datamover-", dir=place)
        return Run(benchmark, options, Path(stack.enter_context(made)), stack).measure()
