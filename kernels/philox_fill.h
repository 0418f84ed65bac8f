// SPDX-License-Identifier: Apache-2.0
// Fills a local tensor with its elements of one random stream, whatever part of it they are. The image says
// which elements, the plan which Philox block and lane each one gets, the distribution what is made of them.
#pragma once
#include "kernels/distribution.h"
#include "kernels/philox_sweep.h"

namespace lockstep {

// Law: every element of the image is written once, at `out` plus its offset, with the value that the scalar
// functor computes for its block and lane; nothing else is written. The bits do not depend on `simd`.
// Returns false, and does nothing, where the distribution does not have the dtype.
bool fill(const Distribution& distribution, const PhiloxSweep& plan, const StreamImage& image, void* out,
          Simd simd = best_simd());

}  // namespace lockstep
