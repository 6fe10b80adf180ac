# SPDX-License-Identifier: BSD-3-Clause
# Choice of the ScaLAPACK for the MPI in use. Sets DATAMOVER_SCALAPACK_LIBRARY, empty if there is
# none. Debian and Ubuntu name it after the MPI and install it next to the MPI; another MPI of the
# same name (such as PyPI's) does not match.
include(CheckCXXSymbolExists)

set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_CXX)
check_cxx_symbol_exists(OPEN_MPI mpi.h DATAMOVER_MPI_IS_OPEN_MPI)
check_cxx_symbol_exists(MPICH_VERSION mpi.h DATAMOVER_MPI_IS_MPICH)
unset(CMAKE_REQUIRED_LIBRARIES)

set(DATAMOVER_SCALAPACK_LIBRARY "")
unset(scalapack CACHE)
if(DATAMOVER_MPI_IS_OPEN_MPI)
  find_library(scalapack NAMES scalapack-openmpi)
elseif(DATAMOVER_MPI_IS_MPICH)
  find_library(scalapack NAMES scalapack-mpich)
endif()
if(scalapack)
  list(GET MPI_CXX_LIBRARIES 0 libmpi)
  file(REAL_PATH "${libmpi}" libmpi)
  file(REAL_PATH "${scalapack}" scalapack)
  get_filename_component(scalapack_dir "${scalapack}" DIRECTORY)
  string(FIND "${libmpi}" "${scalapack_dir}/" at)
  if(at EQUAL 0)
    set(DATAMOVER_SCALAPACK_LIBRARY "${scalapack}")
  endif()
endif()
