# SPDX-License-Identifier: BSD-3-Clause
"""Large frames: a browser shows a field of 1920 x 1080 values while four processes compute it.

The field is a pattern that moves from step to step, so that the pixels identify their step. As a
program, it prints the frame rate: python tests/python/test_frames_large.py [SECONDS [RATE]]
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from datamover.launch import find_mpiexec, outer_environment

aiohttp = pytest.importorskip("aiohttp")
from browser import CHROMIUM, browsing  # noqa: E402

from datamover.stream import frames  # noqa: E402

LIMIT_SECONDS = 80
PROCESSES = 4
ROWS, COLUMNS, TILE = 1080, 1920, 120
NBYTES = 4 * ROWS * COLUMNS
#: What the field is at a place: so many values, from 0 on.
VALUES = 8

#: Sends steps, at most so many a second, until it is killed; its address is what it prints first.
SENDER = """
    import sys, time
    import numpy as np, datamover as dm
    from mpi4py import MPI

    comm, rate = MPI.COMM_WORLD, float(sys.argv[1])
    rows = dm.BlockCyclic((1080, 1920), "(block, *)", nprocs=comm.size)
    u = dm.Array(rows, dtype="f4", comm=comm)
    i, j = np.indices(u.local.shape)
    tiles = (i + 1080 // comm.size * comm.rank) // 120 + j // 120
    patterns = [((tiles + step) % 8).astype("f4") for step in range(8)]
    with dm.Stream("tcp://127.0.0.1:0", consumers=1, comm=comm) as out:
        if comm.rank == 0:
            print(out.address, flush=True)
        begin = time.perf_counter()
        for step in range(10**9):
            u.local[...] = patterns[step % 8]
            out.send("u", u, step=step)
            time.sleep(max(begin + (step + 1) / rate - time.perf_counter(), 0))
"""

SHOWN = "[...'step checked errors skipped dropped rate frames drawn'.split(' ')].map("
SHOWN += "id => id + ' ' + document.getElementById(id).textContent).join('\\n')"


@contextlib.contextmanager
def sending(rate):
    """Start the processes; give the address of their stream."""
    sender = subprocess.Popen(
        [os.environ.get("MPIEXEC") or find_mpiexec(), "-n", str(PROCESSES), sys.executable, "-c",
         textwrap.dedent(SENDER), str(rate)],
        stdout=subprocess.PIPE, text=True, env=outer_environment(),
    )  # fmt: skip
    try:
        yield sender.stdout.readline().strip()
    finally:
        sender.terminate()
        sender.wait()
        sender.stdout.close()


@contextlib.asynccontextmanager
async def showing(rate, place):
    """Give a browser that looks at the page of the stream."""
    with sending(rate) as address:
        server = frames.Frames(address, "http://127.0.0.1:0", None)
        page = await server.start()
        try:
            async with browsing(page, place / "profile", "--window-size=2400,1500") as browser:
                yield browser
        finally:
            await server.close()


async def figures(browser):
    """What the page says of itself."""
    lines = (await browser.value(SHOWN)).split("\n")
    return dict(line.split(" ", 1) for line in lines)


def color_of(step, row, column, colors):
    value = (row // TILE + column // TILE + step) % VALUES
    return colors[min(value * 256 // (VALUES - 1), 255)]


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
@pytest.mark.timeout(LIMIT_SECONDS + 20)
def test_a_large_field_of_four_processes_in_a_browser(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    from matplotlib import colormaps

    colors = colormaps["viridis"](np.arange(256))[:, :3]

    async def look():
        async with showing(30, tmp_path) as browser:
            await browser.until("Number(document.body?.dataset.drawn) >= 10")
            await browser.until("document.getElementById('checked').textContent.includes('B/s')")
            await browser.value("document.getElementById('pause').click()")
            # What is seen is of one step: two screenshots with the same step between.
            said = {"step": None}
            while (before := said) != (said := await figures(browser)):
                await browser.screenshot(tmp_path / "shot.png")
            assert before["errors"] == "0"
            box = await browser.value(
                "(r => [r.left, r.top, r.width, r.height].join())"
                "(document.getElementById('field').getBoundingClientRect())"
            )
            left, top, width, height = map(float, box.split(","))
            pixels = image.imread(tmp_path / "shot.png")
            step = int(said["step"])
            for row in range(TILE // 2, ROWS, TILE):
                for column in range(TILE // 2, COLUMNS, TILE):
                    y, x = top + row / ROWS * height, left + column / COLUMNS * width
                    np.testing.assert_allclose(
                        pixels[int(y), int(x), :3], color_of(step, row, column, colors),
                        atol=2 / 255,
                    )  # fmt: skip

    asyncio.run(asyncio.wait_for(look(), LIMIT_SECONDS))


async def measure(seconds, rate):
    """Print how many frames are drawn while the processes send so many steps a second."""
    drawn = "[document.body.dataset.drawn, document.getElementById('step').textContent].join(' ')"
    with tempfile.TemporaryDirectory() as place:
        async with showing(rate, Path(place)) as browser:
            await browser.until("Number(document.body?.dataset.drawn) >= 10")
            begin = time.perf_counter()
            before = (await browser.value(drawn)).split()
            await asyncio.sleep(seconds)
            after = (await browser.value(drawn)).split()
            took = time.perf_counter() - begin
            shown, steps = (int(b) - int(a) for a, b in zip(before, after, strict=True))
            print(f"{steps / took:.1f} steps/s, {shown / took:.1f} frames/s, ", end="")
            print(f"{shown * NBYTES / took / 1e6:.0f} MB/s")
            print(await figures(browser))


if __name__ == "__main__":
    words = [float(word) for word in sys.argv[1:]]
    asyncio.run(measure(*(words + [10.0, 30.0][len(words) :])))
