// SPDX-License-Identifier: Apache-2.0
// Random operators that make something of a draw, the engine's and the oracle's: each against libtorch's own
// with the same draws, or against their definition; then against each other.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "engine/random/integer_range.h"
#include "engine/random/random.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/ownership/compare.h"
#include "oracle/random/random_simulation.h"
#include "oracle/random/random_support.h"

namespace lockstep::suites {
namespace {

constexpr uint64_t kSeed = 5;

// Draws as libtorch's CPU generator does, so that operators in the scope can be compared with it.
template <class Side>
struct StockSource : Side {
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
template <class Side>
struct ListedSource : Side {
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

template <class Side>
class RandomOperators : public testing::Test {};
using Sides = testing::Types<TensorSource, oracle::LiteralSource>;
TYPED_TEST_SUITE(RandomOperators, Sides, );

// Catches: mean and std applied in another order, in one rounding or in another dtype; a broadcast in another
// shape.
TYPED_TEST(RandomOperators, NormalOfTensorsIsStocks) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const auto mean = at::arange(40, dtype).reshape({8, 5}).t().mul(0.3),
               std = at::arange(1, 9, dtype).div(7);
    const auto in_scope = [](const std::function<at::Tensor()>& run) {
      StockSource<TypeParam> source;
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
  StockSource<TypeParam> source;
  const RandomScope scope(source);
  EXPECT_THROW(at::normal(at::ones({2}), -1), Error);
  EXPECT_THROW(at::normal(0, at::tensor({1.0, -1.0})), Error);
}

// Catches: the ratio the other way round, a tie or an order that is not stock's.
TYPED_TEST(RandomOperators, MultinomialWithoutReplacementIsStocks) {
  const auto weights = at::arange(1, 61, at::kFloat).remainder(7).reshape({5, 12});
  for (const auto& w : {weights, weights[1], weights.to(at::kDouble), at::arange(24.).reshape({12, 2}).t()})
    for (const int64_t n : {1, 2}) {
      StockSource<TypeParam> source;
      const RandomScope scope(source);
      const auto ours = at::multinomial(w, n);
      const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::TESTING_ONLY_GenericMode);
      EXPECT_TRUE(ours.equal(at::multinomial(w, n, false, stock()))) << w.sizes() << n;
    }
}

// Catches: a category of weight 0 picked, the search one off at its bounds, a last category lost to rounding.
TYPED_TEST(RandomOperators, MultinomialWithReplacementSearchesTheShares) {
  ListedSource<TypeParam> source({0.125, 0.12501, 0.5, 0.50001, 1.0, 1e-9});
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
TYPED_TEST(RandomOperators, BernoulliComparesWithTheTensor) {
  ListedSource<TypeParam> source({0.25, 0.3, 0.5, 0.1, 0.75, 1.0});
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
TYPED_TEST(RandomOperators, BernoulliNumbersInACommonOrder) {
  using Strides = std::vector<int64_t>;
  struct Extents {
    Strides shape, stride;
  };
  const auto strides = [](const Extents& out, const Extents& p) {
    ListedSource<TypeParam> source(std::vector<double>(
        static_cast<size_t>(at::empty(out.shape, at::TensorOptions(at::kMeta)).numel()), 0.5));
    Generator now;
    source.bernoulli(at::empty_strided(out.shape, out.stride),
                     at::empty_strided(p.shape, p.stride).fill_(0.5), now);
    return source.calls.at(0).stride;
  };
  EXPECT_EQ(strides({{4, 5}, {5, 1}}, {{4, 5}, {5, 1}}), (Strides{5, 1}));
  EXPECT_EQ(strides({{4, 5}, {1, 4}}, {{4, 5}, {1, 4}}), (Strides{1, 4}));
  EXPECT_EQ(strides({{4, 5}, {5, 1}}, {{4, 5}, {1, 4}}), (Strides{5, 1}));  // they disagree
  EXPECT_EQ(strides({{4, 5}, {1, 4}}, {{}, {}}), (Strides{1, 4}));          // one number fits any order
  EXPECT_EQ(strides({{4, 5}, {1, 4}}, {{5}, {1}}), (Strides{1, 4}));
  EXPECT_EQ(strides({{4, 5}, {1, 4}}, {{4, 1}, {1, 1}}), (Strides{5, 1}));
  EXPECT_EQ(strides({{2, 3, 4}, {1, 2, 12}}, {{2, 3, 4}, {1, 2, 6}}), (Strides{1, 2, 6}));  // with gaps
  EXPECT_EQ(strides({{3, 1, 4}, {1, 7, 3}}, {{3, 1, 4}, {1, 1, 3}}), (Strides{1, 3, 3}));
}

double gradient(const at::Tensor& y, const at::Tensor& x) {
  const auto grad = torch::autograd::grad({y.to(at::kDouble).sum()}, {x}, {}, std::nullopt, false, true)[0];
  return grad.defined() ? grad.abs().sum().item<double>() : -1;
}

// Zero, as libtorch has it, but not undefined. Catches: a gradient that flows to what was overwritten, or
// through a mean.
TYPED_TEST(RandomOperators, GradientsOfDrawsAreZero) {
  ListedSource<TypeParam> source({0.25, 0.5});
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
TYPED_TEST(RandomOperators, RreluDrawsSlopes) {
  ListedSource<TypeParam> source({0.125, 0.25, 0.1875, 0.2, 0.3});
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
TYPED_TEST(RandomOperators, RreluAsLibtorchDifferentiatesIt) {
  ListedSource<TypeParam> source({0.125, 0.25});
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
TYPED_TEST(RandomOperators, PermutationsAreDrawnWhole) {
  ListedSource<TypeParam> source({2, 0, 1});
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
TYPED_TEST(RandomOperators, OtherDropoutsDrawBernoulliNoise) {
  struct Ones : TypeParam {
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

// ---- the two sides against each other ----

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min(),
                  kHighest = std::numeric_limits<int64_t>::max();

std::string text_of(const std::function<std::array<int64_t, 3>()>& range) {
  try {
    const auto [bits, low, high] = range();
    return concat(bits, " ", low, " ", high);
  } catch (const Error&) {
    return "refused";
  }
}

// Catches: a bound that one side moves, wraps or refuses and the other does not, up to where it overflows.
TEST(RandomSides, RangesAgree) {
  std::vector<int64_t> bounds{kLowest, kLowest + 1, -1, 0, 1, kHighest - 1, kHighest};
  for (const int power : {4, 7, 8, 9, 11, 12, 15, 16, 24, 25, 31, 32, 53, 54, 62})
    for (const int64_t near : {-3, -1, 0, 1, 3})
      for (const int64_t sign : {-1, 1}) bounds.push_back(sign * ((int64_t{1} << power) + near));
  for (const auto dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                           at::kChar, at::kByte, at::kBool})
    for (const auto from : bounds)
      for (size_t i = 0; i <= bounds.size(); ++i) {
        const auto to = i < bounds.size() ? std::optional(bounds[i]) : std::nullopt;
        if (from == kHighest || to == kLowest) continue;
        const auto engine = text_of([&]() -> std::array<int64_t, 3> {
          const auto range = integer_range(dtype, from, to);
          return {range.kind == RandomKind::kRandomBits, range.low, range.high};
        });
        struct Asked : oracle::LiteralSource {
          void fill(const RandomCall& asked, const at::Tensor&, const DeviceModel&, RandomState&) override {
            call = asked;
          }
          RandomCall call;
        } asked;
        const auto oracle = text_of([&]() -> std::array<int64_t, 3> {
          Generator now;
          asked.integers(at::empty({1}, dtype), from, to, now);
          return {asked.call.kind == RandomKind::kRandomBits, asked.call.low, asked.call.high};
        });
        ASSERT_EQ(engine, oracle) << dtype_name(dtype) << " " << from << " " << to.value_or(0);
      }
}

std::vector<at::Tensor> all_operators(RandomSource& source, at::ScalarType dtype) {
  generator() = {{11, 8}, {1, 256}};
  const RandomScope scope(source);
  const auto base = at::arange(-150, 150).to(at::kDouble).mul(0.37);
  const auto specials = at::tensor({0.0, -0.0, HUGE_VAL, -HUGE_VAL, std::nan("")}, at::kDouble);
  const auto x = at::cat({base, specials, specials.neg()}).to(dtype).reshape({5, 62}).t();
  const auto p = at::arange(310).to(dtype).div(320).reshape({62, 5}), row = p[7].clone();
  std::vector<at::Tensor> out;
  for (const double rate : {0.0, 0.1, 0.3, 0.5, 1.0}) {
    const auto leaf = x.clone().requires_grad_();
    const auto [y, mask] = at::native_dropout(leaf, rate, true);
    const auto gradient = torch::autograd::grad({y}, {leaf}, {x.nan_to_num()})[0];
    out.insert(out.end(), {y.detach(), mask, gradient});
  }
  auto noise = at::empty_like(x);
  out.push_back(at::rrelu_with_noise(x, noise, -0.3, 0.7, true));
  out.push_back(noise);
  for (const auto& q : {p, row, p.t().contiguous().t()})
    out.insert(out.end(), {at::empty_like(x).bernoulli_(q), at::empty({62, 5}, at::kDouble).bernoulli_(q)});
  for (const int64_t samples : {1, 2, 5})
    for (const bool again : {false, true})
      for (const auto& w : {p.add(0.01), row.add(0.01), p.mul(p.gt(0.694)).narrow(0, 44, 10)})
        out.push_back(at::multinomial(w, again || samples < 3 ? samples : w.size(-1), again));
  for (const auto& std : {p, row, row[2]})
    out.insert(out.end(), {at::normal(x.nan_to_num(), std), at::normal(0.1, std), at::normal(x, 0.7)});
  return out;
}

// Catches: a bit in which the two sides differ, of any operator, dtype, memory order and special value; a
// stream that one leaves elsewhere.
TEST(RandomSides, OperatorsAgree) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    ClosedFormSource closed;
    const auto engine = all_operators(closed, dtype);
    const auto after = generator().state;
    oracle::SimulatedSource simulated;
    const auto oracle = all_operators(simulated, dtype);
    EXPECT_EQ(after, generator().state);
    ASSERT_EQ(engine.size(), oracle.size());
    for (size_t i = 0; i < engine.size(); ++i) {
      EXPECT_EQ(engine[i].strides(), oracle[i].strides()) << i;
      const auto d = oracle::compare(engine[i], oracle[i]);
      EXPECT_TRUE(d.equal()) << dtype << " result " << i << ": " << oracle::describe(d, dtype);
    }
  }
  generator() = {};
}

}  // namespace
}  // namespace lockstep::suites
