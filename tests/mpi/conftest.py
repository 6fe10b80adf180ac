# SPDX-License-Identifier: BSD-3-Clause
"""Test run on P MPI processes with one verdict.

Every process runs every test. After each phase of a test, all processes agree on its outcome over a
private communicator, so that a test fails everywhere when it fails anywhere, and the processes stay
in step. If a process has finished a test while others are stuck inside it, it reports its own
outcome and ends the job. Process 0 prints the report, with the failures of the others.
"""

import gc
import os
import shutil
import sys
import tempfile
import time
import zlib

import numpy as np
import pytest
from eighths import take_eighths
from mpi4py import MPI

# How long a process waits for others that are still inside a test: one that failed may have left
# the others waiting for it, one that passed gives them the time of any test.
PATIENCE_SECONDS = {"failed": 20.0, "passed": 150.0, "skipped": 20.0}
WORLD = MPI.COMM_WORLD
VERDICTS = WORLD.Dup()
COLLECTION_ERRORS = []
#: The directory in which this process's tests make theirs, removed when it ends.
OWN_TEMPORARY = []


@pytest.fixture(scope="session")
def comm():
    """The communicator of all processes, duplicated once: tests cannot disturb each other's MPI."""
    return WORLD.Dup()


@pytest.fixture
def rng(request):
    """A NumPy random generator that draws the same on every process, its seed from the test's name.

    `DATAMOVER_TEST_SEED` in the environment, an integer, gives other draws.
    """
    seed = int(os.environ.get("DATAMOVER_TEST_SEED", "0"))
    return np.random.default_rng([seed, zlib.crc32(request.node.nodeid.encode())])


@pytest.fixture(scope="session")
def cases():
    """How many random cases a test should draw, relative to its usual number (1 in `make test`)."""
    return int(os.environ.get("DATAMOVER_TEST_CASES", "1"))


@pytest.fixture
def place(comm):
    """A directory that all processes see, empty."""
    made = comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)
    yield made
    comm.barrier()
    if comm.rank == 0:
        shutil.rmtree(made)


def agree(config, what, outcome, text):
    """Everybody's (outcome, text), by rank. Ends the job where others do not come in time."""
    # A non-blocking reduction first: it can be given up, an allgather cannot. With its opposite,
    # the greatest digest tells whether all are the same, as they mostly are.
    digest = zlib.crc32(f"{outcome}\n{text}".encode())
    mine, all_of = np.array([digest, -digest]), np.zeros(2, "i8")
    request = VERDICTS.Iallreduce(mine, all_of, op=MPI.MAX)
    begin = time.monotonic()
    while not request.Test():
        if time.monotonic() - begin > PATIENCE_SECONDS[outcome]:
            give_up(
                config,
                f"{what}: {outcome} on process {WORLD.rank} of {WORLD.size}, "
                f"others are stuck in it\n{text}",
            )
        time.sleep(0.0005)
    if all_of[0] == -all_of[1]:
        return [(outcome, text)] * WORLD.size
    return VERDICTS.allgather((outcome, text))


def give_up(config, message):
    """Say why and end the job."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\n=== {message}", file=sys.stderr, flush=True)
    WORLD.Abort(1)


def told_by_rank(everyone):
    """What the processes that failed have to say."""
    return "\n".join(
        f"--- process {rank} of {WORLD.size} ---\n{text}"
        for rank, (outcome, text) in enumerate(everyone)
        if outcome == "failed"
    )


@pytest.hookimpl(tryfirst=True)
@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Let process 0 alone write reports; refuse a launcher that belongs to another MPI."""
    expected = int(os.environ.get("DATAMOVER_TEST_PROCESSES", WORLD.size))
    if WORLD.size != expected:
        pytest.exit(f"{expected} processes were started, this one is in a world of {WORLD.size}")
    if WORLD.rank != 0:
        config.option.xmlpath = None
    # In a folder for all, those that end at once remove the same dead link, and one fails.
    OWN_TEMPORARY.append(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
    config.option.basetemp = f"{OWN_TEMPORARY[0].name}/tests"


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    """Silence the terminal of the processes other than 0."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if WORLD.rank != 0 and reporter is not None:
        reporter._tw._file = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)


def pytest_report_header():
    """Name the processes and their MPI."""
    nodes = os.environ.get("DATAMOVER_NODE_SIZE")
    pretend = f", pretend nodes of {nodes}" if nodes else ""
    return f"{WORLD.size} MPI processes{pretend}, {MPI.Get_library_version().splitlines()[0]}"


def pytest_collectreport(report):
    """Remember why something could not be collected."""
    if report.failed:
        COLLECTION_ERRORS.append(str(report.longrepr))


def pytest_collection_modifyitems(config, items):
    """Take the eighths of the tests that DATAMOVER_TEST_EIGHTHS lists."""
    take_eighths(config, items, "DATAMOVER_TEST_EIGHTHS")


def pytest_collection_finish(session):
    """Refuse to start where a process could not collect its tests, or collected others."""
    errors = "\n".join(COLLECTION_ERRORS)
    mine = "\n".join(item.nodeid for item in session.items)
    outcome, text = ("failed", errors) if errors else ("passed", mine)
    everyone = agree(session.config, "collecting tests", outcome, text)
    if any(outcome == "failed" for outcome, _ in everyone):
        pytest.exit(f"tests could not be collected\n{told_by_rank(everyone)}", returncode=1)
    if any(verdict != (outcome, text) for verdict in everyone):
        pytest.exit("the processes collected different tests", returncode=1)
    # What has been loaded stays: the collector need not go through it again and again.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item):
    """Make the outcome of a phase the same everywhere: failed where it failed anywhere."""
    report = yield
    text = str(report.longrepr) if report.failed else ""
    everyone = agree(item.config, f"{item.nodeid} ({report.when})", report.outcome, text)
    outcomes = [outcome for outcome, _ in everyone]
    if "failed" in outcomes:
        report.outcome = "failed"
        report.longrepr = told_by_rank(everyone)
    elif len(set(outcomes)) > 1:
        report.outcome = "failed"
        skipping = [rank for rank, outcome in enumerate(outcomes) if outcome == "skipped"]
        report.longrepr = f"processes {skipping} skip this test, the others do not"
    return report
