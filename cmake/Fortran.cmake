# SPDX-License-Identifier: BSD-3-Clause
# Build of the Fortran module from src/fortran, if there are a Fortran compiler and its
# ISO_Fortran_binding.h. Defines datamover_fortran, and DATAMOVER_FORTRAN_COMPILER for installed files.
include(CheckLanguage)
include(CheckIncludeFileCXX)

check_language(Fortran)
check_include_file_cxx(ISO_Fortran_binding.h DATAMOVER_HAS_FORTRAN_BINDING)
if(NOT CMAKE_Fortran_COMPILER OR NOT DATAMOVER_HAS_FORTRAN_BINDING)
  if(NOT DATAMOVER_TESTS)
    message(FATAL_ERROR "The Fortran module needs a Fortran compiler and ISO_Fortran_binding.h of the "
                        "same family as the C++ compiler. Debian, Ubuntu: apt-get install gfortran; "
                        "or build without it: -DDATAMOVER_FORTRAN=OFF.")
  endif()
  message(STATUS "There is no Fortran compiler: the Fortran module and its tests are left out.")
  return()
endif()
enable_language(Fortran)

set(modules "${PROJECT_BINARY_DIR}/fortran_modules")
set(modules_installed "${CMAKE_INSTALL_INCLUDEDIR}/datamover/fortran")
file(GLOB fortran_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/fortran/*.f90"
     "${PROJECT_SOURCE_DIR}/src/fortran/*.cpp" "${PROJECT_SOURCE_DIR}/src/fortran/generated/*")
add_library(datamover_fortran STATIC ${fortran_sources})
set_target_properties(datamover_fortran PROPERTIES EXPORT_NAME fortran LINKER_LANGUAGE CXX
                      Fortran_MODULE_DIRECTORY "${modules}")
target_include_directories(datamover_fortran PRIVATE "${PROJECT_SOURCE_DIR}/src"
                           PUBLIC $<BUILD_INTERFACE:${modules}>
                           $<INSTALL_INTERFACE:${modules_installed}>)
target_link_libraries(datamover_fortran PUBLIC datamover)
target_compile_options(datamover_fortran PRIVATE -Wall -Wextra
                       $<$<BOOL:${DATAMOVER_WERROR}>:-Werror>)
install(FILES "${modules}/datamover.mod" DESTINATION "${modules_installed}" COMPONENT cpp)
