# SPDX-License-Identifier: Apache-2.0
# kernels/*.cu become lockstep_kernels_cuda where nvcc is found. Without either, nothing changes.
set(LOCKSTEP_CUDA AUTO CACHE STRING "CUDA kernels: AUTO (where nvcc is found), ON (nvcc is required), OFF")
set_property(CACHE LOCKSTEP_CUDA PROPERTY STRINGS AUTO ON OFF)
file(GLOB _cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*.cu)

if(LOCKSTEP_CUDA STREQUAL "ON" OR (LOCKSTEP_CUDA AND _cuda_sources))
  include(CheckLanguage)
  check_language(CUDA)
  if(LOCKSTEP_CUDA STREQUAL "ON" AND NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "LOCKSTEP_CUDA=ON, but nvcc is not found. Add it to PATH, or set CUDACXX.")
  endif()
endif()
if(CMAKE_CUDA_COMPILER AND _cuda_sources)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
  enable_language(CUDA)
  add_library(lockstep_kernels_cuda STATIC ${_cuda_sources})
  # fmad=false as -ffp-contract=off: a fused multiply-add exists only where the source writes one.
  target_compile_options(lockstep_kernels_cuda PRIVATE --fmad=false --Werror=all-warnings)
  set_target_properties(lockstep_kernels_cuda PROPERTIES CUDA_STANDARD 17)
  target_link_libraries(lockstep_kernels_cuda PRIVATE lockstep_kernels)
endif()
