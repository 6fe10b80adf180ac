# SPDX-License-Identifier: BSD-3-Clause
"""Does this process run under one MPI, the right one, started the right way?

This is the only module that knows both `mpi4py` and the library's own MPI module; it loads them on
first use, so that planning needs no MPI.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import Error, InvalidArgument, MpiError
from .launch import check_launch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from mpi4py import MPI


def _loaded_mpi_libraries() -> set[str]:
    """Name the files of all MPI libraries in this process."""
    paths = set()
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        name = path.rsplit("/", 1)[-1]
        if name.startswith(("libmpi.so", "libmpi_abi.so", "libmpich.so")):
            paths.add(path)
    return paths


@cache
def core() -> ModuleType:
    """Load the library's MPI module beside mpi4py and check that both use the same MPI.

    Raises
    ------
    MpiError
        When they do not, with what to do about it.
    """
    from mpi4py import MPI

    try:
        from . import _mover
    except ImportError as error:
        raise MpiError(f"the MPI part of datamover cannot be loaded: {error}") from error

    loaded = _loaded_mpi_libraries()
    same = _mover.mpi_library_version().rstrip("\0") == MPI.Get_library_version().rstrip("\0")
    if len(loaded) > 1 or not same or _mover.comm_handle_bytes != MPI._sizeof(MPI.Comm):
        raise MpiError(
            "mpi4py and datamover use different MPI libraries "
            f"({', '.join(sorted(loaded)) or 'unknown'}); build datamover with the mpicxx of the "
            "MPI that mpi4py loads, or choose mpi4py's with the environment variable MPI4PY_MPIABI"
        )
    return _mover


def comm_address(comm: MPI.Comm) -> int:
    """Give the address of a communicator's handle, after the checks of this module. Local.

    Raises
    ------
    InvalidArgument
        When `comm` is no mpi4py communicator.
    MpiError
        When processes were started in a way that leaves each of them alone.
    """
    from mpi4py import MPI

    if not isinstance(comm, MPI.Comm):
        raise InvalidArgument(f"comm is a {type(comm).__name__}, it must be an mpi4py communicator")
    core()
    check_launch(comm)
    return MPI._addressof(comm)


def collectively(address: int, work: Callable[[], Any]) -> Any:
    """Run `work` on every process; where it raises on any, raise that error on all. Collective."""
    try:
        result = work()
    except Error as error:
        core().agree(address, error.code, str(error))
        raise
    core().agree(address, None, "")
    return result
