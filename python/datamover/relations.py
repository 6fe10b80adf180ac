# SPDX-License-Identifier: BSD-3-Clause
"""Address relations between two memories.

>>> import numpy as np, datamover as dm
>>> relation = dm.AddressRelation.from_pairs([0, 2, 4], [2, 1, 0], elem_bytes=4)
>>> relation.gather(np.array([10, 11, 12, 13, 14], dtype="i4"))
array([10, 12, 14], dtype=int32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._plan import AddressRelation, BoundCopy, RecomputeModel, RelationCache
from .machine_model import use_kept

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["AddressRelation", "BoundCopy", "RecomputeModel", "RelationCache"]

# Encodings are chosen by what was measured here, if anything was.
use_kept()


def datatype(
    self: AddressRelation, side: str = "source", element: MPI.Datatype | None = None
) -> MPI.Datatype:
    """One side of the relation as an MPI datatype, committed. Local; loads MPI.

    One of it at the base of the array is the message: its elements come in the relation's order,
    so that it can be sent to the other side's datatype or to a contiguous buffer. Products become
    nested vectors, in time and size independent of the number of elements.

    Parameters
    ----------
    side : {"source", "destination"}
        Which side.
    element : mpi4py.MPI.Datatype, optional
        The type of one element; as many bytes without it.

    Returns
    -------
    mpi4py.MPI.Datatype
        To be freed with `Free`.

    Raises
    ------
    InvalidArgument
        When `side` is another word.
    WrongType
        When `element` is of another size than the relation's elements.

    Examples
    --------
    >>> import numpy as np, datamover as dm
    >>> from mpi4py import MPI
    >>> relation = dm.AddressRelation.from_pairs([0, 3, 4], [2, 1, 0])
    >>> kind = relation.datatype("source", MPI.DOUBLE)
    >>> message = np.zeros(3)
    >>> MPI.COMM_SELF.Sendrecv([np.arange(10.0, 15.0), 1, kind], 0, recvbuf=message)
    >>> message
    array([10., 13., 14.])
    >>> kind.Free()
    """
    from mpi4py import MPI

    from .mpi import core

    made = MPI.Datatype()
    core().make_relation_datatype(
        self, side, MPI._addressof(element) if element else 0, MPI._addressof(made)
    )
    return made


# The class is made where there is no MPI; this is the one method that needs it.
AddressRelation.datatype = datatype
# Here is where users and doctest find the classes.
for _class in (AddressRelation, BoundCopy, RecomputeModel, RelationCache):
    _class.__module__ = __name__
