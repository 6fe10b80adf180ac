# SPDX-License-Identifier: BSD-3-Clause
"""Viewer of an application: a C++ application sends its field, and the page shows it.

NumPy computes the field again here, from the description of the application alone.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import datamover as dm
from datamover import launch
from datamover.apps import command, shown
from datamover.stream import wire

LIMIT_SECONDS = 60
SIZE, ITERATIONS = 11, 4

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        not (command.PROGRAMS / "redblack3d").exists(), reason="built without the applications"
    ),
]


def noise(points, kind):
    """A number in [-1, 1) for each point."""
    factors = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
    x = np.full(points.shape[1:], kind, np.uint64)
    for coordinate, factor in zip(points.astype(np.int64).view(np.uint64), factors, strict=True):
        x ^= coordinate * np.uint64(factor)
    for shift, factor in ((29, 0xBF58476D1CE4E5B9), (32, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(11)).astype("f8") * 2.0**-52 - 1


def fields():
    """The field before the first iteration, and after each."""
    points = np.indices((SIZE + 2,) * 3) - 1
    u, right = noise(points, 1), 0.01 * noise(points, 2)[1:-1, 1:-1, 1:-1]
    inside, colors = u[1:-1, 1:-1, 1:-1], points[:, 1:-1, 1:-1, 1:-1].sum(0) % 2
    found = [inside.copy()]
    for _ in range(ITERATIONS):
        for color in (0, 1):
            around = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1]
            around += u[1:-1, 2:, 1:-1] + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
            inside[colors == color] = ((around - right) / 6)[colors == color]
        found.append(inside.copy())
    return found


@contextlib.contextmanager
def computing(version, processes, iterations):
    """A program that sends, where it does, and who listens there with the right token."""
    address, token = shown._free_address(), "only for this test"
    program = [command.program("redblack3d"), version, str(SIZE), str(iterations), "1"]
    process = subprocess.Popen(
        [os.environ.get("MPIEXEC", "mpiexec"), "-n", str(processes), *program],
        env=launch.outer_environment()
        | launch.open_mpi_environment()
        | {"DATAMOVER_STREAM": address, "DATAMOVER_STREAM_TOKEN": token},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            with dm.stream.connect(address, token=token, timeout=LIMIT_SECONDS) as consumer:
                yield process, consumer
        finally:
            process.terminate()  # mpiexec then ends those that it has started


WHOLE = dm.BlockCyclic((SIZE,) * 3, "(*, *, *)", nprocs=1)


@pytest.mark.parametrize(("version", "processes"), [("datamover", 4), ("by_hand", 3)])
def test_an_application_sends_its_field(version, processes):
    expected, seen = fields(), []
    with computing(version, processes, ITERATIONS) as (process, consumer):
        for step, arrays in consumer.steps({"u": WHOLE}, LIMIT_SECONDS):
            np.testing.assert_allclose(arrays["u"], expected[step], rtol=0, atol=1e-14)
            seen.append(step)
        assert seen == list(range(ITERATIONS + 1))
        said, _ = process.communicate(timeout=LIMIT_SECONDS)
        assert process.returncode == 0, said


def test_who_looks_does_not_wait_for_what_the_field_is_compared_with():
    hours = 10**9  # iterations by one process alone
    with computing("datamover", 2, hours) as (_, consumer):
        for expected, (_, arrays) in zip(
            fields(), consumer.steps({"u": WHOLE}, LIMIT_SECONDS), strict=False
        ):
            np.testing.assert_allclose(arrays["u"], expected, rtol=0, atol=1e-14)


async def last_frame(page):
    """What the page gets of the last step, and the view that it is of."""
    aiohttp = pytest.importorskip("aiohttp")
    url, _, token = page.partition("/#")
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}/frames", headers={"Origin": url}, max_msg_size=0) as socket,
    ):
        await socket.send_str(json.dumps({"type": "hello", "token": token}))
        await socket.send_str(json.dumps({"type": "grant", "frames": 2}))
        view = None
        while True:
            message = await socket.receive(LIMIT_SECONDS)
            if message.type is aiohttp.WSMsgType.TEXT:
                said = json.loads(message.data)
                view = said["view"] if said["type"] == "state" else view
                continue
            assert message.type is aiohttp.WSMsgType.BINARY, message
            data = message.data
            name, rows, columns = np.frombuffer(data, "<u4", 3, 8).tolist()
            (step,) = np.frombuffer(data, "<i8", 1, 32)
            assert np.frombuffer(data, "<u4", 1, 4) == wire.crc32c(data[8:])
            if step < ITERATIONS:
                await socket.send_str(json.dumps({"type": "grant", "frames": 1}))
                continue
            elems = np.frombuffer(data, "<f4", offset=(48 + name + 7) // 8 * 8)
            return view, elems.reshape(rows, columns)


def application(iterations, **started):
    """Start one on two processes, with a page; what it prints comes line by line."""
    words = ["redblack3d", "-n", 2, "--size", SIZE, "--iterations", iterations, "--frames"]
    return subprocess.Popen(
        [sys.executable, "-m", "datamover.cli", "app", *map(str, words), "http://127.0.0.1:0"],
        env=launch.outer_environment() | launch.open_mpi_environment() | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **started,
    )


def test_the_page_of_an_application_shows_its_field():
    pytest.importorskip("aiohttp")
    with application(ITERATIONS) as process:
        try:
            said = process.stdout.readline()
            assert said.startswith("the page is at http://127.0.0.1:"), said
            page = said.split()[-1]
            view, elems = asyncio.run(asyncio.wait_for(last_frame(page), LIMIT_SECONDS))
            cut = tuple(slice(None) if d in view["axes"] else view["at"][d] for d in range(3))
            np.testing.assert_allclose(elems, fields()[-1][cut], rtol=0, atol=1e-6)
            while not said.startswith("the program has ended"):
                said = process.stdout.readline()
                assert said
            process.send_signal(signal.SIGINT)
            assert process.wait(LIMIT_SECONDS) == 0
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)]
)
def test_a_signal_to_the_command_alone_ends_the_program_too(number, code):
    pytest.importorskip("aiohttp")
    hours = 10**9
    with application(hours, start_new_session=True) as process:
        try:
            process.stdout.readline()
            assert process.stdout.readline().startswith("redblack3d: ")  # the program has begun
            process.send_signal(number)
            process.communicate(timeout=LIMIT_SECONDS)  # until nobody has the pipe any more
            assert process.returncode == code
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("wrong", [["--twin"], ["--version", "python"], ["--rounds", "2"]])
def test_options_that_do_not_go_with_a_page(wrong):
    words = ["redblack3d", "--frames", "http://127.0.0.1:0", *wrong]
    done = subprocess.run(
        [sys.executable, "-m", "datamover.cli", "app", *words],
        env=launch.outer_environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == 1 and "--frames" in done.stderr
