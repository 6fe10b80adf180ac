# SPDX-License-Identifier: BSD-3-Clause
"""Recipe for Spack (see packaging/README.md)."""

from spack.package import *


class PyDatamover(PythonPackage):
    """Moves distributed arrays from any layout to any other, on MPI."""

    pypi = "datamover/datamover-0.1.0.tar.gz"
    license("BSD-3-Clause")

    version("0.1.0")  # add sha256="..." of the published archive

    variant("files", default=True, description="Zarr and HDF5")
    variant("plot", default=False, description="Pictures of plans and layouts")

    depends_on("cxx", type="build")
    depends_on("mpi")
    depends_on("python@3.11:", type=("build", "link", "run"))
    depends_on("cmake@3.21:", type="build")
    depends_on("ninja", type="build")
    depends_on("py-scikit-build-core@0.11:", type="build")
    depends_on("py-nanobind@2.7:", type="build")
    depends_on("py-mpi4py@4.1:", type=("build", "run"))
    depends_on("py-numpy@1.25:", type=("build", "run"))
    depends_on("py-platformdirs@3:", type=("build", "run"))
    depends_on("py-rich@13:", type=("build", "run"))
    depends_on("py-typer@0.15.4:", type=("build", "run"))
    depends_on("py-h5py@3.10:", type=("build", "run"), when="+files")
    depends_on("py-zarr@3.0.8:", type=("build", "run"), when="+files")
    depends_on("py-matplotlib@3.7:", type=("build", "run"), when="+plot")

    conflicts("%gcc@:11", msg="datamover needs C++20: GCC 12 or newer")

    def setup_build_environment(self, env):
        """Build against the MPI of the environment, without the benchmark programs."""
        env.set("MPICXX", self.spec["mpi"].mpicxx)
        env.set("DATAMOVER_BENCH", "OFF")
