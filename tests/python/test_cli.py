# SPDX-License-Identifier: BSD-3-Clause
"""Command line: output and exit codes, on one process and on several."""

import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

import datamover as dm
from datamover import cli, launch, move_command

COMMANDS = {"explain", "stream", "info", "bench", "halo", "app", "summa"}
ARRAY = np.random.default_rng(1).integers(0, 1000, (30, 23, 19)).astype("i2")


def here(*arguments):
    """Run `datamover ARGUMENTS` within this process."""
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


def run(*arguments, **environment):
    """Run `datamover ARGUMENTS` as a shell does."""
    return subprocess.run(
        [sys.executable, "-m", "datamover.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | environment,
    )


def test_explain_writes_json_and_a_picture(tmp_path):
    done = run(
        "explain", "--shape", "64,48", "--from", "(block,*)", "--to", "(cyclic(4),cyclic(4))",
        "-n", 6, "--itemsize", 2, "--node-size", 3, "--to-grid", "3,2",
        "--json", tmp_path / "plan.json", "--png", tmp_path / "plan.png", "-v",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "p2p (between nodes)" in done.stdout and "Address relations" in done.stdout
    plain = json.loads((tmp_path / "plan.json").read_text())
    plan = dm.redistribute(
        dm.BlockCyclic((64, 48), "(block,*)", nprocs=6),
        dm.BlockCyclic((64, 48), "(cyclic(4),cyclic(4))", nprocs=6, grid=(3, 2)),
    )
    assert plain == json.loads(dm.explain(plan, elem_bytes=2, node_size=3).dumps())
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("option", ["--png", "--json"])
def test_explain_names_a_directory_that_does_not_exist(tmp_path, option):
    path = tmp_path / "none" / "plan.png"
    done = here("explain", "--shape", "8,6", "--from", "(block,*)", "--to", "(*,block)",
                "-n", "2", option, str(path))  # fmt: skip
    assert done.exit_code == 1 and done.stderr.count("\n") == 1, done.stderr
    assert str(path.parent) in done.stderr and "Errno" not in done.stderr, done.stderr
    if option == "--png":
        assert done.stdout == ""  # before anything is computed


def test_explain_one_rank_of_a_million():
    done = run(
        "explain", "--shape", "4096,4096", "--from", "(block,*)",
        "--to", "(cyclic(64),cyclic(64))", "-n", 1_000_000, "--rank", 1234, "--top", 3,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1,000,000 processes" in done.stdout
    assert "Rank 1,234 sends 32.8 kB to 64 processes; the largest 3" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--shape", "8,x"), 2, "not integers"),
        (("--shape", "8,8", "-n", "0"), 2, "-n"),
        (("--shape", "8,8", "--from", "(blok,*)"), 1, "blok"),
        (("--shape", "8,8,8"), 1, "dimension"),
        (("--shape", "8,8", "--rank", "4"), 1, "rank"),
        (("--shape", "8,8", "--axes", "0,0"), 1, "not a permutation"),
        (("--shape", "8,8", "-n", str(10**20)), 1, "-n 100000000000000000000 does not fit"),
        (("--shape", "8,8", "--rank", str(-(10**20))), 1, "--rank"),
        (("--shape", "8,8", "--itemsize", str(10**20)), 1, "--itemsize"),
        (("--shape", "8,8", "--node-size", str(10**20)), 1, "--node-size"),
        (("--shape", "8,8", "--from-grid", "3,3"), 1, "grid"),
    ],
)
def test_wrong_arguments_of_explain(arguments, code, words):
    given = {"--from": "(block,*)", "--to": "(*,block)", "-n": "4"}
    given.update(zip(arguments[::2], arguments[1::2], strict=True))
    done = here("explain", *(word for pair in given.items() for word in pair))
    assert done.exit_code == code
    assert words in done.stderr


@pytest.mark.parametrize("command", ["app redblack3d", "bench halo"])
@pytest.mark.parametrize("processes", [10**5, 10**20])
def test_so_many_processes_are_not_started(command, processes):
    done = run(*command.split(), "-n", processes)
    assert done.returncode == 2 and "would be started" in done.stderr, done.stdout + done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize("words", ["--help", "move --help", "move a.npy b.npy", "bench --help"])
@pytest.mark.parametrize("at_once", ["", "1"])
def test_what_cannot_be_printed_is_an_error_in_one_line(tmp_path, words, at_once):
    """Whether it is printed at once or, as where nobody says so, at the end."""
    np.save(tmp_path / "a.npy", np.zeros(3))
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "datamover", *words.split()],
            cwd=tmp_path, env=os.environ | {"PYTHONUNBUFFERED": at_once},
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=100,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr


def test_signs_that_the_encoding_lacks_are_question_marks():
    done = subprocess.run(
        [sys.executable, "-m", "datamover", "bench", "halo", "--help"],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii:strict", "COLUMNS": "120"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"all ghosts of 64?, 256?, 64 ? 64? or 4,096 ? 8? doubles" in done.stdout


@pytest.mark.parametrize(
    "environment",
    [
        {"TERM": "dumb"},
        {"LC_ALL": "C"},
        {"COLUMNS": "40", "NO_COLOR": "1"},
        {"FORCE_COLOR": "1"},
        {"HOME": "/nonexistent"},
        {"PYTHONWARNINGS": "error"},
    ],
)
def test_commands_work_in_every_environment(tmp_path, environment):
    np.save(tmp_path / "a.npy", ARRAY)
    layouts = ("--shape", "64,48", "--from", "(block,*)", "--to", "(*,block)", "-n", 4)
    for words in (
        ("explain", *layouts, "--png", tmp_path / "plan.png"),
        ("move", tmp_path / "a.npy", tmp_path / "b.npy", "--axes", "2,0,1"),
        ("move", "--help"),
    ):
        done = run(*words, **environment)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
        assert done.stdout
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), ARRAY.transpose(2, 0, 1))


def test_version_and_help():
    assert here("--version").stdout.strip() == f"datamover {dm.__version__}"
    done = here("--help")
    assert all(command in done.stdout for command in ("explain", "move", "bench"))


def versions(**environment):
    lines = run("--versions", **environment).stdout.splitlines()
    return dict(re.split("  +", line, maxsplit=1) for line in lines)


def test_versions_of_what_is_installed():
    found = versions()
    assert found["datamover"] == dm.__version__
    for name in ("numpy", "mpi4py", "zarr"):
        assert found[name] == importlib.metadata.version(name)
    code = "from mpi4py import MPI; print(MPI.Get_library_version())"
    library = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=120)
    first_line = library.replace("\0", "").splitlines()[0]  # Open MPI's text ends with a NUL
    assert found["MPI"].startswith(" ".join(first_line.split()))


def test_versions_without_an_mpi(tmp_path):
    found = versions(MPI4PY_LIBMPI=str(tmp_path / "libmpi.so"))
    assert found["MPI"].startswith("cannot be loaded: ")
    assert found["datamover"] == dm.__version__


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("move", ["--overwrite", "--dry-run"]),
        ("stream view", ["--open"]),
        ("app summa", ["--twin"]),
    ],
)
def test_help_shows_no_value_behind_an_option_that_takes_none(words, options):
    lines = here(*words.split(), "--help").stdout.splitlines()
    for option in options:
        (line,) = (line for line in lines if f"{option} " in line)
        assert "<" not in line


@pytest.mark.parametrize("words", ["", "explain", "move", "stream view", "bench", "bench model"])
def test_help_shows_no_type_of_a_flag_of_typer_s_own(words):
    assert "bool" not in here(*words.split(), "--help").stdout


def test_help_of_move_looks_as_that_of_the_others():
    moves, explains = here("move", "--help"), here("explain", "-h")
    assert moves.exit_code == explains.exit_code == 0
    for done in (moves, explains):
        lines = [line.rstrip() for line in done.stdout.splitlines()]
        assert lines[1].startswith(" Usage: ") and any("─ Options ─" in line for line in lines)
        assert "AXES[k]" in done.stdout and "Show this message and exit." in done.stdout
    lines = [line.strip() for line in moves.stdout.splitlines()]
    assert lines[1] == "Usage: datamover move [OPTIONS] INPUT... OUTPUT"
    assert lines[3] == "Move an array, or all of an HDF5 file or Zarr group, to another file in"
    options = {action.option_strings[-1] for action in move_command._parser()._actions[3:]}
    assert all(f" {option} " in moves.stdout for option in options)


@pytest.mark.parametrize(
    "words",
    [
        [], ["move"], ["explain"], ["bench"], ["app"],
        ["stream"], ["stream", "record"], ["stream", "info"], ["stream", "view"],
    ],
)  # fmt: skip
def test_help_ends_with_examples_that_are_commands(words):
    text = here(*words, "--help").stdout
    assert "{" not in text.partition("Usage:")[2].partition("\n")[0]
    lines = [line.strip() for line in text.partition("Examples:")[2].splitlines()]
    given = [line for line in lines if line.startswith("datamover ")]
    assert given and all(line.split()[1 : len(words) + 1] == words for line in given)


def test_reports_of_move_count(tmp_path):
    np.save(tmp_path / "a.npy", np.int8([7]))
    done = here("move", tmp_path / "a.npy", tmp_path / "b.npy", "--dry-run")
    words = "pass 1: reads 1 byte, writes 1 byte\n  from    1 piece of 1, once\n  to      1 piece"
    assert f"{words} of 1 in 1 file\n" in done.stdout
    done = here("move", tmp_path / "a.npy", tmp_path / "b.npy", "--check", "crc32c")
    assert ", check by crc32c " in done.stdout
    done = here("move", tmp_path / "a.npy", tmp_path / "c.npy")
    assert "1 byte in " in done.stdout and "check" not in done.stdout


@pytest.mark.parametrize("nprocs", [1, 2, 4])
def test_move_there_and_back(tmp_path, nprocs):
    np.save(tmp_path / "a.npy", ARRAY)
    done = run("move", tmp_path / "a.npy", tmp_path / "z.zarr", "--chunks", "8,8,8", "-n", nprocs)
    assert done.returncode == 0, done.stderr
    assert f"on {nprocs} process" in done.stdout and "memcpy" not in done.stdout
    stored = zarr.open_array(tmp_path / "z.zarr", mode="r")
    assert stored.chunks == (8, 8, 8) and np.array_equal(stored[...], ARRAY)
    done = run(
        "move", tmp_path / "z.zarr", tmp_path / "b.npy", "-n", nprocs, "--axes", "2,0,1",
        "--max-bytes", 8000, "--output-order", "F",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(", in [0-9,]+ (steps|passes): ", done.stdout)
    back = np.load(tmp_path / "b.npy")
    assert np.array_equal(back, ARRAY.transpose(2, 0, 1)) and back.flags.f_contiguous
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.npy", "z.zarr"]


def test_an_error_is_said_once_by_several_processes(tmp_path):
    np.save(tmp_path / "a.npy", ARRAY)
    (tmp_path / "b.npy").write_text("old")
    done = run("move", tmp_path / "a.npy", tmp_path / "b.npy", "-n", 3)
    assert done.returncode == 1
    assert done.stderr.count("error:") == 1 and "--overwrite" in done.stderr
    assert "BAD TERMINATION" not in done.stdout + done.stderr
    assert (tmp_path / "b.npy").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.npy"]


def test_move_inside_a_launch(tmp_path):
    np.save(tmp_path / "a.npy", ARRAY)
    command = ["-m", "datamover.cli", "move", str(tmp_path / "a.npy"), str(tmp_path / "b.raw")]
    environment = {**os.environ, **launch.open_mpi_environment()}
    for extra, code in ((["-n", "3"], 1), ([], 0)):
        done = subprocess.run(
            [launch.find_mpiexec(), "-n", "2", sys.executable, *command, *extra],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=environment,
        )
        assert (done.returncode != 0) == (code != 0), done.stderr
    assert (tmp_path / "b.raw").read_bytes() == ARRAY.tobytes()


@pytest.mark.parametrize("variable", launch.SIZE_VARIABLES)
def test_a_launcher_of_another_mpi_is_refused(tmp_path, variable):
    np.save(tmp_path / "a.npy", ARRAY)
    program = (
        "import os; from mpi4py import MPI\n"  # MPI starts alone, before it can look for a launcher
        f"os.environ[{variable!r}] = '4'\n"
        "from datamover.launch import check_launch\n"
        "import datamover as dm\n"
        "try: check_launch(MPI.COMM_WORLD)\n"
        "except dm.errors.MpiFailed as e: print(e)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert "started 4 processes, but MPI sees each of them alone" in done.stdout, done.stderr
    assert "mpiexec" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["a"], "OUTPUT"),
        (["a", "b", "--order", "X"], "--order: 'X' is neither C nor F"),
        (["a", "b", "--chunks", "8,,8"], "--chunks: '8,,8' are not integers such as 64,64,64"),
        (["a", "b", "--chunks", "3+,4"], "--chunks: '3+,4' are not integers such as 64,64,64"),
        (["a", "b", "-n", "0"], "-n/--nprocs: '0' is not a number of processes, at least 1"),
        (["a", "b", "--max-bytes"], "--max-bytes needs a value: --max-bytes SIZE"),
        (["a", "b", "-n"], "-n/--nprocs needs a value: --nprocs N"),
        (["a", "b", "--chunk", "8,8"], "there is no option --chunk; there is --chunks"),
        (["a", "b", "--chunk=8,8"], "there is no option --chunk; there is --chunks"),
        (["a", "b", "--zzz"], "there is no option --zzz; all options"),
        (["a", "b", "--overwrite=yes"], "--overwrite takes no value"),
    ],
)
def test_usage_errors_of_move_are_one_line(words, told):
    done = here("move", *words)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    assert told in done.stderr
    assert done.stderr.endswith("; all options: datamover move --help\n")


def test_several_inputs_need_along():
    done = here("move", "a.npy", "c.npy", "b.npy")
    told = "error: the input is ['a.npy', 'c.npy']; several files need --along\n"
    assert (done.exit_code, done.stderr) == (1, told)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("explain --shape 8,x", "'--shape': '8,x' are not integers such as 64,64,64"),
        ("explain --shape 8", "Missing option '--from'"),
        ("stream recrd", "No such command 'recrd'. Did you mean 'record'?"),
        ("stream info", "Missing argument 'ADDRESS'"),
        ("bench halo -n many", "'-n' / '--nprocs': "),
        ("app summa --nothing", "No such option: --nothing"),
        ("mov", "No such command 'mov'"),
    ],
)
def test_usage_errors_of_all_commands_are_one_line(words, told):
    done = here(*words.split())
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    assert told in done.stderr
    command = " ".join(word for word in words.split()[:2] if word in COMMANDS)
    listed = "commands" if "No such command" in told else "options"
    end = f"; all {listed}: datamover {command}".strip()
    assert end.removeprefix(";") in done.stderr and "?;" not in done.stderr, done.stderr
    assert done.stderr.endswith(" --help\n")


#: Interrupts the process as it begins to load a module, and tells what comes of it.
INTERRUPTING = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == os.environ["INTERRUPTED_AT"]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize("way", ["script", "module"])
@pytest.mark.parametrize(
    ("word", "at"),
    [("move", "typing"), ("move", "datamover._plan"), ("move", "datamover.move_command"),
     ("explain", "datamover.cli"), ("explain", "typer")],
)  # fmt: skip
def test_an_interruption_while_it_loads_is_without_words(tmp_path, way, word, at):
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING)
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin/datamover"
    script.write_text("from datamover.__main__ import main\nmain()\n")
    command = [script] if way == "script" else ["-m", "datamover"]
    done = subprocess.run(
        [sys.executable, *command, word, "a.npy", "b.npy"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "INTERRUPTED_AT": at},
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_interruption_of_a_program_is_an_exception():
    done = subprocess.run(
        [sys.executable, "-c", "import signal, datamover; print(signal.getsignal(signal.SIGINT))"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "default_int_handler" in done.stdout
