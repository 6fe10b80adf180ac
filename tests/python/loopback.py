# SPDX-License-Identifier: BSD-3-Clause
"""Servers on loopback, for tests of files at addresses."""

import contextlib
import functools
import http.server
import threading
import typing


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


class Killed(BaseException):
    """In place of a signal: nothing is tidied up after it. See `killed_after`."""


@contextlib.contextmanager
def serving(directory, handler):
    handler = functools.partial(handler, directory=directory)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
