# SPDX-License-Identifier: Apache-2.0
# The imported target torch_cpu, for this build and, installed beside the package file, for its users.
# find_package(Torch) is not used: it demands CUDA. In: LOCKSTEP_TORCH_ROOT, which holds include/ and lib/.
if(NOT EXISTS ${LOCKSTEP_TORCH_ROOT}/include/ATen/ATen.h)
  message(FATAL_ERROR
          "No libtorch at ${LOCKSTEP_TORCH_ROOT}. Run ci/setup, or pass -DLOCKSTEP_LIBTORCH=/path/to/torch.")
endif()
set(LOCKSTEP_TORCH_LIB ${LOCKSTEP_TORCH_ROOT}/lib)

# The wheel's libtorch_cpu needs libcudart and libcupti, from the nvidia wheels or from a CUDA toolkit.
find_path(LOCKSTEP_CUDART_DIR libcudart.so.13
  PATHS ${LOCKSTEP_TORCH_ROOT}/../nvidia/cu13/lib ${LOCKSTEP_TORCH_LIB}
        /usr/local/cuda/lib64 /usr/local/cuda-13.0/lib64
  NO_DEFAULT_PATH NO_CACHE)

add_library(torch_cpu SHARED IMPORTED GLOBAL)
set(_include ${LOCKSTEP_TORCH_ROOT}/include)
set_target_properties(torch_cpu PROPERTIES
  IMPORTED_LOCATION ${LOCKSTEP_TORCH_LIB}/libtorch_cpu.so
  INTERFACE_INCLUDE_DIRECTORIES "${_include};${_include}/torch/csrc/api/include"
  INTERFACE_LINK_LIBRARIES ${LOCKSTEP_TORCH_LIB}/libc10.so)
set(CMAKE_BUILD_RPATH ${LOCKSTEP_TORCH_LIB})
set(CMAKE_INSTALL_RPATH ${LOCKSTEP_TORCH_LIB})
if(LOCKSTEP_CUDART_DIR)
  list(APPEND CMAKE_BUILD_RPATH ${LOCKSTEP_CUDART_DIR})
  list(APPEND CMAKE_INSTALL_RPATH ${LOCKSTEP_CUDART_DIR})
  add_link_options(-Wl,-rpath-link,${LOCKSTEP_CUDART_DIR})
endif()
