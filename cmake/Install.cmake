# SPDX-License-Identifier: BSD-3-Clause
# What is installed for C++ users? Headers, both libraries, a CMake package, pkg-config files.

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/datamover")
install(TARGETS ${datamover_targets} EXPORT datamoverTargets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cpp)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/datamover"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT cpp
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(EXPORT datamoverTargets NAMESPACE datamover:: DESTINATION "${package_dir}" COMPONENT cpp)

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/datamoverConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/datamoverConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/datamoverConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/datamoverConfig.cmake"
              "${PROJECT_BINARY_DIR}/datamoverConfigVersion.cmake"
        DESTINATION "${package_dir}" COMPONENT cpp)

set(pkgconfig_files datamover-plan)
file(RELATIVE_PATH pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
if(DATAMOVER_MPI)
  list(APPEND pkgconfig_files datamover datamover-scalapack)
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
