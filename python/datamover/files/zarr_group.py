# SPDX-License-Identifier: BSD-3-Clause
"""Zarr groups in a directory or at an address: contents, creation, and consolidated metadata.

Consolidated metadata are copies, in a group, of the metadata of all its contents. Readers use the
copies in place of the originals. Outdated copies hide new arrays, and cause readers to decode the
chunks of replaced ones wrongly.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from datamover.errors import IoFailed, Unsupported
from datamover.files import addresses, unfinished
from datamover.files.formats import Late, log
from datamover.files.json_values import dumps

#: The key in `zarr.json` of format 3, and the object of format 2.
KEY, OBJECT = "consolidated_metadata", ".zmetadata"
#: Errors of the library that mean that a store denies access.
REFUSED = ("PermissionError", "PermissionDeniedError", "UnauthenticatedError")

#: Objects with the metadata of a group, which are not members.
METADATA = (*addresses.METADATA, ".zattrs", ".zmetadata")


def metadata(path: str) -> dict[str, Any]:
    """Read a Zarr node's metadata; return an empty dictionary if it has none.

    Raises
    ------
    IoFailed
        They cannot be read or are not a JSON object, or a server does not answer.
    """
    for name in addresses.METADATA:
        found = object_in(path, name, "metadata")
        if found is not None:
            return found if name == "zarr.json" else {"node_type": name[2:], **found}
    return {}


def object_in(path: str, name: str, what: str) -> dict[str, Any] | None:
    """Read a JSON object from a file of a node; return None if the file does not exist."""
    data = content_of(path, name)
    if data is None:
        return None
    with addresses.failing(f"{path} has {what} that cannot be read"):
        found = json.loads(data.decode())
    if not isinstance(found, dict):
        raise IoFailed(f"{path} has {what} that are not a JSON object")
    return found


def content_of(path: str, name: str) -> bytes | None:
    """Read a file, or object, directly in a node; return None if it does not exist.

    Raises
    ------
    IoFailed
        It exists and cannot be read, or a server does not answer.
    """
    if addresses.is_address(path):
        return addresses.get(path, name)
    place = os.path.join(path, name)

    def opener(file: str, flags: int) -> int:
        return os.open(file, flags | os.O_NONBLOCK)  # not to wait for a pipe

    try:
        with open(place, "rb", buffering=0, opener=opener) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is not a file")
            return file.readall()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        raise IoFailed(f"{place} cannot be read: {e.strerror}") from e


def is_surely_array(path: str) -> bool:
    """Return whether a node is an array by its metadata; False if they cannot be read."""
    try:
        return metadata(path).get("node_type") == "array"
    except IoFailed:
        return False


def is_group(path: str) -> bool:
    """Return whether there is a group in a directory, or at an address."""
    is_there = addresses.is_address(path) or os.path.isdir(path)
    return is_there and metadata(path).get("node_type") == "group"


def around(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the directories around a path, innermost first, with their metadata as Zarr nodes.

    Addresses end with the first one that is not a group, because each takes a request. The metadata
    are empty if there are none, or if a store denies access: stores also do so for objects that do
    not exist. Addresses that can only be read are not searched: an output there is rejected for
    that reason.

    Raises
    ------
    IoFailed
        As for `metadata`, but not if a store denies access.
    """
    for above in addresses.enclosing(path):
        at_address, found = addresses.is_address(above), {}
        try:
            if addresses.scheme_of(above) not in addresses.READ_ONLY:
                found = metadata(above)
        except IoFailed as e:
            if not at_address or type(e.__cause__).__name__ not in REFUSED:
                raise
        yield above, found
        if at_address and found.get("node_type") != "group":
            return


def array_among(nodes: Iterable[tuple[str, dict[str, Any]]]) -> str | None:
    """Return the first array among the nodes that `around` yields; None if there is none."""
    return next((place for place, node in nodes if node.get("node_type") == "array"), None)


def nodes(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all members of a group and the groups in it: names and metadata.

    Raises
    ------
    IoFailed
        Metadata cannot be read, or a group is inside itself by a link.
    Unsupported
        A server cannot list, and the group has no consolidated metadata.
    """
    # A server that cannot list has names in the group's consolidated metadata. They may be
    # outdated, so the own metadata of each node are read.
    can_list = addresses.scheme_of(path) not in addresses.READ_ONLY
    listed = None if can_list else _consolidated(path)
    # Names of nodes and the groups above them; groups may be deeper than Python's recursion limit.
    left = [(name, [_real(path)]) for name in reversed(_members(path, "", listed))]
    while left:
        name, above = left.pop()
        folder = addresses.inside(path, name)
        found = metadata(folder)
        if found.get("node_type") in ("array", "group"):
            yield name, found
        if found.get("node_type") == "group":
            if _real(folder) in above:
                raise IoFailed(f"{folder} is a link to a group that contains it")
            inner = [*above, _real(folder)]
            left += [(key, inner) for key in reversed(_members(folder, name, listed))]


def _members(folder: str, group: str, listed: dict[str, list[str]] | None) -> list[str]:
    """Return the names of possible arrays or groups in a group, within the outermost one."""
    if listed is not None:
        return sorted(listed.get(group, ()))
    if addresses.is_address(folder):
        found = [name for name in {*addresses.listed(folder)} - {*METADATA} if _is_name(name)]
    else:
        with os.scandir(folder) as entries:
            found = [entry.name for entry in entries if entry.is_dir()]
    return sorted(f"{group}/{name}" if group else name for name in found)


def _is_name(name: str) -> bool:
    """Return whether a name leads to a member of a group, not elsewhere."""
    return all(part not in ("", ".", "..") for part in name.split("/"))


def _real(path: str) -> str:
    """Return a value that is equal for two names of a directory; an address has one name."""
    return path if addresses.is_address(path) else os.path.realpath(path)


def _consolidated(path: str) -> dict[str, list[str]]:
    """Return the names in a group's consolidated metadata, by the names of their groups."""
    said = metadata(path)
    is_of_format_2 = said.get("zarr_format") == 2
    found = object_in(path, OBJECT, "consolidated metadata") if is_of_format_2 else said.get(KEY)
    named: Any = found.get("metadata") if isinstance(found, dict) else None
    if not isinstance(named, dict):
        raise Unsupported(
            f"{path} is a Zarr group without consolidated metadata, and its server cannot list: "
            f"name one of its arrays, as {path}/NAME"
        )
    if is_of_format_2:
        named = {key.rpartition("/")[0] for key in named}
    by_group: dict[str, list[str]] = {}
    for name in filter(_is_name, named):
        by_group.setdefault(name.rpartition("/")[0], []).append(name)
    return by_group


def has_strings(metadata: dict[str, Any]) -> bool:
    """Return, from an array's metadata, whether its elements are strings of any length."""
    if "data_type" in metadata:
        return metadata["data_type"] == "string"
    filters = metadata.get("filters") or ()
    ids = [each.get("id") for each in filters if isinstance(each, dict)]
    return metadata.get("dtype") == "|O" and "vlen-utf8" in ids


def has_short_strings(metadata: dict[str, Any]) -> bool:
    """Return, from an array's metadata, whether its elements are strings of fixed length."""
    said = metadata.get("data_type")
    if isinstance(said, dict):
        return said.get("name") == "fixed_length_utf32"
    return said is None and str(metadata.get("dtype"))[1:2] == "U"


def arrays(path: str) -> Iterator[str]:
    """Yield the names of the arrays of a group and of the groups in it."""
    for name, found in nodes(path):
        if found["node_type"] == "array":
            yield name


def attributes(path: str) -> dict[str, Any]:
    """Read the attributes of a group.

    Raises
    ------
    IoFailed
        They cannot be read, or are not a JSON object.
    """
    found = metadata(path)
    if "attributes" not in found:
        return object_in(path, ".zattrs", "attributes") or {}
    if not isinstance(found["attributes"], dict):
        raise IoFailed(f"{path} has attributes that are not a JSON object")
    return found["attributes"]


def objects(attributes: dict[str, Any], zarr_format: int) -> dict[str, bytes]:
    """Return the files or objects of a group, by name; the last one makes it visible."""
    if zarr_format == 3:
        found = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
        return {"zarr.json": dumps(found).encode()}
    return {
        ".zattrs": dumps(attributes).encode(),
        ".zgroup": b'{"zarr_format": 2}',
    }


def write_objects(path: str, objects: Late) -> None:
    """Write metadata in a directory; the directories are made unless they exist."""
    for name, data in objects.items():
        place = os.path.join(path, name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "xb") as file:
            file.write(data)


def remove_copies_around(output: str) -> None:
    """Remove the copies in all groups around an output, before it is replaced or appears.

    Even if a process is killed at any moment, readers see the old output or the new one. The copies
    are not written again: if two programs write into one group, one could copy metadata that the
    other is about to replace.

    Raises
    ------
    IoFailed
        They cannot be removed, or a server does not answer.
    """
    for group, metadata in around(output):
        if metadata.get("node_type") != "group":
            return
        with addresses.failing(
            f"{group} has consolidated metadata, which {output} makes out of date and which cannot "
            "be removed"
        ):
            is_changed = _remove_copies(group, metadata)
        if is_changed:
            log.warning(
                "%s: its consolidated metadata is removed, since %s makes it out of date; "
                "zarr.consolidate_metadata writes it again", group, output,
            )  # fmt: skip


def consolidate(group: str) -> None:
    """Write the copies for a group in a directory, for readers one consistent state.

    Raises
    ------
    IoFailed
        Metadata in it cannot be read.
    """
    root = metadata(group)
    found: dict[str, dict[str, Any]] = {}
    for name, held in (("", root), *nodes(group)):
        prefix = f"{name}/" if name else ""
        if held.get("zarr_format") != root.get("zarr_format"):
            continue  # no reader of the group finds it
        if held.get("zarr_format") != 2:
            found[f"{prefix}zarr.json"] = held
            continue
        found[f"{prefix}.z{held.pop('node_type')}"] = held
        attributes = object_in(group, f"{prefix}.zattrs", "attributes")
        if attributes is not None:
            found[f"{prefix}.zattrs"] = attributes
    _write_object(group, *_with_copies(found))


def metadata_of(
    attributes: dict[str, Any],
    groups: dict[str, dict[str, Any]],
    zarr_format: Any,
    arrays: Mapping[str, Late],
) -> Late:
    """Return the consolidated metadata of a new group, the groups in it and its arrays.

    `groups` has attributes by name, and `arrays` metadata.
    """
    of_groups = {name: objects(groups[name], zarr_format) for name in reversed(groups)}
    late = {
        f"{name}/{key}": data
        for name, found in {**arrays, **of_groups}.items()
        for key, data in found.items()
    } | objects(attributes, zarr_format)
    name, copies = _with_copies({name: json.loads(data) for name, data in late.items()})
    late[name] = copies
    last = ".zgroup" if name == OBJECT else name  # which makes the group visible
    end = late.pop(last)
    return {**late, last: end}


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


def _remove_copies(group: str, metadata: dict[str, Any]) -> bool:
    """Remove the copies in one group; return whether there were any."""
    is_in_json = metadata.get(KEY) is not None
    if is_in_json:
        rest = {key: value for key, value in metadata.items() if key != KEY}
        _write_object(group, "zarr.json", dumps(rest).encode())
    is_object = content_of(group, OBJECT) is not None
    if is_object:
        _delete(group, OBJECT)
    return is_in_json or is_object


def _write_object(group: str, name: str, data: bytes) -> None:
    if addresses.is_address(group):
        addresses.put_all(group, {name: data})
    else:
        unfinished.replace_file(f"{group}/{name}", data)


def _delete(group: str, name: str) -> None:
    if addresses.is_address(group):
        addresses.done(addresses.store_at(group, read_only=False).delete(name))
    else:
        unfinished.remove_file(f"{group}/{name}")
