// SPDX-License-Identifier: Apache-2.0
// Random operators on DTensors: whatever the placements, the gathered tensor has the bits of the plain one
// that the same stream gives, and the stream has moved as far.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/random/random.h"
#include "engine/random/random_policy.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using Fn = std::function<at::Tensor(const at::Tensor&)>;

// Numbers that differ on every draw, several draws a thread.
void begin() {
  generator() = {{99, 40}, {1, 256}};
}

// As bits: NaNs and signs of zeros count.
bool same_bits(const at::Tensor& x, const at::Tensor& y) {
  const auto bits = [](const at::Tensor& t) { return t.detach().contiguous().view(at::kByte); };
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         (x.numel() == 0 || at::equal(bits(x), bits(y)));
}

class RandomOpsTest : public testing::Test {
 protected:
  ~RandomOpsTest() override { generator() = {}; }

  MeshInWorld mesh_ = init_device_mesh({2, 3});
  ClosedFormSource closed_form_;
  IndexedSource indexed_;
  RandomSource* plain_source_ = &closed_form_;

  at::Tensor plain(const Fn& run, const at::Tensor& x) {
    begin();
    const RandomScope scope(*plain_source_);
    return run(x);
  }

  void check(const std::string& name, const Fn& run, const at::Tensor& x, const Placements& p) {
    const auto expected = plain(run, x);
    const auto state = generator().state;
    begin();
    const auto result = run(distribute_tensor(x, mesh_, p));
    ASSERT_TRUE(is_dtensor(result)) << name;
    EXPECT_TRUE(same_bits(full_tensor(result), expected)) << name << " " << to_string(spec(result));
    EXPECT_EQ(result.strides(), expected.strides()) << name;
    EXPECT_EQ(generator().state, state) << name;
  }

  // In every placement of the input.
  void check_everywhere(const std::string& name, const Fn& run, const at::Tensor& x, bool pending = true) {
    std::vector<Placement> single{Replicate{}, Shard{0}, Shard{1}, InterleavedShard{0, 2}};
    if (pending) single.push_back(Partial{});
    for (const auto& a : single)
      for (const auto& b : single) {
        check(name, run, x, {a, b});
        if (HasFailure()) return;
      }
  }
};

// An in-place op on a copy of the input.
Fn on_copy(const std::function<at::Tensor(at::Tensor&)>& run) {
  return [run](const at::Tensor& x) {
    auto y = x.clone();
    return run(y);
  };
}

at::Tensor ramp(at::ScalarType dtype = at::kFloat) {
  return at::arange(1, 43 * 61 + 1, at::kDouble).div(43 * 61 + 1).reshape({43, 61}).to(dtype);
}

std::map<std::string, Fn> fills() {
  using T = const at::Tensor&;
  const std::optional<int64_t> none;
  return {{"uniform_", [](T x) { return at::empty_like(x).uniform_(-1, 2); }},
          {"normal_", [](T x) { return at::empty_like(x).normal_(1, 3); }},
          {"log_normal_", [](T x) { return at::empty_like(x).log_normal_(0.5, 0.25); }},
          {"exponential_", [](T x) { return at::empty_like(x).exponential_(2); }},
          {"cauchy_", [](T x) { return at::empty_like(x).cauchy_(1, 2); }},
          {"geometric_", [](T x) { return at::empty_like(x).geometric_(0.1); }},
          {"random_", [](T x) { return at::empty_like(x).random_(); }},
          {"random_to", [](T x) { return at::empty_like(x).random_(100); }},
          {"random_from", [none](T x) { return at::empty_like(x).random_(-7, none); }},
          {"random_from_to", [](T x) { return at::empty_like(x, at::kLong).random_(-7, int64_t{1} << 40); }},
          {"random_int", [](T x) { return at::empty_like(x, at::kInt).random_(); }},
          {"geometric_int", [](T x) { return at::empty_like(x, at::kShort).geometric_(0.01); }},
          {"bernoulli_", [](T x) { return at::empty_like(x).bernoulli_(0.3); }},
          {"exponential", [](T x) { return at::exponential(x, 2); }},
          {"randint_like", [](T x) { return at::randint_like(x, 5, 90); }},
          {"randint_like.Tensor", [](T x) { return at::randint_like(x, at::scalar_tensor(90, at::kLong)); }}};
}

// Every fill, dtypes, dense and transposed. Catches: an op without a row, parameters lost on the way, numbers
// by logical index, a Partial input that is reduced where only its shape counts.
TEST_F(RandomOpsTest, FillsAreTheSingleDevices) {
  for (const auto& [name, run] : fills())
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
      check_everywhere(name, run, ramp(dtype));
  for (const auto& [name, run] : fills()) check_everywhere(name + " transposed", run, ramp().t());
}

// The same without a device. Catches: a policy that some op does not follow.
TEST_F(RandomOpsTest, FillsFollowTheIndexedPolicyToo) {
  const RandomPolicyScope policy(RandomPolicy::kIndexed);
  plain_source_ = &indexed_;
  for (const auto& [name, run] : fills()) check_everywhere(name, run, ramp());
  check_everywhere(
      "multinomial", [](auto& x) { return at::multinomial(x, 3, true); }, ramp(), false);
}

// Catches: probabilities that are not read where they lie, or read while still pending; the order of a tensor
// and its probabilities; operators rounded otherwise on a shard.
TEST_F(RandomOpsTest, CompoundsAreTheSingleDevices) {
  using T = const at::Tensor&;
  const std::map<std::string, Fn> runs = {
      {"bernoulli", [](T x) { return at::bernoulli(x); }},
      {"bernoulli.p", [](T x) { return at::bernoulli(x, 0.3); }},
      {"bernoulli.Tensor", [](T x) { return at::bernoulli(x, x.mul(0.5)); }},
      {"bernoulli_.Tensor", [](T x) { return at::empty_like(x).bernoulli_(x); }},
      {"bernoulli_ scalar tensor", [](T x) { return at::empty_like(x).bernoulli_(at::tensor(0.25)); }},
      {"bernoulli_ broadcast", [](T x) { return at::empty_like(x).bernoulli_(x.amax(0)); }},
      {"normal.Tensor_float", [](T x) { return at::normal(x, 0.5); }},
      {"normal.float_Tensor", [](T x) { return at::normal(0.5, x); }},
      {"normal.Tensor_Tensor", [](T x) { return at::normal(x, x.mul(2)); }},
      {"normal broadcast", [](T x) { return at::normal(x.amax(0), x); }},
      {"rrelu", [](T x) { return at::rrelu(x.sub(0.5), 0.1, 0.4, true); }},
      {"rrelu_", on_copy([](at::Tensor& x) { return at::rrelu_(x.sub_(0.5), 0.1, 0.4, true); })},
      {"rrelu eval", [](T x) { return at::rrelu(x.sub(0.5), 0.1, 0.4, false); }},
      {"dropout", [](T x) { return at::dropout(x, 0.3, true); }},
      {"dropout_", on_copy([](at::Tensor& x) { return at::dropout_(x, 0.3, true); })},
      {"feature_dropout", [](T x) { return at::feature_dropout(x.unsqueeze(2), 0.3, true); }},
      {"feature_dropout_", on_copy([](at::Tensor& x) { return at::feature_dropout_(x, 0.3, true); })},
      {"alpha_dropout", [](T x) { return at::alpha_dropout(x, 0.3, true); }},
      {"alpha_dropout_", on_copy([](at::Tensor& x) { return at::alpha_dropout_(x, 0.3, true); })},
      {"feature_alpha_dropout", [](T x) { return at::feature_alpha_dropout(x.unsqueeze(2), 0.3, true); }},
      {"feature_alpha_dropout_",
       on_copy([](at::Tensor& x) { return at::feature_alpha_dropout_(x, 0.3, true); })},
      {"alpha_dropout of all", [](T x) { return at::alpha_dropout(x, 1, true); }}};
  for (const auto& [name, run] : runs) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16})
      check_everywhere(name, run, ramp(dtype), false);
    check_everywhere(name + " transposed", run, ramp().t(), false);
  }
}

// Catches: samples of a shard's categories, another draw on each rank.
TEST_F(RandomOpsTest, MultinomialIsComputedWhole) {
  using T = const at::Tensor&;
  for (const auto dtype : {at::kFloat, at::kDouble})
    for (const auto& [name, run] :
         std::map<std::string, Fn>{{"one", [](T x) { return at::multinomial(x, 1); }},
                                   {"without replacement", [](T x) { return at::multinomial(x, 5); }},
                                   {"with replacement", [](T x) { return at::multinomial(x, 200, true); }},
                                   {"of a vector", [](T x) { return at::multinomial(x.amax(0), 5, true); }}})
      check_everywhere(name, run, ramp(dtype), false);
}

// Catches: noise that is not what the input was multiplied by, or a gradient that does not come from it.
TEST_F(RandomOpsTest, RreluWritesItsNoiseAndDifferentiates) {
  const auto run = [](const at::Tensor& given) {
    auto noise = at::empty_like(given);
    const auto x = given.sub(0.5).requires_grad_();
    const auto y = at::rrelu_with_noise(x, noise, 0.1, 0.4, true);
    const auto gradient = torch::autograd::grad({y.mul(given).sum()}, {x})[0];
    return at::stack({noise, y.detach(), gradient});
  };
  check_everywhere("noise, result, gradient", run, ramp(), false);
}

// Catches: a leaf that is overwritten, a gradient that flows to what was there before, plain zeros.
TEST_F(RandomOpsTest, GradientsOfDrawsAreZero) {
  auto x = parameter(distribute_tensor(ramp(), mesh_, {Shard{0}, Replicate{}}));
  for (const auto& run :
       std::vector<Fn>{[](auto& t) { return (t * 1).exponential_(); },
                       [](auto& t) { return at::normal(t, 1.0); }, [](auto& t) { return at::bernoulli(t); },
                       [](auto& t) { return at::empty_like(t).bernoulli_(t); }}) {
    const auto gradient = torch::autograd::grad({run(x).sum()}, {x})[0];
    EXPECT_TRUE(full_tensor(gradient).equal(at::zeros({43, 61})));
  }
  EXPECT_ANY_THROW(at::Tensor(x).cauchy_());
}

// Where no gradient arrives none is passed on, as by libtorch. Catches: zeros of a node that nothing reaches,
// with which all below it runs.
TEST_F(RandomOpsTest, DrawsPassOnNoGradientWhereNoneArrives) {
  for (const Fn& run :
       {Fn([](auto& t) { return (t * 1).normal_(); }), Fn([](auto& t) { return at::normal(t, 1.0); }),
        Fn([](auto& t) { return at::bernoulli(t); })}) {
    auto x = parameter(distribute_tensor(ramp(), mesh_, {Shard{0}, Replicate{}}));
    auto y = parameter(distribute_tensor(ramp(), mesh_, {Shard{0}, Replicate{}}));
    begin();
    const auto both = at::_foreach_mul({run(x), y}, 0.5);
    const auto gradients =
        torch::autograd::grad({both[1].sum()}, {x, y}, {}, {}, false, /*allow_unused=*/true);
    EXPECT_FALSE(gradients[0].defined());
    EXPECT_TRUE(gradients[1].defined());
  }
}

// Factories of whole permutations and integers. Catches: a permutation of each shard.
TEST_F(RandomOpsTest, FactoriesDrawTheSingleDevicesTensor) {
  const auto order = plain([](auto&) { return at::randperm(1000); }, {});
  const auto numbers = plain([](auto&) { return at::randint(-3, 9, {70, 50}, at::kLong); }, {});
  for (const Placement& p : {Placement(Replicate{}), Placement(Shard{0}), Placement(Partial{})}) {
    begin();
    EXPECT_TRUE(full_tensor(lockstep::randperm(1000, mesh_, {Shard{0}, p})).equal(order));
    begin();
    EXPECT_TRUE(full_tensor(lockstep::randint(-3, 9, {70, 50}, mesh_, {Shard{1}, p})).equal(numbers));
  }
}

// Catches: an out variant that draws other numbers than the plain one.
TEST_F(RandomOpsTest, DrawsIntoOut) {
  const auto means = ramp();
  const auto expected = plain([](const auto& x) { return at::normal(x, 0.5); }, means);
  begin();
  const auto placed = distribute_tensor(means, mesh_, {Shard{0}, Shard{1}});
  auto out = at::empty_like(placed);
  at::normal_out(out, placed, 0.5, std::nullopt);
  EXPECT_TRUE(same_bits(full_tensor(out), expected));
}

// Catches: a generator that is ignored, arguments that are not looked at, a plain refusal that does not say
// what to do.
TEST_F(RandomOpsTest, RefusesWhatItCannotDraw) {
  const auto x = distribute_tensor(ramp(), mesh_, {Shard{0}, Shard{1}});
  EXPECT_THROW(at::empty_like(x).uniform_(0, 1, at::detail::createCPUGenerator()), Error);
  EXPECT_THROW(at::bernoulli(x.mul(3)), Error);
  EXPECT_THROW(at::normal(0, x.neg()), Error);
  EXPECT_THROW(at::empty_like(x).exponential_(-1), Error);
  EXPECT_THROW(at::multinomial(x.sub(0.5), 2), Error);
  auto out = at::empty_like(x),
       turned = distribute_tensor(ramp().t().contiguous().t(), mesh_, {Shard{0}, Shard{1}});
  const std::pair<const char*, std::function<void()>> unserved[] = {
      {"aten::poisson", [&] { at::poisson(x); }},
      {"aten::binomial", [&] { at::binomial(x, x); }},
      {"aten::normal.Tensor_float_out", [&] { at::normal_out(turned, x, 1.0, std::nullopt); }},
      {"aten::bernoulli.out", [&] { at::bernoulli_out(turned, x.mul(0), std::nullopt); }},
      {"aten::rrelu_with_noise.out", [&] { at::rrelu_with_noise_out(out, x, turned, .1, .2, true); }}};
  for (const auto& [op, run] : unserved) try {
      run();
      ADD_FAILURE() << op << " was not refused";
    } catch (const Error& e) {
      const std::string text = e.what();
      EXPECT_TRUE(text.find(op) != std::string::npos && text.find(';') != std::string::npos) << text;
    }
  const auto pending = distribute_tensor(ramp(), mesh_, {Partial{}, Shard{1}});
  EXPECT_THROW(at::Tensor(pending).uniform_(), Error);
}

}  // namespace
}  // namespace lockstep
