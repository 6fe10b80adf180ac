# SPDX-License-Identifier: BSD-3-Clause
"""Naming of an output: at any moment, either the old or the new one exists, complete."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import errno
import os
from collections.abc import Callable
from typing import Any, cast

from datamover import lifeline
from datamover.errors import InvalidArgument, IoFailed, Unsupported
from datamover.files import (
    addresses,
    format_choice,
    formats,
    hdf5,
    names,
    space,
    unfinished,
    zarr_array,
    zarr_group,
)
from datamover.files.agreement import together
from datamover.files.formats import Late, log
from datamover.launch import MOVE_TOKEN, new_token
from datamover.mpi import Comm, gathered

AT_FDCWD = -100
RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2
#: Errors of file systems, kernels and C libraries that cannot rename with flags.
UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


def token(address: int | None) -> str:
    """Return a word for the name of the unfinished output, equal on all processes. Collective.

    `address` is that of the communicator; None if this process is alone.
    """
    mine = os.environ.get(MOVE_TOKEN) or new_token()
    if address is None:
        return mine
    return bytes(gathered(address, list(mine.encode()))[0].tolist()).decode()


@dataclasses.dataclass(eq=False)
class Place:
    """The place of an output. Every process has its own; the first one alone checks it.

    Attributes
    ----------
    source : str or None
        The input; None if it is not a file, which cannot be the output.
    output : str
    token : str
        See `token`.
    overwrite, overwrite_group : bool
        The latter is None for a caller without this option.
    member : str, optional
        The dataset of an HDF5 file that is written.
    """

    source: str | None
    output: str
    token: str
    overwrite: bool = False
    overwrite_group: bool | None = False
    member: str | None = None

    def __post_init__(self) -> None:
        """Set the attributes of this kind of place."""
        raise NotImplementedError


class LocalPlace(Place):
    """An output with a path: written under a hidden name, renamed when it is complete.

    `check`, `claim` and `finish` are called on one process.
    """

    def __post_init__(self) -> None:
        #: The hidden name under which it is written.
        self.path = unfinished.temporary_path(self.output, self.token)
        self._removes = False  # whether this process removes the rest at the end
        self._is_placed = False  # whether the output has its name
        self._lock: int | None = None  # shows others that this process is at work; by it, it syncs

    def check(self) -> None:
        """Check, before anything is written, that the output can be created.

        Raises
        ------
        InvalidArgument
            Output and input are the same, or one is inside the other.
        IoFailed
            As `check_place`.
        """
        check_apart(self.source, self.output)
        check_place(self.output, self.overwrite, self.overwrite_group, self.member)
        unfinished.check_free(self.output)

    def claim(self, is_directory: bool) -> None:
        """Create the empty unfinished output; remove leftovers of killed moves."""
        unfinished.remove_leftovers(self.output)
        self._removes = True
        self._lock = unfinished.claim(self.path, is_directory)

    def write(self, metadata: Late) -> None:
        """Write the metadata of the output."""
        with space.naming_no_space(self.path):
            zarr_group.write_objects(self.path, metadata)

    def hold(self) -> None:
        """Keep others from removing it."""
        if self._lock is None:
            self._lock = unfinished.hold(self.path)

    def sync(self) -> None:
        """Sync everything that was written, since it is held, to the disk."""
        space.sync(cast(int, self._lock), self.path)

    def finish(self) -> None:
        """Give the output its name, unless others wrote there what it must not replace."""
        if self.overwrite:
            check_place(self.output, True, self.overwrite_group, self.member)
        unfinished.check_free(self.output)
        place(self.path, self.output, self.overwrite)
        self._is_placed = True

    def give_back(self) -> None:
        """End this process's part: remove the old or the unfinished output, and the lock.

        Never raises. The process that created the unfinished output removes it. Another one removes
        a directory of that name only if it is not theirs: it was removed, and created again by late
        chunks. If the output has its name, the hidden name is that of the old output, which the
        process that removes it lists.
        """
        with lifeline.all_deferred():
            lock, self._lock = self._lock, None
            if self._removes and not self._is_placed:
                zarr_array.settle()
            its = (self.path, self.output)
            try:
                if self._removes or not (
                    lock is None or any(unfinished.is_still(lock, p) for p in its)
                ):
                    unfinished.clean_up(*its)
            except OSError as e:
                log.warning("%s could not be removed: %s", self.path, e)
            finally:
                if lock is not None:
                    unfinished.let_go(lock)


def begin(
    comm: Comm | None,
    place: Any,
    is_directory: bool,
    create: Callable[[str], Late],
) -> None:
    """Make an unfinished output, by `create` on one process, and hold it on all. Collective.

    `create` returns what `formats.Output.create` does.
    """
    with together(comm):
        if comm is None or comm.rank == 0:
            place.check()
            place.claim(is_directory)
            place.write(create(place.path))
    with together(comm):
        place.hold()


def finish(comm: Comm | None, place: Any) -> None:
    """Give a complete output its name. Collective."""
    with together(comm):
        if comm is None or comm.rank == 0:
            place.finish()


def check_apart(source: str | None, output: str) -> None:
    """Raise InvalidArgument if input and output are the same, or one is inside the other."""
    if source is None or addresses.is_address(source) != addresses.is_address(output):
        return
    its, own = (addresses.same_form(place).rstrip("/") + "/" for place in (source, output))
    if its == own or (os.path.exists(output) and os.path.samefile(source, output)):
        raise InvalidArgument(f"input and output are the same, {output}")
    if its.startswith(own) or own.startswith(its):
        raise InvalidArgument(f"of input {source} and output {output}, one is inside the other")


def check_place(
    output: str, overwrite: bool, overwrite_group: bool | None, member: str | None = None
) -> None:
    """Check, before anything is written, that an output can be created.

    `member` is the dataset of an HDF5 file that is written: others must not get lost.
    `overwrite_group` is None for a caller without this option.

    Raises
    ------
    InvalidArgument
        The output is inside an array.
    IoFailed
        The output exists and must not be replaced, or it is a Zarr group without the option to
        replace one, or its directory is missing or not writable.
    """
    directory = os.path.dirname(output)
    if not os.path.isdir(directory):
        what = "Zarr group" if directory.endswith(".zarr") else "directory"
        raise IoFailed(f"there is no {what} {directory} for the output; create it first")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise IoFailed(f"directory {directory} cannot be written")
    _check_length(output)
    array = zarr_group.array_among(zarr_group.around(output))
    if array is not None:
        raise InvalidArgument(f"{array} is a Zarr array: nothing else belongs in its directory")
    if not os.path.lexists(output):
        return
    if not overwrite:
        _refuse_further_dataset(output, member)
        raise IoFailed(f"{output} exists; {formats.option('overwrite', True)} replaces it")
    if os.path.ismount(output):
        raise IoFailed(f"{output} is a mount point: it is not replaced")
    if names.is_special(output):
        raise IoFailed(f"{output} is a device, a pipe or a socket: it is not replaced")
    if os.path.isdir(output) and not format_choice.named("zarr").recognizes(output):
        raise IoFailed(f"{output} is a directory but not a Zarr store: it is not replaced")
    if overwrite_group:
        return
    how = _how_to_replace(overwrite_group)
    there = _datasets_in(output, how)
    if len(there) > 1:
        raise IoFailed(f"{output} is an HDF5 file of several datasets: {how}")
    if member and there and there != [member]:
        raise IoFailed(f"{output} holds the dataset {there[0]!r}, not {member!r}: {how}")
    if os.path.isdir(output) and not zarr_group.is_surely_array(output):
        raise IoFailed(f"{output} is a Zarr group, perhaps with many arrays: {how}")


def _refuse_further_dataset(output: str, member: str | None) -> None:
    """Raise without the advice to replace a file, if its other datasets would be lost."""
    there = [] if member is None else _datasets_in(output, _how_to_replace(False))
    if there and member not in there:
        raise IoFailed(
            f"{output} exists, with the dataset {there[0]!r}"
            f"{' and others' if len(there) > 1 else ''}: datasets cannot be added to a file; "
            "dm.save writes several"
        )


def _datasets_in(output: str, how_to_replace: str) -> list[str]:
    """Return the names of the datasets in an existing HDF5 file; none for another file.

    A file with the extension of HDF5 counts as another file only if it is empty.

    Raises
    ------
    IoFailed
        The file cannot be read, so that it is unknown what would be lost.
    """
    by_name = format_choice.by_suffix(output)
    try:
        is_called_so = by_name is not None and by_name.name == "hdf5" and os.path.isfile(output)
        if hdf5.recognizes(output) or (is_called_so and os.path.getsize(output)):
            with hdf5.open_file(output) as file:
                return list(hdf5.datasets(file))
    except (IoFailed, Unsupported, OSError) as e:
        raise IoFailed(
            f"{e}; the datasets in it would be lost: close it in the program that has it open; "
            f"otherwise {how_to_replace}"
        ) from e
    return []


def _check_length(output: str) -> None:
    """Reject a name that is too long for the additions of the hidden name."""
    directory, name = os.path.split(output)
    limit = os.pathconf(directory, "PC_NAME_MAX")
    hidden = os.path.basename(unfinished.temporary_path(output, "0" * 12) + ".old")
    longer = len(hidden) - len(name)
    if len(os.fsencode(name)) + longer > limit >= longer:
        raise IoFailed(
            f"the name of the output, {name}, is too long: the limit here is {limit - longer} bytes"
        )


def _how_to_replace(overwrite_group: bool | None) -> str:
    """Return the remedy if an output contains more than the new one."""
    if overwrite_group is None:
        return "it is not replaced here; remove it first, or give another name"
    return f"{formats.option('overwrite_group', True)} replaces all of it"


def place(temporary: str, output: str, overwrite: bool) -> None:
    """Give a complete output its name; the previous output gets a hidden name.

    `clean_up` removes it.

    Files replace files atomically. Otherwise names are exchanged atomically if the file system
    supports it (renameat2). If it does not, the old output is renamed first, so that for a moment
    the name does not exist, while old and new output are both complete under hidden names.

    Raises
    ------
    IoFailed
        The output was created in the meantime and must not be replaced.
    """
    zarr_group.remove_copies_around(output)
    if not overwrite:
        _place_new(temporary, output)
    elif not os.path.lexists(output) or not any(map(os.path.isdir, (temporary, output))):
        os.replace(temporary, output)  # files at once
    elif not rename_with(temporary, output, RENAME_EXCHANGE):
        _place_in_two_steps(temporary, output)
    unfinished.sync_directory(os.path.dirname(output))


def _place_new(temporary: str, output: str) -> None:
    with contextlib.suppress(FileExistsError):
        if rename_with(temporary, output, RENAME_NOREPLACE):
            return
        if not os.path.lexists(output):
            os.rename(temporary, output)
            return
    raise IoFailed(
        f"{output} was created in the meantime; {formats.option('overwrite', True)} replaces it"
    )


def _place_in_two_steps(temporary: str, output: str) -> None:
    old = temporary + ".old"
    os.rename(output, old)
    try:
        os.rename(temporary, output)
    except OSError:
        os.rename(old, output)
        raise


def rename_with(source: str, destination: str, flags: int) -> bool:
    """Rename by Linux' renameat2; return False if the system or file system does not have it."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    done = renameat2(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(destination), flags)
    if done == 0:
        return True
    code = ctypes.get_errno()
    if code in UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), source, None, destination)
