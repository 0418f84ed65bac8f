// SPDX-License-Identifier: Apache-2.0
// The simulated device against known answers: curand's vectors, numbers that torch.cuda prints, digests
// computed once by independent code.
#include "oracle/random/random_simulation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/ownership/compare.h"
#include "oracle/random/random_formulas.h"
#include "oracle/random/random_launches.h"
#include "oracle/random/testing.h"

namespace lockstep::oracle {
namespace {

const DeviceModel kH200{132, 2048};

// Would catch: a wrong round, key schedule, or order of counter words.
TEST(RandomSimulation, PhiloxKnownAnswers) {
  EXPECT_EQ(ThreadGenerator(0, 0, 0).next(), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(ThreadGenerator(42, 0, 0).next(), (Words{0x9ceaf053, 0x77f5493b, 0x12bf50ad, 0x5742b3d7}));
  EXPECT_EQ(ThreadGenerator(1234, 0, 0).next(), (Words{0x2090b348, 0xda7cf0ab, 0x4401906f, 0xcbca470e}));
  ThreadGenerator stepping(7, 3, 8), started(7, 3, 12);
  stepping.next();
  EXPECT_EQ(stepping.next(), started.next());
}

// Would catch: a transformation other than curand's, or another numbering of threads, in the numbers that
// everybody sees.
TEST(RandomSimulation, PrintsWhatTorchCudaPrints) {
  const auto uniform = draw(call_of(RandomKind::kUniform, at::kFloat, {4, 4}), {0, 0}).flatten();
  const double printed[] = {.39904648, .51667917, .02493039, .94007939, .94585413, .79673123};
  for (int64_t i = 0; i < 6; ++i) EXPECT_NEAR(uniform[i].item<double>(), printed[i], 5e-9);
  const auto normal = draw(call_of(RandomKind::kNormal, at::kFloat, {10}), {0, 0});
  const double normals[] = {-.9247, -.4253, -2.6438, .1452, -.1209, -.5797, -.6229, -.3284, -1.0745, -.3631};
  for (int64_t i = 0; i < 10; ++i) EXPECT_NEAR(normal[i].item<double>(), normals[i], 5.1e-5);
  const auto large = draw(call_of(RandomKind::kUniform, at::kFloat, {1000000}), {1234, 0});
  EXPECT_FLOAT_EQ(large[0].item<float>(), 0.12720795F);
  EXPECT_FLOAT_EQ(large[270336].item<float>(), 0.853468955F);
  EXPECT_FLOAT_EQ(large[540672].item<float>(), 0.265648872F);
  EXPECT_FLOAT_EQ(large[811008].item<float>(), 0.796055257F);
}

// Would catch: a deviation in any element of the large ones; wrong widths of dropout's vectors, words of a
// 64-bit value.
TEST(RandomSimulation, DigestsOfOtherImplementations) {
  const RandomState state{1234, 8};
  struct Row {
    int64_t n;
    uint64_t uniform, small, wide, real64, mask1, mask4, mask8, tensor;
  };
  const Row rows[] = {
      {1000, 0x05ed1992eb3973d0, 0x690b1394a91e8397, 0xfbf44425616c88a5, 0x757494450e68a6dd,
       0x8c7cf1203e2eb251, 0x80c4ac98de4f1fce, 0xf07c162afe26be78, 0x21873bef889520a0},
      {1000000, 0xf0e77b00f79ef7d2, 0x16cec150caee339f, 0x24c275f0a338b0fb, 0xff4a2f450231792b,
       0x3f99b3dd1c1e6d7e, 0xcf60fde657d6f5b0, 0x960971d269bd6760, 0xcaec833571826642}};
  for (const auto& row : rows) {
    EXPECT_EQ(fnv(draw(call_of(RandomKind::kUniform, at::kFloat, {row.n}, -.5, .5), state)), row.uniform);
    EXPECT_EQ(fnv(draw(integers(row.n, 0, 1000), state)), row.small);
    EXPECT_EQ(fnv(draw(integers(row.n, 0, int64_t{1} << 40), state)), row.wide);
    EXPECT_EQ(fnv(draw(call_of(RandomKind::kUniform, at::kDouble, {row.n}), state)), row.real64);
    EXPECT_EQ(fnv(draw(call_of(RandomKind::kDropoutMask, at::kFloat, {row.n}, .1), state)), row.mask4);
    EXPECT_EQ(fnv(draw(call_of(RandomKind::kDropoutMask, at::kBFloat16, {row.n}, .1), state)), row.mask8);
    auto strided = call_of(RandomKind::kDropoutMask, at::kFloat, {row.n}, .1);
    strided.stride = {2};
    EXPECT_EQ(fnv(draw(strided, state)), row.mask1);
    const auto units = draw(call_of(RandomKind::kBernoulliUniform, at::kFloat, {row.n}), state);
    EXPECT_EQ(fnv(units <= .3F), row.tensor);
  }
}

// p = 0.1 as an integer threshold on words. Would catch: a mask whose bound is rounded another way.
TEST(RandomSimulation, DropoutKeepsBelowAnIntegerThreshold) {
  const float keep = static_cast<float>(1.0 - .1);
  EXPECT_LT(unit_float(0xe666657f), keep);
  EXPECT_GE(unit_float(0xe6666580), keep);
}

// Would catch: elements numbered in logical order where the kernel goes by memory, and the reverse for scalar
// dropout.
TEST(RandomSimulation, ElementsAreNumberedInMemoryOrder) {
  const DeviceModel tiny{1, 512};
  for (const auto kind : {RandomKind::kUniform, RandomKind::kDropoutMask}) {
    auto permuted = call_of(kind, at::kFloat, {40, 30}, kind == RandomKind::kUniform ? 0 : .5);
    const auto straight = draw(call_of(kind, at::kFloat, {30, 40}, permuted.a), {9, 4}, tiny);
    permuted.stride = {1, 40};
    EXPECT_TRUE(draw(permuted, {9, 4}, tiny).equal(straight.t()));
  }
  // 35 elements: the scalar kernel, by logical index whatever the memory.
  auto odd = call_of(RandomKind::kDropoutMask, at::kFloat, {5, 7}, .5);
  const auto logical = draw(odd, {9, 4}, tiny);
  odd.stride = {1, 5};
  EXPECT_EQ(dropout_vector(odd), 1);
  EXPECT_TRUE(draw(odd, {9, 4}, tiny).equal(logical));
  // A view with gaps: ascending strides, without the gaps.
  auto view = call_of(RandomKind::kUniform, at::kFloat, {3, 4});
  const auto dense = draw(view, {9, 4}, tiny);
  view.stride = {20, 2};
  EXPECT_TRUE(draw(view, {9, 4}, tiny).equal(dense));
  view.stride = {1, 8};
  EXPECT_TRUE(draw(view, {9, 4}, tiny)
                  .equal(draw(call_of(RandomKind::kUniform, at::kFloat, {4, 3}), {9, 4}, tiny).t()));
}

// Would catch: a prefix property that does not hold: with more threads than elements, one word of each thread
// is used.
TEST(RandomSimulation, SmallTensorsUseOneWordAThread) {
  const auto values = draw(call_of(RandomKind::kUniform, at::kFloat, {700}), {5, 16});
  for (int64_t i = 0; i < 700; ++i) {
    const auto word = ThreadGenerator(5, static_cast<uint64_t>(i), 16).next()[0];
    EXPECT_EQ(values[i].item<float>(), std::fma(static_cast<float>(word), 0x1p-32F, 0x1p-33F));
  }
}

// Would catch: the offset advanced by elements, by less than the words used, or at all for nothing.
TEST(RandomSimulation, OffsetsAdvanceAsTheKernelReserves) {
  const int64_t threads = 132 * 8 * 256;
  EXPECT_EQ(advanced(call_of(RandomKind::kUniform, at::kFloat, {0, 3})), 0U);
  EXPECT_EQ(advanced(call_of(RandomKind::kUniform, at::kFloat, {})), 4U);
  EXPECT_EQ(advanced(call_of(RandomKind::kUniform, at::kFloat, {4 * threads})), 4U);
  EXPECT_EQ(advanced(call_of(RandomKind::kUniform, at::kFloat, {4 * threads + 1})), 8U);
  EXPECT_EQ(advanced(call_of(RandomKind::kUniform, at::kDouble, {2 * threads + 1})), 8U);
  EXPECT_EQ(advanced(integers(2 * threads + 1, 0, int64_t{1} << 28)), 8U);
  EXPECT_EQ(advanced(integers(2 * threads + 1, 0, (int64_t{1} << 28) - 1)), 4U);
  const DeviceModel tiny{2, 256};  // 512 threads
  EXPECT_EQ(advanced(call_of(RandomKind::kDropoutMask, at::kFloat, {512 * 4 * 3}, .5), tiny), 12U);
  EXPECT_EQ(advanced(call_of(RandomKind::kDropoutMask, at::kBFloat16, {512 * 4 * 3}, .5), tiny), 12U);
  EXPECT_THROW(advanced(call_of(RandomKind::kUniform, at::kFloat, {1}), {1, 128}), Error);
}

// Would catch: the split above 2 GiB in the wrong place or order, or without the reserve that it loses.
TEST(RandomSimulation, LargeTensorsAreSplit) {
  const auto counts = [](const RandomCall& call) {
    std::vector<int64_t> result;
    for (const auto& launch : plan_launches(call, kH200).launches) result.push_back(launch.count());
    return result;
  };
  const auto uniform = [](c10::ScalarType dtype, std::vector<int64_t> shape) {
    return call_of(RandomKind::kUniform, dtype, std::move(shape));
  };
  const int64_t limit = int64_t{1} << 29;
  EXPECT_EQ(counts(uniform(at::kFloat, {limit})), (std::vector<int64_t>{limit}));
  EXPECT_EQ(counts(uniform(at::kFloat, {limit + 1})), (std::vector<int64_t>{limit / 2, limit / 2 + 1}));
  EXPECT_EQ(counts(uniform(at::kBFloat16, {3, 1 << 30})), (std::vector<int64_t>(4, 805306368)));
  EXPECT_EQ(counts(uniform(at::kFloat, {3000000000})), (std::vector<int64_t>(8, 375000000)));
  auto view = uniform(at::kFloat, {1 << 17, 4096});
  view.stride = {1 << 13, 1};
  EXPECT_EQ(counts(view), (std::vector<int64_t>(2, limit / 2)));
  const auto plan = plan_launches(uniform(at::kFloat, {int64_t{1} << 32}), kH200);
  EXPECT_EQ(plan.launches.size(), 8U);
  EXPECT_EQ(plan.advance, 31792U);
  EXPECT_EQ(plan.launches[0].offset, 15888U);
  EXPECT_EQ(plan.launches[3].offset, 15888U + 3 * 1988);
  EXPECT_EQ(plan.launches[3].first, 3 * limit);
}

// Would catch: bounds not rounded to the dtype first, the upper bound returned, a product and a sum for one
// fma.
TEST(RandomSimulation, UniformRoundsAsTheKernel) {
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    const auto values = draw(call_of(RandomKind::kUniform, dtype, {60000}, 1, 3), {3, 0}).to(at::kDouble);
    EXPECT_GE(values.min().item<double>(), 1);
    EXPECT_LT(values.max().item<double>(), 3);
  }
  const auto values = draw(call_of(RandomKind::kUniform, at::kFloat, {1000}, -.3, .3), {3, 0});
  const float from = -.3F, range = .3F - from;
  for (int64_t i = 0; i < 1000; ++i) {
    const float u = unit_float(ThreadGenerator(3, static_cast<uint64_t>(i), 0).next()[0]);
    EXPECT_EQ(values[i].item<float>(), std::fma(u, range, from));
  }
}

// Would catch: moments or pairing of the normal formulas wrong; 16-bit values rounded from anything but the
// float ones.
TEST(RandomSimulation, NormalValues) {
  const DeviceModel tiny{1, 512};
  const auto x = draw(call_of(RandomKind::kNormal, at::kFloat, {200000}, 2, 3), {11, 0}, tiny);
  const auto d = draw(call_of(RandomKind::kNormal, at::kDouble, {200000}, 2, 3), {11, 0}, tiny);
  for (const auto& t : {x.to(at::kDouble), d}) {
    EXPECT_NEAR(t.mean().item<double>(), 2, 0.03);
    EXPECT_NEAR(t.std().item<double>(), 3, 0.03);
    EXPECT_GT(t.max().item<double>(), 2 + 3 * 3.8);
  }
  for (const auto dtype : {at::kHalf, at::kBFloat16})
    EXPECT_TRUE(compare(x.to(dtype), draw(call_of(RandomKind::kNormal, dtype, {200000}, 2, 3), {11, 0}, tiny))
                    .equal());
  // The text's functions are a logarithm, a sine and a cosine.
  for (uint32_t w = 1; w < 4000000000U; w += 7654321) {
    const float u = unit_float(w);
    EXPECT_NEAR(text_log(u), std::log(u), 2e-7 * (1 + std::abs(std::log(u))));
    const auto z = normal_values<double>(Words{w, w / 3, ~w, w * 5});
    const double s = std::sqrt(-2 * std::log(unit_double(w, w / 3)));
    const double v = std::fma(static_cast<double>(mantissa_bits(~w, w * 5)), 0x1p-52, 0x1p-53);
    EXPECT_NEAR(z[0], s * std::sin(M_PI * v), 1e-14);
    EXPECT_NEAR(z[1], s * std::cos(M_PI * v), 1e-14);
  }
}

// Would catch: p compared in the wrong direction or precision; masks that keep p instead of 1 - p.
TEST(RandomSimulation, BernoulliAndMasksHaveTheirProbability) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBool, at::kLong}) {
    const auto hits = draw(call_of(RandomKind::kBernoulli, dtype, {100000}, .3), {1, 0}).to(at::kDouble);
    EXPECT_NEAR(hits.mean().item<double>(), .3, .01);
    EXPECT_EQ(
        draw(call_of(RandomKind::kBernoulli, dtype, {1000}, 0), {1, 0}).to(at::kDouble).sum().item<double>(),
        0);
  }
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf}) {
    const auto kept = draw(call_of(RandomKind::kDropoutMask, dtype, {100000}, .3), {1, 0}).to(at::kDouble);
    EXPECT_NEAR(kept.mean().item<double>(), .7, .01);
  }
  const auto values = draw(integers(100000, -5, 6, at::kInt), {1, 0});
  EXPECT_EQ(values.min().item<int64_t>(), -5);
  EXPECT_EQ(values.max().item<int64_t>(), 5);
  EXPECT_THROW(draw(call_of(RandomKind::kUniform, at::kLong, {3}), {1, 0}), Error);
}

}  // namespace
}  // namespace lockstep::oracle
