// SPDX-License-Identifier: Apache-2.0
// Stock kernels whose vector body and scalar tail disagree: each entry of the table is held to account.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "oracle/judge/families.h"

namespace lockstep::oracle {
namespace {

// Stock kernels whose vector body and scalar tail disagree (Bound::kTwoPaths). If one of these fails,
// libtorch has changed, and its entry in families.cpp must go.
class TwoPaths : public testing::TestWithParam<c10::ScalarType> {};

TEST_P(TwoPaths, StillDisagree) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto full = [](int64_t n, double v) { return at::full({n}, v, at::TensorOptions(GetParam())); };
  const auto is_nan = [](const at::Tensor& t) { return std::isnan(t[0].item<double>()); };
  const auto gradient = [&](int64_t n) {
    return is_nan(at::elu_backward(full(n, 1), 1, 1, 1, false, full(n, nan)));
  };
  EXPECT_NE(gradient(64), gradient(1));
  for (const bool decoupled : {false, true}) {
    const auto step = [&](int64_t n) {
      const auto t = [&](double v) { return std::vector<at::Tensor>{full(n, v)}; };
      auto params = t(1), grads = t(nan), averages = t(1), squares = t(1), greatest = t(0.5);
      const std::vector<at::Tensor> steps = {at::ones({})};
      if (decoupled)
        at::_fused_adamw_(params, grads, averages, squares, greatest, steps, 0.1, 0.9, 0.99, 0, 1e-8, true,
                          false);
      else
        at::_fused_adam_(params, grads, averages, squares, greatest, steps, 0.1, 0.9, 0.99, 0, 1e-8, true,
                         false);
      return is_nan(greatest[0]);
    };
    EXPECT_NE(step(64), step(1)) << decoupled;
  }
}

TEST(TwoPathsOfDivision, StillDisagree) {
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    const auto i = at::arange(256, at::kFloat);
    const auto a = at::mul(at::sin(i), 40).to(dtype), b = at::cos(at::mul(i, 1.7)).to(dtype);
    const auto together = at::div(a, b, "trunc");
    bool differs = false;
    for (int64_t k = 0; k < 256; ++k)
      differs = differs || !at::div(a.narrow(0, k, 1).clone(), b.narrow(0, k, 1).clone(), "trunc")
                                .equal(together.narrow(0, k, 1));
    EXPECT_TRUE(differs) << dtype;
  }
}

TEST(TwoPathsOfFloor, StillDisagree) {
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    const auto i = at::arange(256, at::kFloat);
    const auto a = at::mul(at::sin(i), 40).to(dtype), b = at::mul(at::cos(at::mul(i, 1.7)), 0.01).to(dtype);
    const auto together = at::floor_divide(a, b);
    bool differs = false;
    for (int64_t k = 0; k < 256; ++k)
      differs = differs || !at::floor_divide(a.narrow(0, k, 1).clone(), b.narrow(0, k, 1).clone())
                                .equal(together.narrow(0, k, 1));
    EXPECT_TRUE(differs) << dtype;
  }
}

TEST(TwoPathsOfNan, StillDisagree) {
  const auto full = [](int64_t n, double v) { return at::full({n}, v, at::kDouble); };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto hardswish = [&](int64_t n) { return at::hardswish_backward(full(n, 1), full(n, nan)); };
  const auto logit = [&](int64_t n) { return at::logit_backward(full(n, 1), full(n, nan), 1.0); };
  for (const auto& gradient : {std::function<at::Tensor(int64_t)>(hardswish), {logit}})
    EXPECT_NE(std::isnan(gradient(64)[0].item<double>()), std::isnan(gradient(1)[0].item<double>()));
}

TEST(TwoPathsOfGates, StillDisagree) {
  const auto full = [](int64_t n, double v) { return at::full({n}, v, at::kFloat); };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto tanh = [&](int64_t n) { return at::hardtanh_backward(full(n, 1), full(n, nan), -1, 2); };
  const auto shrink = [&](int64_t n) { return at::softshrink_backward(full(n, 1), full(n, nan), 0.5); };
  for (const auto& gradient : {std::function<at::Tensor(int64_t)>(tanh), {shrink}})
    EXPECT_NE(gradient(64)[0].item<double>(), gradient(1)[0].item<double>());
}

TEST(TwoPathsOfNanSign, StillDisagree) {
  const auto signed_by = [](int64_t n) {
    const auto nans = at::full({n}, -std::numeric_limits<double>::quiet_NaN(), at::kDouble).to(at::kHalf);
    return at::copysign(at::ones({n}), nans)[0].item<double>();
  };
  EXPECT_NE(signed_by(64), signed_by(1));
}

TEST(TwoPathsOfZero, StillDisagree) {
  const auto shrunk = [](int64_t n) {
    return std::signbit(at::softshrink(at::full({n}, -0.1, at::kDouble), 0.5)[0].item<double>());
  };
  EXPECT_NE(shrunk(64), shrunk(1));
}

INSTANTIATE_TEST_SUITE_P(AllDtypes, TwoPaths,
                         testing::Values(at::kFloat, at::kDouble, at::kHalf, at::kBFloat16));

// Would catch: an entry of that kind that no test holds to account.
TEST(TwoPathsTable, HasTheTestedOpsOnly) {
  std::set<std::string_view> names;
  for (const OpFamily& f : families())
    if (f.bound == Bound::kTwoPaths) names.insert(f.name);
  EXPECT_EQ(names,
            (std::set<std::string_view>{"_fused_adam", "_fused_adamw", "copysign", "div_mode", "elu_backward",
                                        "floor_divide", "hardswish_backward", "hardtanh_backward",
                                        "logit_backward", "softshrink", "softshrink_backward"}));
}

}  // namespace
}  // namespace lockstep::oracle
