# SPDX-License-Identifier: Apache-2.0
# Where the program finds the kept cases that the repository ships: in the source tree, or where they were installed.
set(_corpus ${CMAKE_SOURCE_DIR}/golden/corpus.txt)
set(_installed_corpus ${CMAKE_INSTALL_FULL_DATADIR}/lockstep/corpus.txt)
install(FILES ${_corpus} DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/kept.cpp PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON
  COMPILE_DEFINITIONS "LOCKSTEP_CORPUS=\"${_corpus}\";LOCKSTEP_INSTALLED_CORPUS=\"${_installed_corpus}\"")
