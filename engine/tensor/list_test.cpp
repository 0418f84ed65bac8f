// SPDX-License-Identifier: Apache-2.0
// Ops on lists of DTensors.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"

namespace lockstep {
namespace {

using InPlace = std::function<void(at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&)>;

// By how much the op raises the version of each of four tensors.
std::vector<int64_t> raised(const InPlace& op, const std::function<at::Tensor()>& make) {
  std::vector<at::Tensor> t = {make(), make(), make(), make()};
  std::vector<int64_t> by;
  for (const auto& tensor : t) by.push_back(-tensor._version());
  op(t[0], t[1], t[2], t[3]);
  for (size_t i = 0; i < t.size(); ++i) by[i] += t[i]._version();
  return by;
}

at::Tensor placed() {
  static const auto mesh = init_device_mesh({2, 3}, {"dp", "tp"});
  return distribute_tensor(at::ones({4, 6}), mesh, {Shard{0}, Shard{1}});
}

// Catches: what the elements of a list share, cut as the last of them is: a rank that has nothing of that one
// would run the others without it, and be silently wrong.
TEST(Lists, WhatElementsShareIsWhole) {
  const auto step = [](at::Tensor a, at::Tensor b, at::Tensor of_a, at::Tensor of_b, at::Tensor scale) {
    at::_fused_sgd_({a, b}, {of_a, of_b}, {}, 0.1, 0.0, 0.01, 0.0, false, false, false, scale, std::nullopt);
    return a;
  };
  const auto mesh = init_device_mesh({2}, {"dp"});
  const auto cut = [&](const at::Tensor& t) { return distribute_tensor(t.clone(), mesh, {Shard{0}}); };
  const auto a = ramp({4}), b = ramp({1}), scale = at::full({1}, 2.0);
  const auto sharded = step(cut(a), cut(b), cut(a), cut(b), distribute_tensor(scale, mesh, {Replicate{}}));
  EXPECT_TRUE(at::equal(full_tensor(sharded), step(a.clone(), b.clone(), a.clone(), b.clone(), scale)));
}

// An in-place op raises the version of what it writes by as much as it would on a plain tensor: autograd
// tells from it that a view is out of date. Catches: list ops that write without raising it.
TEST(Lists, InPlaceOpsRaiseVersionsAsPlainOnesDo) {
  const std::map<std::string, InPlace> ops = {
      {"add_", [](auto& a, auto& b, auto&, auto&) { a.add_(b); }},
      {"_foreach_add_",
       [](auto& a, auto& b, auto&, auto&) {
         at::_foreach_add_({a, a}, {b, b});
       }},
      {"_foreach_sqrt_", [](auto& a, auto&, auto&, auto&) { at::_foreach_sqrt_({a}); }},
      {"_foreach_zero_", [](auto& a, auto&, auto&, auto&) { at::_foreach_zero_({a}); }},
      {"_foreach_copy_", [](auto& a, auto& b, auto&, auto&) { at::_foreach_copy_({a}, {b}); }},
      {"_foreach_lerp_", [](auto& a, auto& b, auto&, auto&) { at::_foreach_lerp_({a}, {b}, 0.5); }}};
  for (const auto& [name, op] : ops)
    EXPECT_EQ(raised(op, [this] { return placed(); }), raised(op, [] { return at::ones({4, 6}); })) << name;
}

// What a fused optimizer writes has another version, though on plain tensors libtorch raises none: an operand
// that moved would be read as it was, one that did not as it is. Catches: a backward through such an operand
// that runs.
TEST(Lists, FusedOptimizersRaiseVersions) {
  const std::map<std::string, std::pair<InPlace, std::vector<int64_t>>> ops = {
      {"_fused_adamw_",
       {[](auto& a, auto& b, auto& c, auto& d) {
          const auto step = at::ones({});
          at::_fused_adamw_({a}, {b}, {c}, {d}, {}, {step}, 0.1, 0.9, 0.99, 0, 1e-8, false, false);
        },
        {1, 1, 1, 1}}},
      {"_fused_sgd_",
       {[](auto& a, auto& b, auto& c, auto&) {
          at::_fused_sgd_({a}, {b}, {c}, 0, 0.9, 0.1, 0, false, false, false);
        },
        {1, 1, 1, 0}}}};
  for (const auto& [name, op] : ops)
    EXPECT_EQ(raised(op.first, [this] { return placed(); }), op.second) << name;
  const auto x = placed().requires_grad_();
  const auto y = (x * x).sum();
  const auto other = placed();
  at::_fused_sgd_({x.detach()}, {other}, {}, 0, 0, 0.1, 0, false, false, false);
  EXPECT_TRUE(says(error_of([&] { y.backward(); }), {"modified by an inplace operation"}));
}

}  // namespace
}  // namespace lockstep
