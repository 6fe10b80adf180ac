# SPDX-License-Identifier: BSD-3-Clause
"""The generated files: their names in the repository, and their texts."""

import re

from . import (
    c_headers,
    fortran_bodies,
    fortran_c_functions,
    fortran_collective_calls,
    fortran_module,
    fortran_procedures,
)

HEADERS = "include/datamover"
FORTRAN = "src/fortran"
DIRECTORIES = ("src/fortran/generated",)


def generated(root):
    """Return the text of every generated file, by its name."""
    directory = root / HEADERS
    header = c_headers.read(
        directory / "datamover.h",
        directory / "distribute.h",
        root / FORTRAN / "fortran_calls.hpp",
    )
    return fortran(root, header)


def fortran(root, header):
    """Return the files of the Fortran module."""
    directory = root / FORTRAN
    types = fortran_procedures.read(directory / "datamover.toml")
    template = (directory / "datamover.f90.in").read_text()
    bodies = fortran_bodies.submodule(types, header)
    written = [path.read_text() for path in sorted(directory.glob("*.f90"))]
    called = set(re.findall(r"\bdatamover_\w+", "\n".join([bodies, *written])))
    return {
        f"{FORTRAN}/generated/datamover.f90": fortran_module.module(template, types, header),
        f"{FORTRAN}/generated/procedures.f90": bodies,
        f"{FORTRAN}/generated/c_functions.f90": fortran_c_functions.module(header, called),
        f"{FORTRAN}/generated/collective_calls.cpp": fortran_collective_calls.source(
            header, called
        ),
    }


def out_of_date(root, files):
    """Return the names of files that differ from `files`, or that nothing generates anymore."""
    found = {
        path.relative_to(root).as_posix(): path.read_text()
        for name in DIRECTORIES
        for path in (root / name).rglob("*")
        if path.is_file()
    }
    return sorted(
        name for name in files.keys() | found.keys() if files.get(name) != found.get(name)
    )
