# SPDX-License-Identifier: BSD-3-Clause
"""Stream viewer in a browser, for `datamover stream view`.

One process is a consumer of the stream and serves one page. The page gets the newest step for each
frame that it has granted. Input from browsers is not trusted.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from datamover._plan import is_any, is_loopback
from datamover.errors import Error, InvalidArgument, IoFailed, Mismatch, Unsupported
from datamover.stream import wire
from datamover.stream.feed import Feed, Feeds, message_of
from datamover.stream.view import View, view_of_words

try:
    from aiohttp import WSCloseCode, WSMsgType, web
    from aiohttp.http_exceptions import HttpProcessingError
except ImportError:  # reported when it is needed
    web = None  # type: ignore[assignment]

log = logging.getLogger("datamover")

PAGE = Path(__file__).parent / "page"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
#: The files by the paths of requests.
FILES = {
    f"/{file.name}".replace("/index.html", "/"): file
    for file in PAGE.iterdir()
    if file.suffix in TYPES
}
MAX_PORT = 65535
MAX_PAGES = 16
#: Connections that have not sent the first message of a page.
MAX_GUESTS = 16
MAX_MESSAGE_BYTES = 4096
MAX_MESSAGES_PER_SECOND = 300
MAX_GRANTED = 2
HELLO_SECONDS = 10.0
#: Seconds of a connection that does not belong to a page; browsers open another for the next file.
REQUESTS_SECONDS = 10.0
LOOK_SECONDS = 1.0
#: Each change of the view opens another connection to the stream.
VIEW_SECONDS = 0.1
FIGURES_SECONDS = 1.0


def show(
    address: str,
    at: str,
    name: str | None,
    announce: Callable[[str], None],
    *,
    open_to_all: bool = False,
) -> None:
    """Serve the page that shows a stream, until interrupted.

    Parameters
    ----------
    address : str
        Address of the stream, "tcp://host:port". The stream may start later, and end and restart.
    at : str
        Address of the page, "http://host:port". The system chooses a port for port 0.
    name : str, optional
        The array that is shown first.
    announce : callable
        Called once with the address to open, which contains the token.
    open_to_all : bool
        Whether browsers need no token.

    Raises
    ------
    Unsupported
        The package aiohttp is missing.
    InvalidArgument
        An address is not valid.
    IoFailed
        The page's address is in use.
    """
    frames = Frames(address, at, name, open_to_all=open_to_all)
    with contextlib.suppress(KeyboardInterrupt), served(frames) as page:
        announce(page)
        threading.Event().wait()


@contextlib.contextmanager
def served(frames: Frames) -> Iterator[str]:
    """Serve a page in a separate thread, since the main one gets signals; yield its address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="datamover page", daemon=True)
    thread.start()

    def done(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    try:
        yield done(frames.start())
    finally:
        done(frames.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def parse_page_address(at: str) -> tuple[str, int]:
    """Return host and port of "http://host:port". Raises InvalidArgument."""
    found = re.fullmatch(r"(?i:http)://(?:\[([^][/]+)\]|([^][@:/?#\s]+)):([0-9]{1,5})/?", at)
    if found is None or int(found[3]) > MAX_PORT:
        raise InvalidArgument(
            f'{at!r} is not a valid page address; pass one like "http://127.0.0.1:8000"'
        )
    host = (found[1] or found[2]).lower()
    if is_any(host):
        raise InvalidArgument(
            f"{host} means all interfaces; pass the name or address that browsers use"
        )
    return host, int(found[3])


class _Page:
    """An open page in a browser."""

    def __init__(self, socket: Any, connection: Any):
        self.socket, self.connection = socket, connection
        self.wake = asyncio.Event()
        self.feed: Any = None  # a Feed while the page is open
        self.granted = 0
        self.sent: Any = None
        self.told: dict[str, Any] = {}  # what the page knows, by the types of messages
        self.told_figures_at = 0.0
        self.wish: View | None = None
        self.next_view_at = 0.0


class Frames:
    """The server of one page that shows a stream."""

    def __init__(
        self, address: str, at: str, name: str | None = None, *, open_to_all: bool = False
    ):
        if web is None:
            raise Unsupported("the page needs the package aiohttp: pip install 'datamover[frames]'")
        wire.parse_address(address)
        self._feeds = Feeds(address, name, self._changed)
        self._host, self._port = parse_page_address(at)
        self.token = "" if open_to_all else secrets.token_urlsafe(24)
        self._pages: set[_Page] = set()
        self._guests: dict[asyncio.Task, None] = {}  # in the order of their arrival
        self._files = {path: file.read_bytes() for path, file in FILES.items()}

    async def start(self) -> str:
        """Start serving; return the page's address, with the token after #."""
        self._loop = asyncio.get_running_loop()
        app = web.Application()
        app.router.add_get("/frames", self._talk)
        for path in FILES:
            app.router.add_get(path, self._file)
        self._runner = web.AppRunner(
            app, access_log=None, logger=_log_without_strangers(), shutdown_timeout=1.0
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise IoFailed(f"http://{self._host}:{self._port}: {error.strerror or error}") from None
        self._sweeper = asyncio.create_task(self._end_idle())
        self._port = self._runner.addresses[0][1]
        names = {self._host}
        if is_loopback(self._host):
            names |= {"localhost", "127.0.0.1", "::1"}
        self._hosts = {_authority(host, self._port) for host in names}
        if self._port == 80:
            self._hosts |= {host.removesuffix(":80") for host in self._hosts}
        self._feeds.of(None)
        page = f"http://{_authority(self._host, self._port)}/"
        if not self.token:
            log.warning("%s is open: everybody who can reach it can see the stream", page)
        return f"{page}#{self.token}" if self.token else page

    async def close(self) -> None:
        """End all connections."""
        # Each in a task of its own: if a page leaves while a frame is being sent to it, aiohttp
        # cancels all tasks that wait for that connection.
        for guest in self._guests:
            guest.cancel()
        goodbyes = [page.socket.close(code=WSCloseCode.GOING_AWAY) for page in self._pages]
        await asyncio.gather(*goodbyes, return_exceptions=True)
        if hasattr(self, "_sweeper"):
            self._sweeper.cancel()
        if hasattr(self, "_runner"):
            await self._runner.cleanup()
        await asyncio.to_thread(self._feeds.close)

    async def _end_idle(self) -> None:
        """End connections without a page after a while, because each uses a file of this process.

        aiohttp waits forever for the first request, and for the rest of it.
        """
        since: dict[Any, float] = {}
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = time.monotonic()
            server: Any = self._runner.server
            since = {one: since.get(one, now) for one in server.connections}
            talking = {page.connection for page in self._pages}
            for one, came in since.items():
                if now - came > REQUESTS_SECONDS and one not in talking:
                    one.force_close()

    def _look_at(self, page: _Page, feed: Feed | None) -> None:
        if feed is not None:
            feed.users += 1  # first: it may be the same
        if page.feed is not None:
            self._feeds.leave(page.feed)
        page.feed, page.sent, page.told = feed, None, {"arrays": page.told.get("arrays")}

    def _changed(self) -> None:
        """Called by threads of feeds."""
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for page in self._pages:
            page.wake.set()

    # Requests of browsers.

    def _guarded_host(self, request: Any) -> str:
        # If a foreign name led here, a foreign page would have the same origin as this one.
        host = _one(request, "Host").lower()
        if host not in self._hosts:
            raise web.HTTPForbidden(text="this page has another address\n")
        return host

    async def _file(self, request: Any) -> Any:
        host = self._guarded_host(request)
        policy = (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
            f"worker-src 'self'; connect-src 'self' ws://{host}; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'"
        )
        headers = {
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }
        kind: Any = {"content_type": TYPES[FILES[request.path].suffix], "charset": "utf-8"}
        return web.Response(body=self._files[request.path], headers=headers, **kind)

    async def _talk(self, request: Any) -> Any:
        host = self._guarded_host(request)
        if _one(request, "Origin").lower() != f"http://{host}":
            raise web.HTTPForbidden(text="only the page itself may connect\n")
        socket = web.WebSocketResponse(
            max_msg_size=MAX_MESSAGE_BYTES, compress=False, heartbeat=30.0, timeout=5.0
        )
        page = _Page(socket, request.protocol)
        sender = None
        try:
            await socket.prepare(request)
            await self._welcome(page)
            if len(self._pages) >= MAX_PAGES:
                words = f"{MAX_PAGES} pages are already open"
                await socket.close(code=WSCloseCode.TRY_AGAIN_LATER, message=words.encode())
                return socket
            self._pages.add(page)
            self._look_at(page, self._feeds.of(None))
            page.wake.set()
            sender = asyncio.create_task(self._send(page))
            await self._listen(page)
        except Error as error:
            await socket.close(code=WSCloseCode.POLICY_VIOLATION, message=str(error).encode()[:120])
        finally:
            self._pages.discard(page)
            self._look_at(page, None)
            if sender is not None:
                sender.cancel()
                await asyncio.gather(sender, return_exceptions=True)
        return socket

    async def _welcome(self, page: _Page) -> None:
        """Read the first message, which must contain the token if there is one."""
        if len(self._guests) >= MAX_GUESTS:  # connections that send nothing keep no page out
            next(iter(self._guests)).cancel()
        guest: Any = asyncio.current_task()
        self._guests[guest] = None
        try:
            message = await page.socket.receive(HELLO_SECONDS)
        except TimeoutError:
            raise InvalidArgument("the page sent no token in time") from None
        finally:
            self._guests.pop(guest)
        said = _read(message)
        given = said.get("token")
        if said.get("type") != "hello" or not isinstance(given, str):
            raise InvalidArgument("the first message must have the token")
        is_right = hmac.compare_digest(given.encode(errors="replace"), self.token.encode())
        if self.token and not is_right:  # a tab may still have that of an earlier page
            raise InvalidArgument("a wrong token")

    async def _listen(self, page: _Page) -> None:
        second, count = 0, 0
        async for message in page.socket:
            now = int(time.monotonic())
            second, count = now, count + 1 if now == second else 1
            if count > MAX_MESSAGES_PER_SECOND:
                raise InvalidArgument("too many messages")
            said = _read(message)
            if said.get("type") == "grant":
                frames = wire.number(said, "frames", 1, MAX_GRANTED)
                page.granted = min(page.granted + frames, MAX_GRANTED)
                if said.get("again") is True:
                    page.sent = None
            elif said.get("type") == "view":
                try:
                    page.wish = view_of_words(said, self._feeds.known)
                except Mismatch:
                    page.told.pop("state", None)  # so that the state is sent to the page again
            else:
                raise InvalidArgument("the page sent a message of an unexpected type")
            page.wake.set()

    async def _send(self, page: _Page) -> None:
        """Send a page each change of state, and the newest step when it has granted one."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(page.wake.wait(), FIGURES_SECONDS)
            page.wake.clear()
            try:
                await self._tell(page)
            except (ConnectionError, RuntimeError):  # it has left
                return

    async def _tell(self, page: _Page) -> None:
        now = time.monotonic()
        if page.wish is not None and now >= page.next_view_at:
            self._look_at(page, self._feeds.of(page.wish))
            page.wish, page.next_view_at = None, now + VIEW_SECONDS
        elif page.wish is not None:
            self._loop.call_later(page.next_view_at - now, page.wake.set)
        feed, socket, arrays = page.feed, page.socket, self._feeds.words
        status = feed.status
        number, view = status.view_number, status.view and status.view.as_words()
        state = {"state": status.state, "words": status.words, "view": view, "number": number}
        for kind, news, words in (
            ("arrays", arrays, {"address": self._feeds.address, "arrays": arrays}),
            ("owners", status.owners, {"number": number, **(status.owners or {})}),
            ("state", status, state),
        ):
            if page.told.get(kind) is not news:
                page.told[kind] = news
                await _say(socket, type=kind, **words)
        newest: Any = feed.newest
        is_new = newest is not None and newest is not page.sent
        if is_new and page.granted and newest.view_number == number:
            page.sent, page.granted = newest, page.granted - 1
            await socket.send_bytes(await asyncio.to_thread(message_of, newest))
        if now >= page.told_figures_at + FIGURES_SECONDS:
            page.told_figures_at = now
            await _say(socket, type="figures", pages=len(self._pages), **feed.counters())


def _log_without_strangers() -> logging.Logger:
    """Return a logger for aiohttp that drops the tracebacks of requests that are not HTTP.

    Any program that reaches the port may send any number of them.
    """
    log = logging.getLogger("datamover.frames")
    log.addFilter(_is_of_the_server)
    return log


def _is_of_the_server(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, HttpProcessingError)


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _one(request: Any, header: str) -> str:
    """Return the value of a header that occurs once."""
    values = request.headers.getall(header, [])
    return values[0] if len(values) == 1 else ""


def _read(message: Any) -> dict[str, Any]:
    """Read a message of a browser. Raises InvalidArgument."""
    try:
        said = json.loads(message.data) if message.type is WSMsgType.TEXT else None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise InvalidArgument("a message must be a JSON object")
    return said


async def _say(socket: Any, **words: Any) -> None:
    await socket.send_str(json.dumps(words, separators=(",", ":")))
