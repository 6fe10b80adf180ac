# SPDX-License-Identifier: BSD-3-Clause
"""Blocks as std::mdspan, if a standard library has it.

GCC 15 and LLVM 18 or later have it: Debian 12 has clang-19 with libc++-19-dev.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

import datamover as dm

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [ROOT / "src/geometry" / name for name in ("error.cpp", "point.cpp", "region.cpp")]
COMPILER = re.compile(r"(clang|g)\+\+(-\d+)?")


def compilers():
    """The C++ compilers in the path, each with the standard library that it would use."""
    found = {}
    for directory in os.environ["PATH"].split(os.pathsep):
        if Path(directory).is_dir():
            found |= {f.name: f for f in Path(directory).iterdir() if COMPILER.fullmatch(f.name)}
    for name, program in sorted(found.items()):
        if name.startswith("clang"):
            yield [str(program), "-std=c++23", "-stdlib=libc++"]
        yield [str(program), "-std=c++23"]


def has_mdspan(command):
    done = subprocess.run(
        [*command, "-E", "-dM", "-x", "c++", "-include", "version", "/dev/null"],
        capture_output=True,
        text=True,
    )
    return done.returncode == 0 and "__cpp_lib_mdspan" in done.stdout


def test_a_block_becomes_an_mdspan(tmp_path):
    command = next(filter(has_mdspan, compilers()), None)
    if command is None:
        pytest.skip("no compiler here has std::mdspan (Debian 12: clang-19 and libc++-19-dev)")
    program = tmp_path / "mdspan"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}"]
    flags.append(f'-DDATAMOVER_VERSION="{dm.__version__}"')
    source = Path(__file__).with_name("mdspan_of_a_block.cpp")
    built = subprocess.run(
        [*command, *flags, source, *SOURCES, "-o", program], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
