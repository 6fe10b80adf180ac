# SPDX-License-Identifier: BSD-3-Clause
# Search path for libmpi of binaries in the Python package: the library directory of their virtual
# environment if it contains MPI (PyPI's mpich), otherwise the location at build time.

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
