# SPDX-License-Identifier: BSD-3-Clause
"""Contender: ADIOS2's SST engine.

PyPI's `adios2` is built without MPI: each sending process has a stream of its own, and each
receiving one opens those that it needs. Pieces are gathered by NumPy and received in place.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


class Sst:
    """A stream of each sending process to all receivers of its pieces."""

    def __init__(self, ends: Any):
        import adios2  # only where this contender takes part
        import adios2.bindings

        self._ends = ends
        place = tempfile.mkdtemp(prefix="datamover-bench-") if ends.world.rank == 0 else None
        self._place = Path(ends.world.bcast(place))
        self._adios = adios2.Adios()
        self._engines, self._variables, self._messages = {}, {}, {}
        if ends.sends:
            io = self._io("send", len(ends.pieces))
            for other, rows in ends.pieces.items():
                message = self._messages[other] = np.ascontiguousarray(ends.array[rows])
                shape, zero = list(message.shape), [0] * message.ndim
                variable = io.define_variable(f"u{other}", message, shape, zero, shape, True)
                self._variables[other] = variable
            path = str(self._place / str(ends.part.rank))
            self._engines[0] = io.open(path, adios2.bindings.Mode.Write)
        else:
            for other in ends.pieces:
                io = self._io(f"receive{other}", 1)
                path = str(self._place / str(other))
                self._engines[other] = io.open(path, adios2.bindings.Mode.Read)
                self._variables[other] = io

    def _io(self, name: str, readers: int) -> Any:
        io = self._adios.declare_io(name)
        io.set_engine("SST")
        io.set_parameters(
            {
                "RendezvousReaderCount": str(readers),
                "QueueLimit": "2",
                "QueueFullPolicy": "Block",
                "OpenTimeoutSecs": "60",
            }
        )
        return io

    def send(self, step: int) -> None:
        """Send the pieces of a step."""
        engine = self._engines[0]
        engine.begin_step()
        for other, rows in self._ends.pieces.items():
            np.copyto(self._messages[other], self._ends.array[rows])
            engine.put(self._variables[other], self._messages[other])
        engine.end_step()

    def receive(self) -> np.ndarray:
        """Receive the pieces of a step in place."""
        name = f"u{self._ends.part.rank}"
        for other, rows in self._ends.pieces.items():
            engine = self._engines[other]
            engine.begin_step()
            variable = self._variables[other].inquire_variable(name)
            engine.get(variable, self._ends.array[rows])
            engine.end_step()
        return self._ends.array

    def close(self) -> None:
        """End the streams."""
        for engine in self._engines.values():
            engine.close()
        self._ends.wait_for_all()
        if self._ends.world.rank == 0:
            shutil.rmtree(self._place, ignore_errors=True)
