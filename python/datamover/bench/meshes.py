# SPDX-License-Identifier: BSD-3-Clause
"""Index lists of sparse matrix-vector products on real meshes.

The meshes are in the files of other packages (`pip install datamover[meshes]`); nothing is
downloaded.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from datamover.errors import Unsupported

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Each in the order of its file and after reverse Cuthill-McKee.
MESHES = ("bar", "helmholtz_2D", "fsaverage5")
ORDERS = ("natural", "rcm")
NAMES = tuple(f"mesh-{mesh}-{order}" for mesh in MESHES for order in ORDERS)


def columns(name: str) -> npt.NDArray[np.int64]:
    """Return which element of x each stored entry of A reads in A x, row after row.

    Parameters
    ----------
    name : str
        One of `NAMES`.

    Raises
    ------
    Unsupported
        The package with the mesh, or SciPy, is not installed.
    """
    _, mesh, order = name.split("-")
    matrix = _matrix(mesh)
    if order == "rcm":
        from scipy.sparse.csgraph import reverse_cuthill_mckee

        permutation = reverse_cuthill_mckee(matrix, symmetric_mode=True)
        matrix = matrix[permutation][:, permutation]
    matrix.sort_indices()
    return matrix.indices.astype(np.int64)


@cache
def _matrix(mesh: str) -> csr_array:
    need("scipy")
    if mesh == "fsaverage5":
        file = file_of_package("nilearn", "datasets", "data", "fsaverage5", "pial_left.gii.gz")
        return _surface(file)
    return _pyamg(file_of_package("pyamg", "gallery", "example_data", f"{mesh}.mat"))


def file_of_package(package: str, *parts: str) -> Path:
    """Find a file of a package without importing the package.

    Raises
    ------
    Unsupported
        The package is not installed.
    """
    return Path(need(package).submodule_search_locations[0], *parts)


def need(package: str) -> Any:
    """Return the specification of an installed package. Raises Unsupported if it is not."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise Unsupported(f"{package} is not installed (pip install datamover[meshes])")
    return spec


def _pyamg(path: Path) -> csr_array:
    """Return the stiffness matrix that pyamg stores with a mesh."""
    from scipy.io import loadmat
    from scipy.sparse import csr_array

    return csr_array(loadmat(path)["A"])


def _surface(path: Path) -> csr_array:
    """Return the matrix of linear elements on a surface mesh: an entry per edge and vertex."""
    need("nibabel")
    import nibabel
    from scipy.sparse import csr_array

    vertices, triangles = (array.data for array in nibabel.load(path).darrays)
    rows = np.repeat(triangles, 3, axis=1).ravel()
    across = np.tile(triangles, 3).ravel()
    matrix = csr_array((np.ones(len(rows)), (rows, across)), shape=2 * (len(vertices),))
    matrix.sum_duplicates()
    return matrix
