# SPDX-License-Identifier: Apache-2.0
# Where the program finds the list of what a run must cover: in the source tree, or where it was installed.
set(_coverage ${CMAKE_SOURCE_DIR}/golden/coverage.txt)
set(_installed_coverage ${CMAKE_INSTALL_FULL_DATADIR}/lockstep/coverage.txt)
install(FILES ${_coverage} DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/coverage.cpp PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON
  COMPILE_DEFINITIONS
  "LOCKSTEP_COVERAGE_LIST=\"${_coverage}\";LOCKSTEP_INSTALLED_COVERAGE_LIST=\"${_installed_coverage}\"")
if(BUILD_TESTING)
  target_compile_definitions(suites_coverage_test PRIVATE
    LOCKSTEP_SEARCH_LIST="${CMAKE_SOURCE_DIR}/golden/coverage_search.txt")
endif()
