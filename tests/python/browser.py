# SPDX-License-Identifier: BSD-3-Clause
"""Headless Chromium for tests of pages, if it is installed."""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import aiohttp

CHROMIUM = shutil.which("chromium")
LIMIT_SECONDS = 40


class Browser:
    """Headless Chromium, by its DevTools protocol."""

    def __init__(self, socket):
        self._socket, self._count = socket, 0

    async def call(self, method, **parameters):
        self._count += 1
        words = {"id": self._count, "method": method, "params": parameters}
        await self._socket.send_str(json.dumps(words))
        while True:
            said = json.loads((await self._socket.receive(LIMIT_SECONDS)).data)
            if said.get("id") == self._count:
                return said["result"]

    async def value(self, script):
        return (await self.call("Runtime.evaluate", expression=script))["result"].get("value")

    async def screenshot(self, path):
        """Write what is seen as a PNG file."""
        shot = await self.call("Page.captureScreenshot", format="png")
        Path(path).write_bytes(base64.b64decode(shot["data"]))

    async def until(self, script):
        while not await self.value(script):
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def browsing(url, profile, *options):
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    with open(os.devnull, "w") as quiet:
        process = subprocess.Popen(
            [CHROMIUM, *arguments, *options, f"--user-data-dir={profile}", "about:blank"],
            stdout=quiet, stderr=quiet,
        )  # fmt: skip
    try:
        says = Path(profile) / "DevToolsActivePort"
        while not says.exists() or len(says.read_text().split()) < 2:
            await asyncio.sleep(0.05)
        port = says.read_text().split()[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tabs = await answer.json()
            tab = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
            async with session.ws_connect(tab, max_msg_size=0) as socket:
                browser = Browser(socket)
                await browser.call("Page.navigate", url=url)
                yield browser
    finally:
        process.terminate()
        process.wait()
