# SPDX-License-Identifier: BSD-3-Clause
"""Shared libraries: they export the names that the headers declare, and nothing else.

Programs that are linked with them run: a C program, and one that uses ScaLAPACK alone.
"""

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from datamover.launch import outer_environment

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("DATAMOVER_TEST_BUILD", "no build"))
HEADERS = ROOT / "include/datamover"
WORD = re.compile(r"[A-Za-z_]\w*")

pytestmark = pytest.mark.skipif(
    not (BUILD / "libdatamover.so").exists(), reason="the shared libraries were not built"
)


def names(path, *options):
    """The names in a library or object file: mangled to demangled."""
    table = subprocess.check_output(["nm", "-P", *options, path], text=True)
    mangled = [line.split()[0] for line in table.splitlines() if line]
    plain = subprocess.run(
        ["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return dict(zip(mangled, plain, strict=True))


def shown(library):
    """What a shared library shows to the programs that are linked with it."""
    return names(BUILD / library, "-D", "--defined-only")


def code_of(header):
    """A header without its comments."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read_text(), flags=re.DOTALL)


def declared_functions(header):
    """The functions that a C header declares."""
    return set(re.findall(r"^\w[^;{}()#]*?\b(\w+)\([^;{}]*\);", code_of(header), re.MULTILINE))


def c_names(library):
    return {name for name in shown(library) if not name.startswith("_Z")}


def test_c_names_are_those_of_the_headers():
    declared = declared_functions(HEADERS / "datamover.h")
    declared |= declared_functions(HEADERS / "distribute.h")
    declared |= declared_functions(HEADERS / "version.h")
    assert len(declared) > 80
    assert c_names("libdatamover.so") == declared
    assert c_names("libdatamover_plan.so") == declared_functions(HEADERS / "version.h")


def test_names_of_the_scalapack_libraries():
    declared = declared_functions(HEADERS / "datamover_scalapack.h")
    declared |= declared_functions(HEADERS / "generated/scalapack_names.h")
    for_c = {f"Cp{kind}{name}" for kind in "sdciz" for name in ("gemr2d", "trmr2d")}
    assert for_c < declared
    # The same names with 64-bit integers.
    assert set(shown("libdatamover_scalapack_ilp64.so")) == declared - for_c
    assert set(shown("libdatamover_scalapack.so")) == declared - for_c
    assert set(shown("libdatamover_scalapack_c.so")) == for_c


def test_every_public_header_marks_its_names():
    for header in HEADERS.rglob("*.hpp"):
        assert not re.search(r"^namespace datamover {", header.read_text(), re.MULTILINE), header


@pytest.mark.parametrize("library", ["libdatamover.so", "libdatamover_plan.so"])
def test_cpp_names_are_declared_in_the_headers(library):
    code = "\n".join(code_of(header) for header in HEADERS.rglob("*.hpp"))
    named = set(re.findall(r"\b(?:struct|class) (\w+);", code))
    defined = set(re.findall(r"\b(?:struct|class) (\w+)[^;{}()]*{", code))
    words = set(WORD.findall(code)) - (named - defined)  # nothing of what is only named
    undeclared = []
    for mangled, name in shown(library).items():
        if not mangled.startswith("_Z"):
            continue
        name = re.sub(r"^(typeinfo|typeinfo name|vtable) for ", "", name)
        # What is named, without the types of its arguments and its template's.
        path = name.split("(")[0].replace("[abi:cxx11]", "")
        path = re.sub(r"<.*>", "", path)
        if "operator" in path:
            path = path.split("operator")[0]
        parts = [part.strip("~") for part in path.split()[-1].split("::") if part]
        if parts[0] != "datamover" or not set(parts) <= words:
            undeclared.append(name)
    assert not undeclared
    assert len(shown(library)) > 100


def test_programs_of_the_public_headers_find_all_that_they_call():
    objects = list((BUILD / "apps").rglob("with_datamover.cpp.o"))
    objects += (BUILD / "tests").rglob("c*_driver.c*.o")
    objects += (BUILD / "tests").rglob("c_face*.c.o")
    assert len(objects) > 5
    there = set(shown("libdatamover.so"))
    for path in objects:
        called = names(path, "--undefined-only")
        ours = {m for m, name in called.items() if re.match(r"datamover(::|_)", name)}
        assert ours, path
        assert ours <= there, (path, ours - there)


@pytest.mark.parametrize(
    "name",
    [
        "datamover",
        "datamover_plan",
        "datamover_scalapack",
        "datamover_scalapack_c",
        "datamover_scalapack_ilp64",
    ],
)
def test_soname_tells_the_version_that_fits(name):
    dynamic = subprocess.check_output(["readelf", "-d", BUILD / f"lib{name}.so"], text=True)
    assert f"Library soname: [lib{name}.so.0.1]" in dynamic
    assert (BUILD / f"lib{name}.so").resolve().name == f"lib{name}.so.0.1.0"


def launched(processes, *command, cwd=None, **environment):
    """Run a program under mpiexec and return what it printed."""
    done = subprocess.run(
        [os.environ.get("MPIEXEC", "mpiexec"), "-n", str(processes), *map(str, command)],
        cwd=cwd,
        env=outer_environment() | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def mpi_compile_flags():
    """How the tests of C were compiled, for the MPI in use."""
    commands = (BUILD / "compile_commands.json").read_text()
    return sorted(set(re.findall(r"-(?:I|isystem )(\S*(?:mpi|include)\S*)", commands)))


def test_a_c_program_runs_with_the_shared_library(tmp_path):
    program = tmp_path / "c_client"
    includes = [flag for path in mpi_compile_flags() for flag in ("-I", path)]
    dynamic = subprocess.check_output(["ldd", BUILD / "libdatamover.so"], text=True)
    libmpi = re.search(r"libmpi\S* => (\S+)", dynamic)[1]
    libraries = [f"-L{BUILD}", f"-Wl,-rpath,{BUILD}", "-ldatamover", libmpi]
    libraries += [f"-Wl,-rpath,{Path(libmpi).parent}"]
    source = ROOT / "examples/c/c_client.c"
    command = ["cc", "-std=c99", source, *includes, "-I", ROOT / "include", "-o", program]
    subprocess.run([*command, *libraries], check=True)
    assert "libdatamover.so.0.1" in subprocess.check_output(["ldd", program], text=True)
    launched(4, program)


CALLS = BUILD / "tests/scalapack/calls"


@pytest.mark.skipif(not CALLS.exists(), reason="there is no ScaLAPACK for this MPI")
@pytest.mark.parametrize("processes", [1, 3])
def test_preloaded_drop_in_takes_the_calls(processes):
    preload = {"LD_PRELOAD": str(BUILD / "libdatamover_scalapack.so"), "DATAMOVER_REPORT": "1"}
    assert "datamover" not in launched(processes, CALLS, DATAMOVER_REPORT="1")
    told = launched(processes, "env", *(f"{k}={v}" for k, v in preload.items()), CALLS)
    assert "4 calls of p?gemr2d, p?trmr2d and p?tran, 2 planned" in told
    assert told.count("datamover: process 0") == 1 and "process 1" not in told
    both = preload["LD_PRELOAD"] + ":" + str(BUILD / "libdatamover_scalapack_c.so")
    report = {"LD_PRELOAD": both, "DATAMOVER_REPORT": "all"}
    told = launched(processes, "env", *(f"{k}={v}" for k, v in report.items()), CALLS)
    # Cpdgemr2d repeats what pdgemr2d did.
    assert "5 calls of p?gemr2d, p?trmr2d and p?tran, 2 planned" in told
    assert told.count("datamover: process") == processes


@pytest.mark.skipif(not CALLS.exists(), reason="there is no ScaLAPACK for this MPI")
@pytest.mark.parametrize(("movers", "planned"), [("0", 4), ("1", 2), ("all", 2)])
def test_the_environment_limits_what_the_drop_in_keeps(movers, planned):
    """Of three equal calls of pdgemr2d and one of pdtran; what is no number changes nothing."""
    environment = {
        "LD_PRELOAD": BUILD / "libdatamover_scalapack.so",
        "DATAMOVER_MATRIX_CACHE": movers,
        "DATAMOVER_REPORT": "1",
    }
    told = launched(2, "env", *(f"{k}={v}" for k, v in environment.items()), CALLS)
    assert f"4 calls of p?gemr2d, p?trmr2d and p?tran, {planned} planned" in told


# Programs of Debian's scalapack-mpi-test, which call p?gemr2d and p?trmr2d inside ScaLAPACK; where
# the package was unpacked without being installed, the variable names their directory.
SCALAPACK_TESTS = os.environ.get(
    "DATAMOVER_SCALAPACK_TESTS",
    f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}/scalapack/openmpi-tests",
)


@pytest.mark.skipif(not CALLS.exists(), reason="there is no ScaLAPACK for this MPI")
@pytest.mark.skipif(
    not Path(SCALAPACK_TESTS, "xdhseqr").exists(), reason="scalapack-mpi-test is not installed"
)
@pytest.mark.parametrize("program", ["xdhseqr", "xshseqr"])
def test_scalapacks_own_tests_pass_with_the_drop_in(program):
    preload = {"LD_PRELOAD": str(BUILD / "libdatamover_scalapack.so"), "DATAMOVER_REPORT": "1"}
    environment = [f"{k}={v}" for k, v in preload.items()]
    told = launched(4, "env", *environment, Path(SCALAPACK_TESTS, program))
    assert "PASSED" in told and "FAILED" not in told
    assert int(re.search(r"(\d+) calls of p\?gemr2d", told)[1]) > 0


@pytest.mark.skipif(not CALLS.exists(), reason="there is no ScaLAPACK for this MPI")
@pytest.mark.skipif(
    not Path(SCALAPACK_TESTS, "PBLAS/dpb3tst").exists(),
    reason="scalapack-mpi-test is not installed",
)
@pytest.mark.parametrize("kind", ["d", "z"])
def test_tests_of_pblas_pass_with_the_drop_in(tmp_path, kind):
    """They call none of its functions: that it is there changes nothing else. One case is run."""
    name = f"P{kind.upper()}BLAS3TST.dat"
    given = Path(SCALAPACK_TESTS, "PBLAS", name).read_text()
    one = re.sub(r"^\d+(\s+number of (process grids|tests problems))", r"1\1", given, flags=re.M)
    assert one != given
    (tmp_path / name).write_text(one)
    preload = f"LD_PRELOAD={(BUILD / 'libdatamover_scalapack.so').resolve()}"
    program = Path(SCALAPACK_TESTS, f"PBLAS/{kind}pb3tst")
    told = launched(4, "env", preload, program, cwd=tmp_path)
    rows = re.findall(r"^  \|\s+P\w+((?:\s+\d+){4})$", told, re.MULTILINE)
    assert len(rows) >= 8
    for row in rows:
        total, passed, failed, skipped = map(int, row.split())
        assert total > 0 and passed == total and failed == skipped == 0
