# SPDX-License-Identifier: BSD-3-Clause
"""Servers on loopback, for tests of files at addresses."""

import contextlib
import functools
import http.server
import threading
import typing
import urllib.error
import urllib.request


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        """Be quiet."""


class Ranges(Silent):
    """Gives ranges of bytes, which the library's own handler does not."""

    asked: typing.ClassVar[list[int]] = []  # lengths

    def do_GET(self):
        said = self.headers.get("Range")
        with open(self.translate_path(self.path), "rb") as file:
            data = file.read()
        self.has_read()
        first, last = said.removeprefix("bytes=").split("-")
        part = data[int(first) : int(last) + 1]
        self.asked.append(len(part))
        self.send_response(206)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.end_headers()
        self.wfile.write(part)

    def has_read(self):
        """What is sent is settled."""


class Gate(Silent):
    """Forwards requests to another server.

    Until the event `is_open` is set, each change takes one of the semaphore `changes`. Changes that
    find none left wait for the event, and are then dropped without an answer.
    """

    def __init__(self, *said, server, changes, is_open, directory):
        self.server_behind, self.changes, self.is_open = server, changes, is_open
        super().__init__(*said, directory=directory)

    def change(self):
        if not self.is_open.is_set() and not self.changes.acquire(blocking=False):
            self.is_open.wait()
            self.close_connection = True
        else:
            self.pass_on()

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
        # Else urllib would say that it is a form, which the server takes apart.
        headers = {"Content-Type": "application/octet-stream"} | dict(self.headers)
        request = urllib.request.Request(
            self.server_behind + self.path, body, headers, method=self.command
        )
        try:
            answer = urllib.request.urlopen(request)
        except urllib.error.HTTPError as e:
            answer = e
        with answer:
            data = answer.read()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("connection", "date", "server", "transfer-encoding"):
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    do_GET = do_HEAD = pass_on
    do_PUT = do_DELETE = do_POST = change


class Killed(BaseException):
    """In place of a signal: nothing is tidied up after it. See `killed_after`."""


@contextlib.contextmanager
def serving(directory, handler, **said):
    handler = functools.partial(handler, directory=directory, **said)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
