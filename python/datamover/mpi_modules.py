# SPDX-License-Identifier: BSD-3-Clause
"""Selection of the extension module for the MPI that mpi4py has loaded.

A build from source has one module, `_mover`, for the MPI that it was built with. A wheel has one
for each binary interface of MPI, `_mover_<name>`, of which only one is loaded.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .errors import MpiFailed

if TYPE_CHECKING:
    from types import ModuleType

#: The binary interfaces for which a wheel may have modules, and the MPIs that have them.
INTERFACES = {
    "mpich": "MPICH and MPIs with its binary interface: Intel MPI, MVAPICH, Cray MPICH",
    "openmpi": "Open MPI 4 and 5",
    "mpiabi": "any MPI by the standard's own binary interface, of MPI 5",
}
FROM_SOURCE = (
    "pip install --no-binary datamover datamover (with a C++ compiler and that MPI's mpicxx)"
)


def load_mpi4py() -> ModuleType:
    """Load `mpi4py.MPI`, which loads an MPI library.

    Raises
    ------
    MpiFailed
        mpi4py finds none.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise no_mpi(error) from error
    return MPI


def no_mpi(why: object) -> MpiFailed:
    """Return the error for a process in which mpi4py cannot be loaded, with the remedy."""
    return MpiFailed(
        f"mpi4py cannot be loaded: {why}\nIf no MPI is installed: "
        "pip install 'datamover[mpich]' or 'datamover[openmpi]', or your system's MPI; the "
        "environment variable MPI4PY_LIBMPI names the libmpi.so to load"
    )


def interface_of(MPI: Any) -> str:
    """Return the binary interface of an MPI, as a key of `INTERFACES`.

    Parameters
    ----------
    MPI : module
        `mpi4py.MPI`.

    Examples
    --------
    >>> from types import SimpleNamespace as Like
    >>> interface_of(Like(Comm=0, _sizeof=lambda _: 4))  # handles are integers
    'mpich'
    """
    if getattr(MPI, "Get_abi_version", lambda: (-1, -1))()[0] > 0:
        return "mpiabi"
    return "mpich" if MPI._sizeof(MPI.Comm) == 4 else "openmpi"


def shipped() -> list[str]:
    """Return the interfaces of this installation's modules; none in a build from source."""
    return [name for name in INTERFACES if find_spec(f"{__package__}._mover_{name}")]


def load(MPI: Any) -> ModuleType:
    """Load the module that fits the MPI of `mpi4py.MPI`.

    Raises
    ------
    MpiFailed
        There is none, or it cannot be loaded.
    """
    name = "_mover"
    interfaces = shipped()
    if interfaces:
        wanted = interface_of(MPI)
        if wanted not in interfaces:
            version = MPI.Get_library_version().rstrip("\0").split("\n")[0]
            raise MpiFailed(
                f"this datamover has no module for the MPI that mpi4py loads ({version.strip()}; "
                f"{INTERFACES[wanted]}), only for: {', '.join(interfaces)}; load one of those "
                f"(the environment variable MPI4PY_LIBMPI), or build for yours: {FROM_SOURCE}"
            )
        name = f"_mover_{wanted}"
    try:
        module = import_module(f"{__package__}.{name}")
    except ImportError as error:
        raise MpiFailed(
            f"the MPI part of datamover cannot be loaded ({name}): {error}; it is loaded after "
            f"mpi4py, with the same libmpi. For another MPI: {FROM_SOURCE}"
        ) from error
    sys.modules[f"{__package__}._mover"] = module
    return module
