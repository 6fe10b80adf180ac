# SPDX-License-Identifier: BSD-3-Clause
"""Declarations of C headers: functions, structures, enumerations and numeric macros.

Reads the plain C that this project's headers are written in, not C in general. A pointer to one
object is declared with `*`, a pointer to several with `[]` or as a constant pointer to numbers.
"""

import re
from dataclasses import dataclass, field

NUMBERS = {"int", "int64_t", "double", "size_t"}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function, or a member of a structure."""

    name: str
    type: str  # without const and pointers: int64_t, datamover_layout, void
    stars: int  # levels of pointers, [] not counted
    is_array: bool
    length: str  # between the brackets; empty if there are none
    is_const: bool  # what the first pointer points to is constant
    text: str  # as declared


@dataclass(frozen=True)
class Function:
    """A function of a header."""

    name: str
    result: str
    parameters: tuple[Parameter, ...]
    comment: str  # before the declaration; empty if there is none
    section: str  # heading that it is under


@dataclass
class Header:
    """Everything that one or several headers declare, by name and in order."""

    functions: dict[str, Function] = field(default_factory=dict)
    structures: dict[str, tuple[Parameter, ...]] = field(default_factory=dict)
    enumerations: dict[str, dict[str, int]] = field(default_factory=dict)
    macros: dict[str, int] = field(default_factory=dict)
    opaque: set[str] = field(default_factory=set)  # structures whose members are not declared


def parameter(text):
    """Return the parameter that a text such as `const int64_t* shape` declares."""
    text = " ".join(text.split())
    match = re.fullmatch(r"(.+?)\b(\w+)((?:\[\w*\])*)", text)
    if not match:
        raise ValueError(f"cannot read the parameter {text!r}")
    declared, name, brackets = match.groups()
    base = re.sub(r"\b(const|struct)\b|\*", " ", declared).split()
    if len(base) != 1:
        raise ValueError(f"cannot read the type of the parameter {text!r}")
    stars = declared.count("*")
    const = declared.lstrip().startswith("const")
    is_array = bool(brackets) or (const and stars == 1 and base[0] in NUMBERS)
    return Parameter(name, base[0], stars, is_array, brackets.strip("[]"), const, text)


def parameters(text, separator):
    """Return all parameters of a list, or all members of a structure."""
    parts = [part.strip() for part in text.split(separator)]
    return tuple(parameter(part) for part in parts if part and part != "void")


def without_comments(text):
    """Return a text whose comments are blanks, so that all positions remain."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def plain(comment):
    """Return the sentences of a comment as one line."""
    lines = (re.sub(r"^\s*/?\*+/?|\*/\s*$", "", line) for line in comment.split("\n"))
    return " ".join(" ".join(lines).split())


DECLARATION = re.compile(
    r"#define\s+(?P<macro>\w+)\s+\((?P<number>-?\d+)\)"
    r"|typedef\s+struct\s+(?P<structure>\w+)\s*\{(?P<members>[^}]*)\}"
    r"|typedef\s+struct\s+(?P<opaque>\w+)\s+\w+;"
    r"|typedef\s+enum\s+(?P<enumeration>\w+)[^{]*\{(?P<values>[^}]*)\}"
    r"|^(?P<result>\w[\w ]*?\**)\s*\b(?P<function>\w+)\((?P<parameters>[^;{}()]*)\);",
    re.MULTILINE,
)


def read(*paths):
    """Return everything that some headers declare."""
    header = Header()
    for path in paths:
        declared(header, path.read_text())
    return header


def declared(header, text):
    """Add everything that the text of a header declares."""
    comments = {m.end(): m[0] for m in re.finditer(r"/\*.*?\*/", text, re.S)}
    section, begins = "", 0
    for match in DECLARATION.finditer(without_comments(text)):
        passed = [c for end, c in comments.items() if begins < end <= match.start()]
        headings = [c for c in passed if "-----" in c]
        section = plain(headings[-1]).lstrip("- ") if headings else section
        comment = plain(passed[-1]) if passed else ""
        begins = match.end()
        add(header, match, comment, section)


def add(header, match, comment, section):
    """Add one declaration."""
    if match["macro"]:
        header.macros[match["macro"]] = int(match["number"])
    elif match["structure"]:
        header.structures[match["structure"]] = parameters(match["members"], ";")
    elif match["opaque"]:
        header.opaque.add(match["opaque"])
    elif match["enumeration"]:
        values = re.findall(r"(\w+)\s*=\s*(-?\d+)", match["values"])
        header.enumerations[match["enumeration"]] = {name: int(n) for name, n in values}
    elif not match["result"].startswith("typedef"):
        of = parameters(match["parameters"], ",")
        result = " ".join(match["result"].split())
        name = match["function"]
        header.functions[name] = Function(name, result, of, comment, section)
