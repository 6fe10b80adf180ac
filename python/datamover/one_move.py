# SPDX-License-Identifier: BSD-3-Clause
"""The call of a plan: execute it once, and make its destination."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ._plan import HaloExchange, MotionPlan
from .arrays import Array, UserArrays
from .collective_calls import address_of, agreeing, refused_by
from .errors import InvalidArgument, Unsupported
from .movers import Mover, communicator, is_file, wrapped
from .mpi import collectively, comm_address, gathered

if TYPE_CHECKING:
    from mpi4py import MPI

    from .movers import Arrays


@refused_by(agreeing)
def execute_once(
    plan: MotionPlan,
    source: Arrays,
    out: Arrays = None,
    *,
    comm: MPI.Comm | None = None,
    **options: Any,
) -> Any:
    """Execute a plan between arrays; see `MotionPlan.__call__`. Collective."""
    comm = communicator(comm, [(plan, source, out)])
    address = address_of(comm, agreeing, source)
    # None may also be a process's part of an array of which it has no blocks.
    passed = collectively(address, lambda: [int(out is not None)])
    if not any(numbers[0] for numbers in gathered(address, passed)):
        terms = (plan[i] for i in range(len(plan)))  # iterating over a plan expands it to sections
        is_halo = len(plan) > 0 and all(isinstance(term, HaloExchange) for term in terms)
        out = source if is_halo else _made_for(plan, source, comm)
    with Mover(plan, source, out, comm=comm, **options) as mover:
        mover.run()
    return out


def _made_for(plan: MotionPlan, source: Arrays, comm: MPI.Comm) -> Array:
    """Make an array of zeros for the destination of a plan. Collective."""
    address = comm_address(comm)

    def dtype_here() -> list[int]:
        if isinstance(source, (list, tuple)):
            raise InvalidArgument("several arrays need their destinations: pass out=[...]")
        array: Any = source if is_file(source) else wrapped(cast(Any, source))
        rows = isinstance(array, UserArrays) and array.columns(plan.source, comm.rank)
        if rows and len(rows) > 1:
            raise Unsupported(f"elements are rows of {len(rows)}: pass their destination as out=")
        return [] if array.dtype is None else list(pickle.dumps(array.dtype))

    # A process without elements does not know their dtype.
    dtypes = gathered(address, collectively(address, dtype_here))
    known = next((bytes(d.astype("u1")) for d in dtypes if len(d)), pickle.dumps(np.dtype("f8")))
    array = Array(plan.destination, pickle.loads(known), comm=comm)
    array.memory()[0][...] = 0
    return array
