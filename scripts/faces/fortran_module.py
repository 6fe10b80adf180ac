# SPDX-License-Identifier: BSD-3-Clause
"""Module datamover: types, and interfaces of their procedures, as programs see them."""

from .fortran_c_functions import structure
from .fortran_procedures import Procedure, Type
from .fortran_text import comment, declarations, statement

STATUS = (
    ("integer, intent(out), optional", "stat"),
    ("character(*), intent(inout), optional", "errmsg"),
)


def type_definition(of: Type):
    """Return a derived type with the names of its procedures."""
    generics = {}
    lines = [*comment(of.doc), f"    type, public :: datamover_{of.name}", "        private"]
    lines += ["        type(c_ptr) :: handle = c_null_ptr", "    contains"]
    for p in of.procedures:
        if p.generic:
            lines.append(f"        procedure, private :: {p.bound_name} => {p.name}")
            generics.setdefault(p.generic, []).append(p.bound_name)
        else:
            lines.append(f"        procedure, public :: {p.bound_name} => {p.name}")
    for name, members in generics.items():
        lines.append(f"        generic, public :: {name} => {', '.join(members)}")
    return [*lines, "    end type", ""]


def reads_self(p: Procedure, header):
    """Return whether a procedure only reads its object."""
    function = header.functions.get(p.calls)
    if p.reads or not function:
        return p.reads
    first, last = function.parameters[0], function.parameters[-1]
    makes_self = last.type == f"datamover_{p.type}" and last.stars == 2
    return first.is_const and not makes_self


def interface(p: Procedure, header):
    """Return the interface of a procedure, with its description."""
    status = STATUS if p.has_status else ()
    names = ["self", *(a.name for a in p.arguments), *(name for _, name in status)]
    intent = "in" if reads_self(p, header) else "inout"
    pairs = [(f"class(datamover_{p.type}), intent({intent})", "self")]
    pairs += [a.declaration for a in p.arguments]
    return [
        *comment(p.doc, 8),
        *statement(f"module subroutine {p.name}({', '.join(names)})", 8),
        *declarations([*pairs, *status], 12),
        "        end subroutine",
        "",
    ]


def private(definition):
    """Return the definition of a public type, with its components private."""
    return [definition[0].replace(" ::", ", public ::"), "        private", *definition[1:]]


def heading(text):
    """Return a comment that begins a group of procedures."""
    return [f"        ! {'-' * 66} {text}", ""]


def module(template, types, header):
    """Return the module: a template with its types and procedures filled in."""
    codes = [name.lower() for name in header.enumerations["datamover_code"]]
    public = [*codes, "datamover_no_target", "datamover_no_step"]
    definitions = [line for t in types for line in type_definition(t)]
    procedures = []
    for t in types:
        procedures += heading(t.heading)
        for p in t.procedures:
            procedures += interface(p, header)
    parts = {
        "use": statement(f"use datamover_c, only: {', '.join(public)}", 4),
        "public": statement(f"public :: {', '.join(public)}", 4),
        "memory": private(structure(header, "datamover_memory")),
        "types": definitions[:-1],
        "procedures": procedures[:-1],
    }
    lines = []
    for line in template.split("\n"):
        name = line.strip().removeprefix("!@ ")
        lines += parts[name] if name != line.strip() else [line]
    return "\n".join(lines)
