# SPDX-License-Identifier: BSD-3-Clause
"""Lines of communication code in each application.

Counts lines that a program on one process would not have: layouts, plans, movers, buffers, packing,
set-up and calls. These lines are between the comments `communication: begin` and `communication:
end`, or end with the comment `communication`. Comments, blank lines and lines with only brackets do
not count; the rule is the same for all versions.
"""

from __future__ import annotations

import re
from pathlib import Path

#: The sources of the applications in C++, a folder each, and those in Python.
SOURCES = Path(__file__).parent / "sources"
PROGRAMS = Path(__file__).parent / "bin"
#: The files of each version, in every application. It exists if the first of them does.
VERSIONS = {
    "datamover": ["with_datamover.cpp", "array_field.hpp"],
    "by_hand": ["by_hand.cpp", "twin.hpp"],
    "datatypes": ["by_datatypes.cpp", "twin.hpp"],
    "original": ["as_original.cpp", "twin.hpp"],
}
#: Directories of the applications that exchange numbered values. Their hand-written files define
#: the messages, and those in `exchange` the packing.
MESSAGES = {"nas_lu": "nas_lu", "nas_bt": "multipartition", "nas_sp": "multipartition"}
PACKED = {
    "by_hand": "packed_exchange.hpp",
    "datatypes": "typed_exchange.hpp",
    "original": "original_exchange.hpp",
}
SHARED = {"exchange", "multipartition"}
MARK = re.compile(r"(?://|#) communication(?P<what>: begin|: end|)$")


def communication_lines(text: str) -> int:
    '''Return how many of a source's lines are marked and count.

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
    if name in MESSAGES:
        own, exchange = SOURCES / MESSAGES[name], SOURCES / "exchange"
        files = {"datamover": [own / "with_datamover.cpp"]}
        for version, packing in PACKED.items():
            files[version] = [own / "by_hand.cpp", exchange / "message.hpp", exchange / packing]
    else:
        files = {v: [SOURCES / name / file for file in VERSIONS[v]] for v in VERSIONS}
    files["python"] = [PROGRAMS / f"{name}.py"]
    return {
        version: sum(communication_lines(path.read_text()) for path in paths if path.exists())
        for version, paths in files.items()
        if paths[0].exists()
    }


if __name__ == "__main__":
    for name in sorted({path.name for path in SOURCES.iterdir()} - SHARED):
        counts = lines_of(name)
        print(name, *(f"{version} {count}" for version, count in counts.items()), sep="  ")
