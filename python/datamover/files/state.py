# SPDX-License-Identifier: BSD-3-Clause
"""Saving of distributed arrays, and loading of them on other processes.

A mover redistributes an array from its layout to that of the file's chunks, which are distributed
over the writing processes; each of them encodes and writes its own chunks. Loading is the reverse.
The loading processes and layouts can therefore differ from the saving ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from datamover.collective_calls import address_of, agreeing, refused_by
from datamover.files import names
from datamover.files.staged_moves import MAX_BYTES, limit_of
from datamover.files.state_items import (
    check_items,
    communicator,
    refuse_unsaid,
    state_of,
    targets_of,
)
from datamover.files.state_load import Load
from datamover.files.state_save import Save, Saving
from datamover.files.state_stores import Origin
from datamover.files.stripes import file_ranks
from datamover.mpi import collectively

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Saving", "load", "save"]


@refused_by(agreeing)
def save(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Any],
    *,
    comm: MPI.Comm | None = None,
    overwrite: bool = False,
    chunks: Mapping[str, Sequence[int]] | None = None,
    compressor: str | None = None,
    zarr_format: int | None = None,
    writers: int | Sequence[int] | None = None,
    max_bytes: int = MAX_BYTES,
    wait: bool = True,
    dimensions: Mapping[str, Sequence[str]] | None = None,
) -> Saving | None:
    """Save distributed arrays and values of a program in one file or store.

    Collective over `comm`. The output appears under its name when it is complete and on the disk,
    and not before; on any error, on any process, all processes raise it, there is no new output,
    and an older one stays as it was.

    Parameters
    ----------
    path : path
        Its end says the format. ``.zarr``: a Zarr group. ``.h5``, ``.hdf5``: an HDF5 file with a
        contiguous dataset per array, made by h5py and written without parallel HDF5. ``.npy``: one
        array. Seen under the same path by all processes. Or an address, as ``s3://bucket/u.zarr``,
        where the group gets its metadata when all else is there; one that is replaced is removed
        first. What a killed program leaves there is removed by the next save, from another
        machine with `overwrite`, and nothing that belongs to others: where such is in the way,
        nothing is replaced.
    arrays : mapping
        By name; a ``/`` makes groups. A value is an `XArray`; a pair (array, layout), where array
        is what a `Mover` takes as this process's part (an ndarray, a mapping of blocks,
        `UserArrays`, None without a block); a pair (array, None), where array is a NumPy array that
        is the same on all processes and stored once; or a number or string that is the same on all.
        One process may give such an array alone; of several that is an error, even where it is
        equal on all, since it may be a part. Numbers and strings become attributes. Ghosts are not
        saved. A file holds ``layout.domain``, its lowest corner first; it does not record where
        that corner is.
    comm : mpi4py.MPI.Comm, optional
        The processes; those of the first `XArray`, if not said, or this process where MPI has
        started no other.
    overwrite : bool
        Whether an output that is there is replaced, be it a whole Zarr group.
    chunks : mapping, optional
        Of Zarr arrays: extents of chunks by name. About 4 MiB, nearly cubic, when not said.
    compressor : str, optional
        Of Zarr arrays: "auto" (Zarr's own choice), "none", "zstd", "gzip" or "blosc".
    zarr_format : int, optional
        Of Zarr: 2 or 3; if not said, that of the group that the output goes into, else 3.
    writers : int or sequence of int, optional
        How many processes write, or which. If not said, all; of a single file on a file system that
        tells into how many stripes it puts it (Lustre), as many as these.
    max_bytes : int
        Memory of each process for its part: half of it for elements, a quarter each for messages
        (1 MiB at least) and for encoding. Larger arrays go in several steps.
    wait : bool
        False: return when the arrays are captured, that is copied to the processes that write,
        which takes all of their part at once within `max_bytes`. The arrays may then be changed;
        the files are written by threads, without MPI.
    dimensions : mapping, optional
        Names of the dimensions by names of arrays, of Zarr and HDF5: ``{"u": ("y", "x")}``. With
        them xarray opens the output, a group at a time. An array of one dimension that has the name
        of it, ``{"x": ("x",)}``, is its coordinate; arrays that are not named get names of their
        own, ``p_0`` and so on.

    Returns
    -------
    Saving or None
        With ``wait=False``, what is to be waited for on all processes: there is no output before.

    Raises
    ------
    IoError
        The output is there, its directory is missing or not writable, a disk is full.
    Mismatch
        Processes give different names, shapes, dtypes, values or options; an element that nobody
        holds; a layout for another number of processes.
    InvalidArgument, WrongType, Unsupported
        Names, values, options or dtypes that the format does not have; an array of several
        processes of which nothing says whether it is a part.
    NoMemory
        `max_bytes` is too little for a chunk, or with ``wait=False`` for all.

    All of them on all processes.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm, tempfile
    >>> comm = MPI.COMM_SELF
    >>> rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=1)
    >>> tiles = dm.BlockCyclic((4, 6), "(cyclic(2), cyclic(3))", nprocs=1)
    >>> u = np.arange(24.0).reshape(4, 6)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     dm.save(place + "/state.zarr", {"u": (u, rows), "step": 7}, comm=comm)
    ...     state = dm.load(place + "/state.zarr", {"u": tiles}, comm=comm)
    >>> state["step"], bool((state["u"].local == u).all())
    (7, True)
    """
    comm = communicator(comm, arrays)
    address = address_of(comm, agreeing, arrays)

    def prepare() -> Save:
        found = Save(comm, address, names.place_of(path), state_of(arrays))
        check_items(found.state.items, comm)
        refuse_unsaid(found.state, comm.size)
        found.set_options(
            overwrite, chunks, compressor, zarr_format, writers, max_bytes, wait, dimensions
        )
        return found

    job = collectively(address, prepare)
    job.agree()
    return job.run()


@refused_by(agreeing)
def load(
    path: str | os.PathLike[str],
    targets: Mapping[str, Any],
    *,
    comm: MPI.Comm | None = None,
    readers: int | Sequence[int] | None = None,
    max_bytes: int = MAX_BYTES,
) -> dict[str, Any]:
    """Load arrays into any layout, on any number of processes, and all values.

    Collective over `comm`. Files may be those of `save` or any others of these formats.

    Parameters
    ----------
    path : path
        A Zarr group (v2 or v3), an HDF5 file; or a Zarr array or .npy file, whose one array is
        loaded under any name. All of these may have an address.
    targets : mapping
        By name: a layout, for which an `XArray` is made; an `XArray`; a pair (array, layout) as for
        `save`; or None, for a whole NumPy array on each process. The first element of the file goes
        to the lowest corner of ``layout.domain``, wherever that is. Arrays that are not named are
        not loaded. Elements are converted to those of the given array as by a `Mover`.
    comm : mpi4py.MPI.Comm, optional
        The processes; those of the first `XArray`, if not said, or this process where MPI has
        started no other.
    readers : int or sequence of int, optional
        How many processes read, or which; all, if not said.
    max_bytes : int
        As for `save`; arrays made here come on top.

    Returns
    -------
    dict
        By name: the arrays, made or given; the attributes of the group or file; arrays without
        dimensions, as NumPy scalars.

    Raises
    ------
    IoError
        There is no such file or array, or it cannot be read, or was replaced meanwhile.
    Mismatch
        The array in the file has another shape than the layout.
    WrongType
        Its elements are not converted to those of the given array.
    InvalidArgument
        Two arrays would be loaded into the same memory.
    NoMemory
        `max_bytes` is too little for a chunk.

    All of them on all processes. Before anything is moved, except where a file turns out to be
    broken: given arrays may then be partly loaded.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm, tempfile
    >>> rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=1)
    >>> mine = np.zeros((4, 6), "f4")
    >>> with tempfile.TemporaryDirectory() as place:
    ...     np.save(place + "/a.npy", np.ones((4, 6)))
    ...     found = dm.load(place + "/a.npy", {"a": (mine, rows)}, comm=MPI.COMM_SELF)
    >>> mine.sum(), found["a"] is mine
    (np.float32(24.0), True)
    """
    comm = communicator(comm, targets)
    address = address_of(comm, agreeing, targets)

    def prepare() -> Load:
        found = Load(comm, address, Origin(names.place_of(path)), targets_of(targets))
        found.ranks = file_ranks(readers, "readers", comm.size)
        found.max_bytes = limit_of(max_bytes)
        found.look()
        return found

    job = collectively(address, prepare)
    job.agree()
    arrays = job.run()
    given = {name: target[0] for name, target in targets.items() if isinstance(target, tuple)}
    return {**job.values, **arrays, **given}
