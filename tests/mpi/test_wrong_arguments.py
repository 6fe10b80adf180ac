# SPDX-License-Identifier: BSD-3-Clause
"""Invalid argument on one process: every collective call ends in the same way on all, at once.

The calls are found in the package, by docstrings that contain "Collective"; each of their
parameters gets values of every kind on one process alone.
"""

import contextlib
import dataclasses
import inspect
import itertools
import os
import re

import numpy as np
import pytest

import datamover as dm
from datamover.files.file_mover import FileMover
from datamover.files.formats import MoveOptions
from datamover.files.series import Series

HERE = "tcp://127.0.0.1:0"
DEADLINE_SECONDS = 20.0


class Stubborn:
    """Has no text, length, elements or number."""

    def _raise(self, *_, **__):
        raise RuntimeError("this has nothing to give")

    __repr__ = __len__ = __iter__ = __array__ = __index__ = __float__ = __bool__ = _raise


NASTY = {
    "object": object(),
    "none": None,
    "text": "no such word",
    "half a pair": "\udc80",
    "negative": -1,
    "beyond 64 bits": 2**70,
    "not a number": float("nan"),
    "list": [object()],
    "mapping": {"u": object()},
    "stubborn": Stubborn(),
}


def is_collective(documented):
    return re.search(r"\bCollective\b", inspect.getdoc(documented) or "") is not None


def collective_calls():
    """Find every public function, class and method that says it is collective, by name."""
    found = {"FileMover": FileMover}
    found["Series"] = Series
    for module in (dm, dm.files, dm.stream, dm.targets):
        for name in getattr(module, "__all__", vars(module)):
            value = getattr(module, name)
            if not any(value is other for other in found.values()):
                found[name] = value
    calls = {name: value for name, value in found.items() if is_collective(value)}
    for name, value in found.items():
        for method, member in vars(value).items() if inspect.isclass(value) else ():
            if inspect.isfunction(member) and method[0] != "_" and is_collective(member):
                calls[f"{name}.{method}"] = member
    calls.pop("FileMover", None)  # which Mover makes
    calls["FileMover.tune"] = FileMover.tune  # inherited
    return calls


CALLS = collective_calls()


class Scene:
    """What calls need; one for each test, on a communicator of its own."""

    def __init__(self, comm, place):
        self.comm, self.place = comm.Dup(), place
        n, size = 2 * comm.size, comm.size
        self.rows = dm.BlockCyclic((n, n), "(block, *)", size)
        columns = dm.BlockCyclic((n, n), "(*, block)", size)
        self.plan = dm.redistribute(self.rows, columns)
        self.a, self.b = dm.Array(self.rows, comm=self.comm), dm.Array(columns, comm=self.comm)
        self.ranks = np.arange(4) % size
        self.number = itertools.count()
        self.input = f"{place}/in.npy"
        if comm.rank == 0 and not os.path.exists(self.input):
            np.save(self.input, np.zeros((n, n)))
        comm.barrier()
        self.file = dm.files.open(self.input, self.rows, comm=self.comm)
        self.open = []

    def output(self, ending="npy"):
        """Name a new file, the same on all processes."""
        return f"{self.place}/{next(self.number)}.{ending}"

    def close(self):
        """Close what was opened for the last call."""
        for one in reversed(self.open):
            with contextlib.suppress(dm.Error):
                one.close()
        self.open.clear()

    @property
    def moves(self):
        return [(self.plan, self.a, self.b)]

    def mover(self):
        return dm.Mover(self.plan, self.a, self.b)

    def distribution(self, **options):
        return dm.Migration(self.ranks, comm=self.comm, **options)

    def stream(self, **options):
        self.open.append(dm.Stream(HERE, timeout=DEADLINE_SECONDS, comm=self.comm, **options))
        return self.open[-1]

    def consumer(self):
        stream = self.stream()
        stream.send("u", self.a)
        self.open.append(dm.stream.connect(stream.address, comm=self.comm))
        return self.open[-1]

    def manager(self):
        self.open.append(dm.stream.Manager(comm=self.comm))
        self.open[-1].open("u", HERE)
        return self.open[-1]

    def series(self):
        self.open.append(dm.series(self.output("zarr"), {"u": self.a}, comm=self.comm))
        return self.open[-1]

    def saving(self):
        return dm.save(self.output(), {"u": self.a}, wait=False)


OPTIONS = {
    "op": None, "transport": "auto", "alpha": 1, "beta": 1, "conjugate": False, "check": False,
    "max_bytes": None, "together": True,
}  # fmt: skip
SAVED = {
    "overwrite": True, "chunks": None, "compressor": None, "zarr_format": None, "writers": None,
    "max_bytes": 1 << 28, "wait": True, "dimensions": None,
}  # fmt: skip

STREAM_OPTIONS = {
    "pathways": 1, "policy": "block", "queue_steps": 2, "queue_bytes": 1 << 20, "consumers": 0,
    "token": None, "timeout": 5.0, "local": True, "open": False,
}  # fmt: skip

#: Parameters that are tried with one of their kind.
ANY_OF_A_KIND = {"others", *(field.name for field in dataclasses.fields(MoveOptions))}


def start_and_wait(d, columns, **said):
    with contextlib.suppress(BaseException):  # the others know of it where all wait
        d.start(columns, **said)
    return d.wait()


def variants(name):
    """Name the ways in which a call is made: movers also between an array and a file."""
    more = {"Mover": ("of a file", "of several"), "Mover.rebind": ("of several",)}
    return [name, *(f"{name} {way}" for way in more.get(name, ()))]


def prepared(name, s):
    """Give a call, and the arguments that are right, by name."""
    arrays = {"source": s.a, "destination": s.b}
    from_file = {"source": s.file, "destination": s.b}
    table = {
        "Array": lambda: (
            lambda **said: dm.Array(comm=s.comm, **said),
            {"layout": s.rows, "dtype": "f8", "ghost": 0, "order": "C"},
        ),
        "Mover": lambda: (dm.Mover, {"plan": s.plan, **arrays, **OPTIONS, "comm": None}),
        "Mover of a file": lambda: (dm.Mover, {"plan": s.plan, **from_file, **OPTIONS}),
        "Mover of several": lambda: (dm.Mover, {"plan": s.moves, **OPTIONS, "comm": s.comm}),
        "Mover.rebind": lambda: (s.mover().rebind, arrays),
        "Mover.rebind of several": lambda: (
            lambda arrays, **said: dm.Mover(s.moves).rebind(arrays, **said),
            {"arrays": (s.a, s.b)},
        ),
        "Mover.tune": lambda: (s.mover().tune, {"seconds": 1e-3}),
        "FileMover.rebind": lambda: (dm.Mover(s.plan, s.file, s.b).rebind, from_file),
        "FileMover.tune": lambda: (dm.Mover(s.plan, s.file, s.b).tune, {"seconds": 1e-3}),
        "Migration": lambda: (
            lambda **said: dm.Migration(comm=s.comm, **said),
            {"ranks": s.ranks, "method": "auto", "stable": True, "max_bytes": None},
        ),
        "Migration.move": lambda: (
            lambda columns, **said: s.distribution().move(columns, **said),
            {"columns": np.zeros(4), "out": None},
        ),
        "Migration.start": lambda: (
            lambda **said: start_and_wait(s.distribution(), **said),
            {"columns": np.zeros(4), "out": None},
        ),
        "Migration.move_in_place": lambda: (
            lambda **said: s.distribution().move_in_place(**said),
            {"buffer": np.zeros(4 * s.comm.size), "stable": False},
        ),
        "Migration.reverse": lambda: (
            lambda **said: s.distribution().reverse(**said),
            {"values": np.zeros(s.distribution().received), "op": None, "out": None, "after": None},
        ),
        "Migration.layouts": lambda: (lambda **said: s.distribution().layouts(**said), {}),
        "Migration.explain": lambda: (
            lambda **said: s.distribution().explain(**said), {"elem_bytes": 8},
        ),
        "migrate": lambda: (
            lambda **said: dm.migrate(comm=s.comm, **said),
            {"elements": np.zeros(4), "target": s.ranks, "method": "auto", "stable": True,
             "out": None, "max_bytes": None},
        ),
        "index_lists": lambda: (
            lambda shape, mine, **said: dm.advanced.index_lists(shape, mine, comm=s.comm, **said),
            {"shape": s.comm.size, "mine": [s.comm.rank], "partners": ()},
        ),
        "layout_of": lambda: (
            lambda **said: dm.layout_of(comm=s.comm, **said),
            {"x": s.a, "shape": None, "ghosts": False, "partners": ()},
        ),
        "save": lambda: (
            dm.save,
            {"path": s.output("zarr"), "arrays": {"u": s.a}, **SAVED, "comm": s.comm},
        ),
        "Saving.wait": lambda: (s.saving().wait, {}),
        "series": lambda: (
            lambda **said: dm.series(comm=s.comm, **said).close(),
            {"path": s.output("zarr"), "arrays": {"u": s.a}, "along": "time", "dimensions": None,
             "chunks": None, "resume": False, "rechunk": False, "overwrite": True},
        ),
        "Series.append": lambda: (
            lambda coordinates, **said: s.series().append(time=coordinates, **said),
            {"coordinates": 0.5},
        ),
        "Series.close": lambda: (s.series().close, {}),
        "load": lambda: (
            dm.load,
            {"path": s.input, "targets": {"u": s.a}, "readers": None, "max_bytes": 1 << 28,
             "comm": s.comm},
        ),
        "open": lambda: (
            lambda **said: dm.files.open(comm=s.comm, **said).close(),
            {"path": s.output(), "layout": s.rows, "mode": "w", "dtype": "f8", "order": None,
             "chunks": None, "compressor": None, "ranks": None, "max_bytes": 1 << 28,
             "overwrite": True},
        ),
        "FileArray.close": lambda: (
            dm.files.open(s.output(), s.rows, comm=s.comm, mode="w", dtype="f8").close, {},
        ),
        "move": lambda: (
            lambda said, **rest: dm.move(comm=s.comm, **rest, **{"max_bytes": said}),
            {"source": s.input, "output": s.output(), "options": None, "progress": None,
             "said": 1 << 28},
        ),
        "rechunk": lambda: (
            lambda options, **said: dm.files.rechunk(comm=s.comm, check=options, **said),
            {"source": s.input, "target_chunks": (1, 1), "max_mem": 1 << 28,
             "target_store": s.output("zarr"), "temp_store": None, "options": None},
        ),
        "Stream": lambda: (
            lambda **said: dm.Stream(comm=s.comm, **said).close(),
            {"address": HERE, **STREAM_OPTIONS},
        ),
        "Stream.send": lambda: (
            s.stream().send, {"name": "u", "array": s.a, "step": 3, "layout": s.rows},
        ),
        "Stream.end_step": lambda: (s.stream().end_step, {}),
        "Stream.close": lambda: (s.stream().close, {"timeout": 5.0}),
        "connect": lambda: (
            lambda **said: dm.stream.connect(comm=s.comm, **said).close(),
            {"address": s.stream().address, "token": None, "timeout": 5.0, "ahead": None,
             "local": True, "newest": False},
        ),
        "Consumer.arrays": lambda: (s.consumer().arrays, {"timeout": 5.0}),
        "Consumer.steps": lambda: (
            s.consumer().steps, {"targets": {"u": s.rows}, "timeout": 5.0},
        ),
        "Manager": lambda: (
            lambda **said: dm.stream.Manager(comm=s.comm, **said),
            {"active": 1, "unit": "step", "stall": None},
        ),
        "Manager.open": lambda: (
            lambda **said: s.manager().open(**said).close(),
            {"name": "v", "address": HERE, **STREAM_OPTIONS},
        ),
        "Manager.close": lambda: (s.manager().close, {"timeout": 5.0}),
    }  # fmt: skip
    return table[name]()


def outcome_of(call):
    try:
        call()
    except BaseException as error:
        return type(error), str(error)
    return None, ""


@pytest.fixture
def deadline():
    dm.set_timeout(DEADLINE_SECONDS)
    yield
    dm.set_timeout(None)


def ended_alike(comm, outcomes, guilty):
    """Tell whether no process waited, and all raised if one did."""
    if any(kind is dm.Timeout for kind, _ in outcomes):
        return False
    raised = [kind for kind, _ in outcomes if kind is not None]
    others = [kind for rank, (kind, _) in enumerate(outcomes) if rank != guilty]
    return not raised or (
        len(raised) == comm.size and all(issubclass(kind, dm.Error) for kind in others)
    )


@pytest.mark.parametrize("name", [v for name in CALLS for v in variants(name)])
def test_a_wrong_argument_on_one_process(comm, place, deadline, name, monkeypatch):
    """All return or all raise, nobody waits, and the communicator can be used on."""
    monkeypatch.chdir(place)
    scene = Scene(comm, place)
    called = CALLS[name.partition(" of ")[0]]
    right = prepared(name, scene)[1]
    named = [p for p in inspect.signature(called).parameters if p not in ("self", "comm", "cls")]
    missing = [p for p in named if p[0] != "_" and p not in right and p not in ANY_OF_A_KIND]
    assert " of several" in name or missing == [], "parameters without a value"
    refused = 0
    # Any name is one of a coordinate.
    unknown = [] if name == "Series.append" else ["bogus"]
    for k, (parameter, nasty) in enumerate(itertools.product([*right, *unknown], NASTY)):
        guilty = k % comm.size
        call, arguments = prepared(name, scene)
        if comm.rank == guilty:
            arguments = {**arguments, parameter: NASTY[nasty]}
        outcomes = comm.allgather(outcome_of(lambda c=call, a=arguments: c(**a)))
        refused += outcomes[guilty][0] is not None
        last = outcome_of(lambda s=scene: dm.Array(s.rows, comm=s.comm))
        alive = all(kind is None for kind, _ in comm.allgather(last))
        scene.close()
        said = f"{parameter} is a {nasty} on process {guilty}: {outcomes}"
        assert ended_alike(comm, outcomes, guilty), said
        if parameter == "bogus":
            assert all(issubclass(kind, TypeError | ValueError) for kind, _ in outcomes), said
            assert all(re.search("bogus|keyword", text) for _, text in outcomes), said
        # With no file among its arguments a process makes a mover of another kind.
        other_call = "a file" in name and parameter in ("source", "destination")
        assert alive or other_call, f"the communicator is of no use: {said}"
        if not alive:
            scene = Scene(comm, place)
    scene.file.close()
    assert refused
