# SPDX-License-Identifier: BSD-3-Clause
"""Imports among the modules of datamover.files have no cycles, even within functions."""

import ast
import graphlib
from pathlib import Path

import datamover.files

PACKAGE = "datamover.files"
MODULES = {p.stem: p for p in Path(datamover.files.__file__).parent.glob("*.py")}


def imported(path):
    """Give the modules of the package that a module imports, except for type checkers."""
    found, left = set(), [ast.parse(path.read_text())]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            found |= {alias.name for alias in node.names} & MODULES.keys()
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE + "."):
            found.add(node.module.removeprefix(PACKAGE + "."))
        left += ast.iter_child_nodes(node)
    return found


def test_no_module_of_files_imports_itself_through_others():
    graph = {name: imported(path) for name, path in MODULES.items() if name != "__init__"}
    assert sum(map(len, graph.values())) > 100
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert order.index("formats") < order.index("format_choice")
