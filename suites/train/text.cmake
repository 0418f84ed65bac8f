# SPDX-License-Identifier: Apache-2.0
# Where the program finds the text that the repository ships: in the source tree, or where it was installed.
set(_text ${CMAKE_SOURCE_DIR}/golden/text/genesis-kjv.txt)
set(_installed_text ${CMAKE_INSTALL_FULL_DATADIR}/lockstep/genesis-kjv.txt)
install(FILES ${_text} DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/text.cpp PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON
  COMPILE_DEFINITIONS "LOCKSTEP_TEXT=\"${_text}\";LOCKSTEP_INSTALLED_TEXT=\"${_installed_text}\"")
