# SPDX-License-Identifier: BSD-3-Clause
# Build of one wheel for several MPIs. DATAMOVER_WHEEL_MPIS lists their compiler wrappers, as in
# "mpich=/a/mpicxx;openmpi=/b/mpicxx". Sources that need MPI are compiled once for each, as
# datamover_<name>. All others are compiled and shipped once, in a library next to the modules.
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

# What needs no MPI is shipped once, as a shared library.
function(datamover_wheel_library)
  list(FILTER mover_sources EXCLUDE REGEX "/src/capi/") # no module calls the C face
  set(mover_sources ${mover_sources} PARENT_SCOPE)
  # The modules call more than the public headers declare. Calls within the library stay direct ones.
  set_target_properties(datamover_plan PROPERTIES CXX_VISIBILITY_PRESET default)
  # Classes that are hidden by name have bases or heirs that are not.
  target_compile_options(datamover_plan PRIVATE -fno-semantic-interposition -Wno-attributes)
  target_link_options(datamover_plan_shared PRIVATE -Wl,-Bsymbolic-functions -Wl,-z,defs)
  # A name of its own: no library that is installed for C++ is taken for it. No other version is beside it.
  set_target_properties(datamover_plan_shared PROPERTIES OUTPUT_NAME datamover_wheel
                        EXCLUDE_FROM_ALL FALSE INSTALL_RPATH "")
  set_property(TARGET datamover_plan_shared PROPERTY VERSION)
  set_property(TARGET datamover_plan_shared PROPERTY SOVERSION)
  install(TARGETS datamover_plan_shared LIBRARY DESTINATION datamover COMPONENT python)
endfunction()

if(DATAMOVER_WHEEL_MPIS)
  datamover_wheel_library()
endif()
set(datamover_wheel_mpis "")
foreach(entry IN LISTS DATAMOVER_WHEEL_MPIS)
  string(REGEX MATCH "^([a-z0-9]+)=(.+)$" found "${entry}")
  if(NOT found)
    message(FATAL_ERROR "DATAMOVER_WHEEL_MPIS has the entry '${entry}'; it takes name=compiler wrapper.")
  endif()
  set(name "${CMAKE_MATCH_1}")
  datamover_wheel_mpi(${name} "${CMAKE_MATCH_2}")
  datamover_library(datamover_${name} datamover_${name} ${mover_sources})
  target_link_libraries(datamover_${name} PUBLIC datamover_plan_shared datamover_mpi_${name})
  list(APPEND datamover_wheel_mpis ${name})
endforeach()
