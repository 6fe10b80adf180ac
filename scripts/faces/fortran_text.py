# SPDX-License-Identifier: BSD-3-Clause
"""Lines of Fortran: continued statements, wrapped comments, joined declarations."""

import textwrap

WIDTH = 100
FREE_FORM_WIDTH = 132  # longer lines are not Fortran


def comment(text, indent=4):
    """Return a comment as indented lines."""
    lead = " " * indent + "! "
    return textwrap.wrap(
        " ".join(text.split()),
        WIDTH,
        initial_indent=lead,
        subsequent_indent=lead,
        break_on_hyphens=False,
        break_long_words=False,
    )


def statement(text, indent):
    """Return a statement as one or several lines, broken after commas and before bind."""
    lines, line = [], " " * indent
    for part in pieces(text):
        if len(line) + len(part.rstrip()) > WIDTH - 2 and line.strip():
            lines.append(line.rstrip() + " &")
            line = " " * (indent + 4)
        line += part
    lines.append(line.rstrip())
    if any(len(part) > FREE_FORM_WIDTH for part in lines):
        raise ValueError(f"cannot break the statement {text!r}")
    return lines


def pieces(text):
    """Return the parts of a statement between which it may be broken."""
    parts, quoted, start = [], False, 0
    for i, letter in enumerate(text):
        quoted ^= letter == "'"
        if letter == " " and not quoted and (text[i - 1] == "," or text.startswith("bind", i + 1)):
            parts.append(text[start : i + 1])
            start = i + 1
    return [*parts, text[start:]]


def declarations(pairs, indent):
    """Return the declarations of (type, name) pairs; neighbors of one type share a line."""
    lines = []
    for i, (kind, name) in enumerate(pairs):
        if i and pairs[i - 1][0] == kind:
            lines[-1] += f", {name}"
        else:
            lines.append(f"{kind} :: {name}")
    return [part for line in lines for part in statement(line, indent)]
