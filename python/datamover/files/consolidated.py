# SPDX-License-Identifier: BSD-3-Clause
"""Consolidated metadata: copies, in a Zarr group, of the metadata of all its contents.

Readers use the copies in place of the originals. Outdated copies hide new arrays, and cause readers
to decode the chunks of replaced ones wrongly.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

from datamover.files import addresses, zarr_group
from datamover.files.json_values import dumps

#: The key in `zarr.json` of format 3, and the object of format 2.
KEY, OBJECT = "consolidated_metadata", ".zmetadata"

log = logging.getLogger("datamover")


def remove_around(output: str) -> None:
    """Remove the copies in all groups around an output, before it is replaced or appears.

    Even if a process is killed at any moment, readers see the old output or the new one. The copies
    are not written again: if two programs write into one group, one could copy metadata that the
    other is about to replace.

    Raises
    ------
    IoFailed
        They cannot be removed, or a server does not answer.
    """
    for group, metadata in zarr_group.around(output):
        with addresses.failing(
            f"{group} has consolidated metadata, which {output} makes out of date and which cannot "
            "be removed"
        ):
            is_changed = _remove(group, metadata)
        if is_changed:
            log.warning(
                "%s: its consolidated metadata is removed, since %s makes it out of date; "
                "zarr.consolidate_metadata writes it again", group, output,
            )  # fmt: skip


def write(group: str) -> None:
    """Write the copies for a group in a directory, for readers one consistent state."""
    import zarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Zarr's standard, and of files that are not Zarr's
        zarr.consolidate_metadata(group)


def _remove(group: str, metadata: dict[str, Any]) -> bool:
    """Remove the copies in one group; return whether there were any."""
    is_in_json = metadata.get(KEY) is not None
    if is_in_json:
        rest = {key: value for key, value in metadata.items() if key != KEY}
        _write(group, "zarr.json", dumps(rest).encode())
    is_object = zarr_group.content_of(group, OBJECT) is not None
    if is_object:
        _delete(group, OBJECT)
    return is_in_json or is_object


def _write(group: str, name: str, data: bytes) -> None:
    from datamover.files import placing

    if addresses.is_address(group):
        addresses.put(group, name, data)
    else:
        placing.replace_file(f"{group}/{name}", data)


def _delete(group: str, name: str) -> None:
    from datamover.files import placing

    if addresses.is_address(group):
        addresses.done(addresses.store_at(group, read_only=False).delete(name))
    else:
        placing.remove_file(f"{group}/{name}")
