// SPDX-License-Identifier: Apache-2.0
// Ops without a rule on whole tensors, where a scope allows it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/ops/resolve.h"
#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"
#include "engine/values/error.h"
#include "engine/values/refused.h"

namespace lockstep {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Sample {
  const char* name;
  Tensors values;
  std::function<Tensors(const Tensors&)> call;
};

const at::Tensor kIndex = at::tensor({1, 0, 3}, at::kLong);

template <class Pair>
Tensors both(const Pair& pair) {
  return {std::get<0>(pair), std::get<1>(pair)};
}

const std::vector<Sample>& samples() {
  static const auto x = ramp({4, 6}), image = ramp({2, 4, 3, 3}), scale = ramp({4}) + 9,
                    ints = ramp({4, 6}).add(7).to(at::kLong);
  // clang-format off
  static const std::vector<Sample> all = {
      {"repeat", {x}, [](auto& t) { return Tensors{t[0].repeat({2, 3})}; }},
      {"masked_scatter", {x, x * 2},
       [](auto& t) { return Tensors{t[0].masked_scatter(t[0].detach().gt(2), t[1])}; }},
      {"native_batch_norm", {image, scale, scale}, [](auto& t) {
         return Tensors{at::batch_norm(t[0], t[1], t[2], {}, {}, true, 0.1, 1e-5, false)};
       }},
      {"native_group_norm", {image, scale, scale},
       [](auto& t) { return Tensors{at::group_norm(t[0], 2, t[1], t[2])}; }},
      {"huber_loss", {x, x * 2}, [](auto& t) { return Tensors{at::huber_loss(t[0], t[1])}; }},
      {"smooth_l1_loss", {x, x * 2}, [](auto& t) { return Tensors{at::smooth_l1_loss(t[0], t[1])}; }},
      {"binary_cross_entropy", {x}, [](auto& t) {
         return Tensors{at::binary_cross_entropy(at::sigmoid(t[0]), at::sigmoid(t[0].detach()))};
       }},
      {"glu", {x}, [](auto& t) { return Tensors{at::glu(t[0], 1)}; }},
      {"_prelu_kernel", {x, ramp({6})}, [](auto& t) { return Tensors{at::prelu(t[0], t[1])}; }},
      {"aminmax", {x}, [](auto& t) { return both(at::aminmax(t[0].detach())); }},
      {"median", {x}, [](auto& t) { return Tensors{at::median(t[0])}; }},
      {"median.dim", {x}, [](auto& t) { return both(at::median(t[0], 0)); }},
      {"mode", {x}, [](auto& t) { return both(at::mode(t[0], 0)); }},
      {"kthvalue", {x}, [](auto& t) { return both(at::kthvalue(t[0], 2, 0)); }},
      {"count_nonzero", {x}, [](auto& t) { return Tensors{at::count_nonzero(t[0], at::IntArrayRef{0})}; }},
      {"_cummax_helper", {x}, [](auto& t) { return both(at::cummax(t[0], 0)); }},
      {"trace", {x}, [](auto& t) { return Tensors{at::trace(t[0])}; }},
      {"histc", {x}, [](auto& t) { return Tensors{at::histc(t[0].detach(), 5)}; }},
      {"bucketize.Tensor", {x, ramp({5})}, [](auto& t) { return Tensors{at::bucketize(t[0], t[1])}; }},
      {"bincount", {ints.flatten()}, [](auto& t) { return Tensors{at::bincount(t[0])}; }},
      {"scatter_reduce.two", {x, x, ints.remainder(4)},
       [](auto& t) { return Tensors{at::scatter_reduce(t[0], 0, t[2], t[1], "amax")}; }},
      {"index_copy", {x, ramp({3, 6}), kIndex},
       [](auto& t) { return Tensors{at::index_copy(t[0], 0, t[2], t[1])}; }},
      {"take", {x, kIndex}, [](auto& t) { return Tensors{at::take(t[0], t[1])}; }},
      {"upsample_nearest2d", {image}, [](auto& t) { return Tensors{at::upsample_nearest2d(t[0], {6, 6})}; }},
      {"_unique2", {ints}, [](auto& t) { return Tensors{std::get<0>(at::_unique2(t[0]))}; }},
      {"isin.Tensor_Tensor", {ints, kIndex}, [](auto& t) { return Tensors{at::isin(t[0], t[1])}; }},
      {"unfold_backward", {ramp({4, 5, 2})},
       [](auto& t) { return Tensors{at::unfold_backward(t[0].detach(), {4, 6}, 1, 2, 1)}; }},
  };
  // clang-format on
  return all;
}

// Bits: a mean may be the same numbers added in another order, these are not.
bool same(const at::Tensor& ours, const at::Tensor& plain) {
  if (!ours.defined() || !plain.defined()) return ours.defined() == plain.defined();
  return full_tensor(ours).equal(plain);
}

Tensors leaves(const Tensors& values, bool distributed) {
  Tensors result;
  for (const auto& t : values)
    result.push_back(!t.is_floating_point() ? t : distributed ? parameter(t) : t.clone().requires_grad_());
  return result;
}

// The sum of what has a gradient, as a plain number of rank 0's: reads nothing that the sample does not.
void backward(const Tensors& results) {
  at::Tensor loss;
  for (const auto& r : results)
    if (r.requires_grad()) loss = loss.defined() ? loss + (r * r).sum() : (r * r).sum();
  if (loss.defined()) loss.backward();
}

// One placement of each kind that whole tensors are gathered from.
Placements choices(int64_t ndim) {
  Placements result{Replicate{}, Partial{}, InterleavedShard{0, 2}};
  for (int64_t d = 0; d < std::min<int64_t>(ndim, 2); ++d) result.emplace_back(Shard{d});
  return result;
}

class FallbackTest : public testing::Test {
 protected:
  const MeshInWorld mesh_ = init_device_mesh({3});

  at::Tensor place(const at::Tensor& value, const Placement& p) const {
    return distribute_tensor(value, mesh_, {p});
  }
};

// Catches: a result of a shard or of a pending term, a shape that the values decide and the engine guessed, a
// gradient that has no way back, since it is written in place into zeros that are plain or lie as a cut input
// does, a use that is not counted.
TEST_F(FallbackTest, WholeTensorsGiveThePlainValuesAndGradients) {
  for (const auto& s : samples()) {
    const auto plain = leaves(s.values, false);
    const auto expected = s.call(plain);
    backward(expected);
    each_placing(3, choices, s.values, [&](const Tensors& placed, const std::string& text) {
      const FallbackReplicate allow;
      const auto before = current_context()->counters.fallbacks;
      const auto ours = leaves(placed, true);
      const auto got = s.call(ours);
      EXPECT_EQ(error_of([&] { backward(got); }), "") << s.name << ' ' << text;
      EXPECT_GT(current_context()->counters.fallbacks, before) << s.name << ' ' << text;
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same(got[i], expected[i])) << s.name << ' ' << text;
      for (size_t i = 0; i < ours.size(); ++i)
        EXPECT_TRUE(same(ours[i].grad(), plain[i].grad())) << s.name << ' ' << text << " gradient " << i;
    });
  }
}

// Catches: a silent gather where nobody allowed it; an error that does not say how to.
TEST_F(FallbackTest, OutsideOfTheScopeTheyRefuse) {
  for (const auto& s : samples()) {
    Tensors placed;
    for (const auto& t : s.values) placed.push_back(place(t, Shard{0}));
    const auto text = error_of([&] { s.call(placed); });
    EXPECT_TRUE(
        says(text, {"aten::", "no sharding rule", "register_sharding", "FallbackReplicate", "full_tensor()"}))
        << s.name << ": " << text;
  }
}

template <class F>
std::string refusal_of(F&& f) {
  try {
    f();
  } catch (const Refused& r) {
    return concat(r.op, ", ", name(r.why), ": ", r.what());
  }
  return "";
}

// Catches: a view of a copy, numbers of no stream, statistics written to a copy, a Spec that its locals left.
TEST_F(FallbackTest, WhatWholeTensorsCannotDoRefuses) {
  const FallbackReplicate allow;
  auto x = place(ramp({4, 6}), Shard{0});
  EXPECT_TRUE(says(refusal_of([&] { x.unfold(1, 2, 1); }), {"aten::unfold, no rule", "is a view"}));
  EXPECT_TRUE(says(refusal_of([&] { x.view(at::kInt); }), {"aten::view.dtype, no rule", "is a view"}));
  EXPECT_TRUE(says(refusal_of([&] { at::poisson(x); }), {"aten::poisson, no stream"}));
  EXPECT_TRUE(says(refusal_of([&] { x.resize_({2}); }), {"aten::resize_, no rule", "in place"}));
  EXPECT_TRUE(says(refusal_of([&] { at::fft_fft(x); }), {"aten::_fft_r2c, no rule", "ComplexFloat"}));
  const auto index = place(at::tensor({1, 0}, at::kLong), Replicate{});
  EXPECT_TRUE(says(refusal_of([&] { x.index_copy_(0, index, x.slice(1, 0, 6).index_select(0, index)); }),
                   {"aten::index_copy_, in place", "redistribute"}));
  const auto image = place(ramp({2, 4, 3, 3}), Shard{0}), mean = place(ramp({4}), Shard{0});
  EXPECT_TRUE(says(refusal_of([&] { at::batch_norm(image, {}, {}, mean, mean, true, 0.1, 1e-5, false); }),
                   {"aten::native_batch_norm, in place", "redistribute"}));
  const ExplicitRedistribution explicit_only;
  EXPECT_TRUE(says(refusal_of([&] { x.repeat({2, 2}); }), {"aten::repeat, explicit redistribution"}));
}

// Catches: an in-place op or an out variant that writes a copy; running statistics that differ.
TEST_F(FallbackTest, WhatIsWrittenIsWritten) {
  const FallbackReplicate allow;
  const auto plain = ramp({4, 6});
  auto x = place(plain, Replicate{});
  const auto index = place(at::tensor({1, 0}, at::kLong), Replicate{}),
             rows = place(ramp({2, 6}) * 5, Shard{1});
  EXPECT_TRUE(x.index_copy_(0, index, rows).is_same(x));
  EXPECT_TRUE(full_tensor(x).equal(plain.index_copy(0, at::tensor({1, 0}, at::kLong), ramp({2, 6}) * 5)));
  auto out = empty({0}, mesh_, {Replicate{}});
  at::histc_out(out, x, 4);
  EXPECT_TRUE(full_tensor(out).equal(at::histc(full_tensor(x), 4)));
  const auto image = ramp({2, 4, 3, 3});
  auto mean = at::zeros({4}), var = at::ones({4});
  at::batch_norm(image, {}, {}, mean, var, true, 0.1, 1e-5, false);
  const auto our_mean = place(at::zeros({4}), Replicate{}), our_var = place(at::ones({4}), Replicate{});
  at::batch_norm(place(image, Shard{1}), {}, {}, our_mean, our_var, true, 0.1, 1e-5, false);
  EXPECT_TRUE(full_tensor(our_mean).equal(mean) && full_tensor(our_var).equal(var));
}

// Numbers that a program reads, and replicas that would let ranks part.
TEST_F(FallbackTest, NumbersAreThoseOfEveryRank) {
  const FallbackReplicate allow;
  const auto x = place(ramp({4, 6}), Shard{0});
  EXPECT_TRUE(at::allclose(x, x + 0.0));
  EXPECT_FALSE(at::allclose(x, x + 1.0));
  PerRank<at::Tensor> torn{at::zeros({3}), at::ones({3}), at::zeros({3})};
  const auto replicas = from_local(torn, mesh_, {Replicate{}}, std::nullopt, std::nullopt, false);
  EXPECT_TRUE(says(error_of([&] { at::masked_select(replicas, replicas.gt(0)); }),
                   {"masked_select", "rank 1", "diverged"}));
  EXPECT_TRUE(says(error_of([&] { at::nonzero(replicas); }), {"nonzero", "rank 1", "diverged"}));
}

}  // namespace
}  // namespace lockstep
