# SPDX-License-Identifier: BSD-3-Clause
"""How does a pytest run on P MPI processes come to one verdict?

Every process runs every test. After each phase of a test all processes agree on its outcome over
a private communicator, so that a test fails everywhere when it fails anywhere, and the processes
stay in step. A process whose test failed while the others still wait inside theirs ends the job,
after it has said why. Process 0 reports, with the failures of the others.
"""

import os
import sys
import time
import zlib

import numpy as np
import pytest
from mpi4py import MPI

AGREEMENT_SECONDS = 20.0  # how long a failed process waits for others stuck in its test
WORLD = MPI.COMM_WORLD
VERDICTS = WORLD.Dup()


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


def agree(verdict, patience_seconds=None):
    """Everybody's `verdict`, by rank; None where others do not come within `patience_seconds`."""
    # A non-blocking barrier first: it can be given up, an allgather cannot.
    request = VERDICTS.Ibarrier()
    begin = time.monotonic()
    while not request.Test():
        if patience_seconds is not None and time.monotonic() - begin > patience_seconds:
            return None
        time.sleep(0.0005)
    return VERDICTS.allgather(verdict)


def give_up(what, text):
    """End the job: this process failed while others wait inside the same test."""
    sys.__stderr__.write(
        f"\n=== process {WORLD.rank} of {WORLD.size} failed in {what}, others are stuck there\n{text}\n"
    )
    sys.__stderr__.flush()
    WORLD.Abort(1)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Let process 0 alone write files; refuse a launcher that belongs to another MPI."""
    expected = int(os.environ.get("DATAMOVER_TEST_PROCESSES", WORLD.size))
    if WORLD.size != expected:
        pytest.exit(f"{expected} processes were started, this one is in a world of {WORLD.size}")
    if WORLD.rank != 0:
        config.option.xmlpath = None


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


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session):
    """Refuse to start where the processes collected different tests, or failed to."""
    mine = ([item.nodeid for item in session.items], session.testsfailed)
    everyone = agree(mine, AGREEMENT_SECONDS)
    if everyone is None:
        give_up("collection", f"collected {len(mine[0])} tests with {mine[1]} errors")
    failed = [rank for rank, (_, errors) in enumerate(everyone) if errors]
    if failed and not session.testsfailed:
        pytest.exit(f"tests could not be collected on processes {failed}", returncode=1)
    if any(items != mine[0] for items, _ in everyone) and not failed:
        pytest.exit("the processes collected different tests", returncode=1)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    """Make the outcome of a phase the same everywhere: failed where it failed anywhere."""
    report = yield
    text = str(report.longrepr) if report.failed else ""
    patience = AGREEMENT_SECONDS if report.failed else None
    everyone = agree((report.outcome, text), patience)
    if everyone is None:
        give_up(f"{item.nodeid} ({report.when})", text)
    outcomes = {verdict for verdict, _ in everyone}
    failures = [(rank, text) for rank, (verdict, text) in enumerate(everyone) if verdict == "failed"]
    if failures:
        report.outcome = "failed"
        report.longrepr = "\n".join(
            f"--- process {rank} of {WORLD.size} ---\n{text}" for rank, text in failures
        )
    elif len(outcomes) > 1:
        report.outcome = "failed"
        skipping = [rank for rank, (verdict, _) in enumerate(everyone) if verdict == "skipped"]
        report.longrepr = f"processes {skipping} skip this test, the others do not"
    return report
