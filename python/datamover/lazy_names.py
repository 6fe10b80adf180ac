# SPDX-License-Identifier: BSD-3-Clause
"""Names of a module that are loaded at their first use."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attributes(namespace: dict[str, Any], homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module: names, and the submodule of the package for each.

    A name that is its own submodule stands for the module. Names that are not listed are looked up
    among the deprecated ones.

    Examples
    --------
    >>> attributes({"__name__": "datamover"}, {"Mover": "movers"})("Mover").__name__
    'Mover'
    """

    def found(name: str) -> Any:
        if name not in homes:
            if name.startswith("__"):  # which imports look for
                raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
            from .deprecated import attribute

            return attribute(namespace["__name__"], name)
        home = homes[name]
        module = import_module(f"datamover.{home}")
        value = namespace[name] = module if home == name else getattr(module, name)
        return value

    return found
