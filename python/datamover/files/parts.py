# SPDX-License-Identifier: BSD-3-Clause
"""Files that are parts of an HDF5 file, and their removal.

An output of several writers, out.h5, is a virtual dataset of out.h5.TOKEN.parts/0.h5 and so on. The
token identifies the move, so that an old output keeps its parts until the new one has its name.
Until then, the hidden file of the new output marks its parts as unfinished. Parts that no output of
this name refers to are left alone, because they may belong to a file that was renamed.
"""

from __future__ import annotations

import contextlib
import os
import re

from datamover.files import hdf5

SUFFIX = ".parts"
TOKEN_PATTERN = r"\.[0-9a-f]{12}"


def folder_of(temporary: str) -> str:
    """Give the directory for the parts of an unfinished output, by its hidden name.

    Examples
    --------
    >>> from datamover.files.parts import folder_of
    >>> folder_of("/data/.run.h5.0123456789ab.partial")
    '/data/run.h5.0123456789ab.parts'
    """
    directory, name = os.path.split(temporary)
    return os.path.join(directory, name.removeprefix(".").removesuffix(".partial") + SUFFIX)


def path_of(folder: str, number: int) -> str:
    """Give the file of a part."""
    return os.path.join(folder, f"{number}.h5")


def name_in_file(folder: str, number: int) -> str:
    """Give the name of a part as HDF5 is to find it: beside the file that names it.

    In such names HDF5 takes %b for a number, and %% for %.
    """
    return path_of(os.path.basename(folder), number).replace("%", "%%")


def named_by(path: str, output: str) -> set[str] | None:
    """Give the directories of parts of an output that a file names; None if it cannot be read.

    Those alone that a move to that output makes: whatever else the file names is not its own.
    """
    directory, name = os.path.split(output)
    pattern = re.compile(re.escape(name) + TOKEN_PATTERN + re.escape(SUFFIX))
    try:
        if not hdf5.recognizes(path):
            return set()
        with hdf5.h5py().File(path, "r", locking=False) as file:
            named = {
                os.path.dirname(source.file_name.replace("%%", "%"))
                for dataset in hdf5.datasets(file).values()
                if dataset.is_virtual
                for source in dataset.virtual_sources()
            }
    except Exception:  # HDF5 has many words for files that are broken, or not yet complete
        return None
    return {os.path.join(directory, folder) for folder in named if pattern.fullmatch(folder)}


def left_by(path: str, temporary: str, output: str) -> set[str]:
    """Give the directories that go with an old or unfinished output when it is removed.

    Parameters
    ----------
    path : str
        What is to be removed: `temporary`, or what the old output is called meanwhile.
    temporary, output : str
        Hidden name of a move's unfinished output, and the name that it is to have.
    """
    if not os.path.lexists(path):
        return set()
    kept = named_by(output, output)
    if kept is None:  # it may need them
        return set()
    return {folder_of(temporary), *(named_by(path, output) or ())} - kept


def remove(folder: str) -> None:
    """Remove a directory of parts. What others have put there stays, and the directory with it."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        if re.fullmatch(r"\d+\.h5", name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))
    with contextlib.suppress(OSError):
        os.rmdir(folder)
