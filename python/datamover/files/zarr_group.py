# SPDX-License-Identifier: BSD-3-Clause
"""What is in a Zarr group in a directory, and how is one made?"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

from datamover.errors import IoError


def metadata(path: str) -> dict[str, Any]:
    """Read a Zarr node's metadata; an empty dictionary where it has none.

    Raises
    ------
    IoError
        They cannot be read, or are no JSON object.
    """
    for name in ("zarr.json", ".zarray", ".zgroup"):
        found = _object_in(path, name, "metadata")
        if found is not None:
            return found if name == "zarr.json" else {"node_type": name[2:], **found}
    return {}


def _object_in(path: str, name: str, what: str) -> dict[str, Any] | None:
    """Read a JSON object from a file of a node; None where there is no such file."""
    try:
        with open(os.path.join(path, name), encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as e:
        raise IoError(f"{path} has {what} that cannot be read: {e}") from e
    if not isinstance(found, dict):
        raise IoError(f"{path} has {what} that are no JSON object")
    return found


def is_array(path: str) -> bool:
    """Tell whether a node is an array."""
    return metadata(path).get("node_type") == "array"


def is_group(path: str) -> bool:
    """Tell whether a path is a directory with a group."""
    return os.path.isdir(path) and metadata(path).get("node_type") == "group"


def format_of(path: str) -> int | None:
    """Give the Zarr format of the group in a directory; None where there is none that is read."""
    with contextlib.suppress(IoError, OSError):
        found = metadata(path)
        if found.get("node_type") == "group" and found.get("zarr_format") in (2, 3):
            return found["zarr_format"]
    return None


def nodes(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Go through all that is in a group and the groups in it: names and metadata.

    Raises
    ------
    IoError
        Metadata that cannot be read, or a group that is within itself by a link.
    """
    walks = [_inside(path, "")]  # groups may lie deeper than Python calls itself
    above = [os.path.realpath(path)]
    while walks:
        name, found = next(walks[-1], ("", None))
        if found is None:
            walks.pop()
            above.pop()
            continue
        yield name, found
        if found.get("node_type") == "group":
            folder = os.path.join(path, *name.split("/"))
            real = os.path.realpath(folder)
            if real in above:
                raise IoError(f"{folder} is a link to a group that it lies in")
            above.append(real)
            walks.append(_inside(folder, name + "/"))


def _inside(path: str, above: str) -> Iterator[tuple[str, dict[str, Any]]]:
    with os.scandir(path) as entries:
        folders = sorted(entry.name for entry in entries if entry.is_dir())
    for name in folders:
        found = metadata(os.path.join(path, name))
        if found.get("node_type") in ("array", "group"):
            yield above + name, found


def has_strings(metadata: dict[str, Any]) -> bool:
    """Tell by an array's metadata whether its elements are strings of any length."""
    if "data_type" in metadata:
        return metadata["data_type"] == "string"
    filters = metadata.get("filters") or ()
    ids = [each.get("id") for each in filters if isinstance(each, dict)]
    return metadata.get("dtype") == "|O" and "vlen-utf8" in ids


def has_short_strings(metadata: dict[str, Any]) -> bool:
    """Tell by an array's metadata whether its elements are strings of so many code points."""
    said = metadata.get("data_type")
    if isinstance(said, dict):
        return said.get("name") == "fixed_length_utf32"
    return said is None and str(metadata.get("dtype"))[1:2] == "U"


def arrays(path: str) -> Iterator[str]:
    """Go through the arrays of a group and of the groups in it, by name."""
    for name, found in nodes(path):
        if found["node_type"] == "array":
            yield name


def attributes(path: str) -> dict[str, Any]:
    """Read the attributes of a group.

    Raises
    ------
    IoError
        They cannot be read, or are no JSON object.
    """
    found = metadata(path)
    if "attributes" not in found:
        return _object_in(path, ".zattrs", "attributes") or {}
    if not isinstance(found["attributes"], dict):
        raise IoError(f"{path} has attributes that are no JSON object")
    return found["attributes"]


def content(attributes: dict[str, Any]) -> bytes:
    """Give the content of a group's zarr.json."""
    found = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    return json.dumps(found, indent=2).encode()


def make(path: str, attributes: dict[str, Any], zarr_format: int = 3) -> None:
    """Make a directory that is there a group."""
    if zarr_format == 3:
        parts = {"zarr.json": content(attributes)}
    else:
        parts = {
            ".zattrs": json.dumps(attributes, indent=2).encode(),
            ".zgroup": b'{"zarr_format": 2}',
        }
    for name, data in parts.items():
        with open(os.path.join(path, name), "wb") as file:
            file.write(data)
