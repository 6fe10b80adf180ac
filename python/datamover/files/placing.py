# SPDX-License-Identifier: BSD-3-Clause
"""How does an output get its name so that at any moment the old or the new is there, whole?"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat

from datamover.errors import InvalidArgument, IoError
from datamover.files import formats

AT_FDCWD = -100
RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2
#: What a file system (or an old kernel or C library) says that cannot rename with flags.
UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


def temporary_path(output: str, token: str) -> str:
    """Return the hidden name beside the output under which it is written."""
    directory, name = os.path.split(output)
    return os.path.join(directory, f".{name}.{token}.partial")


def check_places(source: str, output: str, overwrite: bool) -> None:
    """Check, before anything is written, that the output can be put where it shall be.

    Raises
    ------
    InvalidArgument
        Output and input are the same, or one lies within the other.
    IoError
        The output is there and not to be replaced, or its directory is missing or not writable.
    """
    inside = os.path.commonpath([source, output])
    if source == output or (os.path.exists(output) and os.path.samefile(source, output)):
        raise InvalidArgument(f"input and output are the same, {output}")
    if inside in (source, output):
        raise InvalidArgument(f"of input {source} and output {output}, one lies within the other")
    directory = os.path.dirname(output)
    if not os.path.isdir(directory):
        raise IoError(f"there is no directory {directory} for the output")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise IoError(f"directory {directory} cannot be written")
    if not os.path.lexists(output):
        return
    if not overwrite:
        raise IoError(f"{output} exists; --overwrite replaces it")
    if _is_special(output):
        raise IoError(f"{output} is a device, a pipe or a socket: it is not replaced")
    if os.path.isdir(output) and not formats.named("zarr").recognizes(output):
        raise IoError(f"{output} is a directory but no Zarr store: it is not replaced")


def _is_special(path: str) -> bool:
    """Tell whether a name, or what it links to, is neither a file nor a directory."""
    if not os.path.exists(path):
        return False
    mode = os.stat(path).st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def place(temporary: str, output: str, overwrite: bool) -> str | None:
    """Give a complete output its name; what had the name before gets a hidden one.

    Files replace files in one step. Else names are exchanged in one step where the file system has
    that (renameat2); where it has not, the old output is renamed away first, so that for a moment
    there is nothing under the name, while old and new both are there, whole, under hidden names.

    Returns
    -------
    str or None
        Where the old output lies now, to be removed; None if there is none any more.

    Raises
    ------
    IoError
        The output came into being meanwhile and is not to be replaced.
    """
    old = None
    if not overwrite:
        _place_new(temporary, output)
    elif not os.path.lexists(output) or _both_files(temporary, output):
        os.replace(temporary, output)
    elif rename_with(temporary, output, RENAME_EXCHANGE):
        old = temporary
    else:
        old = _place_in_two_steps(temporary, output)
    _sync_directory(os.path.dirname(output))
    return old


def _both_files(a: str, b: str) -> bool:
    return not os.path.isdir(a) and not os.path.isdir(b)


def _place_new(temporary: str, output: str) -> None:
    try:
        if rename_with(temporary, output, RENAME_NOREPLACE):
            return
    except FileExistsError as e:
        raise IoError(f"{output} came into being meanwhile; --overwrite replaces it") from e
    if os.path.lexists(output):
        raise IoError(f"{output} came into being meanwhile; --overwrite replaces it")
    os.rename(temporary, output)


def _place_in_two_steps(temporary: str, output: str) -> str:
    old = temporary + ".old"
    os.rename(output, old)
    try:
        os.rename(temporary, output)
    except OSError:
        os.rename(old, output)
        raise
    return old


def rename_with(source: str, destination: str, flags: int) -> bool:
    """Rename by Linux' renameat2; False where the file system or the system does not have it."""
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


def _sync_directory(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def clean_up(temporary: str, output: str) -> None:
    """Remove what processes left that were killed: nothing but the old or the new output stays."""
    old = temporary + ".old"
    if os.path.lexists(old):
        if os.path.lexists(output):
            remove(old)
        else:
            os.rename(old, output)
    remove(temporary)


def remove(path: str) -> None:
    """Remove a file or a directory with all that is in it, if it is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
