// SPDX-License-Identifier: Apache-2.0
// RandomScope: who is asked for which numbers, and that everything else is left alone.
#include "oracle/random/literal_source.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <thread>

#include "engine/values/error.h"

namespace lockstep {
namespace {

int fake_calls = 0;

// Counts upwards from the offset, so that every value tells which call and which element it came from.
struct CountingSource : oracle::LiteralSource {
  void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel&, RandomState& state) override {
    calls.push_back(call);
    EXPECT_EQ(out.sizes(), call.shape);
    auto values = at::arange(out.numel(), at::kLong).reshape(out.sizes());
    out.copy_(call.kind == RandomKind::kDropoutMask ? values.remainder(3).ne(0)
                                                    : values.add(int64_t(state.offset)));
    state.offset += 4;
  }
  std::vector<RandomCall> calls;
};

std::vector<double> list(const at::Tensor& t) {
  const auto d = t.detach().to(at::kDouble).contiguous().flatten();
  return {d.data_ptr<double>(), d.data_ptr<double>() + d.numel()};
}

class RandomScopeTest : public testing::Test {
 protected:
  RandomScopeTest() { manual_seed(7); }
  CountingSource source_;
};

// Would catch: an operator or factory that still draws from libtorch's generator, or passes the wrong
// parameters.
TEST_F(RandomScopeTest, OperatorsAndFactoriesDrawFromTheSource) {
  RandomScope scope(source_);
  const auto f = at::TensorOptions(at::kFloat);
  at::empty({2}, f).uniform_(-1, 3);
  at::empty({2}, f).normal_(5, 2);
  at::empty({2}, at::kLong).random_(-3, 9);
  at::empty({2}, at::kLong).random_(9);
  at::empty({2}, f).random_();
  at::empty({2}, f).bernoulli_(0.25);
  at::rand({2}, f);
  at::randn({2}, at::kDouble);
  at::rand_like(at::empty({2}, f));
  at::randn_like(at::empty({2}, f));
  at::randint(5, {2}, at::kLong);
  at::randint(2, 5, {2}, f);
  at::randint_like(at::empty({2}, f), 4);
  at::bernoulli(at::empty({2}, f), 0.75);
  at::normal(1.0, 3.0, {2});
  struct Wanted {
    RandomKind kind;
    double a, b;
    int64_t low, high;
  };
  using enum RandomKind;
  const Wanted wanted[] = {{kUniform, -1, 3, 0, 0}, {kNormal, 5, 2, 0, 0},      {kRandint, 0, 1, -3, 9},
                           {kRandint, 0, 1, 0, 9},  {kRandom, 0, 1, 0, 0},      {kBernoulli, .25, 1, 0, 0},
                           {kUniform, 0, 1, 0, 0},  {kNormal, 0, 1, 0, 0},      {kUniform, 0, 1, 0, 0},
                           {kNormal, 0, 1, 0, 0},   {kRandint, 0, 1, 0, 5},     {kRandint, 0, 1, 2, 5},
                           {kRandint, 0, 1, 0, 4},  {kBernoulli, .75, 1, 0, 0}, {kNormal, 1, 3, 0, 0}};
  ASSERT_EQ(source_.calls.size(), std::size(wanted));
  for (size_t i = 0; i < std::size(wanted); ++i) {
    const auto& c = source_.calls[i];
    EXPECT_TRUE(c.kind == wanted[i].kind && c.a == wanted[i].a && c.b == wanted[i].b &&
                c.low == wanted[i].low && c.high == wanted[i].high)
        << "call " << i;
  }
  EXPECT_EQ(source_.calls[7].dtype, at::kDouble);
  EXPECT_EQ(generator().state, (RandomState{7, 4 * std::size(wanted)}));
}

// The same for the distributions beside the uniform and the normal one. Would catch: parameters exchanged, a
// default that is not libtorch's, a range without its end.
TEST_F(RandomScopeTest, EveryFillNamesItsDistribution) {
  RandomScope scope(source_);
  const auto f = at::TensorOptions(at::kFloat);
  at::empty({2}, f).exponential_(3);
  at::empty({2}, f).cauchy_(5, 2);
  at::empty({2}, f).log_normal_();
  at::empty({2}, at::kInt).geometric_(0.25);
  at::empty({2}, at::kLong).random_();
  at::empty({2}, at::kChar).random_(-3, std::optional<int64_t>());
  at::empty({2}, at::kLong).random_(std::numeric_limits<int64_t>::min(), std::optional<int64_t>());
  at::empty({2}, at::kLong).random_(7, std::optional<int64_t>());
  at::exponential(at::empty({2}, f));
  const auto lowest = std::numeric_limits<int64_t>::min();
  struct Wanted {
    RandomKind kind;
    double a, b;
    int64_t low, high;
  };
  using enum RandomKind;
  const Wanted wanted[] = {
      {kExponential, 3, 1, 0, 0}, {kCauchy, 5, 2, 0, 0},       {kLogNormal, 1, 2, 0, 0},
      {kGeometric, .25, 1, 0, 0}, {kRandom, 0, 1, 0, 0},       {kRandint, 0, 1, -3, 128},
      {kRandomBits, 0, 1, 0, 0},  {kRandint, 0, 1, 7, lowest}, {kExponential, 1, 1, 0, 0}};
  ASSERT_EQ(source_.calls.size(), std::size(wanted));
  for (size_t i = 0; i < std::size(wanted); ++i) {
    const auto& c = source_.calls[i];
    EXPECT_TRUE(c.kind == wanted[i].kind && c.a == wanted[i].a && c.b == wanted[i].b &&
                c.low == wanted[i].low && c.high == wanted[i].high)
        << "call " << i;
  }
}

// Would catch: values written in logical order where the stock kernel goes by memory, or elements beyond a
// view.
TEST_F(RandomScopeTest, ViewsKeepTheirStrides) {
  RandomScope scope(source_);
  auto base = at::zeros({3, 4});
  base.t().narrow(0, 1, 2).uniform_();
  ASSERT_EQ(source_.calls.size(), 1U);
  EXPECT_EQ(source_.calls[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(source_.calls[0].stride, (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(list(base), (std::vector<double>{0, 0, 3, 0, 0, 1, 4, 0, 0, 2, 5, 0}));
  EXPECT_ANY_THROW(at::zeros({1}).expand({4}).uniform_());
}

// Would catch: a fill that leaves old gradients flowing, does not advance the version, or writes into a leaf.
TEST_F(RandomScopeTest, FillsAreDifferentiatedAsInPlaceOperators) {
  RandomScope scope(source_);
  auto leaf = at::ones({3}).requires_grad_();
  auto x = leaf * 2;
  const auto version = x._version();
  x.uniform_();
  EXPECT_GT(x._version(), version);
  const auto grad = torch::autograd::grad({x.sum()}, {leaf});
  EXPECT_EQ(list(grad[0]), (std::vector<double>{0, 0, 0}));
  EXPECT_ANY_THROW(leaf.uniform_());
}

// Would catch: an order of operations other than the stock kernel's, a mask that is not the one drawn, a
// wrong backward scale (computed in double, unlike the forward one).
TEST_F(RandomScopeTest, DropoutIsStockCudas) {
  RandomScope scope(source_);
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    for (const double p : {0.1, 0.3, 0.9}) {
      auto x = at::arange(1, 8, at::kDouble).mul(0.7390851332151607).to(dtype).requires_grad_();
      const auto y = at::dropout(x, p, true);
      const auto g = at::arange(2, 9, at::kDouble).mul(0.3183098861837907).to(dtype);
      const auto dx = torch::autograd::grad({y}, {x}, {g})[0];
      for (int64_t i = 0; i < 7; ++i) {
        const double m = i % 3 != 0;
        const double xi = x[i].item<double>(), gi = g[i].item<double>();
        double forward = 0, backward = 0;
        if (dtype == at::kDouble) {
          forward = (xi * m) * (1.0 / (1.0 - p));
          backward = gi * m * (1.0 / (1.0 - p));
        } else {
          forward = (float(xi) * float(m)) * (1.0F / float(1.0 - p));
          backward = float(gi) * float(m) * float(1.0 / (1.0 - p));
        }
        EXPECT_EQ(y[i].item<double>(), at::scalar_tensor(forward, at::kDouble).to(dtype).item<double>());
        EXPECT_EQ(dx[i].item<double>(), at::scalar_tensor(backward, at::kDouble).to(dtype).item<double>());
      }
    }
}

// Would catch: NaN, infinity or -0.0 lost by selecting where the stock kernel multiplies.
TEST_F(RandomScopeTest, DroppedSpecialValuesPropagate) {
  RandomScope scope(source_);
  const auto inf = std::numeric_limits<double>::infinity();
  const auto x = at::tensor({inf, -1.0, 1.0, -1.0, std::nan(""), 2.0});  // elements 0 and 3 are dropped
  const auto y = list(at::dropout(x, 0.5, true));
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[4]));
  EXPECT_TRUE(y[3] == 0 && std::signbit(y[3]));
}

// Would catch: numbers drawn where the stock operator draws none, which would shift all that follow.
TEST_F(RandomScopeTest, DropoutWithoutChoiceDrawsNothing) {
  RandomScope scope(source_);
  const auto x = at::arange(1, 5, at::kFloat);
  EXPECT_TRUE(at::dropout(x, 0, true).is_same(x));
  EXPECT_TRUE(at::dropout(x, 0.5, false).is_same(x));
  EXPECT_EQ(list(at::dropout(x, 1, true)), (std::vector<double>(4, 0)));
  EXPECT_EQ(at::dropout(at::empty({0}), 0.5, true).numel(), 0);
  EXPECT_TRUE(std::get<0>(at::native_dropout(x, 0.5, false)).equal(x));
  EXPECT_EQ(list(std::get<0>(at::native_dropout(x, 1, true))), (std::vector<double>(4, 0)));
  EXPECT_TRUE(std::get<0>(at::native_dropout(x, 0, true)).equal(x));
  EXPECT_EQ(std::get<1>(at::native_dropout(at::empty({0}), 0.5, true)).scalar_type(), at::kBool);
  at::empty({0}).uniform_();
  EXPECT_TRUE(source_.calls.empty());
  EXPECT_EQ(generator().state.offset, 0U);
}

// Would catch: create_graph or a second derivative lost in the custom function.
TEST_F(RandomScopeTest, DropoutHasASecondDerivative) {
  RandomScope scope(source_);
  auto x = at::arange(1, 5, at::kDouble).requires_grad_();
  const auto [y, mask] = at::native_dropout(x, 0.5, true);
  EXPECT_EQ(mask.scalar_type(), at::kBool);
  EXPECT_FALSE(mask.requires_grad());
  const auto dx = torch::autograd::grad({(y * y).sum()}, {x}, {}, true, true)[0];
  EXPECT_EQ(list(dx), (std::vector<double>{0, 16, 24, 0}));
  EXPECT_EQ(list(torch::autograd::grad({dx.sum()}, {x})[0]), (std::vector<double>{0, 8, 8, 0}));
}

// Of each form, outs of other shapes and in another memory order beside what stock's CPU operator makes of
// them. Would catch: numbers in another order than that of out's memory, an out of another shape than stock
// makes it or refuses, a scale that is forgotten, an out that joins the graph.
TEST_F(RandomScopeTest, NormalDrawsIntoOutAsStock) {
  const auto turned = [] { return at::empty({3, 2}).t(); };
  const at::Tensor row = at::ones({3}), table = at::full({2, 3}, 2.0), one = at::ones({});
  const std::function<at::Tensor()> outs[] = {turned,
                                              [] {
                                                return at::empty({2, 3});
                                              },
                                              [] { return at::empty({0}); }, [] { return at::empty({3}); }};
  using Run = std::function<at::Tensor(at::Tensor)>;
  const auto both = [](const at::Tensor& mean, const at::Tensor& std) -> Run {
    return [=](at::Tensor out) { return at::normal_out(out, mean, std); };
  };
  std::vector<Run> runs = {both(row, table), both(table, row), both(one, row)};
  for (const auto& x : {row, table, one}) {
    runs.push_back([=](at::Tensor out) { return at::normal_out(out, x, 0.5, std::nullopt); });
    runs.push_back([=](at::Tensor out) { return at::normal_out(out, -1.0, x); });
  }
  int64_t drawn = 0;
  for (const auto& make : outs)
    for (const auto& run : runs) {
      at::Tensor stock;
      try {
        stock = run(make());
      } catch (const std::exception&) {
        const RandomScope scope(source_);
        EXPECT_ANY_THROW(run(make()));
        continue;
      }
      const RandomScope scope(source_);
      auto out = make();
      EXPECT_TRUE(run(out).is_same(out));
      EXPECT_EQ(out.sizes(), stock.sizes());
      EXPECT_EQ(out.strides(), stock.strides());
      EXPECT_TRUE(out.numel() == 0 || source_.calls.back().stride == out.strides());
      ++drawn;
    }
  EXPECT_GT(drawn, 20);
  const RandomScope scope(source_);
  auto out = at::empty({2});
  generator().state.offset = 8;
  EXPECT_EQ(list(at::normal_out(out, at::full({2}, 100.0), at::full({2}, 3.0))),
            (std::vector<double>{124, 127}));
  EXPECT_THROW(at::normal_out(out, at::ones({2}).requires_grad_(), 1.0, std::nullopt), Error);
  EXPECT_THROW(at::normal_out(out, at::ones({2}), -1.0, std::nullopt), Error);
}

// Would catch: an operator that silently draws from libtorch's generator inside the scope.
TEST_F(RandomScopeTest, OtherRandomOperatorsAreErrorsThatNameThem) {
  RandomScope scope(source_);
  const auto x = at::ones({4});
  auto out = at::empty({4}), noise = at::empty({4});
  const std::pair<const char*, std::function<void()>> refused[] = {
      {"aten::poisson", [&] { at::poisson(x); }},
      {"aten::binomial", [&] { at::binomial(x, x); }},
      {"aten::_standard_gamma", [&] { at::_standard_gamma(x); }},
      {"aten::rrelu_with_noise.out", [&] { at::rrelu_with_noise_out(out, x, noise, .1, .2, true); }},
      {"aten::uniform_", [&] { at::empty({4}).uniform_(0, 1, at::detail::createCPUGenerator()); }},
  };
  for (const auto& [op, run] : refused) try {
      run();
      ADD_FAILURE() << op << " was not refused";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(op), std::string::npos) << e.what();
    }
  EXPECT_THROW(at::empty({4}, at::kLong).uniform_(), Error);
  EXPECT_THROW(at::empty({4}).uniform_(2, 1), Error);
  EXPECT_THROW(at::empty({4}, at::kLong).random_(5, 5), Error);
  EXPECT_THROW(at::empty({4}).exponential_(0), Error);
  EXPECT_THROW(at::empty({4}).cauchy_(0, 0), Error);
  EXPECT_THROW(at::empty({4}).log_normal_(0, 0), Error);
  EXPECT_THROW(at::empty({4}).geometric_(1), Error);
  EXPECT_THROW(at::empty({4}, at::kBool).geometric_(.5), Error);
  EXPECT_THROW(at::bernoulli(at::full({2}, 2.0)), Error);
  EXPECT_THROW(at::empty({2}).bernoulli_(at::full({2}, -1.0)), Error);
  EXPECT_THROW(at::normal(at::zeros({2}), at::full({2}, -1.0)), Error);
  EXPECT_THROW(at::multinomial(at::zeros({3}), 1), Error);
  EXPECT_TRUE(source_.calls.empty());
}

// Would catch: attention without dropout refused because its operator may draw.
TEST_F(RandomScopeTest, AttentionDrawsOnlyWithDropout) {
  RandomScope scope(source_);
  const auto q = at::ones({1, 2, 4, 8});
  EXPECT_NO_THROW(at::scaled_dot_product_attention(q, q, q));
  EXPECT_NO_THROW(at::_scaled_dot_product_flash_attention_for_cpu(q, q, q, 0.0));
  EXPECT_TRUE(source_.calls.empty());
  EXPECT_NO_THROW(at::scaled_dot_product_attention(q, q, q, {}, 0.5));
  ASSERT_EQ(source_.calls.size(), 1U);
  EXPECT_EQ(source_.calls[0].kind, RandomKind::kDropoutMask);
}

// Would catch: a scope that outlives itself, reaches other threads, or forgets the scope around it.
TEST_F(RandomScopeTest, ScopesNestAndEnd) {
  CountingSource inner;
  {
    RandomScope scope(source_);
    {
      RandomScope nested(inner);
      at::rand({1});
      std::thread([] { at::rand({1}); }).join();
    }
    at::rand({1});
    EXPECT_EQ(inner.calls.size(), 1U);
    EXPECT_EQ(source_.calls.size(), 1U);
  }
  at::manual_seed(3);
  const auto first = at::rand({4});
  at::manual_seed(3);
  EXPECT_TRUE(at::rand({4}).equal(first));
  at::poisson(at::ones({4}));
  EXPECT_EQ(source_.calls.size(), 1U);
  EXPECT_EQ(generator().state.offset, 8U);
}

// Would catch: a distributed tensor (key Fake) served as if it were plain, or numbers drawn for a tensor
// without values.
TEST_F(RandomScopeTest, DistributedAndMetaTensorsFallThrough) {
  RandomScope scope(source_);
  fake_calls = 0;
  {
    c10::impl::IncludeDispatchKeyGuard fake(c10::DispatchKey::Fake);
    auto x = at::ones({4});
    x.uniform_();
    at::native_dropout(x, 0.5, true);
  }
  EXPECT_EQ(fake_calls, 2);
  at::empty({4}, at::kMeta).normal_();
  EXPECT_TRUE(source_.calls.empty());
}

// Would catch: another byte order, an offset that stock refuses, a seed alone that keeps the old offset, a
// fork that forgets the device.
TEST(RngState, IsCudas) {
  generator() = {{0x0123456789abcdef, 0x1c}, {7, 512}};
  const auto state = get_rng_state();
  const std::array<uint8_t, 16> wanted{0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, 0x1c};
  EXPECT_EQ(state, wanted);
  {
    const ForkRng fork;
    generator() = {{1, 4}, {}};
  }
  EXPECT_EQ(generator().device, (DeviceModel{7, 512}));
  manual_seed(3);
  set_rng_state(state);
  EXPECT_EQ(generator().state, (RandomState{0x0123456789abcdef, 0x1c}));
  set_rng_state(std::span(state).first(8));
  EXPECT_EQ(generator().state, (RandomState{0x0123456789abcdef, 0}));
  auto odd = state;
  odd[8] = 2;
  EXPECT_THROW(set_rng_state(odd), Error);
  EXPECT_THROW(set_rng_state(std::span(state).first(15)), Error);
  EXPECT_EQ(generator().state.offset, 0U);
  generator() = {};
}

}  // namespace

// What the engine has below its distributed tensors.
TORCH_LIBRARY_IMPL(_, Fake, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Fake, library) {
  library.impl("uniform_", [](at::Tensor& x, double, double, std::optional<at::Generator>) -> at::Tensor& {
    ++fake_calls;
    return x;
  });
  library.impl("native_dropout", [](const at::Tensor& x, double, std::optional<bool>) {
    ++fake_calls;
    return std::make_tuple(x.clone(), x.clone());
  });
}

}  // namespace lockstep
