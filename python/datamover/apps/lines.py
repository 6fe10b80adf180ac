# SPDX-License-Identifier: BSD-3-Clause
"""How many lines of each application are there for communication alone?

Counted is what a program on one process would not have: layouts, plans, movers, buffers, packing,
set-up and calls. These lines stand between `communication: begin` and `communication: end`, or end
in `communication`, as comments. Comments, blank lines and lines with nothing but brackets do not
count; the rule is the same for all versions.
"""

from __future__ import annotations

import re
from pathlib import Path

#: The sources of the applications in C++, a folder each, and those in Python.
SOURCES = Path(__file__).parent / "sources"
PROGRAMS = Path(__file__).parent / "bin"
#: The files of each version, in every application.
VERSIONS = {
    "datamover": ["with_datamover.cpp", "array_field.hpp"],
    "by_hand": ["by_hand.cpp"],
}
MARK = re.compile(r"(?://|#) communication(?P<what>: begin|: end|)$")


def communication_lines(text: str) -> int:
    '''Return how many of a source's lines are marked and say something.

    Raises
    ------
    ValueError
        A region begins or ends twice.

    Examples
    --------
    >>> from datamover.apps.lines import communication_lines
    >>> communication_lines("""
    ... # communication: begin
    ... plan = make_plan()  # once
    ... # communication: end
    ... compute()
    ... move(plan)  # communication
    ... """)
    2
    '''
    count, within = 0, False
    for line in map(str.strip, text.splitlines()):
        mark = MARK.search(line)
        if mark and mark["what"]:
            if within == (mark["what"] == ": begin"):
                raise ValueError(f"{line!r} does not follow its counterpart")
            within = not within
        elif (within or mark) and re.search(r"\w", re.sub(r"(?://|#(?!include)).*", "", line)):
            count += 1
    if within:
        raise ValueError("the last region does not end")
    return count


def lines_of(name: str) -> dict[str, int]:
    """Return the number of lines per version of an application.

    Examples
    --------
    >>> from datamover.apps.lines import lines_of
    >>> lines = lines_of("redblack3d")
    >>> lines["datamover"] < lines["by_hand"]
    True
    """
    files = {version: [SOURCES / name / file for file in VERSIONS[version]] for version in VERSIONS}
    files["python"] = [PROGRAMS / f"{name}.py"]
    there = {version: [p for p in paths if p.exists()] for version, paths in files.items()}
    return {
        version: sum(communication_lines(path.read_text()) for path in paths)
        for version, paths in there.items()
        if paths
    }


if __name__ == "__main__":
    for name in sorted(path.name for path in SOURCES.iterdir()):
        counts = lines_of(name)
        print(name, *(f"{version} {count}" for version, count in counts.items()), sep="  ")
