// SPDX-License-Identifier: Apache-2.0
// Ops whose results have the shape that values say, what autograd makes of them, and composites that read
// values.
#include <ATen/ATen.h>
#include <ATen/TensorIndexing.h>
#include <gtest/gtest.h>

#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using Tensors = std::vector<at::Tensor>;
using Op = std::function<at::Tensor(const Tensors&)>;

// On a mesh that cuts unevenly.
void each_choice(const Tensors& values,
                 const std::function<void(const Tensors&, const std::string&)>& visit) {
  each_placing(3, placement_choices, values, visit);
}

// The op of the placed values is that of the plain ones, in every bit.
void expect_plain(const char* name, const Tensors& values, const Op& op) {
  const auto expected = op(values);
  each_choice(values, [&](const Tensors& placed, const std::string& text) {
    at::Tensor got;
    EXPECT_EQ(error_of([&] { got = op(placed); }), "") << name << ' ' << text;
    EXPECT_TRUE(got.defined() && full_tensor(got).equal(expected)) << name << ' ' << text;
  });
}

// Likewise the gradient of its square for the first value, which is placed as it is.
void expect_plain_gradient(const char* name, const Tensors& values, const Op& op) {
  const auto gradient = [&](const at::Tensor& leaf, Tensors all) {
    all[0] = leaf;
    const auto y = op(all);
    (y * y).sum().backward();
    return leaf.grad();
  };
  const auto expected = gradient(values[0].clone().requires_grad_(), values);
  each_choice(values, [&](const Tensors& placed, const std::string& text) {
    at::Tensor got;
    EXPECT_EQ(error_of([&] { got = gradient(parameter(placed[0]), placed); }), "") << name << ' ' << text;
    EXPECT_TRUE(got.defined() && full_tensor(got).equal(expected)) << name << ' ' << text;
  });
}

const at::Tensor kValue = ramp({4, 5}), kRows = at::tensor({3, 0, 3}, at::kLong),
                 kClasses = at::tensor({2, 0, 1, 4, 1}, at::kLong);

// Catches: a shape that was guessed before the values were known, or is one rank's.
TEST(Whole, ShapesThatValuesDecide) {
  expect_plain("nonzero", {kValue}, [](auto& t) { return at::nonzero(t[0]); });
  expect_plain("nonzero of nothing", {kValue * 0}, [](auto& t) { return at::nonzero(t[0]); });
  expect_plain("where", {kValue}, [](auto& t) { return at::where(t[0])[1]; });
  expect_plain("argwhere", {kValue}, [](auto& t) { return at::argwhere(t[0].gt(2)); });
  expect_plain("index by a mask", {kValue}, [](auto& t) { return t[0].index({t[0].gt(2)}); });
  expect_plain("masked_select", {kValue}, [](auto& t) { return t[0].masked_select(t[0].gt(2)); });
  expect_plain("index", {kValue, kRows}, [](auto& t) { return t[0].index({t[1]}); });
}

// Catches: a plain tensor of the composite's own beside the DTensor; ones that are written to a copy.
TEST(Whole, OneHotIsThatOfOneDevice) {
  expect_plain("one_hot", {kClasses}, [](auto& t) { return at::one_hot(t[0]); });
  expect_plain("one_hot of more", {kClasses}, [](auto& t) { return at::one_hot(t[0], 7); });
  expect_plain("one_hot of a grid", {kClasses.slice(0, 0, 4).reshape({2, 2})},
               [](auto& t) { return at::one_hot(t[0], 5); });
  const auto x = distribute_tensor(kClasses, init_device_mesh({3}), {Shard{0}});
  EXPECT_EQ(placements(at::one_hot(x, 7)), Placements{Shard{0}});
  EXPECT_TRUE(says(error_of([&] { at::one_hot(x, 3); }), {"smaller than num_classes"}));
}

// Where each query attends to one key, the result is that key's value. Catches: a mask of booleans that is
// added as zeros and ones, and masks nothing.
TEST(Whole, AttentionMasksByBooleans) {
  const auto x = ramp({2, 2, 3, 4});
  expect_plain("attention", {x, at::eye(3).flip(0)},
               [](auto& t) { return at::scaled_dot_product_attention(t[0], t[0], t[0], t[1].gt(0)); });
}

// Catches: a gradient that libtorch finds by looking for zeros and the engine cannot.
TEST(Whole, TheGradientOfAProduct) {
  const Op prod = [](auto& t) { return at::prod(t[0]); };
  expect_plain_gradient("prod", {at::tensor({1., 2., -1., 4., 2.})}, prod);
  expect_plain_gradient("prod with a zero", {at::tensor({1., 0., -1., 4., 2.})}, prod);
  expect_plain_gradient("prod with zeros", {at::tensor({1., 0., -1., 0., 2.})}, prod);
  expect_plain_gradient("prod of a matrix", {at::tensor({1., 2., -1., 4.}).reshape({2, 2})}, prod);
}

// Catches: advanced indexing that cannot be trained through; rows picked twice that count once.
TEST(Whole, TheGradientOfAnIndex) {
  expect_plain_gradient("index", {kValue, kRows}, [](auto& t) { return t[0].index({t[1]}); });
  expect_plain_gradient("index of columns", {kValue, kRows}, [](auto& t) {
    return t[0].index({at::indexing::Slice(), t[1]});
  });
  expect_plain_gradient("index by a mask", {kValue}, [](auto& t) { return t[0].index({t[0].gt(2)}); });
  expect_plain_gradient("index_put", {kValue, kRows},
                        [](auto& t) { return t[0].index_put({t[1]}, t[0].detach().sum(0)); });
}

}  // namespace
}  // namespace lockstep
