# SPDX-License-Identifier: Apache-2.0
# cmake --install: the files that find_package(Lockstep) reads. Each folder installs its
# library; public_headers.cmake the headers.
include(CMakePackageConfigHelpers)
set(_package ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)
configure_package_config_file(${CMAKE_SOURCE_DIR}/ci/cmake/LockstepConfig.cmake.in
  ${CMAKE_BINARY_DIR}/LockstepConfig.cmake INSTALL_DESTINATION ${_package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/LockstepConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(EXPORT LockstepTargets NAMESPACE Lockstep:: DESTINATION ${_package})
install(FILES ${CMAKE_BINARY_DIR}/LockstepConfig.cmake ${CMAKE_BINARY_DIR}/LockstepConfigVersion.cmake
  ${CMAKE_SOURCE_DIR}/ci/cmake/libtorch.cmake DESTINATION ${_package})
