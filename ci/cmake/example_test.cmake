# SPDX-License-Identifier: Apache-2.0
# The embedding example as a stranger meets it: install, configure outside the tree, build, run. What a launcher starts
# stays in WORK/out, for the test ci.launched.
# in: BUILD (this build), SOURCE (ci/example), WORK (an empty folder of ours)
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "exit ${code}: ${ARGN}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK}/prefix ${WORK}/out)
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/out -G Ninja -DCMAKE_BUILD_TYPE=Release
     -DCMAKE_CXX_FLAGS=${FLAGS} -DCMAKE_PREFIX_PATH=${WORK}/prefix)
step(${CMAKE_COMMAND} --build ${WORK}/out)
step(${WORK}/out/example)
file(REMOVE_RECURSE ${WORK}/prefix)
