# SPDX-License-Identifier: Apache-2.0
# Imported targets for libtorch and the small libraries. find_package(Torch) is not used: it demands CUDA.
if(DEFINED ENV{LOCKSTEP_CACHE})
  set(_lockstep_cache $ENV{LOCKSTEP_CACHE})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(_lockstep_cache $ENV{XDG_CACHE_HOME}/lockstep)
else()
  set(_lockstep_cache $ENV{HOME}/.cache/lockstep)
endif()

set(LOCKSTEP_LIBTORCH "" CACHE PATH "A libtorch 2.11.0 folder (holds include/ and lib/); empty: the one that ci/setup fetched")
set(_torch ${LOCKSTEP_LIBTORCH})
if(NOT _torch)
  set(_torch ${_lockstep_cache}/libtorch-2.11.0+cu130/torch)
endif()
if(NOT EXISTS ${_torch}/include/ATen/ATen.h)
  message(FATAL_ERROR "No libtorch at ${_torch}. Run ci/setup, or pass -DLOCKSTEP_LIBTORCH=/path/to/torch.")
endif()
set(LOCKSTEP_TORCH_ROOT ${_torch})
set(LOCKSTEP_TORCH_LIB ${_torch}/lib)

# The wheel's libtorch_cpu needs libcudart and libcupti, from the nvidia wheels or from a CUDA toolkit.
find_path(LOCKSTEP_CUDART_DIR libcudart.so.13
  PATHS ${_torch}/../nvidia/cu13/lib ${_torch}/lib /usr/local/cuda/lib64 /usr/local/cuda-13.0/lib64
  NO_DEFAULT_PATH)

add_library(torch_cpu SHARED IMPORTED GLOBAL)
set_target_properties(torch_cpu PROPERTIES
  IMPORTED_LOCATION ${LOCKSTEP_TORCH_LIB}/libtorch_cpu.so
  INTERFACE_INCLUDE_DIRECTORIES "${_torch}/include;${_torch}/include/torch/csrc/api/include"
  INTERFACE_LINK_LIBRARIES ${LOCKSTEP_TORCH_LIB}/libc10.so)
set(CMAKE_BUILD_RPATH ${LOCKSTEP_TORCH_LIB})
set(CMAKE_INSTALL_RPATH ${LOCKSTEP_TORCH_LIB})
if(LOCKSTEP_CUDART_DIR)
  list(APPEND CMAKE_BUILD_RPATH ${LOCKSTEP_CUDART_DIR})
  list(APPEND CMAKE_INSTALL_RPATH ${LOCKSTEP_CUDART_DIR})
  add_link_options(-Wl,-rpath-link,${LOCKSTEP_CUDART_DIR})
endif()

find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(SQLiteCpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
