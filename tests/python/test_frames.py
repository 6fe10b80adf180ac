# SPDX-License-Identifier: BSD-3-Clause
"""Page of a stream: gets what is sent, and unauthorized clients get nothing.

This process sends the stream, and an aiohttp WebSocket takes the place of the page. If Chromium is
installed, the page itself is tested.
"""

import asyncio
import contextlib
import json
import shutil
import struct
import subprocess
import threading

import numpy as np
import pytest
from typer.testing import CliRunner

import datamover as dm
from datamover import cli
from datamover.errors import InvalidArgument, IoFailed
from datamover.stream import feed, frames, view, wire
from datamover.stream.wire import ArrayInfo

aiohttp = pytest.importorskip("aiohttp")
from browser import CHROMIUM, browsing  # noqa: E402

HERE = "tcp://127.0.0.1:0"
PAGE = "http://127.0.0.1:0"
LIMIT_SECONDS = 40

pytestmark = pytest.mark.timeout(90)


def on_one(shape):
    return dm.BlockCyclic(shape, f"({', '.join('*' * len(shape))})", nprocs=1)


class Page:
    """What the page's script does, in Python."""

    def __init__(self, socket):
        self.socket = socket
        self.states, self.told = [], {}

    async def say(self, **words):
        await self.socket.send_str(json.dumps(words))

    async def next(self):
        """The next frame, or None: something was said."""
        message = await self.socket.receive(LIMIT_SECONDS)
        if message.type is aiohttp.WSMsgType.BINARY:
            return read(message.data)
        assert message.type is aiohttp.WSMsgType.TEXT, message
        said = json.loads(message.data)
        self.told[said["type"]] = said
        if said["type"] == "state":
            self.states.append(said["state"])
        return None

    async def frame(self, wanted=lambda frame: True):
        """Grant frames until one is the wanted one."""
        while True:
            await self.say(type="grant", frames=1)
            frame = None
            while frame is None:
                frame = await self.next()
            if wanted(frame):
                return frame

    async def until(self, kind, wanted=lambda said: True):
        while kind not in self.told or not wanted(self.told[kind]):
            assert await self.next() is None
        return self.told[kind]


def read(message):
    """A frame by the description of its header alone."""
    magic, checksum, name, rows, columns, every, number, _, step, _ = struct.unpack_from(
        "<4sIIIIIIiqQ", message
    )
    assert magic == b"DMF1" and checksum == wire.crc32c(message[8:])
    begin = (48 + name + 7) // 8 * 8
    elems = np.frombuffer(message, "<f4", offset=begin).reshape(rows, columns)
    name = message[48 : 48 + name].decode()
    return {"name": name, "step": step, "elems": elems, "every": every, "view": number}


class Url(str):
    """The address of a page without its token, which it has besides."""

    def __new__(cls, page):
        url, _, token = page.partition("/#")
        made = super().__new__(cls, url)
        made.page, made.token = page, token
        return made


@contextlib.asynccontextmanager
async def serving(address, at=PAGE, name=None):
    server = frames.Frames(address, at, name)
    page = await server.start()
    try:
        yield server, Url(page)
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def looking(url, token=None, **headers):
    async with aiohttp.ClientSession() as session:
        headers = {"Origin": url, **headers}
        async with session.ws_connect(f"{url}/frames", headers=headers, max_msg_size=0) as socket:
            await socket.send_str(json.dumps({"type": "hello", "token": token or url.token}))
            yield Page(socket)


@contextlib.contextmanager
def sending(send, **options):
    """Send steps, 0, 1, 2 ..., one after the other, in a thread, until this ends."""
    with dm.Stream(HERE, consumers=1, **options) as out:
        stop = threading.Event()

        def run():
            step = 0
            while not stop.wait(0.01):
                send(out, step)
                step += 1

        beside = threading.Thread(target=run)
        beside.start()
        try:
            yield out
        finally:
            stop.set()
            beside.join()


def send_two(out, step):
    out.send("u", of_step("u", step), layout=on_one((12, 17)), step=step)
    out.send("v", of_step("v", step), layout=on_one((4, 5, 6)), step=step)


def of_step(name, step):
    shape = {"u": (12, 17), "v": (4, 5, 6)}[name]
    dtype = {"u": np.float64, "v": np.int16}[name]
    return (np.arange(np.prod(shape)).reshape(shape) + 7 * step).astype(dtype)


def run(work):
    return asyncio.run(asyncio.wait_for(work, LIMIT_SECONDS))


def test_page_gets_fields_planes_and_the_end():
    async def look():
        # Under "block" the stream would wait for a consumer that takes nothing.
        beside = contextlib.ExitStack()
        out = beside.enter_context(sending(send_two, policy="block", queue_steps=1))
        async with serving(out.address) as (_, url), looking(url) as page:
            for _ in range(3):
                frame = await page.frame()
                expected = of_step("u", frame["step"]).astype("f4")
                np.testing.assert_array_equal(frame["elems"], expected)
            arrays = await page.until("arrays", lambda said: len(said["arrays"]) == 2)
            assert [array["shape"] for array in arrays["arrays"]] == [[12, 17], [4, 5, 6]]
            for axes, at in (([1, 2], [3, 0, 0]), ([0, 2], [0, 1, 0]), ([0, 1], [0, 0, 5])):
                await page.say(type="view", name="v", axes=axes, at=at)
                cut = tuple(slice(None) if d in axes else at[d] for d in range(3))
                shape = of_step("v", 0)[cut].shape
                frame = await page.frame(lambda f, shape=shape: f["elems"].shape == shape)
                assert frame["name"] == "v"
                np.testing.assert_array_equal(frame["elems"], of_step("v", frame["step"])[cut])
            await asyncio.to_thread(beside.close)
            await page.until("state", lambda said: said["state"] == "ended")
            assert page.states[-1] == "ended" and "running" in page.states

    run(look())


def test_pages_that_look_at_different_things():
    async def look():
        with sending(send_two) as out:
            async with serving(out.address) as (server, url), contextlib.AsyncExitStack() as all_of:
                pages = [await all_of.enter_async_context(looking(url)) for _ in range(3)]
                for page in pages:
                    await page.until("arrays", lambda said: len(said["arrays"]) == 2)
                for turn in range(4):
                    wanted = ["uv"[(turn + i) % 2] for i in range(3)]
                    for page, name in zip(pages, wanted, strict=True):
                        await page.say(type="view", name=name)
                    for page, name in zip(pages, wanted, strict=True):
                        frame = await page.frame(lambda f, name=name: f["name"] == name)
                        expected = of_step(name, frame["step"])
                        expected = expected if name == "u" else expected[2]
                        np.testing.assert_array_equal(frame["elems"], expected)
                        assert page.told["state"]["number"] == frame["view"]
                        assert page.told["state"]["view"]["name"] == name
                assert len(server._feeds.feeds) == 2

    run(look())


def test_an_array_that_comes_later_and_another_run():
    async def look():
        beside = contextlib.ExitStack()
        out = beside.enter_context(sending(send_two))  # its first step waits for a consumer
        async with serving(out.address, name="v") as (_, url), looking(url) as page:
            frame = await page.frame(lambda f: f["name"] == "v")
            np.testing.assert_array_equal(frame["elems"], of_step("v", frame["step"])[2])
            await asyncio.to_thread(beside.close)
            await page.until("state", lambda said: said["state"] == "ended")
            assert {"ended", "failed"} & set(page.states) == {"ended"}
            with dm.Stream(out.address, consumers=1) as again:
                await asyncio.to_thread(send_two, again, 777)
                frame = await page.frame(lambda f: f["step"] == 777)
                np.testing.assert_array_equal(frame["elems"], of_step("u", 777))

    run(look())


def test_newest_step_is_the_one_that_is_shown_and_nobody_waits():
    async def look():
        line = on_one((2, 3))
        with dm.Stream(HERE, policy="block", queue_steps=1, consumers=1, timeout=20) as out:
            async with serving(out.address) as (server, url), looking(url) as page:

                def send():
                    for step in range(200):
                        out.send("u", np.full((2, 3), step + 0.5), layout=line, step=step)

                await asyncio.to_thread(send)
                frame = await page.frame(lambda f: f["step"] == 199)
                np.testing.assert_array_equal(frame["elems"], np.full((2, 3), 199.5))
                counters = server._feeds.feeds[0].counters()
                assert counters["steps"] + counters["steps_dropped"] == 200
                await page.say(type="grant", frames=1, again=True)  # it arrived damaged
                assert (await page.frame())["step"] == 199

    run(look())


def test_a_consumer_of_the_newest_step_is_not_waited_for():
    line = on_one((6,))
    with (
        dm.Stream(HERE, policy="block", queue_steps=9, consumers=1, timeout=5) as out,
        dm.stream.connect(out.address, ahead=1, newest=True) as source,
    ):
        steps = source.steps({"u": line})
        for step in range(30):
            out.send("u", np.arange(6.0) + step, layout=line, step=step)
        seen = [next(steps) for _ in range(2)]
        assert [step for step, _ in seen] == [0, 29] and source.dropped == 28
        np.testing.assert_array_equal(seen[1][1]["u"], np.arange(6.0) + 29)


def test_only_the_page_itself_may_connect():
    async def look():
        async with serving("tcp://127.0.0.1:9") as (_, url), aiohttp.ClientSession() as session:
            port = url.rpartition(":")[2]
            answers = {}
            for path in frames.FILES:
                async with session.get(url + path) as answer:
                    assert answer.status == 200 and await answer.read()
                    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            for headers in (
                {"Host": f"evil.example:{port}"},
                {"Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}"},
                {"Origin": "http://evil.example"},
                {"Origin": f"https://127.0.0.1:{port}"},
                {"Origin": "null"},
                {},
            ):
                with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                    await session.ws_connect(f"{url}/frames", headers=headers)
                answers[str(headers)] = refused.value.status
            assert set(answers.values()) == {403}
            async with session.get(f"{url}/", headers={"Host": f"evil.example:{port}"}) as answer:
                assert answer.status == 403
            for path in ("/../frames.py", "/page.py", "/%2e%2e/frames.py"):
                async with session.get(url + path) as answer:
                    assert answer.status == 404

    run(look())


def test_a_token_is_demanded():
    async def look():
        server = frames.Frames("tcp://127.0.0.1:9", PAGE)
        page = await server.start()
        url = Url(page)
        token = url.token
        assert len(token) >= 32
        try:
            async with looking(url, token) as right:
                await right.until("state")
            for wrong in (" ", token[:-1], token + "a", "ä"):
                async with looking(url, wrong) as refused:
                    message = await refused.socket.receive(LIMIT_SECONDS)
                    assert message.type is aiohttp.WSMsgType.CLOSE and message.data == 1008
        finally:
            await server.close()

    run(look())


@pytest.mark.parametrize("token", ["", "that of an earlier page, which the tab has kept"])
def test_a_page_that_is_open_takes_no_token(caplog, token):
    async def look():
        server = frames.Frames("tcp://127.0.0.1:9", PAGE, open_to_all=True)
        page = await server.start()
        assert page.endswith("/") and "#" not in page
        assert page in "".join(record.message for record in caplog.records)
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.ws_connect(f"{page}frames", headers={"Origin": page[:-1]}) as socket,
            ):
                await socket.send_str(json.dumps({"type": "hello", "token": token}))
                await Page(socket).until("state")
        finally:
            await server.close()

    run(look())


HOSTILE = [
    "", "{", "[]", "7", "{}", '{"type": 7}', '{"type": "view"}', '{"type": "hello", "token": ""}',
    '{"type": "grant"}', '{"type": "grant", "frames": 0}', '{"type": "grant", "frames": 1e9}',
    '{"type": "grant", "frames": true}', "[" * 4000,
    '{"type": "view", "name": ["u"]}', '{"type": "view", "name": "u", "axes": [0, 1]}',
    '{"type": "view", "name": "u", "axes": [1, 0], "at": [0, 0]}',
    '{"type": "view", "name": "u", "axes": [0, true], "at": [0, 0]}',
    '{"type": "view", "name": "u", "axes": [0, 1], "at": "00"}',
    b"\0" * 16, "x" * 5000,
]  # fmt: skip
UNFITTING = [
    {"name": "x"},
    {"name": "u", "axes": [0, 1], "at": [0]},
    {"name": "u", "axes": [0], "at": [0, 0]},
    {"name": "u", "axes": [0, 2], "at": [0, 0]},
    {"name": "u", "axes": [0, 1], "at": [0, 17]},
    {"name": "u", "axes": [-1, 1], "at": [0, -1]},
]


def test_hostile_messages_end_their_own_connection_only():
    async def look():
        with sending(send_two) as out:
            async with serving(out.address) as (server, url), looking(url) as good:
                await good.frame()
                for message in HOSTILE:
                    async with looking(url) as bad:
                        send = bad.socket.send_str
                        await (bad.socket.send_bytes if isinstance(message, bytes) else send)(
                            message
                        )
                        while not bad.socket.closed:
                            kind = (await bad.socket.receive(LIMIT_SECONDS)).type
                            assert kind is not aiohttp.WSMsgType.BINARY
                    assert bad.socket.close_code in (1008, 1009), message
                for words in UNFITTING:
                    await good.say(type="view", **words)
                    assert (await good.frame())["name"] == "u"
                assert len(server._pages) == 1

    run(look())


NO_HTTP = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    b"\0\xff\r\n\r\n",
]


def test_what_is_no_http_is_refused_and_fills_no_log(caplog):
    async def look():
        async with serving("tcp://127.0.0.1:9") as (server, _):
            for request in NO_HTTP:
                reader, writer = await asyncio.open_connection(*server._runner.addresses[0][:2])
                writer.write(request)
                status = await reader.readline()
                assert status.startswith(b"HTTP/1") and b" 400 " in status
                writer.close()

    run(look())
    assert caplog.records == []


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: 127"])
def test_who_does_not_ask_for_anything_is_ended_and_pages_stay(monkeypatch, said):
    monkeypatch.setattr(frames, "REQUESTS_SECONDS", 0.1)
    monkeypatch.setattr(frames, "LOOK_SECONDS", 0.05)

    async def look():
        with dm.Stream(HERE, policy="drop_oldest") as out:
            async with serving(out.address) as (server, url), looking(url) as page:
                await page.until("state")
                reader, writer = await asyncio.open_connection(*server._runner.addresses[0][:2])
                writer.write(said)
                assert await asyncio.wait_for(reader.read(), LIMIT_SECONDS) == b""
                writer.close()
                for _ in range(2):  # told every second
                    page.told.pop("figures", None)
                    await page.until("figures")

    run(look())


def test_a_defect_of_the_server_is_logged(caplog, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(frames.Frames, "_guarded_host", fail)

    async def look():
        async with serving("tcp://127.0.0.1:9") as (_, url), aiohttp.ClientSession() as session:
            assert (await session.get(url)).status == 500

    run(look())
    assert ["a defect" in record.exc_text for record in caplog.records] == [True]


def send_large(out, step):
    out.send("u", np.zeros((4096, 2048), "f4"), layout=on_one((4096, 2048)), step=step)


def test_a_page_that_goes_while_the_server_ends_does_no_harm():
    async def look():
        with sending(send_large) as out:
            server = frames.Frames(out.address, PAGE, None)
            url = Url(await server.start())
            async with looking(url) as page:
                await page.say(type="grant", frames=1)
                while not server._pages:
                    await asyncio.sleep(0.01)
                # A frame is on its way, more than the system keeps for who does not read.
                (seen,) = server._pages
                while not seen.socket._req.transport.get_write_buffer_size():
                    await asyncio.sleep(0.01)
                ending = asyncio.create_task(server.close())
                await asyncio.sleep(0)
                await page.socket._writer.close()  # says that it goes, and reads no more
                await ending

    run(look())


def test_at_most_so_many_pages_look():
    async def look():
        async with serving("tcp://127.0.0.1:9") as (_, url), contextlib.AsyncExitStack() as pages:
            for _ in range(frames.MAX_PAGES):
                await (await pages.enter_async_context(looking(url))).until("state")
            async with looking(url) as late:
                message = await late.socket.receive()
                assert message.type is aiohttp.WSMsgType.CLOSE and message.data == 1013
                assert message.extra == f"{frames.MAX_PAGES} pages are already open"

    run(look())


def test_connections_that_say_nothing_keep_no_page_out():
    async def look():
        async with (
            serving("tcp://127.0.0.1:9") as (_, url),
            aiohttp.ClientSession() as session,
            contextlib.AsyncExitStack() as silent,
        ):
            connecting = {"url": f"{url}/frames", "headers": {"Origin": url}}
            strangers = [
                await silent.enter_async_context(session.ws_connect(**connecting))
                for _ in range(frames.MAX_PAGES + frames.MAX_GUESTS)
            ]
            async with looking(url) as page:
                await page.until("state")
            message = await strangers[0].receive()
            assert message.type is aiohttp.WSMsgType.CLOSED
            assert not strangers[-1].closed

    run(look())


def owners_by_hand(layout):
    owners = np.full(layout.domain.shape, -1)
    if isinstance(layout, dm.BlockCyclic):
        for rank in range(layout.nprocs):
            owners[np.ix_(*layout.global_indices(rank))] = rank
    elif isinstance(layout, dm.FlatCyclic):
        for rank in range(layout.nprocs):
            owners.flat[np.asarray(layout.indices_of(rank))] = rank
    else:
        for (lower, upper), rank in zip(layout.regions, layout.owners, strict=True):
            owners[tuple(map(slice, lower, upper))] = rank
    return owners


BOX = dm.Region((0, 0, 0), (9, 10, 11))


@pytest.mark.parametrize(
    "layout",
    [
        dm.BlockCyclic((9, 10, 11), "(cyclic(2), *, cyclic(3))", nprocs=6),
        dm.FloorPlan.bisected(BOX, [3.0, 1.0, 2.0, 2.0, 5.0]),
        dm.FlatCyclic((9, 10, 11), 37, nprocs=4),
    ],
    ids=lambda layout: type(layout).__name__,
)
@pytest.mark.parametrize(("axes", "at"), [((0, 2), 4), ((1, 2), 7), ((0, 1), 10)])
def test_owners_are_those_of_the_layout(layout, axes, at):
    info = ArrayInfo("u", np.dtype("f4"), layout)
    hidden = ({0, 1, 2} - set(axes)).pop()
    place = tuple(at if d == hidden else 0 for d in range(3))
    told = view.owners_of(view.View("u", axes, place), info)
    spans = [np.diff(told["rows"]), np.diff(told["columns"])]
    owners = np.reshape(told["owners"], [len(span) for span in spans])
    painted = np.repeat(np.repeat(owners, spans[0], axis=0), spans[1], axis=1)
    np.testing.assert_array_equal(painted, owners_by_hand(layout).take(at, axis=hidden))
    assert told["exact"]


@pytest.mark.parametrize(("axes", "at"), [((0, 2), 4), ((1, 2), 7)])
def test_a_plane_has_the_indices_of_the_array_wherever_that_begins(axes, at):
    box = dm.Region((5, -4, -30), (14, 6, -19))
    info = ArrayInfo("u", np.dtype("f4"), dm.FloorPlan([box], [0]))
    hidden = ({0, 1, 2} - set(axes)).pop()
    place = tuple(at if d == hidden else 0 for d in range(3))
    plan = dm.redistribute(info.layout, view.layout_of_view(view.View("u", axes, place), info))
    lo, hi = list(box.lo), list(box.hi)
    lo[hidden] += at
    hi[hidden] = lo[hidden] + 1
    plane = dm.Region(lo, hi)
    assert [(s.source_region, s.destination_region) for s in plan.sections()] == [(plane, plane)]


def test_owners_of_fine_layouts_are_a_sample():
    layout = dm.BlockCyclic((6000, 3), "(cyclic(1), *)", nprocs=7)
    told = view.owners_of(view.View("u", (0, 1), (0, 0)), ArrayInfo("u", np.dtype("f4"), layout))
    assert not told["exact"] and len(told["rows"]) == view.MAX_INTERVALS + 1
    assert told["owners"] == [row % 7 for row in told["rows"][:-1]]


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", ">f4", "f4", "f8", "c8", "c16"])
def test_elements_become_float32(dtype):
    values = np.random.default_rng(1).integers(0, 2 if dtype == "?" else 120, (5, 7)).astype(dtype)
    if values.dtype.kind == "c":
        values *= 1 - 2j
    expected = np.abs(values) if values.dtype.kind == "c" else values
    seen = read(feed.message_of(feed.Newest(3, -8, view.View("Größe", (0, 1), (0, 0)), 2, values)))
    np.testing.assert_array_equal(seen["elems"], expected.astype("f4"))
    assert (seen["name"], seen["step"], seen["view"], seen["every"]) == ("Größe", -8, 2, 1)


@pytest.mark.parametrize("shape", [(1, 30_000), (9000, 4), (5000, 5000)])
def test_large_planes_are_thinned_out(shape):
    plane = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    seen = read(feed.message_of(feed.Newest(1, 1, view.View("u", (0, 1), (0, 0)), 1, plane)))
    every, elems = seen["every"], seen["elems"]
    assert every > 1 and elems.size <= feed.MAX_ELEMS and max(elems.shape) <= feed.MAX_EXTENT
    np.testing.assert_array_equal(elems, plane[::every, ::every])


def test_what_is_no_number_is_not_shown():
    why_not = {
        text: view.why_not_shown(ArrayInfo("u", np.dtype(text), on_one((2, 2))))
        for text in ("f8", "c8", "?", "S4", "M8[s]", "f4,f4")
    }
    assert [text for text, why in why_not.items() if not why] == ["f8", "c8", "?"]


def test_wrong_addresses_are_errors():
    for at in ("127.0.0.1:80", "https://127.0.0.1:80", "http://127.0.0.1", "http://:80",
               "http://127.0.0.1:x", "http://127.0.0.1:99999", "http://0.0.0.0:80",
               "http://127.0.0.1:80/path", "http://u@127.0.0.1:80"):  # fmt: skip
        with pytest.raises(InvalidArgument):
            frames.Frames("tcp://127.0.0.1:9", at)
    with pytest.raises(InvalidArgument):
        frames.Frames("http://127.0.0.1:9", PAGE)

    async def twice():
        async with serving("tcp://127.0.0.1:9") as (_, url):
            with pytest.raises(IoFailed, match="in use"):
                async with serving("tcp://127.0.0.1:9", url):
                    pass

    run(twice())


def test_without_aiohttp_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(frames, "web", None)
    done = CliRunner().invoke(cli.app, ["stream", "view", "tcp://127.0.0.1:9", "--page", PAGE])
    assert done.exit_code == 1 and "pip install 'datamover[frames]'" in done.output


# The page's own code.

#: RFC 3720, B.4, and the check value of CRC catalogues.
VECTORS = [
    (b"", 0),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
    (
        bytes.fromhex(
            "01c000000000000000000000000000001400000000000400000000140000001828000000000000000200000000000000"
        ),
        0xD9963A56,
    ),
]


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_checksum_of_the_page():
    random = np.random.default_rng(5)
    cases = VECTORS + [
        (data, wire.crc32c(data)) for data in (random.bytes(n) for n in (*range(20), 4099))
    ]
    script = """
        const { crc32c } = require(process.argv[1]);
        const cases = JSON.parse(require("fs").readFileSync(0));
        const of = (data) => crc32c(new Uint8Array([0, ...Buffer.from(data, "hex")]).subarray(1));
        console.log(JSON.stringify(cases.map(of)));
    """
    done = subprocess.run(
        ["node", "-e", script, str(frames.PAGE / "crc32c.js")],
        input=json.dumps([data.hex() for data, _ in cases]),
        capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS,
    )  # fmt: skip
    assert json.loads(done.stdout) == [checksum for _, checksum in cases]


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_range_of_the_page():
    random = np.random.default_rng(0)
    odd = [np.nan, np.inf, -np.inf, 0.0, 3e38]
    cases = [random.normal(size=n).astype("f4") for n in (0, 1, 2, 3, 4, 5, 99, 100) for _ in "abc"]
    for case in [one.copy() for one in cases for _ in "abc" if one.size]:
        case[random.integers(case.size)] = random.choice(odd)
        cases.append(case)
    script = """
        const source = require("fs").readFileSync(process.argv[1], "utf8");
        const of = new Function("importScripts", "onmessage", source + "; return range;")(() => {});
        const cases = JSON.parse(require("fs").readFileSync(0));
        const floats = (data) => new Float32Array(new Uint8Array(Buffer.from(data, "hex")).buffer);
        console.log(JSON.stringify(cases.map((data) => of(floats(data)))));
    """
    done = subprocess.run(
        ["node", "-e", script, str(frames.PAGE / "worker.js")],
        input=json.dumps([case.tobytes().hex() for case in cases]),
        capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS,
    )  # fmt: skip
    for case, found in zip(cases, json.loads(done.stdout), strict=True):
        finite = case[np.isfinite(case)].tolist() or [0.0]
        expected = {"low": min(finite), "high": max(finite), "nans": int(np.isnan(case).sum())}
        expected["areFinite"] = case.size > 0 and bool(np.isfinite(case).all())
        assert found == expected


#: The heading of the page, its spaces plain.
PLAIN = (
    "document.getElementById('what').textContent.replaceAll('\\u00a0', ' ')"
    ".replaceAll('\\u200b', '')"
)
QUARTERS = dm.BlockCyclic((4, 6), "(block, block)", nprocs=1)


def send_quarters(out, step):
    field = np.zeros((4, 6), "f4")
    field[2:, :3], field[:2, 3:], field[2:, 3:] = 0.5, 1.0, np.nan
    out.send("u", field, layout=QUARTERS, step=step)


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
def test_picture_in_a_browser(tmp_path, monkeypatch):
    image = pytest.importorskip("matplotlib.image")
    damaged = []

    def message_of(newest):
        message = feed.message_of(newest)
        if newest.count % 3 == 1 and len(damaged) < 5:
            damaged.append(newest.count)
            return message[:-4] + bytes([7, 7, 7, 7])
        return message

    monkeypatch.setattr(frames, "message_of", message_of)

    async def look():
        beside = contextlib.ExitStack()
        out = beside.enter_context(sending(send_quarters))
        async with serving(out.address) as (_, url), browsing(url.page, tmp_path / "p") as browser:
            await browser.until("Number(document.body?.dataset.drawn) >= 3")
            box = await browser.value(
                "(r => [r.left, r.top, r.width, r.height].join())"
                "(document.getElementById('field').getBoundingClientRect())"
            )
            await browser.screenshot(tmp_path / "shot.png")
            pixels = image.imread(tmp_path / "shot.png")
            left, top, width, height = map(float, box.split(","))
            seen = [
                [pixels[int(top + y * height), int(left + x * width), :3] for x in (0.25, 0.75)]
                for y in (0.25, 0.75)
            ]
            # Viridis at 0, 1 and a half; NaN.
            expected = [["440154", "fde725"], ["21918c", "ff2bd6"]]
            of = [[list(bytes.fromhex(color)) for color in row] for row in expected]
            np.testing.assert_allclose(np.multiply(seen, 255), of, atol=2)
            await browser.until("document.getElementById('checked').textContent.includes('B/s')")
            errors = await browser.value("document.getElementById('errors').textContent")
            assert int(errors) == len(damaged) > 0
            await browser.value("document.getElementById('pause').click()")
            await browser.until("document.getElementById('state').textContent == 'paused'")
            await browser.value("document.getElementById('pause').click()")
            await asyncio.to_thread(beside.close)
            await browser.until("document.getElementById('state').textContent.includes('ended')")

    run(look())


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
def test_what_the_page_says_while_it_waits_runs_and_when_it_has_ended(tmp_path):
    def text(name):
        return f"document.getElementById('{name}').textContent"

    async def look():
        beside = contextlib.ExitStack()
        out = beside.enter_context(sending(send_quarters))
        nowhere = serving("tcp://127.0.0.1:9")
        async with nowhere as (_, url), browsing(url.page, tmp_path / "n") as browser:
            await browser.until(f"{text('skipped')} === '0'")  # figures have come
            assert await browser.value(f"{text('rate')} + {text('frames')}") == "––"
            assert await browser.value(text("value")) == ""
            assert await browser.value("document.getElementById('scale').hidden")
        async with serving(out.address) as (_, url), browsing(url.page, tmp_path / "p") as browser:
            await browser.until("Number(document.body?.dataset.drawn) >= 3")
            assert not await browser.value("document.getElementById('pause').disabled")
            # Of a field of 24 elements there is little, which is not nothing.
            await browser.until(f"/^[1-9][0-9.]* k?B.s$/.test({text('rate')})")
            rates = await browser.value("[0, 999, 1e3, 61.7e3, 2.5e6, 1.2e9].map(rateOf).join()")
            assert rates == "0 B/s,999 B/s,1.0 kB/s,61.7 kB/s,2.5 MB/s,1.2 GB/s"
            for width in (1200, 400, 320):
                await browser.call(
                    "Emulation.setDeviceMetricsOverride",
                    width=width, height=800, deviceScaleFactor=1, mobile=False,
                )  # fmt: skip
                await browser.value(
                    "showState({ ...state, state: 'failed', words: 'the viewer has gone; trying "
                    "again' })"
                )
                assert await browser.value("document.documentElement.scrollWidth") <= width
                # The address of the stream stays in one line.
                lines = "document.getElementById('address').getClientRects()"
                assert await browser.value(f"{lines}.length") == 1
                assert await browser.value(f"{lines}[0].height < 30")
            await asyncio.to_thread(beside.close)
            await browser.until(f"{text('state')}.includes('ended')")
            assert await browser.value("document.getElementById('pause').disabled")
            with dm.Stream(out.address, consumers=1) as again:
                await asyncio.to_thread(send_quarters, again, 777)
                await browser.until(f"{text('step')} === '777'")
                assert not await browser.value("document.getElementById('pause').disabled")

    run(look())


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
def test_a_picture_has_the_name_of_its_plane_until_another_plane_comes(tmp_path):
    cube = np.arange(120.0).reshape(4, 5, 6)

    def what(plane):
        words = f"v[{plane}, :, :], 4 × 5 × 6 float64"
        return f"{PLAIN} === {json.dumps(words)}"

    def send(out, step):
        out.send("v", cube, layout=on_one(cube.shape), step=step)

    async def look():
        beside = contextlib.ExitStack()
        out = beside.enter_context(sending(send))
        async with serving(out.address) as (_, url), browsing(url.page, tmp_path / "p") as browser:
            await browser.until(f"document.body && {what(2)} && document.body.dataset.drawn")
            await asyncio.to_thread(beside.close)
            await browser.until("document.getElementById('state').textContent.includes('ended')")
            await browser.value(
                "slide = document.querySelector('#planes input'); slide.value = 0; slide.oninput()"
            )
            await browser.until("state.view.at[0] === 0")  # it is wanted, and does not come
            assert await browser.value(what(2))
            await browser.value("pointer = [0, 0]; showValue()")
            assert await browser.value(
                "document.getElementById('value').textContent.startsWith('v[2, 0, 0] = 60')"
            )
            with dm.Stream(out.address, consumers=1) as again:
                await asyncio.to_thread(send, again, 777)
                await browser.until(what(0))

    run(look())
