# SPDX-License-Identifier: Apache-2.0
# Installs the program, the headers and the package: find_package(megacpp) gives megacpp::megacpp and one target per folder.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

get_property(libraries GLOBAL PROPERTY MEGACPP_LIBRARIES)
add_library(megacpp_all INTERFACE)
set_target_properties(megacpp_all PROPERTIES EXPORT_NAME megacpp)
target_link_libraries(megacpp_all INTERFACE ${libraries})

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/megacpp")
install(TARGETS megacpp_all ${libraries} EXPORT megacppTargets)
if(TARGET megacpp)
  install(TARGETS megacpp)
endif()
if(TARGET megacpp_mpi)
  install(TARGETS megacpp_mpi LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/megacpp")
endif()
install(DIRECTORY megacpp DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h" PATTERN "*.inc")
install(EXPORT megacppTargets NAMESPACE megacpp:: DESTINATION "${package_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/megacppConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES cmake/megacppConfig.cmake cmake/MegacppDependencies.cmake "${PROJECT_BINARY_DIR}/megacppConfigVersion.cmake"
        DESTINATION "${package_folder}")
