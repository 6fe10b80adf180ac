# SPDX-License-Identifier: BSD-3-Clause
"""Declarations of C++ headers: enumerations, and structures that are only data.

Reads the plain C++ that this project's public headers are written in, not C++ in general.
"""

import re

from .c_headers import without_comments

MEMBER = re.compile(r"(?P<type>[\w:<>]+) (?P<names>\w+[^()]*)")


def body(path, declared):
    """Return what a declaration has between its braces, with comments; `declared` is a pattern."""
    found = re.search(rf"^{declared}", path.read_text(), re.DOTALL | re.MULTILINE)
    if not found:
        raise ValueError(f"{path.name} does not declare {declared}")
    return found[1]


def enumerators(path, name):
    """Return the names of an enumeration's values with their numbers and comments."""
    found, number = [], 0
    text = body(path, rf"enum class {name}\b[^{{]*\{{([^}}]*)\}}")
    for match in re.finditer(r"(\w+)(?: = (\d+))?(?:,(?:[ ]*///< ([^\n]*))?|\s*$)", text):
        value, given, comment = match.groups()
        number = int(given or number)
        found.append((value, number, comment or ""))
        number += 1
    return found


def members(path, name):
    """Return the types of a structure's members by their names."""
    found = {}
    text = without_comments(body(path, rf"struct {name} \{{(.*?)^\}};"))
    for statement in text.split(";"):
        if match := MEMBER.fullmatch(" ".join(statement.split())):
            for one in match["names"].split(", "):
                found[one.split()[0].rstrip("{}")] = match["type"]
    return found
