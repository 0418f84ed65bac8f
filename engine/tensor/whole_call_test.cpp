// SPDX-License-Identifier: Apache-2.0
// A call is of whole tensors, whatever a rank has of them: what one device refuses is refused, and what an op
// views of its own may move.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"

namespace lockstep {
namespace {

const MeshInWorld& three() {
  static const MeshInWorld mesh = init_device_mesh({3});
  return mesh;
}

at::Tensor on_three(const at::Tensor& t, Placement placement) {
  return distribute_tensor(t, three(), {std::move(placement)});
}

// On every rank the call has locals that fit. Catches: an in-place op, or one of lists, of which only the
// locals are looked at.
TEST(WholeCall, WhatOneDeviceRefusesIsRefusedWhereLocalsFit) {
  const auto cut = [](std::vector<int64_t> shape, int64_t dim, at::ScalarType dtype = at::kFloat) {
    return std::pair(ramp(std::move(shape)).to(dtype), dim);
  };
  using Operands = std::vector<at::Tensor>;
  struct Call {
    const char* name;
    std::vector<std::pair<at::Tensor, int64_t>> operands;  // and the dimension that is cut; -1: none
    std::function<void(Operands&)> run;
  };
  const std::vector<Call> calls = {
      {"add_", {cut({2, 1}, -1), cut({2, 3}, 1)}, [](Operands& t) { t[0].add_(t[1]); }},
      {"mul_", {cut({1}, -1), cut({3}, 0)}, [](Operands& t) { t[0].mul_(t[1]); }},
      {"copy_", {cut({2, 1}, -1), cut({2, 3}, 1)}, [](Operands& t) { t[0].copy_(t[1]); }},
      {"clamp_", {cut({1}, -1), cut({3}, 0)}, [](Operands& t) { t[0].clamp_(t[1]); }},
      {"addcmul_", {cut({1}, -1), cut({3}, 0), cut({3}, 0)}, [](Operands& t) { t[0].addcmul_(t[1], t[2]); }},
      {"_foreach_add_",
       {cut({2, 1}, -1), cut({2, 3}, 1)},
       [](Operands& t) { at::_foreach_add_({t[0]}, {t[1]}); }},
      {"fill_", {cut({3}, 0, at::kHalf)}, [](Operands& t) { t[0].fill_(1e6); }},
      {"fill_ of nothing", {cut({0}, 0, at::kHalf)}, [](Operands& t) { t[0].fill_(1e6); }},
      {"fill", {cut({3}, 0, at::kHalf)}, [](Operands& t) { at::fill(t[0], 1e6); }},
      {"full_like", {cut({3}, 0, at::kHalf)}, [](Operands& t) { at::full_like(t[0], 1e6); }},
      {"new_full", {cut({3}, 0, at::kHalf)}, [](Operands& t) { t[0].new_full({3}, 1e6); }},
  };
  for (const auto& call : calls) {
    Operands plain, ours;
    for (const auto& [tensor, dim] : call.operands) {
      plain.push_back(tensor.clone());
      ours.push_back(on_three(tensor, dim < 0 ? Placement(Replicate{}) : Shard{dim}));
    }
    EXPECT_NE(error_of([&] { call.run(plain); }), "") << call.name;
    const auto before = full_tensor(ours[0]).clone();
    EXPECT_NE(error_of([&] { call.run(ours); }), "") << call.name;
    EXPECT_TRUE(full_tensor(ours[0]).equal(before)) << call.name;
  }
}

// Catches: a rank without elements that refuses what the whole does not.
TEST(WholeCall, WhatOneDeviceTakesEveryRankTakes) {
  auto x = on_three(at::zeros({1}, at::kHalf), Shard{0});
  x.fill_(1e6);
  EXPECT_TRUE(full_tensor(x).equal(at::zeros({1}, at::kHalf).fill_(1e6)));
}

// Catches: a composite that is refused, or whose answer changes, where what it views of its own is cut.
TEST(WholeCall, WhatACompositeViewsOfItsOwnMayMove) {
  using Composite = at::Tensor (*)(const at::Tensor&);
  const std::vector<std::pair<const char*, Composite>> composites = {
      {"avg_pool1d", [](const at::Tensor& x) { return at::avg_pool1d(x, {2}); }},
      {"max_pool1d", [](const at::Tensor& x) { return at::max_pool1d(x, {2}); }},
      {"adaptive_avg_pool1d", [](const at::Tensor& x) { return at::adaptive_avg_pool1d(x, {2}); }},
      {"conv1d",
       [](const at::Tensor& x) {
         return at::conv1d(x, x.sum(0).view({1, 1, 6}).mul(at::ones_like(x)));
       }},
      {"diff", [](const at::Tensor& x) { return at::diff(x, 1, 0); }},
      {"gradient", [](const at::Tensor& x) { return at::gradient(x, at::Scalar(1), 0)[0]; }},
      {"trapezoid", [](const at::Tensor& x) { return at::trapezoid(x, 1, 0); }},
      {"cumulative_trapezoid", [](const at::Tensor& x) { return at::cumulative_trapezoid(x, 1, 0); }},
      {"cov", [](const at::Tensor& x) { return at::cov(x); }},
      {"corrcoef", [](const at::Tensor& x) { return at::corrcoef(x); }},
      {"cosine_similarity", [](const at::Tensor& x) { return at::cosine_similarity(x, x, 0); }},
      {"quantile", [](const at::Tensor& x) { return at::quantile(x, 0.5, 0); }},
      {"nanquantile", [](const at::Tensor& x) { return at::nanquantile(x, 0.25); }},
      {"kron", [](const at::Tensor& x) { return at::kron(x, x); }},
      {"outer", [](const at::Tensor& x) { return at::outer(x.sum(0), x.sum(1)); }},
      {"tensordot", [](const at::Tensor& x) { return at::tensordot(x, x, {0}, {0}); }},
      {"norm_except_dim", [](const at::Tensor& x) { return at::norm_except_dim(x, 2, 0); }},
  };
  const auto whole = at::round(ramp({4, 6}) * 7).remainder(5);
  for (const auto& [name, run] : composites)
    for (const auto& placement : {Placement(Shard{0}), Placement(Shard{1})}) {
      const auto x = on_three(whole, placement);
      at::Tensor ours;
      EXPECT_EQ(error_of([&] { ours = run(x); }), "") << name << ' ' << to_string(placement);
      EXPECT_TRUE(ours.defined() && at::allclose(full_tensor(ours), run(whole), 1e-6, 1e-6)) << name;
      EXPECT_TRUE(full_tensor(x).equal(whole)) << name;
    }
}

// In InferenceMode they arrive whole. Catches: the rule of an op, for an overload that is composed of others.
TEST(WholeCall, OverloadsThatAreComposedInInferenceMode) {
  const auto a = at::sin(ramp({4, 6})), b = at::cos(ramp({4, 6}));
  const c10::InferenceMode inference;
  for (const auto& placement : {Placement(Shard{0}), Placement(Shard{1}), Placement(Replicate{})}) {
    const auto x = on_three(a, placement), y = on_three(b, placement);
    EXPECT_TRUE(full_tensor(at::max(x, y)).equal(at::max(a, b)));
    EXPECT_TRUE(full_tensor(at::min(x, y)).equal(at::min(a, b)));
    EXPECT_TRUE(full_tensor(at::where(x.gt(0), x, 0)).equal(at::where(a.gt(0), a, 0)));
    EXPECT_TRUE(at::allclose(full_tensor(at::std(x, 0)), at::std(a, 0)));
    EXPECT_TRUE(at::allclose(full_tensor(at::var(x, /*unbiased=*/false)), at::var(a, /*unbiased=*/false)));
  }
}

// Catches: a mask of bytes, taken for an index of one dimension.
TEST(WholeCall, AMaskOfBytesIsAMask) {
  const auto whole = ramp({4, 3, 2}), value = ramp({12, 2});
  const auto mask = at::ones({4, 3}, at::kByte);
  for (const int64_t dim : {0, 1, 2}) {
    auto x = on_three(whole, Shard{dim});
    const auto written = at::index_put(x, {on_three(mask, Replicate{})}, on_three(value, Replicate{}));
    EXPECT_TRUE(full_tensor(written).equal(at::index_put(whole, {mask}, value))) << dim;
  }
}

// Catches: numbers that a tensor holds, taken for one of the tensors.
TEST(WholeCall, ScalarsOfAForeachOpAreNumbers) {
  const auto a = ramp({4}), b = ramp({3, 2}), scalars = at::tensor({2.0f, -3.0f});
  const auto x = on_three(a, Shard{0}), y = on_three(b, Shard{1});
  const auto ours = at::_foreach_addcmul({x, y}, {x, y}, {x, y}, scalars);
  const auto plain = at::_foreach_addcmul({a, b}, {a, b}, {a, b}, scalars);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(full_tensor(ours[i]).equal(plain[i]));
}

// Catches: memory that is read of a DTensor, which has none.
TEST(WholeCall, WhereToSplitIsReadOnTheHost) {
  const auto x = on_three(ramp({6}), Replicate{}),
             where = on_three(at::tensor({2, 4}, at::kLong), Replicate{});
  EXPECT_NE(error_of([&] { at::tensor_split(x, where); }).find("full_tensor()"), std::string::npos);
  EXPECT_EQ(at::tensor_split(x, full_tensor(where)).size(), 3u);
}

}  // namespace
}  // namespace lockstep
