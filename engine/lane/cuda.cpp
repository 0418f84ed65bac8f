// SPDX-License-Identifier: Apache-2.0
#include "engine/lane/cuda.h"

#include <ATen/Context.h>
#include <c10/core/AutogradState.h>
#include <dlfcn.h>

#include <cstdlib>

#include "engine/lane/numerics.h"
#include "engine/values/error.h"

namespace lockstep {

std::string load_cuda() {
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return concat(dlerror(), "; install all of torch 2.11.0 and set LOCKSTEP_LIBTORCH, see golden/README.md");
  if (!at::hasCUDA() || at::detail::getCUDAHooks().deviceCount() == 0)
    return "libtorch finds no CUDA device or no driver";
  try {
    at::globalContext().lazyInitDevice(at::kCUDA);
  } catch (const c10::Error& e) {  // all of it is somebody else's
    return e.what_without_backtrace();
  }
  return "";
}

std::string enter_cuda() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 1);  // without it cuBLAS need not repeat itself
  if (auto why_not = load_cuda(); !why_not.empty()) return why_not;
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);
  context.setDeterministicFillUninitializedMemory(false);
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
  context.setBenchmarkCuDNN(false);
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  default_to_one_thread();  // the host has small tensors alone
  return "";
}

}  // namespace lockstep
