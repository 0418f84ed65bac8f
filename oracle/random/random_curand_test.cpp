// SPDX-License-Identifier: Apache-2.0
// A third witness: cuRAND's own header, compiled for the host. It is part of the CUDA toolkit; where nvcc is
// installed it must be found, elsewhere the test says that it compared nothing.
#include <gtest/gtest.h>

#include <cstdio>

#if __has_include(<curand_kernel.h>)
#include <curand_kernel.h>
#endif

#include "oracle/random/random_formulas.h"

namespace lockstep::oracle {
namespace {

#if __has_include(<curand_kernel.h>)

struct Start {
  uint64_t seed, subsequence, offset;
};

// Corners of 64 bits, and 20000 starts all over; offsets of every residue.
std::vector<Start> starts() {
  const uint64_t corners[] = {0,
                              1,
                              3,
                              42,
                              0xffffffff,
                              0x100000000,
                              0x3fffffffd,
                              0x400000006,
                              uint64_t{1} << 63,
                              ~uint64_t{0} - 1,
                              ~uint64_t{0}};
  std::vector<Start> result;
  for (const auto seed : corners)
    for (const auto subsequence : corners)
      for (const auto offset : corners) result.push_back({seed, subsequence, offset});
  uint64_t x = 88172645463325252;
  const auto next = [&x] {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x;
  };
  for (int i = 0; i < 20000; ++i) {
    const auto seed = next(), subsequence = next() >> next() % 64, offset = next() >> next() % 64;
    result.push_back({seed, subsequence, offset});
  }
  return result;
}

// cuRAND and the simulation, from the same start.
struct Pair {
  explicit Pair(const Start& s) : ours(s.seed, s.subsequence, s.offset) {
    curand_init(s.seed, s.subsequence, s.offset, &theirs);
  }
  curandStatePhilox4_32_10_t theirs;
  ThreadGenerator ours;
};

// Words one by one and in fours, in an order that differs from start to start. Would catch: a wrong round,
// key or counter; a carry lost in an offset; a position lost between the two ways to draw.
TEST(RandomAgainstCurand, Words) {
  for (const auto& start : starts()) {
    Pair pair(start);
    for (uint64_t choices = start.seed ^ start.offset ^ 0x9d5b, i = 0; i < 12; ++i, choices >>= 1) {
      if (choices % 2 == 0) {
        ASSERT_EQ(pair.ours.next_word(), curand(&pair.theirs)) << start.seed << " " << start.offset;
      } else {
        const uint4 w = curand4(&pair.theirs);
        ASSERT_EQ(pair.ours.next(), (Words{w.x, w.y, w.z, w.w})) << start.seed << " " << start.offset;
      }
    }
  }
}

// Would catch: a unit value that rounds differently, words of a double exchanged.
TEST(RandomAgainstCurand, UnitValues) {
  for (const auto& start : starts()) {
    Pair floats(start), doubles(start);
    for (int draw = 0; draw < 3; ++draw) {
      const float4 f = curand_uniform4(&floats.theirs);
      ASSERT_EQ(unit_values<float>(floats.ours.next()), (std::array<float, 4>{f.x, f.y, f.z, f.w}));
      const double2 d = curand_uniform2_double(&doubles.theirs);
      ASSERT_EQ(unit_values<double>(doubles.ours.next()), (std::array<double, 2>{d.x, d.y}));
    }
  }
}

// The host's libm in cuRAND against the fixed formulas. Would catch: sine and cosine exchanged, a pair made
// of other words. Angles may differ by their last place, since the host multiplies and adds in two roundings.
TEST(RandomAgainstCurand, NormalValues) {
  for (const auto& start : starts()) {
    Pair floats(start), doubles(start);
    const float4 f = curand_normal4(&floats.theirs);
    const auto z = normal_values<float>(floats.ours.next());
    const float theirs[] = {f.x, f.y, f.z, f.w};
    for (size_t i = 0; i < 4; ++i) ASSERT_NEAR(z[i], theirs[i], 5e-6);
    const double2 d = curand_normal2_double(&doubles.theirs);
    const auto wide = normal_values<double>(doubles.ours.next());
    ASSERT_NEAR(wide[0], d.x, 2e-14);
    ASSERT_NEAR(wide[1], d.y, 2e-14);
  }
}

#else

TEST(RandomAgainstCurand, NothingWasCompared) {
  std::fputs("curand_kernel.h IS NOT HERE: the simulation was NOT compared with cuRAND\n", stderr);
#ifdef LOCKSTEP_NVCC
  FAIL() << "nvcc is installed at " LOCKSTEP_NVCC
            ", but not the headers of cuRAND; install them (on Debian: "
            "libcurand-dev-13-0), or set the CMake variable LOCKSTEP_CURAND to their folder";
#else
  GTEST_SKIP() << "no CUDA toolkit: not compared with cuRAND; install one, or set the CMake variable "
                  "LOCKSTEP_CURAND to the folder of curand_kernel.h";
#endif
}

#endif

}  // namespace
}  // namespace lockstep::oracle
