# SPDX-License-Identifier: BSD-3-Clause
# Build of one wheel for several MPIs. DATAMOVER_WHEEL_MPIS lists their compiler wrappers, as in
# "mpich=/a/mpicxx;openmpi=/b/mpicxx". Sources that need MPI are compiled once for each, as
# datamover_<name>, and all others once. The modules contain what they use, as those of a build for one MPI.
# The names are those of python/datamover/mpi_modules.py, which chooses one at run time. Sets
# datamover_wheel_mpis.

# The include directories and the library that a wrapper compiles and links with, as the target
# datamover_mpi_<name>. CMake's FindMPI can look for only one in a build.
function(datamover_wheel_mpi name wrapper)
  execute_process(COMMAND "${wrapper}" -show OUTPUT_VARIABLE shown OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(words UNIX_COMMAND "${shown}")
  foreach(part IN ITEMS "include;-I" "directory;-L" "library;-l" "definition;-D")
    list(GET part 0 kind)
    list(GET part 1 option)
    set(${kind} ${words})
    list(FILTER ${kind} INCLUDE REGEX "^${option}")
    list(TRANSFORM ${kind} REPLACE "^${option}" "")
  endforeach()
  list(FILTER library INCLUDE REGEX "^mpi(_abi)?$")
  find_library(DATAMOVER_LIBMPI_${name} NAMES ${library} PATHS ${directory} NO_DEFAULT_PATH REQUIRED)
  add_library(datamover_mpi_${name} INTERFACE)
  target_include_directories(datamover_mpi_${name} SYSTEM INTERFACE ${include})
  target_compile_definitions(datamover_mpi_${name} INTERFACE
    ${definition} MPICH_SKIP_MPICXX OMPI_SKIP_MPICXX _MPICC_H) # as FindMPI does
  target_link_libraries(datamover_mpi_${name} INTERFACE "${DATAMOVER_LIBMPI_${name}}")
  message(STATUS "The wheel's module for ${name} is built against ${DATAMOVER_LIBMPI_${name}}")
endfunction()

set(datamover_wheel_mpis "")
foreach(entry IN LISTS DATAMOVER_WHEEL_MPIS)
  string(REGEX MATCH "^([a-z0-9]+)=(.+)$" found "${entry}")
  if(NOT found)
    message(FATAL_ERROR "DATAMOVER_WHEEL_MPIS has the entry '${entry}'; it takes name=compiler wrapper.")
  endif()
  set(name "${CMAKE_MATCH_1}")
  datamover_wheel_mpi(${name} "${CMAKE_MATCH_2}")
  datamover_library(datamover_${name} datamover_${name} ${mover_sources})
  target_link_libraries(datamover_${name} PUBLIC datamover_plan datamover_mpi_${name})
  list(APPEND datamover_wheel_mpis ${name})
endforeach()
