# SPDX-License-Identifier: BSD-3-Clause
"""Busy machine: a benchmark reports that other programs use the machine."""

import itertools
import os

import pytest
import typer

from datamover.bench import machine, options
from datamover.errors import InvalidArgument


def says(monkeypatch, *moments):
    """Have the system report, moment by moment, (working, waiting) of each core of this process."""
    allowed = sorted(os.sched_getaffinity(0))
    told = itertools.cycle(moments)

    def text(working, waiting):
        lines = [f"cpu{n} {working} 0 0 {waiting} 0 0 0 0 0 0\n" for n in allowed]
        return f"cpu 1 2 3\n{''.join(lines)}cpu{max(allowed) + 1} 99999 0 0 0 0 0 0 0\nintr 7 0\n"

    class Statistics:
        def read_text(self):
            return text(*next(told))

    monkeypatch.setattr(machine, "STATISTICS", Statistics())
    monkeypatch.setattr(machine, "LOOK_SECONDS", 0.0)
    machine.at_start.cache_clear()
    return len(allowed)


@pytest.fixture(autouse=True)
def forget():
    yield
    machine.at_start.cache_clear()


def test_a_busy_machine_is_told_in_a_line_and_in_the_file(monkeypatch, capsys):
    cores = says(monkeypatch, (1000, 50), (1075, 75))
    with options.measuring(None):
        pass
    used = 0.75 * cores
    line = f"other programs use {used:.1f} of {cores} cores: times will be noisy\n"
    assert capsys.readouterr() == ("", line)
    assert machine.describe_machine()["cores_used_by_others"] == used
    with options.measuring(cores + 5):  # was looked at before the run
        pass
    assert capsys.readouterr() == ("", line)


def test_an_idle_machine_is_not(monkeypatch, capsys):
    cores = says(monkeypatch, (1000, 50), (1005, 145))
    with options.measuring(1):
        pass
    assert capsys.readouterr() == ("", "")
    assert machine.describe_machine()["cores_used_by_others"] == round(0.05 * cores, 2)


def test_errors_end_it_as_before(capsys):
    with pytest.raises(typer.Exit) as raised, options.measuring(1):
        raise InvalidArgument("no case begins with x")
    assert raised.value.exit_code == 1
    assert capsys.readouterr().err.endswith("error: no case begins with x\n")


def test_a_system_that_does_not_say_has_a_load(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "STATISTICS", tmp_path / "none")
    monkeypatch.setattr(machine, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 3.0, 3.0))
    machine.at_start.cache_clear()
    assert machine.at_start().used == 0.5
