# SPDX-License-Identifier: BSD-3-Clause
"""Types and procedures of the Fortran module, as src/fortran/datamover.toml describes them."""

import re
import tomllib
from dataclasses import dataclass

from .fortran_kinds import ARGUMENTS, RESULTS, Kind

ARGUMENT = re.compile(
    r"(?P<name>\w+): (?P<kind>\w+)(\[(?P<dims>[\w.]+)\])?(?P<out> out)?(?P<optional>\?)?"
    r"( = (?P<default>\S+))?"
)


@dataclass(frozen=True)
class Argument:
    """An argument of a procedure, without `self`, `stat` and `errmsg`."""

    name: str
    kind: Kind
    kind_name: str
    dims: str  # layout whose dimensions a vector has, such as "source" or "self.source"
    is_result: bool
    is_optional: bool
    default: str

    @property
    def declaration(self):
        """Type and name, as pairs of fortran_text.declarations."""
        intent = "out" if self.is_result else "in"
        optional = ", optional" if self.is_optional else ""
        declared = f"{self.kind.declared}, intent({intent}){optional}"
        return declared, self.name + self.kind.shape


@dataclass(frozen=True)
class Procedure:
    """A type-bound procedure."""

    type: str
    bound_name: str
    doc: str
    arguments: tuple[Argument, ...]
    calls: str
    renamed: dict[str, str]  # C parameter to argument or value
    together: tuple[str, ...]
    refuses: str
    refused_if_bound: str
    refused_if: dict[str, str]  # condition to message
    forwards: str
    generic: str
    by_hand: bool  # whether the body is
    reads: bool
    has_status: bool

    @property
    def name(self):
        """Its name in the module."""
        return f"{self.type}_{self.bound_name}"


def argument(text):
    """Return the argument that a text such as `grid: extents?` describes."""
    match = ARGUMENT.fullmatch(" ".join(text.split()))
    if not match:
        raise ValueError(f"cannot read the argument {text!r}; it must be 'name: kind'")
    kinds = RESULTS if match["out"] else ARGUMENTS
    if match["kind"] not in kinds:
        raise ValueError(f"argument {text!r}: the kind must be one of {', '.join(kinds)}")
    return Argument(
        match["name"],
        kinds[match["kind"]],
        match["kind"],
        match["dims"] or "",
        bool(match["out"]),
        bool(match["optional"]),
        match["default"] or "",
    )


def procedure(type_name, name, table):
    """Return the procedure that a table describes."""
    table = dict(table)
    arguments = table.pop("arguments", "")
    made = Procedure(
        type_name,
        name,
        table.pop("doc"),
        tuple(argument(text) for text in arguments.split(",") if text.strip()),
        table.pop("calls", ""),
        table.pop("with", {}),
        tuple(table.pop("together", ())),
        table.pop("refuses", ""),
        table.pop("refused_if_bound", ""),
        table.pop("refused_if", {}),
        table.pop("forwards", ""),
        table.pop("generic", ""),
        table.pop("by_hand", False),
        table.pop("reads", False),
        table.pop("status", True),
    )
    if table:
        raise ValueError(f"{made.name} has unknown keys: {', '.join(table)}")
    return made


@dataclass(frozen=True)
class Type:
    """A derived type of the module."""

    name: str
    doc: str
    heading: str
    procedures: tuple[Procedure, ...]

    @property
    def free(self):
        """The C function that frees a handle of this type."""
        return next(p.calls for p in self.procedures if p.bound_name in ("free", "detach"))


def read(path):
    """Return the types that a description has."""
    types = []
    for name, table in tomllib.loads(path.read_text()).items():
        procedures = [procedure(name, *item) for item in table.items() if isinstance(item[1], dict)]
        types.append(Type(name, table["doc"], table["heading"], tuple(procedures)))
    return types
