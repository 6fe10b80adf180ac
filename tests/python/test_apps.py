# SPDX-License-Identifier: BSD-3-Clause
"""Applications: the results are right, and `datamover app` reports errors.

The programs themselves verify the results: by a serial computation of the same grid, by the
published checksums and norms of NAS, and by products of whole numbers. A version with a section
left out of its plan has to fail this verification.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from datamover import cli, errors, launch
from datamover.apps import command, lines

ROOT = Path(__file__).resolve().parents[2]
#: Numbers of processes, and the size of pretend nodes (0: the real node).
RUNS = [(1, 0), (2, 0), (3, 0), (4, 0), (4, 2)]
VERSIONS = "datamover,overlap,thread,by_hand"
CONTENDERS = ["datamover", "datamover:overlap", "datamover:overlap:thread", "by_hand"]


def run(words, **environment):
    """Run a command as a shell does."""
    return subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=launch.outer_environment() | launch.open_mpi_environment() | environment,
    )


def run_program(name, processes, *arguments, node_size=0):
    """Run an application's program under mpiexec."""
    nodes = {"DATAMOVER_NODE_SIZE": str(node_size)} if node_size else {}
    launcher = [launch.find_mpiexec(), "-n", processes]
    return run([*launcher, command.program(name), *arguments], **nodes)


def run_app(*arguments, **environment):
    """Run `datamover app ARGUMENTS`."""
    return run([sys.executable, "-m", "datamover.cli", "app", *arguments], **environment)


def rows_of(path):
    return json.loads(path.read_text())["rows"]


@pytest.mark.parametrize(("processes", "node_size"), RUNS)
@pytest.mark.parametrize("size", [3, 17])
def test_every_version_of_redblack3d_gives_the_serial_field(tmp_path, processes, node_size, size):
    file = tmp_path / "rows.json"
    done = run_program("redblack3d", processes, VERSIONS, size, 5, 2, file, node_size=node_size)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = rows_of(file)
    assert [row["contender"] for row in rows] == CONTENDERS
    for row in rows:
        assert row["verified"] and row["processes"] == processes
        assert row["case"] == f"redblack3d-{size}"
        assert 0 < row["communication_seconds"] <= row["seconds"]
        assert len(row["samples"]) == 2 and row["seconds"] == min(row["samples"])


@pytest.mark.parametrize(
    ("problem_class", "processes", "node_size"), [*(("S", *run) for run in RUNS), ("W", 3, 0)]
)
def test_every_version_of_nas_ft_gives_the_checksums(tmp_path, processes, node_size, problem_class):
    file = tmp_path / "rows.json"
    done = run_program("nas_ft", processes, VERSIONS, problem_class, 1, file, node_size=node_size)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed: 6 of 6 checksums") == 4
    rows = rows_of(file)
    assert [row["contender"] for row in rows] == CONTENDERS
    assert all(row["verified"] and row["case"] == f"nas_ft-{problem_class}" for row in rows)


@pytest.mark.parametrize(
    ("problem_class", "processes", "node_size"),
    [*(("S", *run) for run in RUNS if run[0] != 3), ("S", 8, 0), ("W", 2, 0)],
)
def test_every_version_of_nas_mg_gives_the_norm(tmp_path, processes, node_size, problem_class):
    file = tmp_path / "rows.json"
    versions = VERSIONS + ",datatypes,original,nozero"
    done = run_program("nas_mg", processes, versions, problem_class, 1, file, node_size=node_size)
    assert done.returncode == 0, done.stdout + done.stderr
    # The tolerance is NAS's; it is the round-off alone that differs.
    errors = re.findall(r"passed: .* differs from that of NAS by (\S+) of it", done.stdout)
    assert len(errors) == 7 and all(float(error) < 1e-11 for error in errors)
    rows = rows_of(file)
    assert [row["contender"] for row in rows] == [
        *CONTENDERS,
        "datatypes",
        "original",
        "original:nozero",
    ]
    assert all(row["verified"] and row["case"] == f"nas_mg-{problem_class}" for row in rows)


@pytest.mark.parametrize(("processes", "node_size"), RUNS)
@pytest.mark.parametrize(
    ("size", "block", "right"),
    [
        ("37", 5, "1369 of 1369 elements are exactly right"),
        ("23x1x40", 3, "920 of 920 elements are exactly right"),
        ("1x30x2", 100, "2 of 2 elements are exactly right"),
        ("290x301x317", 32, "290 of 290 rows of C x are those of A (B x)"),
    ],
)
def test_every_version_of_summa_gives_the_product(
    tmp_path, processes, node_size, size, block, right
):
    file = tmp_path / "rows.json"
    versions = VERSIONS + ",ring"
    done = run_program("summa", processes, versions, size, block, 2, file, node_size=node_size)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"passed: {right}") == 5
    rows = rows_of(file)
    assert [row["contender"] for row in rows] == [*CONTENDERS, "by_hand:ring"]
    assert all(row["verified"] and row["case"] == f"summa-{size}" for row in rows)


@pytest.mark.parametrize(
    ("name", "problem_class", "processes", "node_size"),
    [
        *(("nas_lu", "S", *run) for run in RUNS if run[0] != 3),
        ("nas_lu", "W", 8, 0),
        *((name, "S", *run) for name in ("nas_bt", "nas_sp") for run in RUNS if run[0] in (1, 4)),
        ("nas_bt", "W", 9, 0),
        ("nas_sp", "S", 9, 3),
    ],
)
def test_every_version_of_the_patterns_moves_the_right_values(
    tmp_path, name, problem_class, processes, node_size
):
    file = tmp_path / "rows.json"
    versions = ["datamover", "by_hand", "datatypes", "original"]
    done = run_program(
        name, processes, ",".join(versions), problem_class, 3, 1, file, node_size=node_size
    )
    assert done.returncode == 0, done.stdout + done.stderr
    points = {"S": 12, "W": {"nas_lu": 33, "nas_bt": 24}.get(name)}[problem_class]
    values = 5 * points**3
    assert done.stdout.count(f"passed: {values} of {values} values are right") == 4
    rows = rows_of(file)
    assert [row["contender"] for row in rows] == versions
    assert all(row["verified"] and row["case"] == f"{name}-{problem_class}" for row in rows)


@pytest.mark.parametrize(("processes", "node_size"), RUNS)
def test_a_section_left_out_of_a_plan_is_seen(tmp_path, processes, node_size):
    given = [("nas_ft", ["S", 1]), ("summa", [37, 5, 1]), ("summa", [300, 32, 1])]
    if processes > 1:  # else there are no faces
        given.append(("redblack3d", [12, 3, 1]))
    if processes != 3:
        given.append(("nas_mg", ["S", 1]))
    if processes in (2, 4):
        given.append(("nas_lu", ["S", 1, 1]))
    if processes == 4:
        given += [("nas_bt", ["S", 1, 1]), ("nas_sp", ["S", 1, 1])]
    file = tmp_path / "rows.json"
    for name, problem in given:
        done = run_program(name, processes, "incomplete", *problem, file, node_size=node_size)
        assert done.returncode != 0
        assert "FAILED" in done.stdout
        assert [row["verified"] for row in rows_of(file)] == [False]


def test_app_prints_the_twin_beside(tmp_path):
    file = tmp_path / "rows.json"
    done = run_app("redblack3d", "-n", 2, "--size", 20, "--iterations", 3, "--twin", "--json", file)
    assert done.returncode == 0, done.stderr
    assert "20 x 20 x 20 points, 3 iterations, 2 processes" in done.stdout
    assert [row["contender"] for row in rows_of(file)] == ["datamover", "by_hand"]
    done = run_app("nas_ft", "-n", 2, "--class", "S", "--version", "overlap")
    assert done.returncode == 0, done.stderr
    assert "datamover:overlap" in done.stdout and "by_hand" not in done.stdout
    done = run_app("nas_mg", "-n", 2, "--twin")
    assert done.returncode == 0, done.stderr
    assert "class S, 32 x 32 x 32 points, 4 iterations, 2 processes" in done.stdout
    done = run_app("summa", "-n", 2, "--size", "30x40x50", "--block", 8, "--twin")
    assert done.returncode == 0, done.stderr
    assert "30 x 40 times 40 x 50 elements in blocks of 8 x 8, 2 processes" in done.stdout
    assert re.findall(r"^(\S+) .* passed: 1500 of 1500", done.stdout, re.MULTILINE) == [
        "datamover",
        "by_hand",
        "by_hand:ring",
    ]


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_the_programs_in_python(tmp_path, processes):
    for name, problem in {"redblack3d": [17, 5], "nas_ft": ["S"]}.items():
        file = tmp_path / f"{name}.json"
        launcher = [launch.find_mpiexec(), "-n", str(processes), sys.executable]
        done = run([*launcher, command.program(f"{name}.py"), *problem, file])
        assert done.returncode == 0, done.stdout + done.stderr
        (row,) = rows_of(file)
        assert row["verified"] and row["processes"] == processes and row["contender"] == "python"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("redblak",), 2, "no application 'redblak'; there are redblack3d, nas_ft, nas_mg, "),
        (("redblack3d", "-n", 0), 2, "'--nprocs'"),
        (("redblack3d", "--size", 0), 2, "--size"),
        (("redblack3d", "--size", 10**12), 2, "less than or equal to 10000"),
        (("redblack3d", "--size", 2**63, "--version", "python"), 2, "less than or equal to 10000"),
        (("redblack3d", "--iterations", 10**20, "--version", "python"), 2, "--iterations"),
        (("redblack3d", "--rounds", 1001), 2, "less than or equal to 1000"),
        (("redblack3d", "--version", "python", "--json", "/tmp"), 2, "/tmp cannot be written"),
        (("redblack3d", "--version", "fast"), 2, "overlap"),
        (("redblack3d", "-n", 3, "--size", 2), 1, "stand as 3 x 1 x 1"),
        (("nas_ft", "--class", "X"), 1, "no class 'X' of FT here; there are S, W and A"),
        (("nas_ft", "--class", "X", "--version", "python"), 1, "no class 'X' of FT here"),
        (("redblack3d", "-n", 3, "--size", 2, "--version", "python"), 1, "3 x 1 x 1"),
        (("redblack3d", "--version", "python", "--twin"), 1, "for the versions in C++"),
        (("nas_ft", "-n", 33, "--class", "W"), 1, "use at most 32"),
        (("nas_mg", "--class", "C"), 1, "no class 'C' of MG here; there are S, W, A and B"),
        (("nas_mg", "-n", 3), 1, "which 3 processes cannot share evenly; use 1, 2, 4 or 8"),
        (("nas_mg", "-n", 16), 1, "which 16 processes cannot share evenly"),
        (("nas_mg", "--version", "python"), 2, "'original', 'nozero';"),
        (("nas_mg", "--version", "ring"), 2, "'ring' is not one of 'datamover', 'overlap', "),
        (("nas_ft", "--version", "ring"), 2, "'overlap', 'thread', 'by_hand', 'python';"),
        (("nas_lu", "--class", "C"), 1, "no class 'C' of LU here; there are S, W, A and B"),
        (("nas_lu", "-n", 6), 1, "which 6 processes cannot share; use 4 or 8"),
        (("nas_lu", "-n", 32), 1, "too few for boxes of three on 32 processes; use at most 16"),
        (("nas_lu", "--version", "overlap"), 2, "'by_hand', 'datatypes', 'original';"),
        (("nas_lu", "--iterations", 0), 2, "--iterations"),
        (("nas_bt", "--class", ""), 1, "no class '' of BT here; there are S, W, A and B"),
        (("nas_bt", "-n", 8), 1, "8 processes cannot share them; use 4 or 9"),
        (("nas_sp", "-n", 25), 1, "too few for cells of three on 25 processes; use at most 16"),
        (("summa", "--size", "0"), 1, "the size must be a whole number from 1 to 20000, not '0'"),
        (("summa", "--size", "30x"), 1, "the size must be a whole number from 1 to 20000, not ''"),
        (("summa", "--size", 2**63), 1, "must be a whole number from 1 to 20000"),
        (("summa", "--size", "3x4"), 1, "the size must be N or MxKxN, not '3x4'"),
        (("summa", "--block", 0), 2, "--block"),
        (("nas_ft", "--json", "/no/such/folder/file"), 2, "cannot be written"),
    ],
)
def test_wrong_arguments(arguments, code, words):
    if code == 2:  # before anything is started
        given = ["app", *map(str, arguments)]
        done = CliRunner().invoke(cli.app, given, env={"COLUMNS": "200"})
        found = done.exit_code
    else:
        done = run_app(*arguments, COLUMNS="200")
        found = done.returncode
    assert found == code, done.stdout + done.stderr
    assert " ".join(done.stderr.replace("│", " ").split()).count(words) == 1
    assert "BAD TERMINATION" not in done.stdout + done.stderr
    assert "passed" not in done.stdout


@pytest.mark.parametrize("version", ["datamover", "python"])
def test_a_file_stays_as_it_was_until_the_run_has_ended(tmp_path, version):
    file = tmp_path / "rows.json"
    file.write_text("before")
    done = run_app("nas_ft", "-n", 1, "--class", "X", "--version", version, "--json", file)
    assert done.returncode == 1
    assert file.read_text() == "before"
    size = ("--size", 10_000, "--iterations", 1)
    if version == "datamover":  # fails after it has begun: there is not so much memory
        done = run_app("redblack3d", "-n", 1, *size, "--version", version, "--json", file)
        assert done.returncode == 1 and "allocation" in done.stderr
        assert file.read_text() == "before"
    small = ("redblack3d", "-n", 1, "--size", 4, "--version", version, "--json")
    done = run_app(*small, file)
    assert done.returncode == 0, done.stderr
    assert rows_of(file)[0]["verified"]
    assert list(tmp_path.iterdir()) == [file]
    done = run_app(*small, "/dev/full")
    assert done.returncode == 1
    assert "No space left" in done.stderr and "Traceback" not in done.stderr


def test_app_starts_its_processes_itself():
    done = run_app("redblack3d", PMI_SIZE="2")
    assert done.returncode == 1
    assert "without mpiexec" in done.stderr


def test_a_program_that_was_not_built(tmp_path, monkeypatch):
    packages = {"nas_ft": ("FFTW", "libfftw3-dev"), "summa": ("a BLAS", "libopenblas-serial-dev")}
    monkeypatch.setattr(command, "PROGRAMS", tmp_path)  # there are other programs
    for name, (library, package) in packages.items():
        with pytest.raises(errors.IoFailed) as raised:
            command.program(name)
        assert f"was built without {library}. " in str(raised.value)
        assert str(raised.value).endswith(
            f": apt-get install {package} && make install DATAMOVER_BENCH=ON"
        )
    monkeypatch.setattr(command, "PROGRAMS", tmp_path / "none")
    for name in ("nas_mg", *packages):
        with pytest.raises(
            errors.IoFailed, match=r"DATAMOVER_BENCH=ON\b.* make install DATAMOVER_BENCH=ON$"
        ):
            command.program(name)


@pytest.mark.parametrize("name", ["redblack3d", "nas_ft", "nas_mg", "summa", "nas_lu", "nas_bt"])
def test_the_code_on_the_page_stands_in_the_program(name):
    def words(text):
        return " ".join(text.split())

    folder = ROOT / "apps" / lines.MESSAGES.get(name, name)
    sources = [words(path.read_text()) for path in folder.glob("*.cpp")]
    page = (ROOT / f"docs/apps_{name}.md").read_text()
    parts = [
        p for code in re.findall(r"```cpp\n(.*?)```", page, re.DOTALL) for p in code.split("…")
    ]
    assert len(parts) >= 4
    for part in parts:
        assert any(words(part) in source for source in sources), part


def test_communication_takes_at_most_a_third_of_the_lines_by_hand():
    # But for summa, since MPI itself broadcasts, and for cells, which both have to describe.
    times = {"summa": 1, "nas_bt": 2.5, "nas_sp": 2.5}
    done = run([sys.executable, "-m", "datamover.apps.lines"])
    assert done.returncode == 0, done.stderr
    counts = re.findall(r"^(\w+)  datamover (\d+)  by_hand (\d+)", done.stdout, re.MULTILINE)
    assert {name for name, _, _ in counts} == {
        *("nas_bt", "nas_ft", "nas_lu", "nas_mg", "nas_sp", "redblack3d", "summa")
    }
    for name, ours, by_hand in counts:
        assert times.get(name, 3) * int(ours) <= int(by_hand), name


def test_bench_names_what_cannot_run_on_so_many_processes(tmp_path):
    file = tmp_path / "bench.json"
    done = run(
        [sys.executable, "-m", "datamover.cli", "bench", "applications", "-n", 2, "--rounds", 1,
         "--case", "nas_lu-S", "--case", "nas_bt-S", "--json", file]
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "nas_bt: wants a square number of processes, not 2" in done.stdout
    rows = json.loads(file.read_text())["rows"]
    assert {row["case"] for row in rows} == {"nas_lu-S"}
    assert {row["contender"] for row in rows} == {"datamover", *command.twins("nas_lu")}
    assert all(row["lines"] > 0 for row in rows)


def test_bench_sets_them_beside_their_twins(tmp_path):
    file = tmp_path / "bench.json"
    done = run(
        [sys.executable, "-m", "datamover.cli", "bench", "applications", "-n", 2, "--rounds", 3,
         "--case", "nas_ft-S", "--json", file]
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())["rows"]
    phases = [(row["phase"], row["contender"]) for row in rows]
    assert sorted(phases) == sorted((p, c) for p in ("total", "communication") for c in CONTENDERS)
    for row in rows:
        assert row["case"] == "nas_ft-S" and row["runs"] == 3 and row["verified"]
        assert ("lines" in row) == (row["contender"] in ("datamover", "by_hand"))
    seconds = {(row["phase"], row["contender"]): row["seconds"] for row in rows}
    for contender in CONTENDERS:
        assert 0 < seconds["communication", contender] < seconds["total", contender]


def test_two_hosts_says_what_is_wrong():
    script = ROOT / "scripts/two-hosts"
    for arguments in (["--rate", "1gbit"], ["--speed", "1gbit", "--", "true"], ["--"]):
        done = run([script, *arguments])
        assert done.returncode == 2
        assert done.stderr.startswith("Usage: scripts/two-hosts")
    done = run([script, "-n", 3, "--", "true"])
    assert done.returncode == 2
    assert "must be even, not 3" in done.stderr
