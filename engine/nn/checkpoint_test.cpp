// SPDX-License-Identifier: Apache-2.0
// Activation recompute on DTensors and plain tensors: gradients, draws, and what it refuses.
#include "engine/nn/checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using Tensors = std::vector<at::Tensor>;

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override { manual_seed(3); }
  MeshInWorld mesh_ = init_device_mesh({2, 2}, {"dp", "tp"});
  at::Tensor x_ = distribute_tensor(ramp({6, 4}), mesh_, parse_placements("[S0,R]")).requires_grad_();
  at::Tensor w_ = distribute_tensor(ramp({4, 4}), mesh_, parse_placements("[R,S1]")).requires_grad_();
  int runs_ = 0;

  Tensors block(const Tensors& of) {
    ++runs_;
    return {std::get<0>(at::native_dropout(at::mm(of[0], of[1]), 0.5, true))};
  }
  Tensors gradients(const at::Tensor& y) { return torch::autograd::grad({y}, {x_, w_}, {at::ones_like(y)}); }
};

// Catches: a block that keeps its history, draws other numbers the second time, or leaves the generator
// elsewhere.
TEST_F(CheckpointTest, GivesTheBlocksOwnGradientsAndDraws) {
  const auto expected = gradients(block({x_, w_})[0]);
  const auto after = generator().state;
  manual_seed(3);
  runs_ = 0;
  const auto y = checkpoint([&](const Tensors& of) { return block(of); }, {x_, w_})[0];
  EXPECT_EQ(runs_, 1);
  const auto got = gradients(y);
  EXPECT_EQ(runs_, 2);
  EXPECT_EQ(generator().state, after);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(spec(got[i]), spec(expected[i]));
    EXPECT_TRUE(full_tensor(got[i]).equal(full_tensor(expected[i]))) << i;
  }
}

// Catches: plain tensors that draw anew, or move libtorch's generator; a second run in other dtypes.
TEST_F(CheckpointTest, OfPlainTensorsDrawsAndCastsAsBefore) {
  const auto x = ramp({6, 4}), w = ramp({4, 4});
  const auto gradients = [&](bool again) {
    const auto a = x.clone().requires_grad_(), b = w.clone().requires_grad_();
    const auto run = [](const Tensors& of) {
      return Tensors{at::dropout(at::mm(of[0], of[1]), 0.5, true).sin()};
    };
    at::manual_seed(3);
    at::autocast::set_autocast_enabled(c10::kCPU, true);
    at::autocast::set_autocast_dtype(c10::kCPU, at::kBFloat16);
    const auto y = again ? checkpoint(run, {a, b})[0] : run({a, b})[0];
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(c10::kCPU, false);
    at::rand({3});
    y.sum().backward();
    EXPECT_FALSE(at::autocast::is_autocast_enabled(c10::kCPU));
    return Tensors{a.grad(), b.grad(), at::rand({4})};
  };
  const auto expected = gradients(false), got = gradients(true);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << i;
}

// Catches: a second run that draws at the first one's offset, of the seed that was set since.
TEST_F(CheckpointTest, DrawsOfTheSeedThatItHad) {
  const auto expected = gradients(block({x_, w_})[0]);
  manual_seed(3);
  const auto y = checkpoint([&](const Tensors& of) { return block(of); }, {x_, w_})[0];
  manual_seed(9);
  const auto got = gradients(y);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(full_tensor(got[i]).equal(full_tensor(expected[i]))) << i;
  EXPECT_EQ(generator().state, (RandomState{9, 0}));
}

// Catches: draws that are restored though nobody asks for it.
TEST_F(CheckpointTest, DrawsAnewWhereAsked) {
  const auto y = checkpoint([&](const Tensors& of) { return block(of); }, {x_, w_}, {false})[0];
  const auto between = generator().state;
  gradients(y);
  EXPECT_GT(generator().state.offset, between.offset);
}

// Catches: a parameter that silently gets no gradient; a second derivative that is silently zero.
TEST_F(CheckpointTest, SaysWhatItCannotDifferentiate) {
  const auto said = [](const auto& run) {
    try {
      run();
    } catch (const std::exception& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto outside = checkpoint([&](const Tensors& of) { return block({of[0], w_}); }, {x_})[0];
  EXPECT_NE(said([&] { outside.sum().backward(); }).find("shape [4, 4] that requires a gradient"),
            std::string::npos);
  const auto y = checkpoint([&](const Tensors& of) { return block(of); }, {x_, w_})[0];
  const auto twice = [&] { torch::autograd::grad({y.sum()}, {x_}, {}, true, /*create_graph=*/true); };
  EXPECT_NE(said(twice).find("no history of their own"), std::string::npos);
}

// y = dropout(x w), then tanh.
struct Layer : nn::Module {
  Layer() { add_parameter("weight", {4, 4}, at::kFloat); }
  at::Tensor forward(const Tensors& in) override {
    ++runs;
    return std::get<0>(at::native_dropout(at::mm(in.at(0), parameter("weight")), 0.5, true)).tanh();
  }
  int runs = 0;
};

// Catches: a module whose parameters get no gradient, or none where no input requires one; gradients that
// come twice; what stands around its calls and is left out of the second run.
TEST_F(CheckpointTest, OfAModuleReachesItsParameters) {
  for (const bool requires_grad : {true, false}) {
    const auto gradients_of = [&](bool again, bool before) {
      manual_seed(3);
      Layer layer;
      layer.set_parameter("weight", w_.detach().requires_grad_());
      int around = 0;
      const auto stand = [&around](Tensors in, const nn::Module::Forward& forward) {
        ++around;
        return forward(std::move(in));
      };
      if (again && before) checkpoint(layer);
      layer.call_around(stand);
      if (again && !before) checkpoint(layer);
      const auto x = x_.detach().requires_grad_(requires_grad);
      const auto y = layer(layer(x));
      y.backward(at::ones_like(y));
      EXPECT_EQ(layer.runs, again ? 4 : 2);
      EXPECT_EQ(around, layer.runs);
      Tensors all{full_tensor(y.detach()), full_tensor(layer.parameter("weight").grad())};
      if (requires_grad) all.push_back(full_tensor(x.grad()));
      return all;
    };
    const auto expected = gradients_of(false, false);
    for (const bool before : {true, false}) {
      const auto got = gradients_of(true, before);
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << i;
    }
  }
}

// Catches: an input that is not there, taken for one that is.
TEST_F(CheckpointTest, OfAModuleTakesUndefinedInputs) {
  struct Masked : nn::Module {
    at::Tensor forward(const Tensors& in) override {
      EXPECT_EQ(in.size(), 3u);
      EXPECT_FALSE(in[1].defined());
      return in[0] * in[2];
    }
  } masked;
  checkpoint(masked);
  const auto x = x_.detach().requires_grad_();
  const auto y = masked(x, at::Tensor(), x_.detach());
  y.backward(at::ones_like(y));
  EXPECT_TRUE(full_tensor(x.grad()).equal(full_tensor(x_.detach())));
}

// Catches: a block that runs again with its parameters as they are between calls, whatever stood there for
// them in the call of a module around it; a parameter that stays what stood in for it.
TEST_F(CheckpointTest, OfAModuleHasItsStandInsAgain) {
  struct Outer : nn::Module {
    at::Tensor forward(const Tensors& in) override { return (*inner)(in[0]); }
    std::shared_ptr<Layer> inner = add_child("inner", std::make_shared<Layer>());
  } outer;
  const auto cut = w_.detach().requires_grad_();
  outer.set_parameter("inner.weight", cut);
  checkpoint(*outer.inner);
  std::vector<std::string> seen;
  outer.inner->register_forward_pre_hook(
      [&](nn::Module& inner, Tensors&) { seen.push_back(to_string(placements(inner.parameter("weight")))); });
  at::Tensor y;
  {
    StandIns whole(outer);
    whole.set({"inner.weight"}, redistribute(cut, parse_placements("[R,R]")));
    y = outer(x_);
  }
  EXPECT_TRUE(outer.parameter("inner.weight").is_same(cut));
  y.backward(at::ones_like(y));
  EXPECT_EQ(seen, (std::vector<std::string>{"[R,R]", "[R,R]"}));
  EXPECT_TRUE(outer.parameter("inner.weight").is_same(cut));
  EXPECT_EQ(to_string(placements(cut.grad())), "[R,S1]");
}

// Catches: a second run of a module that is no more.
TEST_F(CheckpointTest, OfAModuleThatIsGone) {
  auto layer = std::make_unique<Layer>();
  layer->set_parameter("weight", w_.detach().requires_grad_());
  checkpoint(*layer);
  const auto y = (*layer)(x_);
  layer.reset();
  EXPECT_THROW(y.backward(at::ones_like(y)), Error);
}

}  // namespace
}  // namespace lockstep
