# SPDX-License-Identifier: BSD-3-Clause
"""Rechunking of an array with the parameters of the package rechunker."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from datamover.arguments import integers, options_of
from datamover.collective_calls import agreeing, refused_by
from datamover.errors import WrongType
from datamover.files.formats import MoveOptions
from datamover.files.transfer import MoveReport, move
from datamover.mpi import collectively, comm_address


@refused_by(agreeing)
@options_of(MoveOptions, without=("chunks", "max_bytes", "temporary"))
def rechunk(
    source: Any,
    target_chunks: Sequence[int],
    max_mem: int,
    target_store: str | os.PathLike[str],
    temp_store: str | os.PathLike[str] | None = None,
    *,
    comm: Any = None,
    **options: Any,
) -> MoveReport:
    """Write an array with other chunks; each element is read and written at most twice.

    The call of `rechunker.rechunk`, except that the work is done when it returns. Collective over
    `comm`, if one is given.

    Parameters
    ----------
    source : path or zarr.Array
        An array in any format that `move` reads. A `zarr.Array` must be stored in a directory.
    target_chunks : sequence of int
        Extents of the output's chunks.
    max_mem : int
        Bytes of memory for each process.
    target_store : path
        The output, as of `move`; it must not exist, unless ``overwrite=True`` is passed.
    temp_store : path, optional
        Directory for the intermediate, which is removed at the end. By default, that of the output.
    comm : MPI.Comm, optional
    **options
        Other fields of `MoveOptions`.

    Returns
    -------
    MoveReport

    Raises
    ------
    Error
        As `move`.

    Examples
    --------
    >>> import numpy as np, tempfile, zarr
    >>> from datamover.files import rechunk
    >>> with tempfile.TemporaryDirectory() as d:
    ...     slices = zarr.create_array(d + "/a.zarr", data=np.ones((64, 32, 9)), chunks=(1, 32, 9))
    ...     report = rechunk(slices, (64, 4, 3), 30_000, d + "/b.zarr", d)
    ...     report.passes, zarr.open_array(d + "/b.zarr").chunks
    (2, (64, 4, 3))
    """

    def settle() -> tuple[str | os.PathLike[str], tuple[int, ...]]:
        return _path_of(source), integers(target_chunks, "target_chunks")

    path, chunks = settle() if comm is None else collectively(comm_address(comm), settle)
    where = {} if temp_store is None else {"temporary": temp_store}
    return move(path, target_store, chunks=chunks, max_bytes=max_mem, comm=comm, **where, **options)


def _path_of(source: Any) -> str | os.PathLike[str]:
    """Return the path of an array that is given by its path or as zarr-python's object."""
    if isinstance(source, str | os.PathLike):
        return source
    root = getattr(getattr(source, "store", None), "root", None)
    if root is None:
        raise WrongType(
            f"source is {type(source).__name__}; pass a path, or a zarr.Array that is stored in a "
            "directory"
        )
    return os.path.join(root, source.path)
