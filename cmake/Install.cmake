# SPDX-License-Identifier: BSD-3-Clause
# Installation for programs in C++, C and Fortran: headers, the libraries, static or shared, a CMake
# package, pkg-config files.

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/datamover")
install(TARGETS ${datamover_targets} EXPORT datamoverTargets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cpp
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cpp)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/datamover"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT cpp
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(EXPORT datamoverTargets NAMESPACE datamover:: DESTINATION "${package_dir}" COMPONENT cpp)

write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/datamoverConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/datamoverConfig.cmake"
              "${PROJECT_BINARY_DIR}/datamoverConfigVersion.cmake"
        DESTINATION "${package_dir}" COMPONENT cpp)

# What links static libraries links the C++ run time too, which a C or Fortran compiler does not do by
# itself.
set(cxx_runtime_libs ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
list(REMOVE_DUPLICATES cxx_runtime_libs)
list(FILTER cxx_runtime_libs INCLUDE REGEX "^(stdc\\+\\+|c\\+\\+|c\\+\\+abi|m)$")
if(BUILD_SHARED_LIBS)
  set(cxx_runtime_libs "")
endif()

# The wrappers of the same MPI for C and Fortran, beside that for C++.
foreach(pair IN ITEMS "C;mpicc" "Fortran;mpifort")
  list(GET pair 0 language)
  list(GET pair 1 wrapper)
  string(REGEX REPLACE "mpi(cxx|c\\+\\+|CC)([^/]*)$" "${wrapper}\\2" datamover_wrapper_${language}
         "${MPI_CXX_COMPILER}")
endforeach()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/datamoverConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/datamoverConfig.cmake" INSTALL_DESTINATION "${package_dir}")

set(pkgconfig_files datamover-plan)
set(pc_cxx_libs ${cxx_runtime_libs})
list(TRANSFORM pc_cxx_libs PREPEND "-l")
list(JOIN pc_cxx_libs " " pc_cxx_libs)
# A static library comes with the one that it is built upon, a shared one knows where it is.
set(pc_plan_lib "-ldatamover_plan")
set(pc_rpath "")
if(BUILD_SHARED_LIBS)
  set(pc_plan_lib "")
  set(pc_rpath "-Wl,-rpath,\${libdir}")
endif()
file(RELATIVE_PATH pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
if(DATAMOVER_MPI)
  list(APPEND pkgconfig_files datamover)
  if(TARGET datamover_scalapack)
    list(APPEND pkgconfig_files datamover-scalapack datamover-scalapack-c datamover-scalapack-ilp64)
  endif()
  if(TARGET datamover_fortran)
    list(APPEND pkgconfig_files datamover-fortran)
  endif()
  # Libraries by their full path: a static library is tied to the one MPI it was built against.
  list(JOIN MPI_CXX_LIBRARIES " " pc_mpi_libs)
  foreach(lib IN LISTS MPI_CXX_LIBRARIES)
    get_filename_component(lib_dir "${lib}" DIRECTORY)
    list(APPEND pc_mpi_rpath "-Wl,-rpath,${lib_dir}")
  endforeach()
  list(REMOVE_DUPLICATES pc_mpi_rpath)
  list(JOIN pc_mpi_rpath " " pc_mpi_rpath)
  set(pc_mpi_cflags "${MPI_CXX_INCLUDE_DIRS}")
  list(TRANSFORM pc_mpi_cflags PREPEND "-I")
  list(JOIN pc_mpi_cflags " " pc_mpi_cflags)
endif()
foreach(name IN LISTS pkgconfig_files)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT cpp)
endforeach()
