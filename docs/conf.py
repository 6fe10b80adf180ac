# SPDX-License-Identifier: BSD-3-Clause
"""Sphinx configuration of the documentation site. `make docs` runs Sphinx after Doxygen."""

import re
from pathlib import Path

import datamover

ROOT = Path(__file__).resolve().parent.parent

project = "datamover"
version = release = datamover.__version__
copyright = "the datamover developers, BSD 3-clause"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "breathe",
]
# Included in other pages.
exclude_patterns = ["_templates", "reference/generated", "reference/help"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

# The Python interface: all that `datamover.__all__` names, one page each.
autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

# The C and C++ interfaces, from Doxygen's XML.
breathe_projects = {face: str(ROOT / "build/docs/doxygen" / face / "xml") for face in ("c", "cpp")}
breathe_default_project = "cpp"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}
# `#define DATAMOVER_API` and its like stand before declarations.
c_id_attributes = cpp_id_attributes = ["DATAMOVER_API"]

# "…" in a listing leaves out what the page does not need; In C a struct and its typedef have
# one name, in C++ each header opens the namespace.
suppress_warnings = [
    "misc.highlighting_failure",
    "duplicate_declaration.c",
    "duplicate_declaration.cpp",
]

html_theme = "furo"
html_title = f"datamover {release}"
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True


def _check_that_all_is_listed() -> None:
    """No public name of Python and no installed header is missing in the reference."""
    python, c, cpp = (ROOT / f"docs/reference/{face}.md" for face in ("python", "c", "cpp"))
    listed = python.read_text()
    names = set(re.findall(r"^   (\w+)$", listed, re.M)) | {"__version__"}
    # Modules, with pages of their own or names listed one by one.
    names |= {"advanced", "errors", "fft", "files", "stream", "targets"} & set(datamover.__all__)
    expert = set(re.findall(r"^   advanced\.(\w+)$", listed, re.M))
    shown = re.findall(r"doxygenfile:: (\S+)", c.read_text() + cpp.read_text())
    installed = {file.name for file in (ROOT / "include/datamover").rglob("*.h*")}
    installed -= {"datamover.hpp", "export.h"}  # of these, nothing is for users to call
    missing = names ^ set(datamover.__all__) | expert ^ set(datamover.advanced.__all__)
    missing |= set(shown) ^ installed
    if missing:
        raise ValueError(f"docs/reference differs from the faces in {sorted(missing)}")


def _describe_layout(app, what, name, obj, options, lines) -> None:
    """Describe the union type `Layout`, which cannot have a docstring of its own."""
    if name == "datamover.Layout":
        lines[:] = ["Any layout: the union of the four classes, for annotations and isinstance."]


def setup(app) -> None:
    """Register the hook of autodoc."""
    app.connect("autodoc-process-docstring", _describe_layout, priority=1000)


_check_that_all_is_listed()
