# SPDX-License-Identifier: BSD-3-Clause
"""Lines of C++: declarations and statements that are broken after commas."""

import re

WIDTH = 100


def wrapped(text, indent=0):
    """Return a statement as lines; those after the first have two more levels of indentation."""
    indent += len(text) - len(text.lstrip())
    lines, line = [], " " * indent
    for part in re.findall(r'(?:"[^"]*"|[^",])*(?:, ?|$)', text.lstrip()):
        if len(line + part.rstrip()) > WIDTH and line.strip():
            lines.append(line.rstrip())
            line = " " * (indent + 8)
        line += part
    return "\n".join([*lines, line.rstrip()])


def definition(result, name, parameters, *statements):
    """Return the definition of a function, with its parameters as they are declared."""
    head = wrapped(f"{result} {name}({', '.join(parameters) or 'void'}) {{")
    return "\n".join([head, *(wrapped(s, 4) for s in statements), "}\n"])
