# SPDX-License-Identifier: BSD-3-Clause
# Choice of the MPI to build against. In this order: MPI_CXX_COMPILER or MPI_HOME (CMake variables),
# the environment's MPICXX, MPICC or MPI_HOME, the mpicxx next to the Python interpreter (where
# PyPI's mpich installs it), the MPI that CMake finds.
# It has to be the MPI that mpi4py loads at run time; the Python package checks that.

if(NOT MPI_CXX_COMPILER AND NOT MPI_HOME)
  if(DEFINED ENV{MPICXX})
    find_program(MPI_CXX_COMPILER NAMES "$ENV{MPICXX}" REQUIRED)
  elseif(DEFINED ENV{MPICC})
    # The C++ wrapper has the C wrapper's name and place: mpicc.openmpi, mpicxx.openmpi.
    find_program(DATAMOVER_MPICC NAMES "$ENV{MPICC}" REQUIRED)
    get_filename_component(wrapper_dir "${DATAMOVER_MPICC}" DIRECTORY)
    get_filename_component(wrapper "${DATAMOVER_MPICC}" NAME)
    string(REPLACE "mpicc" "mpicxx" wrapper "${wrapper}")
    find_program(MPI_CXX_COMPILER NAMES "${wrapper}" PATHS "${wrapper_dir}" NO_DEFAULT_PATH REQUIRED)
  elseif(NOT DEFINED ENV{MPI_HOME} AND Python_EXECUTABLE)
    get_filename_component(python_dir "${Python_EXECUTABLE}" DIRECTORY)
    find_program(MPI_CXX_COMPILER NAMES mpicxx PATHS "${python_dir}" NO_DEFAULT_PATH)
    if(NOT MPI_CXX_COMPILER)
      unset(MPI_CXX_COMPILER CACHE)
    endif()
  endif()
endif()

set(MPI_CXX_SKIP_MPICXX TRUE) # the C++ bindings that MPI 3 removed
find_package(MPI COMPONENTS CXX)
if(NOT MPI_CXX_FOUND)
  message(FATAL_ERROR
    "No MPI found. Install one into this Python environment (pip install mpich) or name one: "
    "MPICC=/path/to/mpicc in the environment, or -DMPI_CXX_COMPILER=/path/to/mpicxx. "
    "Without MPI only the plans can be built: -DDATAMOVER_MPI=OFF.")
endif()

# Where libmpi is looked for at run time is CMake's to write, not the compiler wrapper's.
string(REGEX REPLACE "-Wl,-rpath[ ,=](-Wl,)?[^ ]+" "" mpi_link_flags "${MPI_CXX_LINK_FLAGS}")
string(STRIP "${mpi_link_flags}" mpi_link_flags)
if(mpi_link_flags)
  string(PREPEND mpi_link_flags "SHELL:")
endif()
set_target_properties(MPI::MPI_CXX PROPERTIES INTERFACE_LINK_OPTIONS "${mpi_link_flags}")
message(STATUS "datamover is built against the MPI of ${MPI_CXX_COMPILER}")
