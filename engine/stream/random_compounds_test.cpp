// SPDX-License-Identifier: Apache-2.0
// Random operators that make something of a draw: against libtorch's own with the same draws, or against
// their definition.
#include "engine/stream/random_compounds.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/stream/random_source.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

constexpr uint64_t kSeed = 5;

// Draws as libtorch's CPU generator does, so that operators in the scope can be compared with it.
struct StockSource : RandomSource {
  void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel&, RandomState&) override {
    const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::TESTING_ONLY_GenericMode);
    at::Tensor target = out;
    if (call.kind == RandomKind::kNormal)
      target.normal_(call.a, call.b, generator);
    else if (call.kind == RandomKind::kExponential)
      target.exponential_(call.a, generator);
    else
      FAIL() << "not expected here";
  }
  at::Generator generator = at::detail::createCPUGenerator(kSeed);
};

// Draws given numbers, in logical order.
struct ListedSource : RandomSource {
  explicit ListedSource(std::vector<double> values) : numbers(std::move(values)) {}
  void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel&, RandomState&) override {
    calls.push_back(call);
    out.copy_(at::tensor(numbers, at::kDouble).reshape(out.sizes()));
  }
  std::vector<double> numbers;
  std::vector<RandomCall> calls;
};

at::Generator stock() {
  return at::detail::createCPUGenerator(kSeed);
}

// Catches: mean and std applied in another order, in one rounding or in another dtype; a broadcast in another
// shape.
TEST(RandomCompounds, NormalOfTensorsIsStocks) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const auto mean = at::arange(40, dtype).reshape({8, 5}).t().mul(0.3),
               std = at::arange(1, 9, dtype).div(7);
    const auto in_scope = [](const std::function<at::Tensor()>& run) {
      StockSource source;
      const RandomScope scope(source);
      return run();
    };
    EXPECT_TRUE(in_scope([&] { return at::normal(mean, 0.7); }).equal(at::normal(mean, 0.7, stock())));
    EXPECT_TRUE(in_scope([&] { return at::normal(0.7, std); }).equal(at::normal(0.7, std, stock())));
    EXPECT_TRUE(in_scope([&] { return at::normal(mean, std); }).equal(at::normal(mean, std, stock())));
    EXPECT_TRUE(in_scope([&] {
                  return at::normal(mean, std.to(at::kDouble));
                }).equal(at::normal(mean, std.to(at::kDouble), stock())));
    EXPECT_EQ(in_scope([&] { return at::normal(mean, 0.7); }).strides(), at::normal(mean, 0.7).strides());
  }
  StockSource source;
  const RandomScope scope(source);
  EXPECT_THROW(at::normal(at::ones({2}), -1), Error);
  EXPECT_THROW(at::normal(0, at::tensor({1.0, -1.0})), Error);
}

// Catches: the ratio the other way round, a tie or an order that is not stock's.
TEST(RandomCompounds, MultinomialWithoutReplacementIsStocks) {
  const auto weights = at::arange(1, 61, at::kFloat).remainder(7).reshape({5, 12});
  for (const auto& w : {weights, weights[1], weights.to(at::kDouble), at::arange(24.).reshape({12, 2}).t()})
    for (const int64_t n : {1, 2}) {
      StockSource source;
      const RandomScope scope(source);
      const auto ours = at::multinomial(w, n);
      const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::TESTING_ONLY_GenericMode);
      EXPECT_TRUE(ours.equal(at::multinomial(w, n, false, stock()))) << w.sizes() << n;
    }
}

// Catches: a category of weight 0 picked, the search one off at its bounds, a last category lost to rounding.
TEST(RandomCompounds, MultinomialWithReplacementSearchesTheShares) {
  ListedSource source({0.125, 0.12501, 0.5, 0.50001, 1.0, 1e-9});
  const RandomScope scope(source);
  const auto weights = at::tensor({0.0, 1.0, 3.0, 0.0, 4.0, 0.0}, at::kFloat).requires_grad_();
  const auto picked = at::multinomial(weights, 6, true);
  EXPECT_TRUE(picked.equal(at::tensor({1, 2, 2, 4, 4, 1}, at::kLong))) << picked;
  EXPECT_FALSE(picked.requires_grad());
  ASSERT_EQ(source.calls.size(), 1U);
  EXPECT_EQ(source.calls[0].kind, RandomKind::kMultinomialUniform);
  EXPECT_EQ(source.calls[0].shape, (std::vector<int64_t>{1, 6}));
  auto out = at::empty({0}, at::kLong);
  at::multinomial_out(out, at::tensor({0.0, 1.0, 0.0, 1.0, 1.0, 0.0}).reshape({2, 3}), 3, true);
  EXPECT_TRUE(out.equal(at::tensor({1, 1, 1, 1, 1, 0}, at::kLong).reshape({2, 3}))) << out;
  EXPECT_THROW(at::multinomial(at::zeros({3}), 2), Error);
  EXPECT_THROW(at::multinomial(at::ones({3}), 4), Error);
  EXPECT_THROW(at::multinomial(at::tensor({1.0, -1.0}), 1), Error);
}

// Catches: < for <=, the probability compared in its own dtype, numbers drawn for an empty tensor.
TEST(RandomCompounds, BernoulliComparesWithTheTensor) {
  ListedSource source({0.25, 0.3, 0.5, 0.1, 0.75, 1.0});
  const RandomScope scope(source);
  const auto p = at::tensor({0.25, 0.5, 0.0}, at::kFloat);
  auto out = at::empty({2, 3}, at::kInt);
  out.bernoulli_(p);
  EXPECT_TRUE(out.equal(at::tensor({1, 1, 0, 1, 0, 0}, at::kInt).reshape({2, 3}))) << out;
  const auto wide = at::full({2, 3}, 0.3, at::kDouble);
  EXPECT_TRUE(at::bernoulli(wide).equal(at::tensor({1., 1., 0., 1., 0., 0.}).reshape({2, 3})));
  EXPECT_EQ(source.calls[1].dtype, at::kDouble);
  EXPECT_EQ(source.calls[0].dtype, at::kFloat);
  EXPECT_EQ(at::bernoulli(at::ones({0})).numel(), 0);
  EXPECT_THROW(at::bernoulli(at::tensor({1.5})), Error);
  EXPECT_THROW(at::bernoulli(at::tensor({std::nan("")})), Error);
  EXPECT_EQ(source.calls.size(), 2U);
}

// Catches: an order taken from one tensor alone, gaps of a view in the numbering.
TEST(RandomCompounds, BernoulliNumbersInACommonOrder) {
  const auto strides = [](Extents out, Extents p) { return bernoulli_call(out, at::kFloat, p).stride; };
  using Strides = std::vector<int64_t>;
  EXPECT_EQ(strides({{4, 5}, {5, 1}}, {{4, 5}, {5, 1}}), (Strides{5, 1}));
  EXPECT_EQ(strides({{4, 5}, {1, 4}}, {{4, 5}, {1, 4}}), (Strides{1, 4}));
  EXPECT_EQ(strides({{4, 5}, {5, 1}}, {{4, 5}, {1, 4}}), (Strides{5, 1}));  // they disagree
  EXPECT_EQ(strides({{4, 5}, {1, 4}}, {{}, {}}), (Strides{1, 4}));          // one number fits any order
  EXPECT_EQ(strides({{4, 5}, {1, 4}}, {{5}, {1}}), (Strides{1, 4}));
  EXPECT_EQ(strides({{4, 5}, {1, 4}}, {{4, 1}, {1, 1}}), (Strides{5, 1}));
  EXPECT_EQ(strides({{2, 3, 4}, {1, 2, 12}}, {{2, 3, 4}, {1, 2, 6}}), (Strides{1, 2, 6}));  // with gaps
}

double gradient(const at::Tensor& y, const at::Tensor& x) {
  const auto grad = torch::autograd::grad({y.to(at::kDouble).sum()}, {x}, {}, std::nullopt, false, true)[0];
  return grad.defined() ? grad.abs().sum().item<double>() : -1;
}

// Zero, as libtorch has it, but not undefined. Catches: a gradient that flows to what was overwritten, or
// through a mean.
TEST(RandomCompounds, GradientsOfDrawsAreZero) {
  ListedSource source({0.25, 0.5});
  const RandomScope scope(source);
  const auto leaf = at::full({2}, 0.5).requires_grad_();
  for (const auto& run : std::vector<std::function<at::Tensor(at::Tensor)>>{
           [](at::Tensor x) { return x.exponential_(); }, [](at::Tensor x) { return x.cauchy_(); },
           [](at::Tensor x) { return x.log_normal_(); }, [](at::Tensor x) { return x.geometric_(.5); },
           [](at::Tensor x) { return x.bernoulli_(at::ones({2})); }, [](at::Tensor x) { return x.random_(); },
           [](at::Tensor x) { return at::empty({2}).bernoulli_(x); },
           [](at::Tensor x) { return at::normal(x, 1.); }, [](at::Tensor x) { return at::normal(1., x); },
           [](at::Tensor x) { return at::normal(at::ones({2}), x); },
           [](at::Tensor x) { return at::bernoulli(x); }})
    EXPECT_EQ(gradient(run(leaf * 1), leaf), 0);
  EXPECT_ANY_THROW(at::Tensor(leaf).exponential_());
}

// Catches: a slope where the input is positive, NaN taken for negative, noise that is not what was
// multiplied.
TEST(RandomCompounds, RreluDrawsSlopes) {
  ListedSource source({0.125, 0.25, 0.1875, 0.2, 0.3});
  const RandomScope scope(source);
  const auto x = at::tensor({-2.0, 4.0, -0.0, std::nan(""), -1.0}, at::kFloat).requires_grad_();
  auto noise = at::empty({5});
  const auto y = at::rrelu_with_noise(x, noise, 0.125, 0.375, true);
  EXPECT_EQ(source.calls[0].kind, RandomKind::kRreluNoise);
  EXPECT_TRUE(source.calls[0].a == 0.125 && source.calls[0].b == 0.375);
  EXPECT_TRUE(noise.equal(at::tensor({0.125F, 1.F, 0.1875F, 1.F, 0.3F})));
  EXPECT_EQ(y[0].item<double>(), -0.25);
  EXPECT_EQ(y[1].item<double>(), 4);
  EXPECT_TRUE(std::signbit(y[2].item<double>()) && std::isnan(y[3].item<double>()));
  EXPECT_TRUE(torch::autograd::grad({y.sum()}, {x})[0].equal(noise));
  auto z = x * 1;
  at::rrelu_(z, 0.125, 0.375, true);
  EXPECT_TRUE(z.nan_to_num().equal(y.nan_to_num()));
  EXPECT_TRUE(torch::autograd::grad({z.sum()}, {x})[0].equal(noise));
  const auto flat = at::rrelu(x, 0.125, 0.125, true);  // no range: the mean slope, by the sign
  EXPECT_TRUE(torch::autograd::grad({flat.sum()}, {x})[0][0].item<double>() == 0.125);
}

// Catches: numbers drawn in evaluation, second derivatives lost.
TEST(RandomCompounds, RreluAsLibtorchDifferentiatesIt) {
  ListedSource source({0.125, 0.25});
  const RandomScope scope(source);
  const auto x = at::tensor({-2.0, -4.0}, at::kFloat).requires_grad_();
  EXPECT_TRUE(at::rrelu(x, 0.1, 0.3, false).equal(at::leaky_relu(x, 0.2)));
  EXPECT_TRUE(source.calls.empty());
  const auto y = at::rrelu(x, 0.1, 0.3, true);
  const auto g = at::ones({2}).requires_grad_();
  const auto dx = torch::autograd::grad({y}, {x}, {g}, true, true)[0];
  EXPECT_TRUE(torch::autograd::grad({dx.sum()}, {g})[0].equal(at::tensor({0.125F, 0.25F})));
}

// Catches: a dtype lost, numbers drawn for nothing, an out that keeps its size.
TEST(RandomCompounds, PermutationsAreDrawnWhole) {
  ListedSource source({2, 0, 1});
  const RandomScope scope(source);
  EXPECT_TRUE(at::randperm(3).equal(at::tensor({2, 0, 1}, at::kLong)));
  EXPECT_EQ(at::randperm(3, at::kFloat).scalar_type(), at::kFloat);
  auto out = at::empty({7}, at::kInt);
  at::randperm_out(out, 3);
  EXPECT_TRUE(out.equal(at::tensor({2, 0, 1}, at::kInt)));
  EXPECT_EQ(at::randperm(0).numel(), 0);
  ASSERT_EQ(source.calls.size(), 3U);
  EXPECT_EQ(source.calls[2].kind, RandomKind::kRandperm);
  EXPECT_EQ(source.calls[2].dtype, at::kInt);
}

// Composites over one number for each element or feature. Catches: the fused kernel's mask in place of
// bernoulli_, a noise of the input's shape where features are dropped whole.
TEST(RandomCompounds, OtherDropoutsDrawBernoulliNoise) {
  struct Ones : RandomSource {
    void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel&, RandomState&) override {
      calls.push_back(call);
      out.fill_(1);
    }
    std::vector<RandomCall> calls;
  } source;
  const RandomScope scope(source);
  const auto x = at::ones({2, 3, 4});
  const std::vector<int64_t> all{2, 3, 4}, features{2, 3, 1};
  const auto check = [&](const at::Tensor& y, const std::vector<int64_t>& shape) {
    ASSERT_EQ(source.calls.size(), 1U);
    EXPECT_EQ(source.calls[0].kind, RandomKind::kBernoulli);
    EXPECT_EQ(source.calls[0].a, 0.75);
    EXPECT_EQ(source.calls[0].shape, shape);
    EXPECT_EQ(y.sizes(), x.sizes());
    source.calls.clear();
  };
  check(at::feature_dropout(x, 0.25, true), features);
  check(at::alpha_dropout(x, 0.25, true), all);
  check(at::feature_alpha_dropout(x, 0.25, true), features);
  for (const auto& run : {at::dropout_, at::alpha_dropout_}) {
    auto y = x.clone();
    check(run(y, 0.25, true), all);
  }
  for (const auto& run : {at::feature_dropout_, at::feature_alpha_dropout_}) {
    auto y = x.clone();
    check(run(y, 0.25, true), features);
  }
  EXPECT_TRUE(at::feature_dropout(x, 0.25, false).is_same(x));
  EXPECT_TRUE(source.calls.empty());
}

}  // namespace
}  // namespace lockstep
