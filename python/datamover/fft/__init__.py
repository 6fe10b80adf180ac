# SPDX-License-Identifier: BSD-3-Clause
"""Fourier transforms of distributed arrays.

Local transforms use SciPy, or FFTW if pyfftw is installed; data is redistributed by movers.

>>> from mpi4py import MPI
>>> import numpy as np, datamover as dm
>>> fft = dm.fft.Plan((4, 6), "f8", comm=MPI.COMM_SELF)
>>> u = np.random.default_rng(1).random((4, 6))
>>> u_hat = fft.forward(u)
>>> np.allclose(u_hat.local, np.fft.rfftn(u))
True
"""

from .plan import Plan, Transform
from .transfer import Transfer

__all__ = ["Plan", "Transfer", "Transform"]
