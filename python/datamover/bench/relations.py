# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of relations against hand-written loops and NumPy. `datamover bench relations`."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

import datamover as dm
from datamover.bench import meshes, programs
from datamover.bench.benchmark import Benchmark, Case, Player, Run
from datamover.bench.chart import Panel, panels_by_phase
from datamover.bench.contest import timed
from datamover.bench.programs import Line
from datamover.errors import Unsupported

ENCODINGS = ("pairs", "blocks", "runs", "dictionary", "product", "offsets", "chosen")
#: Phases that are drawn.
PHASES = ("assembly", "disassembly", "copy")

PROCESSES = 4
#: A dictionary is made from its pairs, so these are enough.
LARGEST_LISTED = 4096

#: The paper's four redistributions (section 3). The arrays are column-major there; here the same
#: matrices are written row-major, dimensions exchanged.
REDISTRIBUTIONS = {
    "block_rows-block_cols": ("(*, block)", "(block, *)", None),
    "block-cyclic": ("(*, block)", "(*, cyclic)", None),
    "cyclic-block": ("(*, cyclic)", "(*, block)", None),
    "transpose": ("(cyclic, *)", "(cyclic, *)", (1, 0)),
}

SIZES = (1024, 2048, 4096)
NODE_ZERO = "node_zero-"
#: As the C++ program names them; it takes the beginnings of names.
OF_PROGRAM = (
    *(f"{r}-{n}" for n in SIZES for r in REDISTRIBUTIONS),
    *(f"dense_transpose-{n}" for n in (1024, 2048, 4096, 8192)),
    *(f"pieces-{n}" for n in (8, 24, 64, 256, 1024, 4096, 16384)),
    "halo-16",
    "mesh_ordered",
    "mesh_shuffled",
)
CASES = tuple(
    Case(name)
    for name in (
        *OF_PROGRAM,
        *(f"{NODE_ZERO}{r}-{n}" for n in (*SIZES, 1 << 20) for r in REDISTRIBUTIONS),
        *meshes.NAMES,
    )
)


def names(cases: Sequence[Case], seconds: float) -> list[str]:
    """Return the names of cases, the only arguments of some programs."""
    return [case.name for case in cases]


def players(run: Run) -> Iterator[Player]:
    """Give the program and NumPy, the sizes on one process, and the meshes."""

    def in_python(measure: Callable[[str], Iterator[Line]]) -> Callable[..., Iterator[Line]]:
        mpi = {"mpi": run.mpi.name}  # as the rows of the program that they are compared with
        return lambda cases, seconds: ({**mpi, **line} for line in measure(cases[0].name))

    def of_mesh(name: str) -> Iterator[Line]:
        try:
            index = meshes.columns(name)
        except Unsupported as missing:
            yield {"left_out": "mesh", "reason": str(missing), "case": name}
            return
        file = run.scratch / "index"
        index.tofile(file)
        command = [programs.program("relations"), "--index", name, str(file)]
        yield from programs.run(run.mpi, 1, command, 60)
        yield from measure_index(name, index)
        yield from measure_further(name, index)

    def plays(case: Any) -> bool:
        return case.name in OF_PROGRAM

    yield run.player("relations", arguments=names, processes=1, plays=plays)
    yield Player(in_python(measure_numpy), plays=plays)
    yield Player(in_python(measure_node_zero), lambda case: case.name.startswith(NODE_ZERO))
    yield Player(in_python(of_mesh), lambda case: case.name in meshes.NAMES)


def panels(rows: list[Line]) -> list[Panel]:
    """Return a panel of speeds per phase that decodes."""
    return panels_by_phase([row for row in rows if row["phase"] in PHASES])


def relations(name: str, n: int) -> list[dm.advanced.AddressRelation]:
    """Return the address relations of doubles that process 0 of 4 sends to each process.

    Examples
    --------
    >>> from datamover.bench.relations import relations
    >>> sum(len(r) for r in relations("block-cyclic", 1024))
    262144
    """
    source, destination, axes = REDISTRIBUTIONS[name]
    plan = dm.redistribute(
        dm.BlockCyclic((n, n), source, PROCESSES),
        dm.BlockCyclic((n, n), destination, PROCESSES),
        axes=axes,
    )
    return [plan.relation(0, peer) for peer in range(PROCESSES)]


def measure_node_zero(case: str) -> Iterator[Line]:
    """Yield a row per encoding: `nbytes` of all relations on process 0, and the time to make them.

    Parameters
    ----------
    case : str
        As `bench relations` names it: `node_zero-transpose-1024`, with the rows of the array.
    """
    name, rows = case.removeprefix(NODE_ZERO).rsplit("-", 1)

    def made(encoding: str) -> list[dm.advanced.AddressRelation]:
        return [r.encode(encoding) for r in relations(name, int(rows))]

    for encoding in ("pairs", "blocks", "runs", "dictionary", "product"):
        if encoding == "product" or int(rows) <= LARGEST_LISTED:
            first = made(encoding)
            sizes = {"bytes": 8 * sum(map(len, first)), "nbytes": sum(r.nbytes for r in first)}
            facts = {"case": case, "phase": "encode", "contender": encoding}
            yield timed(partial(made, encoding), **facts, **sizes)


def measure_numpy(case: str) -> Iterator[Line]:
    """Yield NumPy's rows for a case; none if NumPy has no single call for it.

    Parameters
    ----------
    case : str
        Name in `bench relations`: `transpose-1024`, `dense_transpose-2048`, `mesh_ordered`, …
    """
    name, _, size = case.rpartition("-")
    if name == "dense_transpose":
        n = int(size)
        for dtype in (np.float32, np.float64):
            a, b = np.arange(n * n, dtype=dtype).reshape(n, n), np.zeros((n, n), dtype)
            yield _row(f"{case}-{a.itemsize}", "copy", a.nbytes, partial(np.copyto, b, a.T))
    elif name in PATTERNS:
        yield from _redistribution(name, int(size))
    elif case.startswith("mesh_"):
        yield from _take(case)


#: Extents (i, j) and the strides of i and j, in elements, on both sides.
Pattern = tuple[int, int, tuple[int, int], tuple[int, int]]

#: The part that process 0 of 4 keeps in the redistributions of the paper on compact address
#: relations, section 3; local arrays are column-major.
PATTERNS: dict[str, Callable[[int, int], Pattern]] = {
    "block_rows-block_cols": lambda n, q: (q, q, (1, q), (1, n)),
    "block-cyclic": lambda n, q: (q // 4, n, (4, q), (1, q)),
    "cyclic-block": lambda n, q: (q // 4, n, (1, q), (4, q)),
    "transpose": lambda n, q: (q, q, (4, n), (n, 4)),
}


def _redistribution(pattern: str, n: int) -> Iterator[Line]:
    ni, nj, source, destination = PATTERNS[pattern](n, n // 4)
    flat = (1, ni)
    for phase, strides in (
        ("assembly", (source, flat)),
        ("disassembly", (flat, destination)),
        ("copy", (source, destination)),
    ):
        view, target = (_view(ni, nj, of) for of in strides)
        yield _row(f"{pattern}-{n}", phase, 8 * ni * nj, partial(np.copyto, target, view))


def _view(ni: int, nj: int, strides: tuple[int, int]) -> np.ndarray:
    elems = (ni - 1) * strides[0] + (nj - 1) * strides[1] + 1
    memory = np.arange(elems, dtype=np.float64)
    # j first: NumPy then walks a message in its order.
    return as_strided(memory, (nj, ni), (8 * strides[1], 8 * strides[0]))


def _take(case: str) -> Iterator[Line]:
    n = 1 << 20
    reach = 2000 if case == "mesh_ordered" else n
    draw = np.random.default_rng(7)
    at = np.arange(n)
    index = draw.integers(np.maximum(0, at - reach), np.minimum(n - 1, at + reach), endpoint=True)
    yield from measure_index(case, index)


def measure_index(case: str, index: np.ndarray) -> Iterator[Line]:
    """Yield NumPy's rows for gathering by an index, and for adding at it.

    Parameters
    ----------
    case : str
    index : (n,) array of int64
    """
    values, message = np.arange(index.max() + 1.0), np.empty(len(index))
    # mode="clip": the default checks into a buffer first.
    calls = {
        "assembly": lambda: values.take(index, out=message, mode="clip"),
        "disassembly": lambda: np.add.at(values, index, message),
    }
    for phase, call in calls.items():
        yield _row(case, phase, message.nbytes, call, nbytes=index.nbytes)


def _row(case: str, phase: str, payload: int, work: Callable[[], Any], **more: Any) -> Line:
    return timed(work, case=case, phase=phase, contender="numpy", bytes=payload, **more)


Indices = npt.NDArray[np.int64]


def measure_further(case: str, index: Indices) -> Iterator[Line]:
    """Yield a row per further encoding: its `nbytes`, and the time to decode it.

    Parameters
    ----------
    case : str
    index : (n,) array of int64
        Which elements are gathered.
    """
    for name, (nbytes, decode) in candidates(index).items():
        facts = {"case": case, "phase": "decode_only", "contender": name}
        yield timed(decode, **facts, bytes=8 * len(index), nbytes=nbytes)


def candidates(index: Indices) -> dict[str, tuple[int, Callable[[], Indices]]]:
    """Return the bytes of each further encoding, and a function that decodes it.

    `deltas` are differences in 16 bits where they fit, else 32; `bitmap` a bit per element for a
    set in ascending order, and a rank per entry where entries repeat; `lempel_ziv` zlib over the
    differences, which ends in a Huffman code; `huffman` that code alone.
    """
    differences = np.diff(index, prepend=0)
    narrow = np.int16 if np.abs(differences[1:]).max(initial=0) < 1 << 15 else np.int32
    first, deltas = int(index[0]), differences[1:].astype(narrow)
    distinct, rank = np.unique(index, return_inverse=True)
    bitmap = np.packbits(np.isin(np.arange(distinct[-1] + 1), distinct))
    rank = rank.astype(np.uint16 if len(distinct) < 1 << 16 else np.uint32)
    packed = zlib.compress(deltas.tobytes(), 9)
    only = zlib.compressobj(9, strategy=zlib.Z_HUFFMAN_ONLY)
    huffman = only.compress(deltas.tobytes()) + only.flush()

    def from_deltas(steps: npt.NDArray) -> Indices:
        decoded = np.empty(len(steps) + 1, np.int64)
        decoded[0] = first
        np.cumsum(steps, dtype=np.int64, out=decoded[1:])
        decoded[1:] += first
        return decoded

    def unpacked(data: bytes) -> Indices:
        return from_deltas(np.frombuffer(zlib.decompress(data), narrow))

    return {
        "deltas": (8 + deltas.nbytes, lambda: from_deltas(deltas)),
        "bitmap": (
            bitmap.nbytes + rank.nbytes,
            lambda: np.flatnonzero(np.unpackbits(bitmap))[rank],
        ),
        "huffman": (8 + len(huffman), lambda: unpacked(huffman)),
        "lempel_ziv": (8 + len(packed), lambda: unpacked(packed)),
    }


BENCHMARK = Benchmark(
    name="relations",
    help="Decode relations while copying, in every encoding: assembly, disassembly, copy.\n\n"
    "-n is accepted as everywhere; one process does it all.",
    options={"rounds": 1},
    cases=lambda run: CASES,
    players=players,
    references=("loop", "memcpy", "mpi_pack", "numpy"),
    judged=ENCODINGS,
    shown=("chosen",),
    panels=panels,
    quick={"case": [*(f"{r}-1024" for r in REDISTRIBUTIONS), "dense_transpose-2048", "mesh_"]},
)
