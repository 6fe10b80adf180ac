# SPDX-License-Identifier: BSD-3-Clause
"""One-line messages for calls whose arguments fit no function of the extension modules."""

from __future__ import annotations

import re

#: nanobind's message: a name, the numbered signatures, and the types of the arguments.
SAID = re.compile(
    r"(?P<name>\w+)\(\): incompatible function arguments\. [^\n]*\n"
    r"(?P<signatures>.*?)\n\nInvoked with types: ?(?P<given>.*)",
    re.DOTALL,
)
OVERLOAD = re.compile(r"^ +\d+\. \w+", re.MULTILINE)
FOREIGN = re.compile(r"\b(?:collections\.abc|numpy\.typing|datamover(?:\.\w+)*)\.(?=[A-Z])")


def in_a_line(text: str) -> str | None:
    r"""Return one line for nanobind's message; None for other messages.

    Examples
    --------
    >>> from datamover.call_errors import in_a_line
    >>> in_a_line(
    ...     "f(): incompatible function arguments. The following argument types are supported:\n"
    ...     "    1. f(x: int) -> int\n\nInvoked with types: str, int"
    ... )
    'f was called with (str, int); it is f(x: int) -> int'
    """
    found = SAID.fullmatch(text)
    if found is None:
        return None
    name, given = found["name"], FOREIGN.sub("", found["given"].strip())
    signatures = FOREIGN.sub("", found["signatures"])
    if "(self" in signatures:
        of_class, _, given = given.partition(", ")
        name = of_class if name == "__init__" else f"{of_class}.{name}"
    lines = OVERLOAD.sub(name, signatures).splitlines()
    ways = [re.sub(r"\(self(, )?", "(", line).replace(" -> None", "") for line in lines]
    given = re.sub(r"kwargs = \{ (.*) \}", r"\1", given)
    wrong = _wrong_names(given, ways[0]) if len(ways) == 1 else ""
    return f"{name}{wrong or f' was called with ({given})'}; it is {' or '.join(ways)}"


def _wrong_names(given: str, way: str) -> str:
    """Return which required arguments are missing or None, or which names are unknown.

    "" for none of these.

    Examples
    --------
    >>> _wrong_names("str, b: int", "f(a: dict[str, int], *, b: int, c: int, d: int = 0) -> int")
    ": missing required argument 'c'"
    """
    parameters = _listed(way[way.index("(") + 1 : way.rindex(")")])
    names = [re.split(r"[:=]", parameter)[0].strip() for parameter in parameters]
    arguments = [re.match(r"(\w+): ", argument) for argument in _listed(given)]
    by_name = [found[1] for found in arguments if found]
    if any(name.startswith("*") and name != "*" for name in names):
        return ""
    unknown = [name for name in by_name if name not in names]
    if unknown:
        return f": unknown argument {unknown[0]!r}"
    by_place = names[: names.index("*") if "*" in names else None][: arguments.count(None)]
    missing = [
        name
        for name, parameter in zip(names, parameters, strict=True)
        if name not in ("*", "/", *by_place, *by_name) and "=" not in parameter
    ]
    if missing:
        return f": missing required argument {', '.join(map(repr, missing))}"
    types = [argument.rpartition(": ")[2] for argument in _listed(given)]
    for name, of in zip([*by_place, *by_name], types, strict=False):
        if of == "NoneType" and "None" not in parameters[names.index(name)]:
            return f": {name} is None"
    return ""


def _listed(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]
