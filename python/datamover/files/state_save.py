# SPDX-License-Identifier: BSD-3-Clause
"""How are arrays saved: captured, written, and given their name when all is there?"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from datamover.collective_calls import ending, leaving, refused_by
from datamover.errors import InvalidState, NoMemory, WrongType
from datamover.files import address_place, addresses, placing, state_addresses, write_back
from datamover.files.agreement import tell_at_end, threads_here, together
from datamover.files.state_items import State, agree_on, agree_on_dtypes, bytes_digest
from datamover.files.state_steps import Slab, Staging, file_ranks
from datamover.files.state_stores import StoreOptions, target_of
from datamover.files.state_work import Work, limit_of
from datamover.mpi import collectively

if TYPE_CHECKING:
    from mpi4py import MPI


class Save(Work):
    """One save on one process."""

    def __init__(self, comm: MPI.Comm, address: int, output: str, state: State):
        super().__init__(comm, address)
        self.output, self.state, self.items = output, state, state.items
        self.temporary = ""
        self.target: Any = None
        self._place: Any = None

    def set_options(
        self,
        overwrite: Any,
        chunks: Any,
        compressor: Any,
        writers: Any,
        max_bytes: Any,
        wait: Any,
    ) -> None:
        """Check options. Local."""
        self.overwrite, self.waits = bool(overwrite), bool(wait)
        self.ranks = file_ranks(writers, "writers", self.comm.size)
        self.max_bytes = limit_of(max_bytes)
        if chunks is not None and not isinstance(chunks, Mapping):
            raise WrongType(f"chunks are {chunks!r}, they must be a mapping of names to extents")
        if compressor is not None and not isinstance(compressor, str):
            raise WrongType(f"compressor is {compressor!r}, it must be a string")
        try:
            by_name = {
                str(name): tuple(int(np.asarray(n).astype(np.int64, casting="safe")) for n in box)
                for name, box in (chunks or {}).items()
            }
        except TypeError:
            raise WrongType(f"chunks are {chunks!r}: extents must be integers") from None
        self.options = StoreOptions(by_name, compressor)

    def agree(self) -> None:
        """Check that all processes mean the same; settle what is written. Collective."""
        state = self.state
        options = _words_of_options(self.options)
        said: dict[str, Any] = {
            "the options": (self.output, self.overwrite, self.waits, self.ranks, self.max_bytes,
                            options),
        }  # fmt: skip
        for name, item in state.items.items():
            said[name] = ("array", item.shape, item.origin)
        for name, array in state.arrays.items():
            said[name] = (str(array.dtype), array.shape, bytes_digest(array))
        for name, value in state.values.items():
            said[name] = (type(value).__name__, value)
        agree_on(self.address, said, "save")
        agree_on_dtypes(self.address, state.items)

        def settle() -> None:
            at_address = addresses.is_address(self.output)
            kind = state_addresses.AddressTarget if at_address else target_of(self.output)
            self.target = kind(state, self.options)

        collectively(self.address, settle)
        if self.waits:  # else all is copied before this returns
            self.agree_on_direct(self.target.specs, to_file=True)
        self.threads = threads_here(self.address)

    def open(self, name: str) -> Any:
        """Open an array to be written."""
        return self.target.open(self.temporary, name)

    def run(self) -> Saving | None:
        """Make the output, or capture the arrays and go on with it in a thread. Collective."""
        token = placing.token(self.address)
        if addresses.is_address(self.output):
            said = ("", self.output, self.overwrite, self.overwrite)
            self._place = address_place.AddressPlace(*said)
        else:
            said = (None, self.output, token, self.overwrite, self.overwrite, None)
            self._place = placing.LocalPlace(*said)
        self.temporary = self._place.path
        try:
            self._create()
            steps = self._steps()
            if not self.waits:
                staging = self._capture(steps[0]) if steps else None
                return Saving(self, staging)
            with together(self.comm):
                self.write(self.direct_parts())
            for step in steps:
                staging = self._capture(step)
                try:
                    with together(self.comm):
                        self.write(staging.parts())
                finally:
                    staging.free()
            with together(self.comm):
                self.target.sync(self.temporary)
            self.finish()
        except BaseException:
            self.close()
            raise
        self.close()
        return None

    def _create(self) -> None:
        with together(self.comm):
            if self.is_first:
                self._place.check()
                dims = {name: len(spec.shape) for name, spec in self.target.specs.items()}
                self._place.claim(self.target.is_directory, dims)
                self.target.create(self.temporary)
        with together(self.comm):
            self._place.hold()

    def _steps(self) -> list[list[Slab]]:
        """Say which slabs go at once. Collective."""
        found: list[list[Slab]] = []
        with together(self.comm):
            found = self.steps(None if self.waits else self.max_bytes)
            if not self.waits and len(found) > 1:
                needed = 2 * sum(slab.most_bytes for step in found for slab in step)
                raise NoMemory(
                    f"to save without waiting, max_bytes must be {needed:,} at least: all is "
                    f"captured at once; it is {self.max_bytes:,}"
                )
        return found

    def _capture(self, step: list[Slab]) -> Staging:
        """Copy slabs to the processes that write them. Collective."""
        specs = self.target.specs
        dtypes = {slab.name: specs[slab.name].dtype for slab in step}
        staging = Staging(
            self.comm, step, self.state.items, specs, dtypes, True, self.max_bytes // 4
        )
        try:
            staging.move()
        except BaseException:
            staging.free()
            raise
        return staging

    def write(self, parts: Iterator[tuple[str, Any, np.ndarray]]) -> None:
        """Write what this process holds. Local; no MPI."""
        self.do(parts, lambda file, at, piece: file.write(at, piece))

    def finish(self) -> None:
        """Give the complete output its name. Collective."""
        with together(self.comm):
            if self.is_first:
                self._place.finish(self.target)

    def close(self) -> None:
        """Remove the old output, or a new one that is not complete. Local."""
        if self._place is not None:
            write_back.give_up()
            self._place.give_back()
            self._place = None


def _words_of_options(options: StoreOptions) -> tuple[Any, ...]:
    """Give options as what prints alike where it is the same."""
    return sorted(options.chunks.items()), options.compressor


class Saving:
    """A save that is under way: the arrays are captured, threads write the files.

    Made by `save` with ``wait=False``. All processes wait for it, in the order of their saves;
    until then there is no output. One that is never waited for leaves none.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import numpy as np, datamover as dm, tempfile
    >>> rows = dm.BlockCyclic((4, 6), "(block, *)", nprocs=1)
    >>> u = np.ones((4, 6))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     saving = dm.save(place + "/u.npy", {"u": (u, rows)}, comm=MPI.COMM_SELF, wait=False)
    ...     u[...] = 0  # the program goes on
    ...     saving.wait()
    ...     np.load(place + "/u.npy").sum()
    np.float64(24.0)
    """

    # Of the class: an interrupt may leave one without its own.
    _job: Save | None = None
    _staging: Staging | None = None
    _process = -1

    def __init__(self, job: Save, staging: Staging | None):
        self._job, self._comm = job, job.comm
        self._process = os.getpid()
        self._staging = staging
        self._failure: BaseException | None = None
        self._written = threading.Event()
        threading.Thread(target=self._write).start()

    def _write(self) -> None:
        try:
            if self._staging is not None:
                self._job.write(self._staging.parts())
            self._job.target.sync(self._job.temporary)
        except BaseException as e:
            self._failure = e
        finally:
            self._written.set()

    @property
    def done(self) -> bool:
        """Whether all that this process writes is written, or has failed. Local."""
        return self._written.is_set()

    @refused_by(ending)
    def wait(self) -> None:
        """Wait until the output is complete on all processes, and give it its name. Collective.

        Raises
        ------
        Error
            As `save`, on all processes; there is no new output then, an older one stays.
        InvalidState
            It was waited for before.

        A call that is refused on one process, for arguments that it does not take, is refused on
        all, and there is no output.
        """
        job = self._job
        if job is None:
            raise InvalidState("this save was waited for before")
        self._written.wait()
        try:
            with together(job.comm):
                if self._failure is not None:
                    raise self._failure
            job.finish()
        finally:
            self._job = None
            self._drop(job)

    @property
    def _is_over(self) -> bool:
        return self._job is None

    def _end_refused(self) -> None:
        """End where this process's call to wait was refused: there is no output. Local."""
        self._written.wait()
        job, self._job = self._job, None
        if job is not None:
            self._drop(job)

    def _drop(self, job: Save) -> None:
        """Give back memory and place. Local."""
        if self._staging is not None:
            self._staging.free()
        job.close()

    def __del__(self) -> None:
        if self._job is not None and self._process == os.getpid():  # a child's is its parent's
            self._drop(self._job)

    def __enter__(self) -> Saving:
        return self

    @refused_by(leaving)
    def __exit__(self, kind: type | None, error: BaseException | None, _: object) -> None:
        """Wait; where the block failed on any process, all fail, and there is no output."""
        job = self._job
        if job is None:
            return
        if kind is None:
            self.wait()
            return
        self._written.wait()
        try:
            tell_at_end(job.comm, error)
        finally:
            self._job = None
            self._drop(job)
