# SPDX-License-Identifier: BSD-3-Clause
"""What several test files share: random cases, the start of MPI before other tests, and servers.

`make test` draws the same cases each time. With `DATAMOVER_TEST_CASES=k` (set by `make test-long`),
the tests draw k times as many, from a new seed.
"""

import functools
import os
import shutil
import subprocess
import sys
import urllib.request

import hypothesis
import pytest
from eighths import take_eighths
from loopback import Killed

MORE = int(os.environ.get("DATAMOVER_TEST_CASES", "1"))

hypothesis.settings.register_profile(
    "datamover",
    max_examples=100 * MORE,
    derandomize=MORE == 1,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("datamover")


def pytest_configure(config):
    """Start MPI, in the processes that run tests.

    Where the first to load it is `launch.find_mpiexec`, which needs no more than its name, MPI is
    never started, and every test after it in this process that needs MPI fails. Not where other
    processes run the tests: Open MPI leaves in the environment what they would inherit.
    """
    if hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None):
        from mpi4py import MPI  # noqa: F401


def pytest_collection_modifyitems(config, items):
    """Take the eighths of the cases that DATAMOVER_TEST_PYTHON_EIGHTHS lists, if it is set.

    The first case of a test is always taken if its file starts processes and is not of a benchmark.
    """
    variable = "DATAMOVER_TEST_PYTHON_EIGHTHS"
    take_eighths(config, items, variable, lambda item: starts_processes(item.path))


@functools.cache
def starts_processes(path):
    """Whether a test file mentions a launcher of MPI processes and does not test a benchmark."""
    text = path.read_text()
    return not path.name.startswith("test_bench_") and ("mpiexec" in text or "launch" in text)


#: It ends with who started it.
SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%s" % server.get_host_and_port(), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="session")
def s3_server():
    """The address of a server, in a process of its own: h5py lets no other thread in meanwhile."""
    pytest.importorskip("moto.server")
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        yield server.stdout.readline().strip()
        server.stdin.close()


@pytest.fixture
def bucket(s3_server, monkeypatch, request):
    """The address of an empty bucket; who asks for it finds the server in the environment."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    name = f"b{abs(hash(request.node.nodeid))}"
    urllib.request.urlopen(urllib.request.Request(f"{s3_server}/{name}", method="PUT"))
    return f"s3://{name}"


@pytest.fixture
def killed_after(monkeypatch):
    """Have this process do so many changes in stores, then nothing more."""
    from zarr.storage import ObjectStore

    left = [10**6]

    def limited(change):
        async def checked(self, *said):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            await change(self, *said)

        return checked

    for name in ("set", "set_if_not_exists", "delete"):
        monkeypatch.setattr(ObjectStore, name, limited(getattr(ObjectStore, name)))
    return left


class LocalBucket:
    """A bucket in a directory, by obstore's own store for directories.

    Attributes
    ----------
    address : str
    path : pathlib.Path
    """

    def __init__(self, path):
        self.address, self.path = "s3://local", path

    def store(self, address):
        """Open the store at an address in the bucket."""
        from obstore.store import LocalStore

        below = address.removeprefix(self.address).strip("/")
        return LocalStore(self.path / below, mkdir=True)

    def names(self):
        """Give the names of all objects."""
        return sorted(str(p.relative_to(self.path)) for p in self.path.rglob("*") if p.is_file())

    def clear(self):
        """Remove all objects."""
        shutil.rmtree(self.path)


@pytest.fixture
def local_bucket(tmp_path_factory, monkeypatch):
    """A bucket for tests with thousands of requests; in this process alone."""
    from datamover.files import addresses

    found = LocalBucket(tmp_path_factory.mktemp("bucket") / "objects")
    monkeypatch.setattr(addresses, "object_store", found.store)
    return found
