// SPDX-License-Identifier: Apache-2.0
// Asks the processor.
#include "kernels/simd.h"

namespace lockstep {
Simd best_simd() {
  static const Simd best = [] {
#if defined(__x86_64__)
    const auto has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const auto has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
    if (has_avx2) return has_avx512 ? Simd::kAvx512 : Simd::kAvx2;
#endif
    return Simd::kBaseline;
  }();
  return best;
}

}  // namespace lockstep
