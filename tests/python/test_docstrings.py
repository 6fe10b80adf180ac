# SPDX-License-Identifier: BSD-3-Clause
"""Docstrings of the compiled modules: the examples run.

pytest's own doctest plugin collects the examples of the modules written in Python.
"""

import doctest
import importlib

import pytest

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MODULES = ["datamover._plan", "datamover._mover"]


def documented(module):
    """(name, docstring) of a module's public functions and classes, and of their public members."""
    for name, value in vars(module).items():
        # Classes say the module that users import them from.
        home = getattr(value, "__module__", None) or ""
        if name.startswith("_") or not home.startswith("datamover."):
            continue
        yield name, value.__doc__
        if isinstance(value, type):
            for member, inner in vars(value).items():
                if not member.startswith("_") and (callable(inner) or isinstance(inner, property)):
                    yield f"{name}.{member}", inner.__doc__


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=FLAGS)
    for where, text in documented(module):
        test = parser.get_doctest(text or "", {}, f"{name}.{where}", None, None)
        runner.run(test)
    assert runner.failures == 0
