# SPDX-License-Identifier: BSD-3-Clause
"""NAS FT: a diffusion equation by Fourier transforms, with NumPy, on any number of processes.

mpiexec -n 4 python nas_ft.py CLASS [JSON_FILE]

Source: NAS Parallel Benchmarks, FT, its specification and the reference values of NPB 3.
"""

import json
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

import datamover as dm
from datamover import launch

# Extents z, y, x and the checksum after each iteration.
CLASSES = {
    "S": ((64, 64, 64), [
        554.6087004964 + 484.5363331978j, 554.6385409189 + 486.5304269511j,
        554.6148406171 + 488.3910722336j, 554.5423607415 + 490.1273169046j,
        554.4255039624 + 491.7475857993j, 554.2683411902 + 493.2597244941j,
    ]),
    "W": ((32, 128, 128), [
        567.3612178944 + 529.3246849175j, 563.1436885271 + 528.2149986629j,
        559.4024089970 + 527.0996558037j, 556.0698047020 + 526.0027904925j,
        553.0898991250 + 524.9400845633j, 550.4159734538 + 523.9212247086j,
    ]),
    "A": ((128, 256, 256), [
        504.6735008193 + 511.4047905510j, 505.9412319734 + 509.8809666433j,
        506.9376896287 + 509.8144042213j, 507.7892868474 + 510.1336130759j,
        508.5233095391 + 510.4914655194j, 509.1487099959 + 510.7917842803j,
    ]),
}  # fmt: skip
MASK = np.uint64(2**46 - 1)


def random_numbers(count, skipped):
    """The numbers x / 2^46 of the generator x <- 5^13 x mod 2^46, after so many."""
    x = np.empty(count, dtype="u8")
    x[:1] = pow(5**13, skipped + 1, 2**46) * 314159265 % 2**46
    done = 1
    while done < count:  # x[i + done] is x[i] times a power; overflow has no part in 46 bits
        more = min(done, count - done)
        x[done : done + more] = (x[:more] * np.uint64(pow(5**13, done, 2**46))) & MASK
        done += more
    return x * 2.0**-46


def decay(shape, first, count):
    """The factors of an iteration for planes of y, as an array (y, x, z)."""
    nz, ny, nx = shape
    kz, ky, kx = (np.fft.fftfreq(n, 1 / n) ** 2 for n in (nz, ny, nx))
    ky = ky[first : first + count]
    return np.exp(-4e-6 * np.pi**2 * (ky[:, None, None] + kx[None, :, None] + kz))


def checksum(comm, space, shape, first):
    """The sum of 1024 given points over all processes."""
    nz, ny, nx = shape
    j = np.arange(1, 1025)
    z = 5 * j % nz - first
    j, z = (values[(z >= 0) & (z < len(space))] for values in (j, z))
    return comm.allreduce(space[z, 3 * j % ny, j % nx].sum()) / (nx * ny * nz)


def solve(comm, shape, iterations):
    """Return the checksums, and the seconds in all and for communication."""
    nz, ny, nx = shape
    # communication: begin
    planes_of_z = dm.BlockCyclic((nz, ny, nx), "(block, *, *)", nprocs=comm.size)
    planes_of_y = dm.BlockCyclic((ny, nx, nz), "(block, *, *)", nprocs=comm.size)
    a = dm.Array(planes_of_z, dtype="c16", comm=comm)
    b = dm.Array(planes_of_y, dtype="c16", comm=comm)
    turn = dm.Mover(dm.redistribute(planes_of_z, planes_of_y, axes=(1, 2, 0)), a, b)
    turn_back = dm.Mover(dm.redistribute(planes_of_y, planes_of_z, axes=(2, 0, 1)), b, a)
    space, spectrum = a.local, b.local
    z0, y0 = comm.rank * planes_of_z.block[0], comm.rank * planes_of_y.block[0]
    # communication: end
    space.reshape(-1).view("f8")[...] = random_numbers(2 * space.size, 2 * z0 * ny * nx)
    factors = decay(shape, y0, len(spectrum))
    seconds = [0.0, 0.0]

    def move(mover):
        before = MPI.Wtime()
        mover()  # communication
        seconds[1] += MPI.Wtime() - before

    comm.Barrier()
    begin = MPI.Wtime()
    space[...] = np.fft.fft(np.fft.fft(space, axis=2), axis=1)
    move(turn)
    evolved = np.fft.fft(spectrum, axis=2)
    sums = []
    for _ in range(iterations):
        evolved *= factors
        spectrum[...] = np.fft.ifft(evolved, axis=2, norm="forward")
        move(turn_back)
        after = np.fft.ifft(np.fft.ifft(space, axis=1, norm="forward"), axis=2, norm="forward")
        sums.append(checksum(comm, after, shape, z0))
    seconds[0] = MPI.Wtime() - begin
    return sums, seconds


def main():
    """Run on all processes; return the code to exit with."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    comm, name = MPI.COMM_WORLD, sys.argv[1]
    shape, right = CLASSES.get(name, ((comm.size,) * 3, []))
    if not right or comm.size > min(shape[:2]):
        if comm.rank == 0:
            known = f"there is no class {name!r} of FT here; there are S, W and A"
            few = f"class {name} has planes for at most {min(shape[:2])} processes"
            print(f"error: {few if right else known}", file=sys.stderr)
        return 1
    sums, seconds = solve(comm, shape, len(right))
    total, communication = (comm.allreduce(s, MPI.MAX) for s in seconds)
    fitting = sum(abs((s - r) / r) <= 1e-12 for s, r in zip(sums, right, strict=True))
    passed = bool(fitting == len(right))
    if comm.rank == 0:
        print(f"nas_ft in Python: class {name}, {comm.size} processes\n{total:.4g} s, "
              f"communication {communication:.4g} s ({100 * communication / total:.1f} %), "
              f"{'passed' if passed else 'FAILED'}: {fitting} of {len(right)} checksums are "
              "those of NAS")  # fmt: skip
        row = {"application": "nas_ft", "case": f"nas_ft-{name}", "contender": "python",
               "processes": comm.size, "verified": passed, "seconds": total,
               "communication_seconds": communication}  # fmt: skip
        for file in sys.argv[2:]:
            Path(file).write_text(json.dumps({"rows": [row]}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(launch.leave(main(), MPI.COMM_WORLD.rank))
