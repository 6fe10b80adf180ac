# SPDX-License-Identifier: BSD-3-Clause
"""What is said, in one line, of a call whose arguments fit no function of the extension modules?"""

from __future__ import annotations

import re

#: As nanobind says it: a name, the signatures by number, and the types that were given.
SAID = re.compile(
    r"(?P<name>\w+)\(\): incompatible function arguments\. [^\n]*\n"
    r"(?P<signatures>.*?)\n\nInvoked with types: ?(?P<given>.*)",
    re.DOTALL,
)
OVERLOAD = re.compile(r"^ +\d+\. \w+", re.MULTILINE)
FOREIGN = re.compile(r"\b(?:collections\.abc|numpy\.typing|datamover(?:\.\w+)*)\.(?=[A-Z])")


def in_a_line(text: str) -> str | None:
    r"""Return the line for nanobind's words; None for other words.

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
    ways = " or ".join(re.sub(r"\(self(, )?", "(", line).replace(" -> None", "") for line in lines)
    given = re.sub(r"kwargs = \{ (.*) \}", r"\1", given)
    return f"{name} was called with ({given}); it is {ways}"
