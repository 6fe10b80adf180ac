# SPDX-License-Identifier: BSD-3-Clause
"""Removal of the output of an interrupted move."""

from __future__ import annotations

import os

from datamover import launch
from datamover.errors import Error


class Output:
    """An output as it was before the move.

    Parameters
    ----------
    path : str
        The result of `names.place_of`, without a dataset.
    temporary : str, optional
        Directory for the intermediate of a move in two passes.
    """

    def __init__(self, path: str, temporary: str | None = None):
        self.path, self._temporary = path, temporary
        self._before = _identity(path)
        self._token = ""

    def is_for_processes(self) -> str:
        """Name the output of the processes that this one starts, so that it can remove it.

        Returns the variable of their environment, "NAME=value".
        """
        self._token = os.environ[launch.MOVE_TOKEN] = launch.new_token()
        return f"{launch.MOVE_TOKEN}={self._token}"

    def clean_up(self) -> None:
        """Remove what killed or failed processes have left at a path."""
        from datamover.files import addresses, intermediate, placing

        directory = intermediate.directory_for(self.path, self._temporary)
        intermediate.clean_up(directory, self._token)
        if not addresses.is_address(self.path):
            placing.clean_up(placing.temporary_path(self.path, self._token), self.path)

    def words(self) -> str:
        """Return the state of the output; at an address, leftovers are removed first."""
        from datamover.files import addresses

        if addresses.is_address(self.path):
            return self._words_of_address()
        after = _identity(self.path)
        if after != self._before:
            return f"{self.path} is complete"
        return f"{self.path} was not written" if after is None else f"{self.path} is as it was"

    def _words_of_address(self) -> str:
        from datamover.files import address_place

        try:
            is_there = address_place.clean_up(self.path, self._token)
        except (Error, OSError):
            return self.words_of_left()
        return f"{self.path} is as it was, or complete" if is_there else f"{self.path} is not there"

    def words_of_left(self) -> str:
        """Return what may be left of an output at an address, if no process removes it."""
        return (
            f"{self.path} may hold chunks of it, which a move there with --overwrite removes; if "
            "it holds zarr.json, .zarray or .zgroup, it is complete"
        )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
