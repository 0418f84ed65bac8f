// SPDX-License-Identifier: Apache-2.0
// The CUDA device of this process, found at run time: nothing here needs CUDA to compile, link or start.
#pragma once
#include <string>

namespace lockstep {

// Loads libtorch_cuda, which registers its kernels, and asks for a device. "" if there is one, else why not
// and what to do.
std::string load_cuda();

// For programs that run Cases on the device: loads it and sets what makes a run repeat itself: deterministic
// kernels, no TF32, and backward passes in the thread that asks for them, as on the CPU, so that an observer
// of this thread sees them. "" or why there is no device, and then nothing is set.
// @pre no CUDA call has been made by this process yet
std::string enter_cuda();

}  // namespace lockstep
