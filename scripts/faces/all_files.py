# SPDX-License-Identifier: BSD-3-Clause
"""The generated files: their names in the repository, and their texts."""

import re
import tomllib

from . import (
    c_calls,
    c_enumerations,
    c_headers,
    c_reference,
    c_structures,
    fortran_bodies,
    fortran_c_functions,
    fortran_collective_calls,
    fortran_module,
    fortran_procedures,
    python_dicts,
    scalapack_names,
    symbols,
)

HEADERS = "include/datamover"
FORTRAN = "src/fortran"
GENERATED = "generated"  # name of the directories


def generated(root):
    """Return the text of every generated file, by its name."""
    directory = root / HEADERS
    version = c_headers.read(directory / "version.h")
    calls = tomllib.loads((root / "src/capi/calls.toml").read_text())
    made = {
        f"{HEADERS}/{GENERATED}/enumerations.h": c_enumerations.header(directory),
        f"{HEADERS}/{GENERATED}/structures.h": c_structures.header(calls["structures"], directory),
    }
    c_face = c_headers.read(directory / "datamover.h", directory / "distribute.h")
    for text in made.values():
        c_headers.declared(c_face, text)
    declared = c_headers.read(directory / "datamover_scalapack.h")
    scalapack = scalapack_names.complete(declared)
    lists = symbols.lists(version.functions, c_face.functions, scalapack.functions)
    types = fortran_procedures.read(root / FORTRAN / "datamover.toml")
    return {
        **made,
        **fortran(root, types, made.values()),
        **python_dicts.files(directory),
        f"docs/reference/{GENERATED}/c_functions.md": c_reference.table(c_face, types),
        **c_calls.files(calls, c_face, c_enumerations.proofs(directory)),
        **scalapack_names.files(scalapack),
        f"{HEADERS}/{GENERATED}/scalapack_names.h": scalapack_names.declarations(
            declared, scalapack
        ),
        **{f"cmake/{GENERATED}/{name}.symbols": text for name, text in lists.items()},
    }


def fortran(root, types, more):
    """Return the files of the Fortran module; `more` are texts of headers that are generated."""
    directory = root / FORTRAN
    names = (f"{HEADERS}/datamover.h", f"{HEADERS}/distribute.h", f"{FORTRAN}/fortran_calls.hpp")
    header = c_headers.read(*(root / name for name in names))
    for text in more:
        c_headers.declared(header, text)
    template = (directory / "datamover.f90.in").read_text()
    bodies = fortran_bodies.submodule(types, header)
    written = [path.read_text() for path in sorted(directory.glob("*.f90"))]
    called = set(re.findall(r"\bdatamover_\w+", "\n".join([bodies, *written])))
    return {
        f"{FORTRAN}/{GENERATED}/datamover.f90": fortran_module.module(template, types, header),
        f"{FORTRAN}/{GENERATED}/procedures.f90": bodies,
        f"{FORTRAN}/{GENERATED}/c_functions.f90": fortran_c_functions.module(header, called),
        f"{FORTRAN}/{GENERATED}/collective_calls.cpp": fortran_collective_calls.source(
            header, called
        ),
    }


def out_of_date(root, files):
    """Return the names of files that differ from `files`, or that nothing generates anymore."""
    found = {
        path.relative_to(root).as_posix(): path.read_text()
        for name in {path.rpartition("/")[0] for path in files}
        for path in (root / name).rglob("*")
        if path.is_file()
    }
    return sorted(
        name for name in files.keys() | found.keys() if files.get(name) != found.get(name)
    )
