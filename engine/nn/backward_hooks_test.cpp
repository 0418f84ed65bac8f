// SPDX-License-Identifier: Apache-2.0
// Full backward hooks: when they are called, with what, and that they leave every bit where they change none.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/nn/checkpoint.h"
#include "engine/nn/layers.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/error.h"
#include "engine/world/bits.h"

namespace lockstep::nn {
namespace {

// x * scale + shift, by elements; the second input may be an index or require nothing.
struct Affine : Module {
  Affine() {
    add_parameter("scale", {3}, at::kFloat);
    set_parameter("scale", at::tensor({2.0F, 3.0F, 5.0F}).requires_grad_());
  }
  at::Tensor forward(const Tensors& in) override {
    const auto scaled = in.at(0) * parameter("scale");
    return in.size() > 1 && in[1].defined() ? scaled + in[1] : scaled;
  }
};

at::Tensor input(bool requires_grad = true) {
  return at::tensor({1.0F, -1.0F, 4.0F}).set_requires_grad(requires_grad);
}

// What the hooks of a module saw: "pre" and "post", and the gradients.
struct Seen {
  std::vector<std::string> order;
  std::vector<Tensors> grad_inputs;

  void watch(Module& module, const std::string& who = "") {
    const auto last = std::make_shared<at::Tensor>();
    module.register_full_backward_pre_hook([this, who, last](Module&, at::Tensor& grad) {
      order.push_back(who + "pre");
      *last = grad;
    });
    module.register_full_backward_hook(
        [this, who, last](Module&, Tensors& grads, const at::Tensor& grad_output) {
          EXPECT_TRUE(grad_output.is_same(*last));
          order.push_back(who + "post");
          grad_inputs.push_back(grads);
        });
  }
};

using Names = std::vector<std::string>;

// Catches: hooks in another order or with another's gradients; a call that changes bits.
TEST(BackwardHooks, SeeTheGradientsOfOutputAndInputs) {
  Affine module, plain;
  Seen seen;
  seen.watch(module);
  const auto x = input(), shift = input(), y = input(), other = input();
  module(x, shift).pow(2).sum().backward();
  plain(y, other).pow(2).sum().backward();
  EXPECT_EQ(seen.order, (Names{"pre", "post"}));
  ASSERT_EQ(seen.grad_inputs.size(), 1u);
  ASSERT_EQ(seen.grad_inputs[0].size(), 2u);
  EXPECT_TRUE(same_bits(seen.grad_inputs[0][0], y.grad()));
  EXPECT_TRUE(same_bits(seen.grad_inputs[0][1], other.grad()));
  EXPECT_TRUE(same_bits(x.grad(), y.grad()));
  EXPECT_TRUE(same_bits(module.parameter("scale").grad(), plain.parameter("scale").grad()));
}

// One call, one hook, though the input has other uses, of which the gradient is not the module's.
TEST(BackwardHooks, SeeTheCallsOwnGradientsOnly) {
  Affine module;
  Seen seen;
  seen.watch(module);
  const auto x = input();
  (module(x) + 10 * x).sum().backward();
  ASSERT_EQ(seen.grad_inputs.size(), 1u);
  EXPECT_TRUE(same_bits(seen.grad_inputs[0][0], at::tensor({2.0F, 3.0F, 5.0F})));
  EXPECT_TRUE(same_bits(x.grad(), at::tensor({12.0F, 13.0F, 15.0F})));
}

// Catches: a hook that a second call takes from the first; children before or after their parent.
TEST(BackwardHooks, AreCalledOnceForEachCall) {
  Affine module;
  Seen seen;
  seen.watch(module);
  module(module(module(input()))).sum().backward();
  EXPECT_EQ(seen.order, (Names{"pre", "post", "pre", "post", "pre", "post"}));
  seen.order.clear();
  const auto x = input();
  const auto used = module(x), unused = module(x);
  used.sum().backward();
  EXPECT_EQ(seen.order, (Names{"pre", "post"}));
}

TEST(BackwardHooks, ParentsAreAroundTheirChildren) {
  Sequential outer;
  const auto first = std::make_shared<Affine>(), second = std::make_shared<Affine>();
  outer.push_back(first);
  outer.push_back(second);
  Seen seen;
  seen.watch(outer, "outer ");
  seen.watch(*first, "first ");
  seen.watch(*second, "second ");
  outer(input()).sum().backward();
  EXPECT_EQ(seen.order,
            (Names{"outer pre", "second pre", "second post", "first pre", "first post", "outer post"}));
}

// torch's: with no input that requires a gradient the hook follows the pre-hook, and sees none.
TEST(BackwardHooks, WhereNoInputRequiresAGradient) {
  Affine module;
  Seen seen;
  seen.watch(module);
  module(input(false)).sum().backward();
  EXPECT_EQ(seen.order, (Names{"pre", "post"}));
  EXPECT_FALSE(seen.grad_inputs[0][0].defined());
  EXPECT_TRUE(module.parameter("scale").grad().defined());
  const at::NoGradGuard no_grad;
  const auto x = input(false);
  EXPECT_FALSE(module(x).requires_grad());
}

// What a hook puts in their place goes on; a hook that is taken away is not called.
TEST(BackwardHooks, MayReplaceGradients) {
  Affine module;
  const auto pre =
      module.register_full_backward_pre_hook([](Module&, at::Tensor& grad) { grad = grad * 10; });
  const auto post = module.register_full_backward_hook(
      [](Module&, Tensors& grads, const at::Tensor&) { grads[0] = grads[0] + 1; });
  const auto x = input();
  module(x).sum().backward();
  EXPECT_TRUE(same_bits(x.grad(), at::tensor({21.0F, 31.0F, 51.0F})));
  EXPECT_TRUE(same_bits(module.parameter("scale").grad(), 10 * input(false)));
  module.remove_hook(pre);
  module.remove_hook(post);
  const auto y = input();
  module(y).sum().backward();
  EXPECT_TRUE(same_bits(y.grad(), at::tensor({2.0F, 3.0F, 5.0F})));
}

// Catches: a boundary that ends the history of a gradient.
TEST(BackwardHooks, GradientsOfGradientsPass) {
  Affine module;
  Seen seen;
  seen.watch(module);
  const auto x = input();
  const auto grad = torch::autograd::grad({module(x).pow(3).sum()}, {x}, {}, true, /*create_graph=*/true)[0];
  grad.sum().backward();
  EXPECT_TRUE(at::allclose(x.grad(), 6 * module.parameter("scale").pow(3).detach() * x.detach()));
}

// Catches: an operator that hooks add, which no single device has; a DTensor that comes out as a plain one.
TEST(BackwardHooks, AddNoOperatorOnDTensors) {
  const auto mesh = init_device_mesh({2});
  const auto run = [&](bool watched, Timeline& timeline) {
    Affine module;
    module.set_parameter("scale",
                         parameter(distribute_tensor(at::tensor({2.0F, 3.0F, 5.0F}), mesh, {Replicate{}})));
    Seen seen;
    if (watched) seen.watch(module);
    const auto x = parameter(distribute_tensor(input(false), mesh, {Shard{0}}));
    const TimelineScope log(timeline);
    module(x).sum().backward();
    EXPECT_EQ(seen.order.size(), watched ? 2u : 0u);
    return full_tensor(x.grad());
  };
  Timeline with, without;
  EXPECT_TRUE(same_bits(run(true, with), run(false, without)));
  ASSERT_EQ(with.size(), without.size());
  for (size_t i = 0; i < with.size(); ++i) EXPECT_EQ(with[i].op, without[i].op);
}

// torch's boundary is around forward hooks; a parallel plan's redistribute the output there.
TEST(BackwardHooks, AreAroundForwardHooks) {
  Affine module;
  module.register_forward_hook([](Module&, const Tensors&, at::Tensor& output) { output = output * 10; });
  at::Tensor seen;
  module.register_full_backward_pre_hook([&](Module&, at::Tensor& grad) { seen = grad; });
  module(input()).sum().backward();
  EXPECT_TRUE(same_bits(seen, at::ones({3})));
}

// Catches: hooks looked up when they are called, not when the module was.
TEST(BackwardHooks, AreThoseOfTheTimeOfTheCall) {
  Affine module;
  int early = 0, late = 0;
  const auto first = module.register_full_backward_pre_hook([&](Module&, at::Tensor&) { ++early; });
  const auto output = module(input());
  module.remove_hook(first);
  module.register_full_backward_pre_hook([&](Module&, at::Tensor&) { ++late; });
  output.sum().backward();
  EXPECT_EQ(early, 1);
  EXPECT_EQ(late, 0);
}

// Catches: a list that changes while it is walked.
TEST(BackwardHooks, MayTakeThemselvesAway) {
  Affine module;
  int calls = 0;
  int64_t pre = 0, forward = 0;
  pre = module.register_full_backward_pre_hook([&](Module& m, at::Tensor&) { ++calls, m.remove_hook(pre); });
  module.register_full_backward_pre_hook([&](Module&, at::Tensor&) { ++calls; });
  forward =
      module.register_forward_hook([&](Module& m, const Tensors&, at::Tensor&) { m.remove_hook(forward); });
  module(input()).sum().backward();
  module(input()).sum().backward();
  EXPECT_EQ(calls, 3);
}

TEST(BackwardHooks, MistakesAreErrors) {
  auto module = std::make_unique<Affine>();
  module->register_full_backward_hook([](Module&, Tensors& grads, const at::Tensor&) { grads.clear(); });
  EXPECT_THROW((*module)(input()).sum().backward(), std::exception);
  auto output = (*module)(input());
  EXPECT_THROW(output.mul_(2), std::exception) << "its history would not know";
  module.reset();
  EXPECT_THROW(output.sum().backward(), std::exception);
}

// A block that is computed again has its hooks once, on the way back.
TEST(BackwardHooks, OnceUnderRecompute) {
  Affine module;
  Seen seen;
  seen.watch(module);
  const auto x = input(), scale = module.parameter("scale");
  const auto block = [&](const Tensors& in) {
    module.set_parameter("scale", in[1]);
    return Tensors{module(in[0])};
  };
  checkpoint(block, {x, scale})[0].sum().backward();
  EXPECT_EQ(seen.order, (Names{"pre", "post"}));
  EXPECT_TRUE(same_bits(x.grad(), at::tensor({2.0F, 3.0F, 5.0F})));
}

}  // namespace
}  // namespace lockstep::nn
