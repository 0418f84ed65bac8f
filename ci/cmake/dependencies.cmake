# SPDX-License-Identifier: Apache-2.0
# Where libtorch is, and the small libraries.
if(DEFINED ENV{LOCKSTEP_CACHE})
  set(_cache $ENV{LOCKSTEP_CACHE})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(_cache $ENV{XDG_CACHE_HOME}/lockstep)
else()
  set(_cache $ENV{HOME}/.cache/lockstep)
endif()
set(LOCKSTEP_CACHE ${_cache} CACHE PATH "Where ci/setup put what it fetched")
set(LOCKSTEP_LIBTORCH "$ENV{LOCKSTEP_LIBTORCH}" CACHE PATH
    "A libtorch 2.11.0 folder (holds include/ and lib/); empty: the one that ci/setup fetched")
set(LOCKSTEP_TORCH_ROOT ${LOCKSTEP_LIBTORCH})
if(NOT LOCKSTEP_TORCH_ROOT)
  set(LOCKSTEP_TORCH_ROOT ${LOCKSTEP_CACHE}/libtorch-2.11.0+cu130/torch)
endif()
include(libtorch)

find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_package(rapidcheck REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(SQLiteCpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

# What `ci/setup --browser` made for tests: a virtual environment, and the schemas that outputs are held against.
file(READ ${CMAKE_SOURCE_DIR}/ci/python.txt _packages)
file(READ ${CMAKE_SOURCE_DIR}/ci/schemas.txt _schemas)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/ci/python.txt ${CMAKE_SOURCE_DIR}/ci/schemas.txt)
string(SHA256 _hash "${_packages}${_schemas}")
string(SUBSTRING ${_hash} 0 12 _hash)
set(LOCKSTEP_TEST_PYTHON ${LOCKSTEP_CACHE}/python-${_hash})
