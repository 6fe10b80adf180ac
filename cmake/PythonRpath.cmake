# SPDX-License-Identifier: BSD-3-Clause
# Where do binaries in the Python package look for libmpi? In the library directory of their own
# virtual environment where MPI came with it (PyPI's mpich), else where it was at build time.

function(datamover_python_rpath target environment_lib)
  if(NOT DATAMOVER_MPI)
    return()
  endif()
  list(GET MPI_CXX_LIBRARIES 0 libmpi)
  file(REAL_PATH "${libmpi}" libmpi)
  execute_process(COMMAND "${Python_EXECUTABLE}" -c "import sys; print(sys.prefix)"
                  OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(REAL_PATH "${prefix}" prefix)
  string(FIND "${libmpi}" "${prefix}/lib/" at)
  if(at EQUAL 0)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "${environment_lib}")
  else()
    set_target_properties(${target} PROPERTIES INSTALL_RPATH_USE_LINK_PATH TRUE)
  endif()
endfunction()
