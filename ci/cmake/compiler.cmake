# SPDX-License-Identifier: Apache-2.0
# Language level, warnings and the floating-point rules that make bits comparable.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# One flag for libraries and programs: with -fPIE programs could not use the libraries' precompiled header.
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-fPIC>" "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fPIC>")

# libtorch is built so; without it some of its classes (at::RecordFunction) have members that it never set.
add_compile_definitions($<$<NOT:$<CONFIG:Release>>:NDEBUG>)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

set(LOCKSTEP_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")

# No fast-math, no contraction: a fused multiply-add exists only where the source writes one.
set(_options -Wall -Wextra -Wconversion -Wshadow -Werror -ffp-contract=off -fno-fast-math)
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${_options}>")
if(LOCKSTEP_SANITIZE)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  # vptr checks need libtorch's type information, which the wheel does not export;
  # and instrumented code misleads gcc's flow analysis: uninitialised values in libtorch's headers, vectors that
  # insert() writes beyond.
  # Of each access to an object whether its address is null (the address sanitizer reports that one, too) or
  # misaligned (kernels/CMakeLists.txt asks where words are read from bytes) makes code four times as large, and takes
  # as long to compile as all the rest twice.
  add_compile_options(-fno-sanitize=vptr,null,alignment -Wno-maybe-uninitialized -Wno-array-bounds
    -Wno-stringop-overflow)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Precompiled headers need these sloppiness settings to be cached.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()
