// SPDX-License-Identifier: Apache-2.0
// One source, several instruction sets: the build is for any x86-64, and the processor it runs on is asked
// once. Every operation of these kernels is one IEEE operation on all of them, so all give the same bits; a
// test compares them.
#pragma once

namespace lockstep {

enum class Simd {
  kBaseline,  // what the compiler was told; fma may be a slow call of libm, which is exact too
  kAvx2,      // AVX2 and FMA
  kAvx512,    // AVX-512 F, VL, DQ, BW
};

// The best that this processor has.
Simd best_simd();

namespace detail {

#if defined(__x86_64__)
// All that f calls is inlined here, and so compiled for these instructions.
template <class F>
[[gnu::target("avx2,fma"), gnu::flatten]] void run_avx2(const F& f) {
  f();
}
template <class F>
[[gnu::target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma"), gnu::flatten]] void run_avx512(const F& f) {
  f();
}
#endif
template <class F>
[[gnu::flatten]] void run_baseline(const F& f) {
  f();
}

}  // namespace detail

// Calls f, compiled for the instruction set.
template <class F>
void with_simd(Simd simd, const F& f) {
#if defined(__x86_64__)
  if (simd == Simd::kAvx512) return detail::run_avx512(f);
  if (simd == Simd::kAvx2) return detail::run_avx2(f);
#endif
  detail::run_baseline(f);
}

}  // namespace lockstep
