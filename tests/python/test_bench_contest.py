# SPDX-License-Identifier: BSD-3-Clause
"""Contests of contenders in Python: wrong ones are left out, and the others take turns."""

import json

from datamover.bench.contest import LEAST_TURNS, Contest, timed


class Alone:
    """The only process of a communicator."""

    rank, size = 0, 1

    def Barrier(self):
        """Meet nobody."""

    def bcast(self, value):
        """Return the value of the only process."""
        return value

    def allgather(self, value):
        """Return the value of the only process."""
        return [value]


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_contenders_take_turns_and_wrong_ones_are_left_out(capsys):
    called = []

    def work(name, wrong_call=None):
        def call():
            called.append(name)
            return called.count(name) != wrong_call

        return call

    contest = Contest(Alone(), 0.0, case="a", phase="move", bytes=8)
    contest.add("wrong at once", work("wrong at once", 1))
    contest.add("wrong result", work("wrong result"), lambda: False)
    contest.add("x", work("x"), lambda: called == ["wrong at once", "wrong result", "x"])
    contest.add("wrong later", work("wrong later", 3))
    contest.add("y", work("y"))
    contest.run()
    contest.print("x", processes=5)
    for name in contest.works:
        contest.print(name)
    # After the first calls a turn that does not count, and one in which a contender is wrong.
    turn = ["x", "wrong later", "y"]
    assert called[5:] == [*turn, *turn, *["x", "y"] * (LEAST_TURNS - 1)]
    first, second, later, five, x, y = lines(capsys)
    assert first == {"left_out": "wrong at once", "case": "a", "reason": "wrong data"}
    assert second == {"left_out": "wrong result", "case": "a", "reason": "wrong data"}
    assert (later["left_out"], later["reason"]) == ("wrong later", "wrong data in a later turn")
    assert (five.pop("processes"), x.pop("processes")) == (5, 1)
    assert five.pop("samples") == x.pop("samples")
    assert five == x == {"case": "a", "phase": "move", "bytes": 8, "contender": "x"}
    assert (y["contender"], len(y["samples"])) == ("y", LEAST_TURNS)


def test_the_time_of_a_call_is_the_mean_of_its_turn(capsys, monkeypatch):
    called = []
    monkeypatch.setattr("time.perf_counter", lambda: 0.5 * len(called))
    contest = Contest(Alone(), 0.0, calls=4, case="a")
    contest.add("x", lambda: called.append(1), lambda: len(called) == 4)
    contest.add("wrong in one call", lambda: called.append(1) or len(called) != 6)
    contest.finish()
    wrong, row = lines(capsys)
    assert (wrong["left_out"], wrong["reason"]) == ("wrong in one call", "wrong data")
    assert row["samples"] == [0.5] * LEAST_TURNS
    assert len(called) == 4 * (3 + LEAST_TURNS)


def test_without_contenders_nothing_is_measured(capsys):
    contest = Contest(Alone(), 0.0, case="a")
    contest.leave_out("theirs", "it is not installed")
    contest.finish()
    assert lines(capsys) == [{"left_out": "theirs", "case": "a", "reason": "it is not installed"}]


def test_a_package_that_cannot_be_imported_is_left_out(capsys, tmp_path, monkeypatch):
    (tmp_path / "half_there.py").write_text("import what_it_needs_and_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    contest = Contest(Alone(), 0.0, case="a")
    assert contest.can_import("json")
    assert lines(capsys) == []
    assert not contest.can_import("not_there_at_all")
    why = "it is not installed (pip install not-there-at-all)"
    assert lines(capsys) == [{"left_out": "not-there-at-all", "case": "a", "reason": why}]
    assert not contest.can_import("half_there")
    why = "ModuleNotFoundError: No module named 'what_it_needs_and_is_not_there'"
    assert lines(capsys) == [{"left_out": "half-there", "case": "a", "reason": why}]


def test_a_contender_on_one_process_has_a_row():
    calls = []
    row = timed(lambda: calls.append(1), case="a", nbytes=7)
    assert (row["case"], row["nbytes"], row["processes"]) == ("a", 7, 1)
    assert len(calls) > len(row["samples"]) >= 1
    assert all(seconds >= 0 for seconds in row["samples"])
