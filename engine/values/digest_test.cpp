// SPDX-License-Identifier: Apache-2.0
// Digests tell tensors apart by every bit, and by nothing but dtype, shape and bits.
#include "engine/values/digest.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <set>

namespace lockstep {
namespace {

at::Tensor float_bits(std::vector<uint32_t> bits) {
  auto t = at::empty({static_cast<int64_t>(bits.size())});
  std::memcpy(t.data_ptr(), bits.data(), bits.size() * sizeof(uint32_t));
  return t;
}

// Would catch: a digest of values rather than bits: 1 ulp, the sign of zero or a NaN payload lost.
TEST(Digest, EveryBitCounts) {
  const auto base = digest(float_bits({0, 0x3f800000, 0x7fc00000}));
  EXPECT_NE(base, digest(float_bits({0, 0x3f800001, 0x7fc00000})));
  EXPECT_NE(base, digest(float_bits({0x80000000, 0x3f800000, 0x7fc00000})));
  EXPECT_NE(base, digest(float_bits({0, 0x3f800000, 0x7fc00001})));
  for (const int64_t n : {1, 2, 3, 7, 8, 9, 64}) {  // each bit of each byte, whole words and tails
    auto t = at::zeros({n}, at::kByte);
    std::set<Digest> seen{digest(t)};
    for (int64_t i = 0; i < n * 8; ++i) {
      auto flipped = t.clone();
      flipped.data_ptr<uint8_t>()[i / 8] = static_cast<uint8_t>(1U << (i % 8));
      const auto d = digest(flipped);
      EXPECT_TRUE(seen.insert(d).second);
      EXPECT_TRUE(d.lo != digest(t).lo && d.hi != digest(t).hi);
    }
  }
}

// Would catch: equal bytes of another shape or dtype, or a swap of elements, taken for the same tensor.
TEST(Digest, ShapeDtypeAndOrderCount) {
  std::set<Digest> seen{Digest{}};
  for (const auto& shape :
       std::vector<std::vector<int64_t>>{{}, {0}, {1}, {0, 2}, {2, 0}, {12}, {3, 4}, {4, 3}, {12, 1}})
    for (const auto dtype : {at::kFloat, at::kInt, at::kHalf, at::kBFloat16, at::kLong, at::kBool, at::kByte})
      EXPECT_TRUE(seen.insert(digest(at::zeros(shape, dtype))).second);
  EXPECT_NE(digest(float_bits({1, 2})), digest(float_bits({2, 1})));
  EXPECT_NE(digest(float_bits({1, 2, 3, 4})), digest(float_bits({3, 4, 1, 2})));
}

// Would catch: a digest of memory instead of logical order, so that equal tensors look different.
TEST(Digest, StridesDoNotCount) {
  const auto x = at::arange(24, at::kFloat).reshape({2, 3, 4});
  for (const auto& permutation : std::vector<std::vector<int64_t>>{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    const auto view = x.permute(permutation);
    EXPECT_EQ(digest(view), digest(view.contiguous()));
  }
  EXPECT_EQ(digest(x.select(2, 1)), digest(x.select(2, 1).clone()));
  EXPECT_EQ(digest(at::ones({1}).expand({5})), digest(at::ones({5})));
  EXPECT_EQ(digest(at::ones({2}).requires_grad_().t()), digest(at::ones({2})));
}

}  // namespace
}  // namespace lockstep
