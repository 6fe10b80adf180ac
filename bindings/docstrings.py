#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the docstrings of Python functions that C++ comments of bindings hold.

Usage: docstrings.py OUTPUT SOURCE...

A comment `/** Python Class.member`, with the docstring in its further lines, becomes an entry of
the header OUTPUT, which `doc("Class.member")` of docstrings.hpp finds when it is compiled.
"""

import re
import sys
from pathlib import Path

COMMENT = re.compile(r"^/\*\* Python ([\w.]+)\n(.*?)^\*/$", re.DOTALL | re.MULTILINE)

output, *sources = map(Path, sys.argv[1:])
found = [entry for source in sorted(sources) for entry in COMMENT.findall(source.read_text())]
if len(dict(found)) < len(found):
    sys.exit("error: two comments of bindings have one name")
entries = "".join(f'    {{"{name}", R"doc({text})doc"}},\n' for name, text in found)
output.write_text(f"inline constexpr Docstring docstrings[] = {{\n{entries}}};\n")
