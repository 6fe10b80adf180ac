# SPDX-License-Identifier: BSD-3-Clause
"""Access to streams: consumers need the token, which those of the same user find by themselves."""

import contextlib
import json
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import stream_words

import datamover as dm
from datamover import _plan
from datamover.stream import wire

HERE = "tcp://127.0.0.1:0"
LIMIT_SECONDS = 60
LINE = dm.BlockCyclic(6, "block", nprocs=1)

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """The runtime directory of the user, with nothing in it."""
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    monkeypatch.delenv(wire.TOKEN_VARIABLE, raising=False)
    return path


@pytest.fixture
def without_files(tmp_path, monkeypatch):
    """As a consumer sees it that cannot read the sender's runtime directory."""

    @contextlib.contextmanager
    def elsewhere():
        with monkeypatch.context() as other:
            other.setenv("XDG_RUNTIME_DIR", str(tmp_path / "elsewhere"))
            yield

    (tmp_path / "elsewhere").mkdir(mode=0o700)
    return elsewhere


def expect_step(out, source, step=0):
    """A step that is sent arrives."""
    steps = source.steps({"u": LINE}, LIMIT_SECONDS)
    out.send("u", np.arange(6.0) + step, layout=LINE, step=step)
    number, arrays = next(steps)
    assert number == step
    np.testing.assert_array_equal(arrays["u"], np.arange(6.0) + step)


def expect_refusals(out, count):
    """So many connections are refused: the stream counts one once it has ended it."""
    while out.counters()["connections_refused"] < count:
        pass
    assert out.counters()["connections_refused"] == count


def expect_refused(address, **options):
    with pytest.raises(dm.errors.InvalidArgument, match=f"token.*{wire.TOKEN_VARIABLE}"):
        dm.stream.connect(address, timeout=LIMIT_SECONDS, **options)


@pytest.mark.parametrize("local", [True, False])
def test_consumers_of_the_same_user_find_the_token(runtime, local):
    with dm.Stream(HERE, consumers=1) as out:
        (file,) = runtime.iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text() == out.token and len(out.token) == 48
        assert file.name.endswith(out.address.removeprefix("tcp://"))
        named = out.address.replace("127.0.0.1", "localhost")
        with dm.stream.connect(named, local=local) as source:
            expect_step(out, source)
    assert list(runtime.iterdir()) == []


def test_others_need_the_token(runtime, without_files, monkeypatch):
    with dm.Stream(HERE, consumers=1) as out, without_files():
        expect_refused(out.address)
        expect_refused(out.address, token="")
        expect_refused(out.address, token="another token of some length")
        expect_refused(out.address, token=out.token[:-1])
        expect_refused(out.address, token=out.token + "0")
        monkeypatch.setenv(wire.TOKEN_VARIABLE, "another token of some length")
        expect_refused(out.address)
        expect_refusals(out, 6)
        monkeypatch.setenv(wire.TOKEN_VARIABLE, out.token)
        with dm.stream.connect(out.address) as source:
            expect_step(out, source)
        monkeypatch.setenv(wire.TOKEN_VARIABLE, "another token of some length")
        with dm.stream.connect(out.address, token=out.token) as source:
            expect_step(out, source, 1)


def test_a_token_of_the_program_is_not_stored(runtime):
    token = "a secret of some length"
    with dm.Stream(HERE, token=token, consumers=1) as out:
        assert out.token == token and list(runtime.iterdir()) == []
        expect_refused(out.address)
        with dm.stream.connect(out.address, token=token) as source:
            expect_step(out, source)


def test_several_streams_have_tokens_of_their_own(runtime):
    with contextlib.ExitStack() as stack:
        outs = [stack.enter_context(dm.Stream(HERE, consumers=1)) for _ in range(5)]
        assert len({out.token for out in outs}) == len(list(runtime.iterdir())) == 5
        for out in outs:
            source = stack.enter_context(dm.stream.connect(out.address))
            expect_step(out, source)
        expect_refused(outs[0].address, token=outs[1].token)
        outs[2].close()
        assert len(list(runtime.iterdir())) == 4
        with dm.stream.connect(outs[3].address):
            pass


KILLED = """
    import signal, sys, datamover as dm
    out = dm.Stream(sys.argv[1])
    print(out.token, flush=True)
    sys.stdin.read()
"""


def test_the_token_of_a_stream_that_was_killed_is_replaced(runtime):
    # Where no other process connects or listens, so that the port stays free in between.
    host = "127." + ".".join(map(str, (1 + os.getpid()).to_bytes(3, "big")))
    with socket.create_server((host, 0)) as unused:
        address = f"tcp://{host}:{unused.getsockname()[1]}"
    code = textwrap.dedent(KILLED)
    with subprocess.Popen(
        [sys.executable, "-c", code, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as killed:
        token = killed.stdout.readline().strip()
        killed.send_signal(signal.SIGKILL)
    (file,) = runtime.iterdir()
    assert file.read_text() == token
    with dm.Stream(address, token="another token of some length"):
        expect_refused(address)  # what is found is that of the killed one
    with dm.Stream(address, consumers=1) as out:
        assert file.read_text() == out.token != token
        with dm.stream.connect(address) as source:
            expect_step(out, source)
    assert list(runtime.iterdir()) == []


def test_an_open_stream_lets_everybody_connect(runtime, without_files, caplog):
    with dm.Stream(HERE, open=True, consumers=2) as out, without_files():
        assert out.token == "" and list(runtime.iterdir()) == []
        (record,) = caplog.records
        assert record.levelno == logging.WARNING and out.address in record.message
        with (
            dm.stream.connect(out.address, token="another token of some length"),
            dm.stream.connect(out.address) as source,
        ):
            out_steps = source.steps({"u": LINE}, LIMIT_SECONDS)
            other = dm.stream.connect(out.address).steps({"u": LINE}, LIMIT_SECONDS)
            out.send("u", np.arange(6.0), layout=LINE)
            assert next(out_steps)[0] == next(other)[0] == 0
    with pytest.raises(dm.errors.InvalidArgument, match="token"):
        dm.Stream(HERE, open=True, token="a token of some length")


def test_the_token_is_logged_where_consumers_of_other_machines_need_it(runtime, caplog):
    with caplog.at_level(logging.INFO, "datamover"), dm.Stream(HERE) as out:
        (record,) = caplog.records
        assert record.levelno == logging.INFO
        assert f"{wire.TOKEN_VARIABLE}={out.token}" in record.message
        caplog.clear()
        dm.Stream(HERE, token="a secret of some length").close()
        assert not caplog.records


@pytest.mark.parametrize(
    "token",
    ["", "short", "x" * 15, "x" * 257, "x" * (1 << 20), "a\nb" * 10, "\0" * 20, "ä" * 20,
     "\ud800" * 20, b"x" * 20, 5],
    ids=lambda token: repr(token)[:12],
)  # fmt: skip
def test_tokens_that_no_stream_can_have(runtime, token):
    with pytest.raises((dm.errors.InvalidArgument, dm.errors.WrongType)):
        dm.Stream(HERE, token=token)
    with dm.Stream(HERE) as out:
        if isinstance(token, str) and token.isascii() and token.isprintable() and len(token) < 257:
            expect_refused(out.address, token=token)
        else:
            with pytest.raises((dm.errors.InvalidArgument, dm.errors.WrongType)):
                dm.stream.connect(out.address, token=token)


@pytest.mark.parametrize(
    "token", [None, 0, True, [], {}, "", "x" * 10_000, "\0" * 48, [["x"]], 2**70],
    ids=lambda token: repr(token)[:12],
)  # fmt: skip
def test_hostile_tokens_are_refused(runtime, token):
    with dm.Stream(HERE, consumers=1) as out:
        with socket.create_connection(wire.parse_address(out.address)) as sock:
            assert stream_words.read_frame(sock) == {"datamover_stream": stream_words.VERSION}
            words = {"role": "control", "nprocs": 1, "token": token}
            if token is None:
                del words["token"]
            sock.sendall(stream_words.said(words))
            if isinstance(token, str) or token in (None, 0, []):  # a text; a length of 0
                answer = stream_words.read_frame(sock)
                assert (answer["type"], answer["code"]) == ("failed", "invalid_argument")
            else:
                with pytest.raises(ConnectionError):
                    stream_words.read_frame(sock)
        with dm.stream.connect(out.address) as source:
            expect_step(out, source)
        expect_refusals(out, 1)


def test_a_stream_does_not_follow_a_link_in_place_of_the_directory(tmp_path, monkeypatch):
    """A directory that is no directory of this user's is passed over for that in /tmp."""
    monkeypatch.delenv(wire.TOKEN_VARIABLE, raising=False)
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(theirs)
    (tmp_path / "readable").mkdir(mode=0o755)
    for name in ("link", "readable", "none/none"):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / name))
        with dm.Stream(HERE, consumers=1) as out, dm.stream.connect(out.address) as source:
            expect_step(out, source)
            file = f"datamover-stream-{out.address.removeprefix('tcp://')}"
            assert os.path.exists(f"/tmp/datamover-{os.geteuid()}/{file}")
            assert [*theirs.iterdir(), *(tmp_path / "readable").iterdir()] == []


def local_name(out):
    """The name of the local socket of a stream, and the key of a consumer that wants a step."""
    sock = socket.create_connection(wire.parse_address(out.address))
    greeting = {**stream_words.read_frame(sock), "token": out.token}
    sock.sendall(stream_words.answer(greeting, role="control", nprocs=1))
    welcome = stream_words.read_frame(sock)
    wanted = [["u", _plan.bytes_of_layout(LINE)]]
    sock.sendall(stream_words.said({"type": "subscribe", "arrays": wanted}))
    sock.sendall(stream_words.said({"type": "credit", "steps": 1}))
    return sock, welcome["producers"][0][2], welcome["key"]


#: Connects, gets the greeting, says who it is without a token; prints what comes then.
LOCAL_CONSUMER = """
    import os, socket, sys
    os.setuid(int(sys.argv[3]))
    sock = socket.socket(socket.AF_UNIX)
    sock.connect("\\0" + sys.argv[1])
    sock.settimeout(60)
    sock.recv(1 << 16)
    sock.sendall(bytes.fromhex(sys.argv[2]))
    print(sock.recv(1 << 16)[4:8].decode(), flush=True)
"""


@pytest.mark.parametrize(
    "user",
    [
        os.getuid(),
        pytest.param(
            65534, marks=pytest.mark.skipif(os.geteuid() != 0, reason="takes another user")
        ),
    ],
)
def test_a_local_socket_lets_in_its_user_without_a_token(runtime, user):
    with dm.Stream(HERE, consumers=1, timeout=LIMIT_SECONDS) as out:
        control, name, key = local_name(out)
        with control:
            out.send("u", np.arange(6.0), layout=LINE)
            words = {"role": "data", "key": key, "rank": 0, "pathway": 0}
            grant = stream_words.grant(0, 1)
            said = (stream_words.said(words) + grant).hex()
            code = textwrap.dedent(LOCAL_CONSUMER)
            found = subprocess.run(
                [sys.executable, "-I", "-S", "-c", code, name, said, str(user)],
                stdout=subprocess.PIPE, text=True, check=True,
                timeout=LIMIT_SECONDS,
            ).stdout.strip()  # fmt: skip
    # A frame, which says that it failed, or the message.
    frame, chunk = stream_words.FRAME_MAGIC.decode(), stream_words.CHUNK_MAGIC.decode()
    assert found == (chunk if user == os.getuid() else frame)


def test_consumers_of_several_processes_share_the_token(runtime, without_files):
    """As above under MPI: `tests/mpi/test_streams.py`; here the words of the second process."""
    with dm.Stream(HERE, consumers=1) as out, without_files():
        first = socket.create_connection(wire.parse_address(out.address))
        with first:
            greeting = {**stream_words.read_frame(first), "token": out.token}
            first.sendall(stream_words.answer(greeting, role="control", nprocs=2))
            key = stream_words.read_frame(first)["key"]
            for token, kind in (("", "failed"), (out.token, None)):
                second = socket.create_connection(wire.parse_address(out.address))
                with second:
                    stream_words.read_frame(second)
                    words = {"role": "control", "key": key, "rank": 1, "token": token}
                    second.sendall(stream_words.said(words))
                    answer = stream_words.read_frame(second)
                    assert (answer["type"] == "failed") == (kind == "failed"), json.dumps(answer)
