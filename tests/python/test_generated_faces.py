# SPDX-License-Identifier: BSD-3-Clause
"""Files that scripts/generate-faces makes: they are current, and a change is noticed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ROOT / "include/datamover"
READ = ["bindings/generated", "cmake/generated", "docs/reference", "include/datamover"]
READ += ["scripts", "src/capi", "src/fortran", "src/scalapack"]

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="the generator needs Python 3.11 for tomllib"
)


def checked(root):
    """Return the status of `generate-faces --check` in a tree, and the files that it names."""
    done = subprocess.run(
        [sys.executable, root / "scripts/generate-faces", "--check"], capture_output=True, text=True
    )
    assert not done.stderr
    return done.returncode, [line.split()[0] for line in done.stdout.splitlines() if line]


@pytest.fixture
def tree(tmp_path):
    """A copy of what the generator reads and writes."""
    for name in READ:
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def replaced(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_generated_files_are_current():
    assert checked(ROOT) == (0, [])


def test_a_renamed_function_is_noticed(tree):
    replaced(tree / "include/datamover/datamover.h", "datamover_mover_run(", "datamover_mover_go(")
    for table in ("src/fortran/datamover.toml", "src/capi/calls.toml"):
        replaced(tree / table, "datamover_mover_run", "datamover_mover_go")
    assert checked(tree) == (
        1,
        [
            "cmake/generated/datamover.symbols",
            "docs/reference/generated/c_functions.md",
            "src/capi/generated/movers.cpp",
            "src/fortran/generated/c_functions.f90",
            "src/fortran/generated/procedures.f90",
        ],
    )
    subprocess.run([sys.executable, tree / "scripts/generate-faces"], check=True)
    assert checked(tree) == (0, [])
    written = (tree / "src/fortran/generated/procedures.f90").read_text()
    assert "datamover_mover_go(self%handle)" in written


def test_a_file_that_nothing_generates_is_noticed(tree):
    stray = tree / "src/fortran/generated/stray.f90"
    stray.write_text("! left over\n")
    assert checked(tree) == (1, ["src/fortran/generated/stray.f90"])
    subprocess.run([sys.executable, tree / "scripts/generate-faces"], check=True)
    assert not stray.exists()


@pytest.fixture
def faces(monkeypatch):
    """The generator's modules."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    from faces import c_calls, c_headers, cpp_headers, fortran_procedures

    return c_headers, fortran_procedures, c_calls, cpp_headers


@pytest.mark.parametrize(
    "name",
    [
        *("datamover.h", "distribute.h", "version.h"),
        *("datamover_scalapack.h", "generated/scalapack_names.h"),
    ],
)
def test_every_declaration_is_read(faces, name):
    code = re.sub(r"/\*.*?\*/", "", (HEADERS / name).read_text(), flags=re.DOTALL)
    header = faces[0].read(HEADERS / name)
    called = set(re.findall(r"\b(\w+)\((?=[^()]*\);)", code))
    assert set(header.functions) == called and called
    assert set(header.structures) == set(re.findall(r"struct (\w+) \{", code))


def test_every_value_of_cpp_is_one_of_c(faces):
    text = (HEADERS / "generated/enumerations.h").read_text()
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    header = faces[0].read(HEADERS / "generated/enumerations.h")
    listed = [name for values in header.enumerations.values() for name in values]
    assert listed == re.findall(r"^    (DATAMOVER_\w+) = \d+", code, re.MULTILINE)
    for name, prefix, values in (
        ("error.hpp", "", header.enumerations["datamover_code"]),
        ("element_update.hpp", "", header.enumerations["datamover_type"]),
        ("files.hpp", "FILE_", header.enumerations["datamover_file_format"]),
    ):
        declared = re.search(
            r"enum class [^{]*\{(.*?)\};", (HEADERS / name).read_text(), re.DOTALL
        )[1]
        words = re.findall(r"^    (\w+)", declared, re.MULTILINE)
        expected = [f"DATAMOVER_{prefix}{word.upper()}" for word in words]
        assert [value for value in values if value != "DATAMOVER_SUCCESS"] == expected


def test_members_of_structures_have_the_types_of_cpp(faces):
    text = (HEADERS / "generated/structures.h").read_text()
    structures = faces[0].read(HEADERS / "generated/structures.h").structures
    assert set(structures) == set(re.findall(r"struct (\w+) \{", text))
    assert [p.text for p in structures["datamover_file_options"]] == [
        "datamover_file_format format",
        "const int64_t* ranks",
        "int64_t num_ranks",
        "int64_t max_bytes",
        "int overwrite",
    ]
    pair = {p.name: p.text for p in structures["datamover_mover_pair"]}
    assert (pair["sends"], pair["why"]) == ("int sends", "char why[80]")
    source = {p.name: p.text for p in structures["datamover_source_options"]}
    assert source["token"] == "const char* token"
    assert source["timeout_seconds"] == "double timeout_seconds"
    assert source["no_shared_memory"] == "int no_shared_memory"
    mover = {p.name: p.text for p in structures["datamover_mover_options"]}
    assert (mover["op"], mover["alpha"]) == ("const char* op", "const double* alpha")


def test_every_member_of_a_structure_is_in_its_dict(faces):
    members = faces[3].members(HEADERS / "explain.hpp", "TrafficSummary")
    assert members["p2p_elems"] == members["smallest_elems"] == "std::int64_t"
    assert members["nodes_known"] == "bool"
    assert members["received_messages"] == "std::vector<std::int64_t>"
    assert len(members) == 13


@pytest.mark.parametrize("name", ["datamover.h", "distribute.h", "version.h"])
def test_every_function_has_a_comment(faces, name):
    functions = faces[0].read(HEADERS / name).functions.values()
    assert [f.name for f in functions if not f.comment or "---" in f.comment] == []


@pytest.mark.parametrize("text", ["grid extents", "grid: nothing", "grid: extents out ?"])
def test_wrong_descriptions_are_refused(faces, text):
    with pytest.raises(ValueError, match="grid"):
        faces[1].argument(text)


def test_unknown_keys_are_refused(faces):
    with pytest.raises(ValueError, match="plan_halo has unknown keys: call"):
        faces[1].procedure("plan", "halo", {"doc": "", "call": "datamover_halo"})


DECLARED = """
typedef struct datamover_stream datamover_stream;
typedef struct datamover_layout datamover_layout;
int read(const datamover_layout* layout, int64_t block, int64_t* rank);
int make(datamover_layout** made, const datamover_layout* layout, const char* name);
int share(datamover_layout** made, MPI_Comm comm, const datamover_layout* layout, int n);
int send(datamover_stream* stream, const datamover_layout* layout, int n);
int peers(const datamover_layout* layout, int64_t ranks[], int64_t capacity, int64_t* count);
int bounds(const datamover_layout* layout, int64_t lo[], int64_t hi[]);
"""
WRITTEN = {
    "read": (
        "rank = layout.owner(block, layouts)",
        [
            'given(rank, "rank");',
            '*rank = value_of(layout, "layout").owner(block, layouts);',
        ],
    ),
    "make": (
        'made = layout.with("layout", name)',
        [
            'given(made, "made");',
            'hand_out(made, "made", value_of(layout, "layout").with("layout", name));',
        ],
    ),
    "share": (
        "made = shared(comm, layout, {n, n})",
        [
            "auto arguments = collectively(comm, [&] {",
            '    given(made, "made");',
            '    return held(value_of(layout, "layout"), {n, n});',
            "});",
            'hand_out(made, "made", std::apply([&](auto&&... of) { return shared(comm, of...); }, '
            "arguments));",
        ],
    ),
    "send": (
        "collective stream.send(layout, n)",
        [
            'auto arguments = converted(value_of(stream, "stream"), [&] {',
            '    return held(value_of(layout, "layout"), n);',
            "});",
            'std::apply([&](auto&&... of) { return value_of(stream, "stream").send(of...); }, '
            "arguments);",
        ],
    ),
    "peers": (
        "ranks = layout.peers()",
        ['write_list(value_of(layout, "layout").peers(), ranks, "ranks", capacity, count);'],
    ),
    "bounds": (
        "lo, hi = layout.domain()",
        ['write_region(value_of(layout, "layout").domain(), lo, "lo", hi, "hi");'],
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_expressions_become_statements(faces, tmp_path, name):
    (tmp_path / "declared.h").write_text(DECLARED)
    header = faces[0].read(tmp_path / "declared.h")
    expression, statements = WRITTEN[name]
    first, *inner, last = faces[2].body(header.functions[name], expression, header)
    assert (first, last) == ("return guarded([&] {", "});")
    assert [line.removeprefix("    ") for line in inner] == statements


@pytest.mark.parametrize(
    ("name", "expression", "message"),
    [
        ("read", "ranks = layout.owner(block)", "read has no parameter ranks"),
        ("share", "made = shared(layout, comm)", "first argument of the call must be comm"),
    ],
)
def test_wrong_expressions_are_refused(faces, tmp_path, name, expression, message):
    (tmp_path / "declared.h").write_text(DECLARED)
    header = faces[0].read(tmp_path / "declared.h")
    with pytest.raises(ValueError, match=message):
        faces[2].body(header.functions[name], expression, header)


def without_comments(path):
    return re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.DOTALL)


def as_gfortran_prints(declared, structures):
    """Return a parameter or member of C in the words of gfortran's -fc-prototypes."""
    *kind, name = re.findall(r"\w+", re.sub(r"\[\w*\]", "", declared))
    base = kind[-1]
    pointers = declared.count("*") + declared.count("[")
    if base == "int64_t":
        base = "long"
    elif (base.startswith("datamover_") and not pointers) or base == "MPI_Comm":
        base = "int"
    if pointers == 0:
        return f"{base} {name}"
    if pointers > 1 or base == "void" or (base.startswith("datamover_") and base not in structures):
        return f"{'const ' if '* const*' in declared else ''}void *{name}"
    return f"{'const ' if kind[0] == 'const' else ''}{base} *{name}"


@pytest.mark.skipif(not shutil.which("gfortran"), reason="there is no gfortran")
def test_gfortran_prints_the_prototypes_of_the_headers(tmp_path):
    """With the exception of functions that take arrays of any type, which it cannot print."""
    module = (ROOT / "src/fortran/generated/c_functions.f90").read_text()
    functions = r"        function ((?!end function).)*?type\(\*\).*?end function\n"
    (tmp_path / "c_functions.f90").write_text(re.sub(functions, "", module, flags=re.DOTALL))
    printed = subprocess.check_output(
        ["gfortran", "-fc-prototypes", "-fsyntax-only", "c_functions.f90"], cwd=tmp_path, text=True
    )
    names = ("generated/structures.h", "datamover.h", "distribute.h")
    code = " ".join("\n".join(without_comments(HEADERS / name) for name in names).split())
    structures = dict(re.findall(r"typedef struct (\w+) \{ ([^}]*)\}", code))
    compared = 0
    for name, members in re.findall(r"typedef struct (\w+) \{([^}]*)\}", printed):
        of_c = [m for m in structures[name].split(";") if m.strip()]
        # A member that points to anything is an address in Fortran.
        addresses = (m.replace("const", "").replace("*", "**") for m in of_c)
        expected = [as_gfortran_prints(m, structures) for m in addresses]
        assert [m.strip() for m in members.split(";") if m.strip()] == expected, name
        compared += 1
    for name, parameters in re.findall(r"int (datamover_\w+) \((.*?)\);", printed):
        name = name.replace("datamover_fortran_", "datamover_")
        of_c = re.search(rf"int {name}\(([^;]*)\);", code)
        if name in ("datamover_array", "datamover_detach"):  # not in the public headers
            continue
        expected = [as_gfortran_prints(p, structures) for p in of_c[1].split(",")]
        assert [p for p in parameters.split(", ") if p != "int so_far"] == expected, name
        compared += 1
    assert compared > 60
