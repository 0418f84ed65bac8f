// SPDX-License-Identifier: Apache-2.0
// Numerics lanes. exact: stock kernels made slice-invariant by environment and settings; fast: as users run
// them.
#pragma once
#include <string>

namespace lockstep {

enum class Lane { kExact, kFast };

// For programs, at the start of main: sets MKL_CBWR=AVX2,STRICT, ATEN_CPU_CAPABILITY=default,
// OMP_NUM_THREADS=1 and re-executes the program if they were not set (libraries read them at load), then sets
// one thread, mkldnn off.
void enter_lane(Lane lane, char** argv);

// libtorch computes in one thread from now on, unless OMP_NUM_THREADS says otherwise.
void default_to_one_thread();

// The lane that this process has entered, by enter_lane or require_exact_lane; fast before.
Lane entered_lane();

// The slice probe: for each GEMM dtype, elementwise op and convolution, a slice of the stock kernel's result
// must be the kernel's result on the slice. Returns "" or the op that does not hold, with dtype and shape.
// Costs about 0.1 s.
std::string slice_probe();

// For embedding programs: throws Error unless the exact lane holds in this process; a library must not exec
// its host.
void require_exact_lane();

}  // namespace lockstep
