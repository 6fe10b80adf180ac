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

import numpy as np

from datamover.arguments import byte_count, flag
from datamover.arrays import Array
from datamover.collective_calls import address_of, agreeing, refused_by
from datamover.errors import InvalidArgument, Mismatch, WrongType
from datamover.files import names, state_items
from datamover.files.agreement import agree_on, together
from datamover.files.file_arguments import file_ranks, sizes_for, writers_of
from datamover.files.formats import MoveOptions
from datamover.files.staged_moves import MAX_BYTES, Work, native_dtype
from datamover.files.state_save import Save, Saving
from datamover.files.state_stores import Origin, Target, whole
from datamover.layouts import Layout
from datamover.movers import converts
from datamover.mpi import collectively

if TYPE_CHECKING:
    from mpi4py import MPI


def _checked(
    origin: Origin, targets: dict[str, state_items.Item | None]
) -> tuple[dict[str, np.dtype], dict[str, Any]]:
    """Check that the contents of a file fit the targets. Local.

    Returns
    -------
    tuple of dict
        The dtypes to load, and what all processes must have in common, for `agree_on`.
    """
    dtypes, passed = {}, {}
    described = {name: origin.described(name) for name in targets}
    for name, item in targets.items():
        spec, granule = described[name]
        wanted = item and (item.shape, item.origin, item.array is None)
        of_file = spec.shape, str(spec.dtype), spec.order, granule
        passed[f"targets for {name!r}"] = (wanted, *of_file)
        if item is None:
            continue
        if item.shape != spec.shape:
            raise Mismatch(
                f"{name!r} has the shape {spec.shape} in {origin.path}; the layout has {item.shape}"
            )
        dtypes[name] = native_dtype(spec.dtype)
        stored, given = dtypes[name], item.dtype
        if given is not None and given != stored and not converts(stored, given):
            raise WrongType(
                f"{name!r} has elements of {stored} in the file; the given array has {given}: "
                "only numbers in this machine's byte order are converted, if NumPy allows it under "
                '"same_kind"; load into an array of the type in the file'
            )
    return dtypes, passed


__all__ = ["Saving", "load", "save"]


@refused_by(agreeing)
def save(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Any],
    *,
    comm: MPI.Comm | None = None,
    overwrite: bool = False,
    chunks: Mapping[str, Any] | None = None,
    compressor: str | None = None,
    zarr_format: int | None = None,
    writers: int | Sequence[int] | None = None,
    max_bytes: int = MAX_BYTES,
    wait: bool = True,
    dimensions: Mapping[str, Sequence[str]] | None = None,
) -> Saving | None:
    """Save distributed arrays and values of a program in one file or store.

    Collective over `comm`. The output appears under its name once it is complete and on the disk.
    An error of one process is raised on all. It leaves no new output, and an older one stays as it
    was.

    Parameters
    ----------
    path : path
        The extension selects the format. ``.zarr``: a Zarr group. ``.h5``, ``.hdf5``: an HDF5 file
        with a contiguous dataset per array, created by h5py and written without parallel HDF5.
        ``.npy``: one array. The path must be the same on all processes. It may be an address, such
        as ``s3://bucket/u.zarr``, where the metadata of the group are written last, and a replaced
        group is removed first. The next save with `overwrite` removes what a killed program left
        there. Objects of other programs are never removed or replaced.
    arrays : mapping
        Arrays and values by name; a ``/`` makes groups. A value is one of these:

        - an `Array`;
        - a pair (array, layout), where array is this process's part in any form that a `Mover`
          accepts (an ndarray, a mapping of blocks, `UserArrays`, None without a block);
        - a pair (array, "rows"), where array is a NumPy array with the rows of this process, which
          may be any number, as of particles: the file has those of all processes, by rank;
        - a pair (array, None), where array is a NumPy array that is the same on all processes and
          is stored once;
        - a number or string that is the same on all processes, which becomes an attribute.

        On one process, a NumPy array may be passed alone. On several this is an error, even if it
        is equal on all, because it may be a part. Ghosts are not saved. A file stores
        ``layout.domain``, its lowest corner first; it does not record where that corner is.
    comm : mpi4py.MPI.Comm, optional
        The processes. By default those of the first `Array`, or this process if MPI has started
        no other.
    overwrite : bool
        Whether to replace an existing output, including a whole Zarr group.
    chunks : mapping, optional
        For Zarr: chunks by name. For each dimension their extent, or the sizes of all, as in
        ``((3, 5, 2), 4)``; "blocks" are the blocks of the layout. By default about 4 MiB, nearly
        cubic.
    compressor : str, optional
        For Zarr: "auto" (Zarr's own choice), "none", "zstd", "gzip" or "blosc".
    zarr_format : int, optional
        For Zarr: 2 or 3; by default that of the enclosing group, or 3.
    writers : int or sequence of int, optional
        Number of processes that write, or their ranks. By default all; for a single file on a file
        system that reports its number of stripes (Lustre), at most that number.
    max_bytes : int
        Memory of each process for its part: half of it for elements, a quarter each for messages
        (at least 1 MiB) and for encoding. Larger arrays are saved in several steps.
    wait : bool
        False: return when the arrays are captured, which means copied to the writing processes;
        their whole part must fit `max_bytes`. You may then change the arrays; threads write the
        files, without MPI.
    dimensions : mapping, optional
        For Zarr and HDF5: names of the dimensions by names of arrays, ``{"u": ("y", "x")}``. With
        them xarray opens the output, a group at a time. An array of one dimension with the name of
        that dimension, ``{"x": ("x",)}``, is its coordinate. Arrays that are not listed get names
        of their own, ``p_0`` and so on.

    Returns
    -------
    Saving or None
        With ``wait=False``, an object to wait for on all processes. It creates the output.

    Raises
    ------
    IoFailed
        The output exists, its directory is missing or not writable, or a disk is full.
    Mismatch
        Processes pass different names, shapes, dtypes, values or options; no process has some
        element; or a layout is for another number of processes.
    InvalidArgument, WrongType, Unsupported
        The format does not have a name, value, option or dtype; or it is unknown whether an array
        of several processes is a part.
    NoMemory
        `max_bytes` is too little for a chunk, or with ``wait=False`` for everything.

    All errors are raised on all processes.

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
    comm = state_items.communicator(comm, arrays)
    address = address_of(comm, agreeing, arrays)
    state = state_items.state_of(address, arrays, comm.size)

    def prepare() -> dict[str, Any]:
        output = names.place_of(path)
        state_items.check_items(state.items, comm)
        passed: dict[str, Any] = {
            "path=": output,
            "overwrite=": flag(overwrite, "overwrite"),
            "wait=": flag(wait, "wait"),
            "writers=": file_ranks(writers_of(output, writers, comm.size), "writers", comm.size),
            "max_bytes=": byte_count(max_bytes, "max_bytes"),
        }
        if chunks is not None and not isinstance(chunks, Mapping):
            raise WrongType(f"chunks are {chunks!r}, they must be a mapping of names to extents")
        if compressor is not None and not isinstance(compressor, str):
            raise WrongType(f"compressor is {compressor!r}, it must be a string")
        boxes = {}
        for name, box in (chunks or {}).items():
            if name not in state.items:
                raise InvalidArgument(f"chunks name the array {name!r}, which is not saved")
            boxes[str(name)] = sizes_for(state.items[name].layout, box, f"chunks of {name!r}")
        passed |= {
            "chunks=": sorted(boxes.items()),
            "compressor=": compressor,
            "zarr_format=": zarr_format,
            "dimensions=": sorted(names.names_said(dimensions).items()),
        }
        return passed | state.described()

    passed = collectively(address, prepare)
    try:
        agree_on(address, passed)
    except Mismatch as error:
        hint = state_items.WHERE_PARTS_DIFFER if " values for " in str(error) else ""
        raise Mismatch(f"{error}{hint}") from None
    output = passed["path="]
    options = MoveOptions(compressor=compressor, zarr_format=zarr_format)
    by_name = dict(passed["chunks="]), dict(passed["dimensions="])
    target = collectively(address, lambda: Target(output, state, options, *by_name))
    work = Work(comm, state.items, passed["writers="], passed["max_bytes="], to_file=True)
    return Save(comm, output, work, passed["overwrite="]).run(target, passed["wait="])


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

    Collective over `comm`. Files may be those of `save` or of other programs in these formats.

    Parameters
    ----------
    path : path
        A Zarr group (v2 or v3) or an HDF5 file; or a Zarr array or .npy file, whose one array is
        loaded under any name. All of these may have an address.
    targets : mapping
        By name: a layout, for which an `Array` is created; "rows", for an `Array` with an equal
        share of the file's rows on each process, in order; an `Array`; a pair (array, layout) as
        for `save`; or None, for a whole NumPy array on each process. The first element of the file
        is loaded to the lowest corner of ``layout.domain``, wherever that is. Other arrays of the
        file are not loaded. Elements are converted to those of the given array as by a `Mover`.
    comm : mpi4py.MPI.Comm, optional
        The processes. By default those of the first `Array`, or this process if MPI has started
        no other.
    readers : int or sequence of int, optional
        Number of processes that read, or their ranks; by default all.
    max_bytes : int
        As for `save`, without the created arrays.

    Returns
    -------
    dict
        By name: the arrays, created or given; the attributes of the group or file; arrays without
        dimensions, as NumPy scalars.

    Raises
    ------
    IoFailed
        The file or array does not exist, cannot be read, or was replaced during the call.
    Mismatch
        The array in the file has another shape than the layout.
    WrongType
        Its elements are not converted to those of the given array.
    InvalidArgument
        Two arrays would be loaded into the same memory.
    NoMemory
        `max_bytes` is too little for a chunk.

    All errors are raised on all processes, before anything is moved. The exception is a file that
    is found to be broken while it is read: given arrays may then be partly loaded.

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
    comm = state_items.communicator(comm, targets)
    address = address_of(comm, agreeing, targets)

    def prepare() -> tuple[Any, ...]:
        origin = Origin(names.place_of(path))

        def rows_of(name: str) -> Layout:
            return state_items.shares(name, origin.described(name)[0].shape, comm.size)

        found = state_items.targets_of(targets, rows_of)
        items = {name: item for name, item in found.items() if item is not None}
        ranks, limit = file_ranks(readers, "readers", comm.size), byte_count(max_bytes, "max_bytes")
        if origin.names == (None,) and len(found) > 1:
            raise InvalidArgument(
                f"{origin.path} holds one array; {len(found)} are to be loaded: {', '.join(found)}"
            )
        state_items.check_items(items, comm)
        dtypes, described = _checked(origin, found)
        state_items.refuse_shared_memory(items, comm.rank)
        values = origin.values()
        passed = {
            "path=": origin.path,
            "readers=": ranks,
            "max_bytes=": limit,
            "values": sorted((name, repr(value)) for name, value in values.items()),
            "names": [*found],
        }
        work = Work(comm, items, ranks, limit, to_file=False)
        return origin, found, items, dtypes, values, passed | described, work

    origin, found, items, dtypes, values, passed, work = collectively(address, prepare)
    agree_on(address, passed)
    made: list[Array] = []
    try:
        for name, item in items.items():
            if item.array is None:
                item.array = Array(item.layout, dtypes[name], comm=comm)
                made.append(item.array)
        with together(comm):
            wholes = {n: whole(origin.open(n)) for n, item in found.items() if item is None}
        work.transfer(work.plan(origin.open))
        with together(comm):
            origin.check_still_there()
    except BaseException:
        for array in made:
            array.close()
        raise
    arrays = {name: item.array for name, item in items.items()}
    given = {name: target[0] for name, target in targets.items() if isinstance(target, tuple)}
    return {**values, **arrays, **wholes, **given}
