# SPDX-License-Identifier: Apache-2.0
# Where the program finds the goldens that the repository ships: in the source tree, or where they were installed.
set(_golden ${CMAKE_SOURCE_DIR}/golden/rng)
set(_installed_golden ${CMAKE_INSTALL_FULL_DATADIR}/lockstep/rng)
install(DIRECTORY ${_golden} DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/golden.cpp PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON
  COMPILE_DEFINITIONS "LOCKSTEP_GOLDEN_FOLDER=\"${_golden}\";LOCKSTEP_INSTALLED_GOLDEN=\"${_installed_golden}\"")
