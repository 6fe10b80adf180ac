# SPDX-License-Identifier: BSD-3-Clause
"""Contenders that save and load a program's arrays.

A separate program for each contender and phase, to be run under mpiexec. Arguments: the contender,
"save" or "load", and a description as JSON (`restart.Case.description`). Arrays are cubes of
doubles in the blocks of MPI_Dims_create, or the reverse, so that the last dimension is cut; each
element is its flat index. The first process prints the seconds between the barriers at the begin
and at the end, when saved data is on the disk. Modules are imported before. Only datamover's own
contenders import datamover.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Box = tuple[slice, ...]


class Program:
    """One process's part of the arrays of a program."""

    def __init__(self, comm: Any, said: dict[str, Any]):
        from mpi4py import MPI

        self.comm, self.path, self.chunks = comm, said["path"], tuple(said["chunks"])
        self.shape = (said["edge"],) * 3
        self.names = [f"array-{k}" for k in range(said["arrays"])]
        grid = MPI.Compute_dims(comm.size, 3)
        self.grid = tuple(reversed(grid) if said["columns"] else grid)
        at = np.unravel_index(comm.rank, self.grid)
        self.box: Box = tuple(
            slice(min(n, i * -(-n // p)), min(n, (i + 1) * -(-n // p)))
            for n, p, i in zip(self.shape, self.grid, at, strict=True)
        )
        self.extents = tuple(part.stop - part.start for part in self.box)

    def expected(self) -> np.ndarray:
        """Return this process's part of an array."""
        strides = [math.prod(self.shape[d + 1 :]) for d in range(3)]
        i, j, k = np.ogrid[self.box]
        return (i * strides[0] + j * strides[1] + k).astype("f8")

    def sync(self) -> None:
        """Sync the file system of the output, from one process."""
        if self.comm.rank == 0:
            fd = os.open(self.path, os.O_RDONLY)
            ctypes.CDLL(None).syncfs(fd)
            os.close(fd)


class Contender:
    """One way to save and load; creates its arrays before the measurement."""

    def __init__(self, program: Program):
        self.program = program
        self.arrays = [np.empty(program.extents) for _ in program.names]
        for array in self.arrays:
            array[...] = 0  # otherwise the first write waits for its pages

    def locals(self) -> list[np.ndarray]:
        """Return this process's parts."""
        return self.arrays

    def save(self) -> None:
        """Save all arrays."""
        raise NotImplementedError

    def load(self) -> None:
        """Load all arrays."""
        raise NotImplementedError


class OursOfNumpy(Contender):
    """datamover, with arrays of NumPy."""

    def __init__(self, program: Program):
        super().__init__(program)
        import datamover as dm
        import datamover.files.formats
        import datamover.files.state

        datamover.files.formats.known()  # what the first use would import

        self.layout = dm.BlockCyclic(
            program.shape, "(block, block, block)", nprocs=program.comm.size, grid=program.grid
        )
        self.given = self.made()

    def made(self) -> dict[str, Any]:
        """Return the arrays in the form of `save` and `load`."""
        pairs = zip(self.program.names, self.arrays, strict=True)
        return {name: (array, self.layout) for name, array in pairs}

    def save(self) -> None:
        """Save all in a Zarr group."""
        import datamover as dm

        chunks = dict.fromkeys(self.program.names, self.program.chunks)
        dm.save(
            self.program.path, self.given, comm=self.program.comm, chunks=chunks, compressor="none"
        )

    def load(self) -> None:
        """Load all from a Zarr group."""
        import datamover as dm

        dm.load(self.program.path, self.given, comm=self.program.comm)


class Ours(OursOfNumpy):
    """datamover, with its own arrays."""

    def made(self) -> dict[str, Any]:
        """Return the arrays in the form of `save` and `load`."""
        import datamover as dm

        made = {n: dm.XArray(self.program.comm, self.layout) for n in self.program.names}
        self.arrays = [array.local for array in made.values()]
        for array in self.arrays:
            array[...] = 0
        return made


class TensorStore(Contender):
    """tensorstore: each process writes or reads its own part of a Zarr array."""

    def __init__(self, program: Program):
        super().__init__(program)
        import tensorstore

        self.ts = tensorstore
        # The sync at the end covers all files; an additional one for each chunk costs more.
        self.context = tensorstore.Context({"file_io_sync": False})

    def opened(self, name: str, **said: Any) -> Any:
        """Open one array."""
        at = "file://" + os.path.join(os.path.abspath(self.program.path), name)
        spec = {"driver": "zarr3", "kvstore": at, **said}
        return self.ts.open(spec, context=self.context)

    def save(self) -> None:
        """Create the arrays on one process, write on all."""
        p = self.program
        grid = {"name": "regular", "configuration": {"chunk_shape": list(p.chunks)}}
        bytes_codec = {"name": "bytes", "configuration": {"endian": "little"}}
        metadata = {
            "shape": list(p.shape),
            "data_type": "float64",
            "chunk_grid": grid,
            "codecs": [bytes_codec],
        }
        if p.comm.rank == 0:
            for name in p.names:
                self.opened(name, metadata=metadata, create=True).result()
        p.comm.Barrier()
        opened = [self.opened(name) for name in p.names]
        pairs = zip(opened, self.arrays, strict=True)
        writes = [store.result()[p.box].write(array) for store, array in pairs]
        for write in writes:
            write.result()
        p.comm.Barrier()
        p.sync()

    def load(self) -> None:
        """Read on all processes into existing arrays."""
        p = self.program
        opened = [self.opened(name) for name in p.names]
        reads = []
        for store, array in zip(opened, self.arrays, strict=True):
            target = self.ts.array(array)
            reads.append(target.write(store.result()[p.box].translate_to[0, 0, 0]))
        for read in reads:
            read.result()


class MpiIo(Contender):
    """Collective MPI-IO through the view of a distributed array: one file, array after array."""

    def __init__(self, program: Program):
        super().__init__(program)
        from mpi4py import MPI

        self.mpi = MPI
        self.kind = MPI.DOUBLE.Create_darray(
            program.comm.size, program.comm.rank, program.shape,
            [MPI.DISTRIBUTE_BLOCK] * 3, [MPI.DISTRIBUTE_DFLT_DARG] * 3, program.grid,
        ).Commit()  # fmt: skip

    def opened(self, mode: int) -> Any:
        """Open the file, without the locks that only a network file system needs."""
        return self.mpi.File.Open(self.program.comm, self.program.path, mode)

    def save(self) -> None:
        """Write array by array."""
        file = self.opened(self.mpi.MODE_WRONLY | self.mpi.MODE_CREATE)
        for k, array in enumerate(self.arrays):
            file.Set_view(k * math.prod(self.program.shape) * 8, self.mpi.DOUBLE, self.kind)
            file.Write_all(array)
        file.Sync()
        file.Close()

    def load(self) -> None:
        """Read array by array."""
        file = self.opened(self.mpi.MODE_RDONLY)
        for k, array in enumerate(self.arrays):
            file.Set_view(k * math.prod(self.program.shape) * 8, self.mpi.DOUBLE, self.kind)
            file.Read_all(array)
        file.Close()


CONTENDERS: dict[str, Callable[[Program], Contender]] = {
    "datamover": Ours,
    "datamover:numpy": OursOfNumpy,
    "tensorstore": TensorStore,
    "mpi-io": MpiIo,
}


def main() -> None:
    """Run one phase of one contender, if it is installed."""
    from mpi4py import MPI

    contender, phase, said = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    comm = MPI.COMM_WORLD
    if comm.size != said["processes"]:
        reason = f"its mpi4py has an MPI that mpiexec does not start: {comm.size} processes"
        print(json.dumps({"left_out": contender, "reason": reason}), flush=True)
        return
    program = Program(comm, said)
    try:
        work = CONTENDERS[contender](program)
    except ImportError as e:
        if comm.rank == 0:
            print(json.dumps({"left_out": contender, "reason": str(e)}), flush=True)
        return
    expected = program.expected()
    if phase == "save":
        for array in work.locals():
            array[...] = expected
    if comm.rank == 0:
        # Next to this program, which a Python without datamover may run.
        from file_contenders import have_memory_at_hand

        all_bytes = len(program.names) * math.prod(program.shape) * 8
        have_memory_at_hand(program.path + ".memory", all_bytes)
    comm.Barrier()
    begin = time.perf_counter()
    work.save() if phase == "save" else work.load()
    seconds = comm.allreduce(time.perf_counter() - begin, MPI.MAX)
    right = all(np.array_equal(array, expected) for array in work.locals())
    right = comm.allreduce(right, MPI.LAND)
    if comm.rank == 0:
        print(json.dumps({"seconds": seconds, "right": right}), flush=True)


if __name__ == "__main__":
    main()
