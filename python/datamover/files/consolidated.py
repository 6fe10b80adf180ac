# SPDX-License-Identifier: BSD-3-Clause
"""Consolidated metadata: copies, in a Zarr group, of the metadata of all its contents.

Readers use the copies in place of the originals. Outdated copies hide new arrays, and cause readers
to decode the chunks of replaced ones wrongly.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
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
    """Write the copies for a group in a directory, for readers one consistent state.

    Raises
    ------
    IoFailed
        Metadata in it cannot be read.
    """
    root = zarr_group.metadata(group)
    found: dict[str, dict[str, Any]] = {}
    for name, held in (("", root), *zarr_group.nodes(group)):
        prefix = f"{name}/" if name else ""
        if held.get("zarr_format") != root.get("zarr_format"):
            continue  # no reader of the group finds it
        if held.get("zarr_format") != 2:
            found[f"{prefix}zarr.json"] = held
            continue
        found[f"{prefix}.z{held.pop('node_type')}"] = held
        attributes = zarr_group.object_in(group, f"{prefix}.zattrs", "attributes")
        if attributes is not None:
            found[f"{prefix}.zattrs"] = attributes
    _write(group, *_with_copies(found))


def make_group(
    place: str,
    attributes: dict[str, Any],
    groups: Mapping[str, dict[str, Any]],
    zarr_format: Any,
    members: Mapping[str, Callable[[str], Mapping[str, bytes]]],
) -> Mapping[str, bytes]:
    """Create a group, the groups in it and its arrays, without elements.

    `groups` has attributes by name, and `members` what creates each array. At an address, no
    metadata is written. Returns what `formats.Output.create` does, with consolidated metadata.
    """
    late: dict[str, bytes] = {}
    if not addresses.is_address(place):
        zarr_group.make(place, attributes, zarr_format)
        for name, held in groups.items():
            os.mkdir(f"{place}/{name}")
            zarr_group.make(f"{place}/{name}", held, zarr_format)
    for name, create in members.items():
        late |= addresses.named_within(name, create(f"{place}/{name}"))
    if not addresses.is_address(place):
        return {}
    for name in reversed(groups):
        late |= addresses.named_within(name, zarr_group.objects(groups[name], zarr_format))
    return with_copies(late | zarr_group.objects(attributes, zarr_format))


def with_copies(objects: Mapping[str, bytes]) -> dict[str, bytes]:
    """Add the copies to the metadata of a group and of all its contents, objects by name.

    The object that makes the group visible stays or becomes the last one. zarr-python finds members
    of a group only if they are next to each other.
    """
    name, copies = _with_copies({name: json.loads(data) for name, data in objects.items()})
    last = ".zgroup" if name == OBJECT else name
    found = {**objects, name: copies}
    end = found.pop(last)
    return {**found, last: end}


def _with_copies(found: dict[str, dict[str, Any]]) -> tuple[str, bytes]:
    """Return the object with copies of metadata, by their objects; its name and content."""
    for name, held in found.items():
        if "/" in name and (name.endswith("/.zgroup") or held.get("node_type") == "group"):
            held[KEY] = _inline({})  # or readers list an empty group
    if ".zgroup" in found:
        copies = {"zarr_consolidated_format": 1, "metadata": dict(sorted(found.items()))}
        return OBJECT, dumps(copies).encode()
    root = found.pop("zarr.json")
    members = {name.removesuffix("/zarr.json"): held for name, held in sorted(found.items())}
    return "zarr.json", dumps(root | {KEY: _inline(members)}).encode()


def _inline(members: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "inline", "must_understand": False, "metadata": members}


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
