# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, which defines commit() for the checkout at SOURCE, if its content would change.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
execute_process(COMMAND git -C ${SOURCE} status --porcelain
  OUTPUT_VARIABLE changes OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
elseif(changes)
  set(commit "${commit}+dirty")
endif()
set(text "// Generated.\n#include \"suites/harness/environment.h\"\n")
string(APPEND text "std::string lockstep::suites::commit() { return \"${commit}\"; }\n")
set(old "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
