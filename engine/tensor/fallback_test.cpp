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
      {"masked_select", {x}, [](auto& t) { return Tensors{at::masked_select(t[0], t[0].gt(2))}; }},
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

// Gradients that libtorch writes in place into zeros that are plain, or lie as a cut input does.
const std::set<std::string> kWrittenInPlace{"_cummax_helper", "masked_select", "take", "trace"};

bool goes_back(const Tensors& results, const std::string& name) {
  try {
    backward(results);
    return true;
  } catch (const Error& e) {
    EXPECT_TRUE(kWrittenInPlace.contains(name)) << name << ": " << e.what();
    return false;
  }
}

class FallbackTest : public testing::Test {
 protected:
  const MeshInWorld mesh_ = init_device_mesh({3});

  // Each tensor placed so, if its dimensions allow.
  Tensors place(const Tensors& values, const Placement& p) const {
    Tensors result;
    for (const auto& t : values)
      result.push_back(distribute_tensor(t, mesh_, {shard_dim(p) < t.dim() ? p : Placement(Replicate{})}));
    return result;
  }
};

// Catches: a result of a shard or of a pending term, a shape that the values decide and the engine guessed, a
// gradient that has no way back, a use that is not counted.
TEST_F(FallbackTest, WholeTensorsGiveThePlainValuesAndGradients) {
  for (const auto& s : samples()) {
    const auto plain = leaves(s.values, false);
    const auto expected = s.call(plain);
    backward(expected);
    for (const auto& p : {Placement(Replicate{}), Placement(Shard{0}), Placement(Shard{1}),
                          Placement(Partial{}), Placement(InterleavedShard{0, 2})}) {
      const FallbackReplicate allow;
      const auto before = current_context()->counters.fallbacks;
      const auto ours = leaves(place(s.values, p), true);
      const auto got = s.call(ours);
      const bool has_gradient = goes_back(got, s.name);
      EXPECT_GT(current_context()->counters.fallbacks, before) << s.name << ' ' << p;
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same(got[i], expected[i])) << s.name << ' ' << p;
      for (size_t i = 0; has_gradient && i < ours.size(); ++i)
        EXPECT_TRUE(same(ours[i].grad(), plain[i].grad())) << s.name << ' ' << p << " gradient " << i;
    }
  }
}

// Catches: a silent gather where nobody allowed it; an error that does not say how to.
TEST_F(FallbackTest, OutsideOfTheScopeTheyRefuse) {
  for (const auto& s : samples()) {
    const auto text = error_of([&] { s.call(place(s.values, Shard{0})); });
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
  auto x = place({ramp({4, 6})}, Shard{0})[0];
  EXPECT_TRUE(says(refusal_of([&] { x.unfold(1, 2, 1); }), {"aten::unfold, no rule", "is a view"}));
  EXPECT_TRUE(says(refusal_of([&] { x.view(at::kInt); }), {"aten::view.dtype, no rule", "is a view"}));
  EXPECT_TRUE(says(refusal_of([&] { at::poisson(x); }), {"aten::poisson, no stream"}));
  EXPECT_TRUE(says(refusal_of([&] { x.resize_({2}); }), {"aten::resize_, no rule", "in place"}));
  EXPECT_TRUE(says(refusal_of([&] { at::fft_fft(x); }), {"aten::_fft_r2c, no rule", "complex"}));
  const auto index = place({at::tensor({1, 0}, at::kLong)}, Replicate{})[0];
  EXPECT_TRUE(says(refusal_of([&] { x.index_copy_(0, index, x.slice(1, 0, 6).index_select(0, index)); }),
                   {"aten::index_copy_, in place", "redistribute"}));
  const auto image = place({ramp({2, 4, 3, 3})}, Shard{0})[0], mean = place({ramp({4})}, Shard{0})[0];
  EXPECT_TRUE(says(refusal_of([&] { at::batch_norm(image, {}, {}, mean, mean, true, 0.1, 1e-5, false); }),
                   {"aten::native_batch_norm, in place", "redistribute"}));
  const ExplicitRedistribution explicit_only;
  EXPECT_TRUE(says(refusal_of([&] { x.repeat({2, 2}); }), {"aten::repeat, explicit redistribution"}));
}

// Catches: an in-place op or an out variant that writes a copy; running statistics that differ.
TEST_F(FallbackTest, WhatIsWrittenIsWritten) {
  const FallbackReplicate allow;
  const auto plain = ramp({4, 6});
  auto x = place({plain}, Replicate{})[0];
  const auto index = place({at::tensor({1, 0}, at::kLong)}, Replicate{})[0],
             rows = place({ramp({2, 6}) * 5}, Shard{1})[0];
  EXPECT_TRUE(x.index_copy_(0, index, rows).is_same(x));
  EXPECT_TRUE(full_tensor(x).equal(plain.index_copy(0, at::tensor({1, 0}, at::kLong), ramp({2, 6}) * 5)));
  auto out = empty({0}, mesh_, {Replicate{}});
  at::histc_out(out, x, 4);
  EXPECT_TRUE(full_tensor(out).equal(at::histc(full_tensor(x), 4)));
  const auto image = ramp({2, 4, 3, 3});
  auto mean = at::zeros({4}), var = at::ones({4});
  at::batch_norm(image, {}, {}, mean, var, true, 0.1, 1e-5, false);
  const auto stats = place({at::zeros({4}), at::ones({4})}, Replicate{});
  at::batch_norm(place({image}, Shard{1})[0], {}, {}, stats[0], stats[1], true, 0.1, 1e-5, false);
  EXPECT_TRUE(full_tensor(stats[0]).equal(mean) && full_tensor(stats[1]).equal(var));
}

// Numbers that a program reads, and replicas that would let ranks part.
TEST_F(FallbackTest, NumbersAreThoseOfEveryRank) {
  const FallbackReplicate allow;
  const auto x = place({ramp({4, 6})}, Shard{0})[0];
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
