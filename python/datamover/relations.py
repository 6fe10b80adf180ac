# SPDX-License-Identifier: BSD-3-Clause
"""Address relations between two memories.

>>> import numpy as np, datamover as dm
>>> relation = dm.advanced.AddressRelation.from_pairs([0, 2, 4], [2, 1, 0], elem_bytes=4)
>>> relation.gather(np.array([10, 11, 12, 13, 14], dtype="i4"))
array([10, 12, 14], dtype=int32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._plan import AddressRelation, BoundCopy, RecomputeModel, RelationCache
from .machine_model import use_kept
from .mpi import core

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["AddressRelation", "BoundCopy", "RecomputeModel", "RelationCache"]

# Encodings are chosen by measured costs, if there are any.
use_kept()


def datatype(
    self: AddressRelation, side: str = "source", element: MPI.Datatype | None = None
) -> MPI.Datatype:
    """Return one side of the relation as a committed MPI datatype. Local; loads MPI.

    One of it at the base of the array is the message. Its elements are in the relation's order, so
    you can send it to the other side's datatype or to a contiguous buffer. Products become nested
    vectors, in time and size independent of the number of elements.

    Parameters
    ----------
    side : {"source", "destination"}
        The side of the relation.
    element : mpi4py.MPI.Datatype, optional
        The type of one element; by default, bytes of the same size.

    Returns
    -------
    mpi4py.MPI.Datatype
        Call `Free` to free it.

    Raises
    ------
    InvalidArgument
        `side` is unknown.
    WrongType
        `element` has another size than the relation's elements.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> from mpi4py import MPI
    >>> relation = dm.advanced.AddressRelation.from_pairs([0, 3, 4], [2, 1, 0])
    >>> kind = relation.datatype("source", MPI.DOUBLE)
    >>> message = np.zeros(3)
    >>> MPI.COMM_SELF.Sendrecv([np.arange(10.0, 15.0), 1, kind], 0, recvbuf=message)
    >>> message
    array([10., 13., 14.])
    >>> kind.Free()
    """
    from mpi4py import MPI

    made = MPI.Datatype()
    core().make_relation_datatype(
        self, side, MPI._addressof(element) if element else 0, MPI._addressof(made)
    )
    return made


# The class is made without MPI; this is the only method that needs it.
AddressRelation.datatype = datatype  # type: ignore[attr-defined]
# Users and doctest find the classes here.
for _class in (AddressRelation, BoundCopy, RecomputeModel, RelationCache):
    _class.__module__ = __name__
