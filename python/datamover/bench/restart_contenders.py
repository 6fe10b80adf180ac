# SPDX-License-Identifier: BSD-3-Clause
"""Contenders that save and load a program's arrays.

A separate program for each contender and phase, to be run under mpiexec. Arguments: the contender,
"save" or "load", and a description as JSON (`files.restart`). Arrays are cubes of doubles in the
blocks of MPI_Dims_create, or the reverse, so that the last dimension is cut; each element is its
flat index. The first process prints the seconds between the barriers at the begin and at the end,
when saved data is on the disk. Modules are imported before. Only datamover's own contender imports
datamover.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

#: A program's arrays, and its ways to save and to load them.
Ways = tuple[list[np.ndarray], Callable[[], None], Callable[[], None]]


class Program:
    """The part of a program's arrays that one process holds."""

    def __init__(self, comm: Any, said: dict[str, Any]):
        from mpi4py import MPI

        self.comm, self.path, self.chunks = comm, said["path"], said["chunks"]
        self.shape = (said["edge"],) * 3
        self.names = [f"array-{k}" for k in range(said["arrays"])]
        self.nbytes = len(self.names) * math.prod(self.shape) * 8
        grid = MPI.Compute_dims(comm.size, 3)
        self.grid = tuple(reversed(grid) if said["columns"] else grid)
        at = np.unravel_index(comm.rank, self.grid)
        self.box = tuple(
            slice(min(n, i * -(-n // p)), min(n, (i + 1) * -(-n // p)))
            for n, p, i in zip(self.shape, self.grid, at, strict=True)
        )
        i, j, k = np.ogrid[self.box]
        self.expected = ((i * self.shape[1] + j) * self.shape[2] + k).astype("f8")

    def empty(self) -> list[np.ndarray]:
        """Return new arrays for this process's parts."""
        return [np.empty_like(self.expected) for _ in self.names]


def by_datamover(p: Program, own_arrays: bool = True) -> Ways:
    """Save and load with datamover: its own arrays, or those of NumPy."""
    import zarr  # noqa: F401  (the first use imports it)

    import datamover as dm
    import datamover.files.format_choice
    import datamover.files.state

    datamover.files.format_choice.known()  # imports the rest of what the first use imports
    layout = dm.BlockCyclic(p.shape, "(block, block, block)", nprocs=p.comm.size, grid=p.grid)
    made = [dm.Array(layout, comm=p.comm) for _ in p.names] if own_arrays else []
    arrays = [array.local for array in made] or p.empty()
    parts: list[Any] = list(made) or [(array, layout) for array in arrays]
    given, chunks = dict(zip(p.names, parts, strict=True)), dict.fromkeys(p.names, tuple(p.chunks))
    return (
        arrays,
        lambda: dm.save(p.path, given, comm=p.comm, chunks=chunks, compressor="none"),
        lambda: dm.load(p.path, given, comm=p.comm),
    )


def by_tensorstore(p: Program) -> Ways:
    """Save and load with tensorstore: each process writes or reads its own part of Zarr arrays."""
    import tensorstore as ts
    from file_contenders import stored, sync

    facts = {"shape": p.shape, "chunks": p.chunks, "codec": "none", "dtype": "float64"}
    files, arrays = [{"path": f"{p.path}/{name}", **facts} for name in p.names], p.empty()

    def pairs() -> list[tuple[Any, np.ndarray]]:
        parts = [store.result()[p.box] for store in [stored(file) for file in files]]
        return list(zip(parts, arrays, strict=True))

    def save() -> None:
        for file in files if p.comm.rank == 0 else ():
            stored(file, create=True).result()
        p.comm.Barrier()
        for write in [part.write(array) for part, array in pairs()]:
            write.result()
        p.comm.Barrier()
        if p.comm.rank == 0:
            sync(p.path)

    def load() -> None:
        for read in [ts.array(a).write(part.translate_to[0, 0, 0]) for part, a in pairs()]:
            read.result()

    return arrays, save, load


def by_mpi_io(p: Program) -> Ways:
    """Save and load with collective MPI-IO through a distributed array's view of one file."""
    from mpi4py import MPI

    arrays = p.empty()
    kind = MPI.DOUBLE.Create_darray(
        p.comm.size, p.comm.rank, p.shape,
        [MPI.DISTRIBUTE_BLOCK] * 3, [MPI.DISTRIBUTE_DFLT_DARG] * 3, p.grid,
    ).Commit()  # fmt: skip

    def moved(mode: int, move: Callable[[Any, np.ndarray], None]) -> None:
        file = MPI.File.Open(p.comm, p.path, mode)
        for k, array in enumerate(arrays):
            file.Set_view(k * math.prod(p.shape) * 8, MPI.DOUBLE, kind)
            move(file, array)
        if mode & MPI.MODE_WRONLY:
            file.Sync()
        file.Close()

    save = partial(moved, MPI.MODE_WRONLY | MPI.MODE_CREATE, MPI.File.Write_all)
    return arrays, save, partial(moved, MPI.MODE_RDONLY, MPI.File.Read_all)


CONTENDERS: dict[str, Callable[[Program], Ways]] = {
    "datamover": by_datamover,
    "datamover:numpy": lambda p: by_datamover(p, own_arrays=False),
    "tensorstore": by_tensorstore,
    "mpi-io": by_mpi_io,
}


def run(comm: Any, contender: str, phase: str, said: dict[str, Any]) -> dict[str, Any]:
    """Run one phase of one contender, and return its row, or why it is left out."""
    from file_contenders import have_memory_at_hand
    from mpi4py import MPI

    left_out = {"left_out": contender, "case": said["case"]}
    if comm.size != said["processes"]:
        reason = f"mpiexec does not start its mpi4py's MPI: {comm.size} processes"
        return left_out | {"reason": reason}
    p = Program(comm, said)
    try:
        arrays, save, load = CONTENDERS[contender](p)
    except ImportError as e:
        return left_out | {"reason": str(e)}
    for array in arrays:  # whoever fills an array first waits for its pages
        array[...] = p.expected if phase == "save" else 0
    if comm.rank == 0:
        have_memory_at_hand(p.path + ".memory", p.nbytes)
    comm.Barrier()
    begin = time.perf_counter()
    save() if phase == "save" else load()
    seconds = comm.allreduce(time.perf_counter() - begin, MPI.MAX)
    right = all(np.array_equal(array, p.expected) for array in arrays)
    if not comm.allreduce(right, MPI.LAND):
        return left_out | {"reason": "wrong data"}
    row = {"case": said["case"], "phase": phase, "contender": contender, "bytes": p.nbytes}
    return row | {"processes": comm.size, "samples": [seconds]}


def main() -> None:
    """Run the phase of the command line; the first process prints the result."""
    from mpi4py import MPI

    contender, phase, said = sys.argv[1:]
    found = run(MPI.COMM_WORLD, contender, phase, json.loads(said))
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
