# SPDX-License-Identifier: BSD-3-Clause
"""Structures of C made into those of C++ (options), and of them (descriptions).

Members of the same name are copied: an option unless it is 0 or NULL, which selects the default.
An option `no_x` turns x off. What else becomes of a member, src/capi/calls.toml has.
"""

from .c_text import definition


def options(structure, table, header):
    """Return the function that makes a structure of C into the options of C++."""
    made = table["makes"]
    lines = [
        f"{made} made;",
        "if (!options) return made;",
        f"const {structure}& from = *options;",
    ]
    for member in header.structures[structure]:
        name = member.name
        usual = f"{name} = from.{name}"
        if name == "timeout_seconds":
            usual = f"{name} = timeout_of(from.{name})"
        elif name.startswith("no_"):
            usual = f"{name.removeprefix('no_')} = false"
        if assigned := table.get(name, usual):
            lines.append(f"if (from.{name}) made.{assigned};")
    parameter = f"const {structure}* options"
    return definition(made, "datamover::capi::options_of", [parameter], *lines, "return made;")


def description(structure, of, header):
    """Return the function that describes an object of C++ by a structure of C; cuts long texts."""
    lines = [f"{structure} made{{}};"]
    for member in header.structures[structure]:
        name = member.name
        if member.is_array:
            lines.append(f"write_text(from.{name}, made.{name});")
        else:
            lines.append(f"made.{name} = from.{name};")
    parameter = f"const {of}& from"
    return definition(structure, "datamover::capi::described", [parameter], *lines, "return made;")
