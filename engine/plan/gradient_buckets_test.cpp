// SPDX-License-Identifier: Apache-2.0
// Gradients that are reduced in buckets are those that are reduced one by one, whenever they come.
#include "engine/plan/gradient_buckets.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "engine/nn/checkpoint.h"
#include "engine/plan/sums.h"
#include "engine/plan/testing.h"
#include "engine/tensor/timeline_log.h"

namespace lockstep {
namespace {

// Terms that come together, passes first, ranks first.
const std::vector<std::vector<SumHop>> kHops = {
    {}, {{SumHop::Over::kPasses}, {SumHop::Over::kRanks}}, {{SumHop::Over::kRanks}, {SumHop::Over::kPasses}}};

// A gradient that pends has the right value, too, once somebody has added it up.
void expect_reduced(const nn::Module& module) {
  for (const auto& [path, p] : module.named_parameters())
    if (p.grad().defined()) {
      EXPECT_EQ(to_string(placements(p.grad())), "[R]") << path;
    }
}

// Catches: a parameter that no bucket has, terms that are added up twice, or by one rank less, in another
// order, a gradient of another tensor.
TEST(GradientBuckets, AreTheSingleGradientsInBits) {
  for (const int64_t bucket_bytes : {int64_t{1}, int64_t{400}, int64_t{1} << 20})
    for (const int64_t ranks : {1, 2, 3, 5}) {
      SCOPED_TRACE(concat(bucket_bytes, " bytes, ", ranks, " ranks"));
      const auto mesh = init_device_mesh({ranks}, {"dp"});
      Two nets(mesh);
      GradientBuckets buckets(nets.bucketed, mesh, all_paths(nets.bucketed),
                              {{"dp"}, SumOrder::kFold, bucket_bytes});
      for (uint64_t pass = 0; pass < 3; ++pass) {  // the second and third ones are added to what is there
        for (auto* net : {&nets.bucketed, &nets.single}) loss_of((*net)(batch(mesh, pass))).backward();
        expect_same_parameters(nets.bucketed, nets.single);
      }
      expect_reduced(nets.bucketed);
    }
}

// Catches: an exchange a parameter, buckets that go when all is over, or in an order that ranks do not share.
TEST(GradientBuckets, GoWhenTheyAreFull) {
  const auto mesh = init_device_mesh({2}, {"dp"});
  Net net;
  replicate(net, mesh);
  GradientBuckets buckets(net, mesh, all_paths(net), {{"dp"}, SumOrder::kFold, 400});
  Timeline timeline;
  {
    const TimelineScope log(timeline);
    loss_of(net(batch(mesh, 1))).backward();
  }
  size_t first = timeline.size(), last_op = 0, moves = 0;
  for (size_t i = 0; i < timeline.size(); ++i) {
    const bool is_move =
        timeline[i].op == "lockstep::redistribute" && !timeline[i].order.empty() && !timeline[i].implicit;
    if (is_move) first = std::min(first, i), ++moves;
    if (!is_move) last_op = i;
  }
  EXPECT_EQ(moves, net.parameters().size());
  EXPECT_LT(first, last_op) << "no bucket goes while others come";
}

// Catches: ranks that are left out of a group of two mesh dimensions, or counted twice; orders that are not
// what is logged.
TEST(GradientBuckets, AreOverSeveralMeshDimensionsAtOnce) {
  const auto mesh = init_device_mesh({2, 3, 2}, {"a", "b", "c"});
  for (const auto order : {SumOrder::kFold, SumOrder::kTree, SumOrder::kExact})
    for (const auto& dims :
         std::vector<std::vector<std::string>>{{"a"}, {"b"}, {"c", "a"}, {"a", "b", "c"}}) {
      nn::Linear bucketed(4, 3), single(4, 3);
      for (auto* linear : {&bucketed, &single}) {
        nn::distribute_module(*linear, mesh, {});
        set_integers(*linear, mesh);
      }
      GradientBuckets buckets(bucketed, mesh, all_paths(bucketed), {dims, order, 1000});
      const auto x = at::randint(-2, 3, {12, 4}, at::detail::createCPUGenerator(9), at::kFloat);
      Timeline timeline;
      for (auto* linear : {&bucketed, &single}) {
        std::optional<TimelineScope> log;
        if (linear == &bucketed) log.emplace(timeline);
        (*linear)(distribute_tensor(x, mesh, {Shard{0}, Shard{0}, Shard{0}})).sum().backward();
      }
      expect_same_parameters(bucketed, single);
      std::string orders;
      for (const auto& entry : timeline)
        if (entry.op == "lockstep::redistribute" && !entry.implicit) orders = to_string(entry.order);
      if (dims.size() == 3 && order == SumOrder::kTree) {
        EXPECT_EQ(orders, "over 0.1.2: sum:f32(tree 0 1 2 3 4 5 6 7 8 9 10 11)");
      }
      if (dims.size() == 2 && order == SumOrder::kFold) {
        EXPECT_EQ(orders, "over 0.2: sum:f32(fold 0 1 2 3)");
      }
      if (dims.size() == 1 && order == SumOrder::kExact) {
        EXPECT_EQ(orders.substr(6), dims[0] == "b" ? ": sum:f32(exact 0 1 2)" : ": sum:f32(exact 0 1)");
      }
    }
}

// Ranks-then-passes and passes-then-ranks. Catches: a pass that is reduced though nobody asked, terms of one
// that are lost, what had been added up before.
TEST(GradientBuckets, WaitForThePassThatSyncs) {
  const auto mesh = init_device_mesh({3}, {"dp"});
  Two nets(mesh);
  for (auto* net : {&nets.bucketed, &nets.single}) set_integers(*net, mesh);
  GradientBuckets buckets(nets.bucketed, mesh, all_paths(nets.bucketed), {{"dp"}});
  const auto pass = [&](uint64_t seed) {
    for (auto* net : {&nets.bucketed, &nets.single}) (*net)(batch(mesh, seed) * 0 + 1).sum().backward();
  };
  for (const bool to_none : {true, false}) {
    buckets.set_requires_gradient_sync(false);
    pass(1);
    EXPECT_EQ(to_string(placements(nets.bucketed.first->parameter("bias").grad())), "[P]");
    pass(2);
    buckets.set_requires_gradient_sync(true);
    pass(3);
    expect_reduced(nets.bucketed);
    expect_same_parameters(nets.bucketed, nets.single);
    for (auto* net : {&nets.bucketed, &nets.single})
      for (auto& p : net->parameters()) {
        if (to_none)
          p.mutable_grad().reset();
        else
          p.mutable_grad().zero_();
      }
  }
}

// Catches: parameters without gradients, frozen ones, a pass within a pass, one that fails.
TEST(GradientBuckets, TakeWhatComes) {
  const auto mesh = init_device_mesh({2}, {"dp"});
  Two nets(mesh);
  for (auto* net : {&nets.bucketed, &nets.single}) {
    net->parameter("blocks.0.b.weight").requires_grad_(false);
    checkpoint(*net->each[1]);
  }
  GradientBuckets buckets(nets.bucketed, mesh, all_paths(nets.bucketed), {{"dp"}, SumOrder::kFold, 200});
  const auto step = [&](Net& net, uint64_t seed) {
    // The first linear has no part in it.
    loss_of((*net.last)((*net.blocks)(distribute_tensor(values({4, 6}, seed), mesh, {Shard{0}})))).backward();
  };
  for (uint64_t pass = 0; pass < 2; ++pass) {
    for (auto* net : {&nets.bucketed, &nets.single}) step(*net, pass);
    expect_same_parameters(nets.bucketed, nets.single);
    expect_reduced(nets.bucketed);
    EXPECT_FALSE(nets.bucketed.parameter("first.weight").grad().defined());
    EXPECT_FALSE(nets.bucketed.parameter("blocks.0.b.weight").grad().defined());
  }
  for (auto* net : {&nets.bucketed, &nets.single}) {
    const auto x = parameter(distribute_tensor(values({4, 6}, 7), mesh, {Shard{0}}));
    x.register_hook([](const at::Tensor&) -> at::Tensor { throw Error("stop"); });
    EXPECT_EQ(error_of([&] { loss_of((*net->last)((*net->blocks)(x))).backward(); }), "stop");
    net->zero_grad();
    step(*net, 8);
  }
  expect_same_parameters(nets.bucketed, nets.single);
  expect_reduced(nets.bucketed);
}

// Catches: a sum of a step before that comes back after zero_grad, or with a pass that has failed.
TEST(GradientBuckets, ForgetWhatTheUserHas) {
  const auto mesh = init_device_mesh({2}, {"dp"});
  Two nets(mesh);
  GradientBuckets buckets(nets.bucketed, mesh, all_paths(nets.bucketed), {{"dp"}});
  const auto pass = [&](uint64_t seed) {
    for (auto* net : {&nets.bucketed, &nets.single}) loss_of((*net)(batch(mesh, seed))).backward();
  };
  const auto zero = [&] {
    for (auto* net : {&nets.bucketed, &nets.single}) net->zero_grad();
  };
  pass(1);
  buckets.set_requires_gradient_sync(false);
  pass(2);  // to what pass 1 has left
  buckets.set_requires_gradient_sync(true);
  zero();
  pass(3);
  expect_same_parameters(nets.bucketed, nets.single);
  expect_reduced(nets.bucketed);
  nets.bucketed.last->register_full_backward_hook(
      [](nn::Module&, Tensors&, const at::Tensor&) { throw Error("stop"); });
  const auto before = nets.bucketed.last->parameter("weight").grad().clone();
  EXPECT_EQ(error_of([&] { loss_of(nets.bucketed(batch(mesh, 4))).backward(); }), "stop");
  EXPECT_TRUE(same(full_tensor(nets.bucketed.first->parameter("weight").grad()),
                   full_tensor(nets.single.first->parameter("weight").grad())));
}

// Catches: terms of a pass that has failed which come to the next one, a sum of a pass before that is lost
// with it, where nobody has zeroed gradients in between.
TEST(GradientBuckets, GoOnAfterAPassThatFails) {
  const auto mesh = init_device_mesh({2}, {"dp"});
  for (const auto& hops : kHops) {
    Two nets(mesh);
    GradientBuckets buckets(nets.bucketed, mesh, all_paths(nets.bucketed),
                            {{"dp"}, SumOrder::kFold, 1, hops});
    bool fails = false;
    for (auto* net : {&nets.bucketed, &nets.single})
      net->each[0]->register_full_backward_hook([&](nn::Module&, Tensors&, const at::Tensor&) {
        if (fails) throw Error("stop");
      });
    for (uint64_t pass = 0; pass < 3; ++pass)
      for (auto* net : {&nets.bucketed, &nets.single}) {
        fails = pass == 1;
        const auto step = [&] { loss_of((*net)(batch(mesh, pass))).backward(); };
        EXPECT_EQ(error_of(step), fails ? "stop" : "");
      }
    for (const auto* name : {"first.weight", "first.bias"})
      EXPECT_TRUE(same(full_tensor(nets.bucketed.parameter(name).grad()),
                       full_tensor(nets.single.parameter(name).grad())))
          << name;
    expect_reduced(nets.bucketed);
  }
}

// Catches: what a hook of the user's has reduced that is lost, or comes twice, beside what was there.
TEST(GradientBuckets, TakeWhatAHookHasReduced) {
  const auto mesh = init_device_mesh({2}, {"dp"});
  Two nets(mesh);
  GradientBuckets buckets(nets.bucketed, mesh, all_paths(nets.bucketed), {{"dp"}});
  for (auto* net : {&nets.bucketed, &nets.single})
    net->parameter("last.weight").register_hook([](const at::Tensor& gradient) {
      return redistribute(gradient, Placements{Replicate{}}) * 2;
    });
  for (uint64_t pass = 0; pass < 3; ++pass) {
    for (auto* net : {&nets.bucketed, &nets.single}) loss_of((*net)(batch(mesh, pass))).backward();
    expect_same_parameters(nets.bucketed, nets.single);
  }
  expect_reduced(nets.bucketed);
}

// Two buckets of one model, in other orders; a pass in which a part of it does not run. Catches: a gradient
// that no bucket has a place for, one that waits for another's last pass, or goes by another's order.
TEST(GradientBuckets, OfOnePassLackWhatAnotherBrings) {
  const auto mesh = init_device_mesh({3}, {"dp"});
  const auto x = distribute_tensor(at::arange(-12, 12, at::kFloat).view({6, 4}), mesh, {Shard{0}});
  for (const auto& hops : kHops) {
    std::array<nn::Sequential, 2> both;
    for (auto& net : both) {
      for (int i = 0; i < 2; ++i) net.push_back(std::make_shared<nn::Linear>(4, 4));
      nn::distribute_module(net, mesh, {});
      set_integers(net, mesh);
    }
    GradientBuckets weights(both[0], mesh, {"0.weight", "1.weight"}, {{"dp"}, SumOrder::kFold, 1000, hops});
    GradientBuckets biases(both[0], mesh, {"0.bias", "1.bias"},
                           {{"dp"}, SumOrder::kTree, 1000, kHops.back()});
    for (int64_t pass = 0; pass < 4; ++pass) {
      for (auto* buckets : {&weights, &biases}) buckets->set_requires_gradient_sync(pass == 3);
      for (auto& net : both) (pass % 2 == 0 ? net(x) : net.child("1")(x)).sum().backward();
    }
    expect_same_parameters(both[0], both[1]);
    expect_reduced(both[0]);
  }
}

// Catches: a parameter that pends along another mesh dimension, and its gradient, which is whole there.
TEST(GradientBuckets, AreWholeWhereTheirParametersPend) {
  const auto mesh = init_device_mesh({2, 2}, {"dp", "tp"});
  const auto integers = [](at::IntArrayRef shape, uint64_t seed) {
    return values(shape, seed).mul(4).round();
  };
  nn::Linear bucketed(3, 4), single(3, 4);
  for (auto* linear : {&bucketed, &single}) {
    linear->set_parameter("weight",
                          parameter(distribute_tensor(integers({4, 3}, 1), mesh, {Replicate{}, Shard{1}})));
    linear->set_parameter("bias",
                          parameter(distribute_tensor(integers({4}, 2), mesh, {Replicate{}, Partial{}})));
  }
  GradientBuckets buckets(bucketed, mesh, {"weight", "bias"}, {{"dp"}});
  const auto x = distribute_tensor(integers({4, 3}, 3), mesh, {Shard{0}, Shard{1}});
  for (auto* linear : {&bucketed, &single}) loss_of((*linear)(x)).backward();
  for (const auto* name : {"weight", "bias"}) {
    EXPECT_EQ(spec(bucketed.parameter(name).grad()), spec(single.parameter(name).grad())) << name;
    EXPECT_TRUE(
        same(full_tensor(bucketed.parameter(name).grad()), full_tensor(single.parameter(name).grad())))
        << name;
  }
}

// Catches: a gradient that autograd::grad is asked for and that pends, or one that it takes from the leaf.
TEST(GradientBuckets, AreOfLeavesAlone) {
  const auto mesh = init_device_mesh({2}, {"dp"});
  Two nets(mesh);
  GradientBuckets buckets(nets.bucketed, mesh, all_paths(nets.bucketed), {{"dp"}});
  for (auto* net : {&nets.bucketed, &nets.single}) loss_of((*net)(batch(mesh, 1))).backward();
  const auto captured = [&](Net& net) {
    return torch::autograd::grad({loss_of(net(batch(mesh, 2)))}, {net.last->parameter("weight")})[0];
  };
  const auto of_bucketed = captured(nets.bucketed), of_single = captured(nets.single);
  EXPECT_EQ(to_string(placements(of_bucketed)), "[R]");
  EXPECT_TRUE(same(full_tensor(of_bucketed), full_tensor(of_single)));
  expect_same_parameters(nets.bucketed, nets.single);
  expect_reduced(nets.bucketed);
}

// Catches: blocks of a tensor that several mesh dimensions cut that change places.
TEST(GradientBuckets, KeepTheOrderOfMeshDimensions) {
  const auto mesh = init_device_mesh({2, 2, 2}, {"dp", "a", "b"});
  nn::Linear bucketed(3, 8, false), single(3, 8, false);
  const auto weight = values({8, 3}, 1);
  for (auto* linear : {&bucketed, &single})
    linear->set_parameter(
        "weight", parameter(distribute_tensor(weight, mesh, {Replicate{}, Shard{0}, Shard{0}}, {0, 2, 1})));
  GradientBuckets buckets(bucketed, mesh, {"weight"}, {{"dp"}});
  const auto x = distribute_tensor(values({4, 3}, 2), mesh, {Shard{0}, Replicate{}, Replicate{}});
  for (auto* linear : {&bucketed, &single}) loss_of((*linear)(x)).backward();
  expect_same_parameters(bucketed, single);
  EXPECT_EQ(spec(bucketed.parameter("weight").grad()), spec(single.parameter("weight").grad()));
}

// Catches: a parameter that is cut, of which each rank has another part, a typing error.
TEST(GradientBuckets, AreOfWhatIsReplicated) {
  const auto mesh = init_device_mesh({2, 2}, {"dp", "tp"});
  nn::Linear linear(4, 4);
  nn::distribute_module(linear, mesh, {{"weight", {Replicate{}, Shard{0}}}});
  EXPECT_TRUE(says(error_of([&] {
                     GradientBuckets(linear, mesh, {"weight"}, {{"dp", "tp"}});
                   }),
                   {"'weight'", "S0 along 'tp'"}));
  EXPECT_TRUE(says(error_of([&] { GradientBuckets(linear, mesh, {"bias"}, {{"pp"}}); }), {"pp"}));
  EXPECT_TRUE(says(error_of([&] {
                     GradientBuckets(linear, mesh, {"bias", "wieght"}, {{"dp"}});
                   }),
                   {"'wieght'", "(did you mean 'weight'?)"}));
  EXPECT_TRUE(says(error_of([&] { GradientBuckets(linear, mesh, {"bias"}, {{}}); }), {"no mesh dimension"}));
  EXPECT_TRUE(says(error_of([&] { GradientBuckets(linear, mesh, {"bias"}, {{"dp", "dp"}}); }), {"twice"}));
}

// Catches: a partial sum that rounds, or overflows; a tie that goes up; two roundings where there is one.
TEST(ExactSum, IsRoundedOnce) {
  const auto sum = [](std::vector<double> terms, at::ScalarType dtype) {
    std::vector<at::Tensor> tensors;
    for (const auto x : terms) tensors.push_back(at::full({1}, x, at::kDouble).to(dtype));
    return exact_sum(tensors).item<double>();
  };
  EXPECT_EQ(sum({1e16, 1, -1e16}, at::kDouble), 1);
  // Where the largest part of the sum is not its rounded value.
  EXPECT_EQ(sum({1e25, 1, 1e7, -1e25}, at::kFloat), 10000001);
  EXPECT_EQ(sum({std::ldexp(1, 100), std::ldexp(1, 30), std::ldexp(1, 40), -std::ldexp(1, 100)}, at::kFloat),
            std::ldexp(1, 40) + std::ldexp(1, 30));
  EXPECT_EQ(sum({std::ldexp(1, 120), std::ldexp(1, 50), std::ldexp(1, 70) - std::ldexp(1, 120)}, at::kDouble),
            std::ldexp(1, 70) + std::ldexp(1, 50));
  EXPECT_EQ(sum({1e308, 1e308, -1e308}, at::kDouble), 1e308);
  EXPECT_EQ(sum({1, std::ldexp(1, -24)}, at::kFloat), 1);
  EXPECT_EQ(sum({1, std::ldexp(1, -24), std::ldexp(1, -149)}, at::kFloat), 1 + std::ldexp(1, -23));
  EXPECT_EQ(sum({1, std::ldexp(3, -24)}, at::kFloat), 1 + std::ldexp(1, -22));
  EXPECT_EQ(sum({1, std::ldexp(3, -24), -std::ldexp(1, -149)}, at::kFloat), 1 + std::ldexp(1, -23));
  EXPECT_EQ(sum({1, std::ldexp(1, -11), std::ldexp(1, -24)}, at::kHalf), 1 + std::ldexp(1, -10));
  EXPECT_EQ(sum({1, std::ldexp(1, -8), std::ldexp(1, -40)}, at::kBFloat16), 1 + std::ldexp(1, -7));
  EXPECT_EQ(sum({60000, 60000, -60000}, at::kHalf), 59968 + 32);
  EXPECT_TRUE(std::isinf(sum({60000, 60000}, at::kHalf)));
  EXPECT_TRUE(std::signbit(sum({-0.0, -0.0}, at::kFloat)));
  EXPECT_FALSE(std::signbit(sum({-0.0, 0.0}, at::kFloat)));
  EXPECT_FALSE(std::signbit(sum({-1, 1}, at::kFloat)));
  EXPECT_TRUE(std::isnan(sum({INFINITY, 1, -INFINITY}, at::kFloat)));
  EXPECT_TRUE(std::isnan(sum({1, NAN}, at::kDouble)));
  EXPECT_EQ(sum({INFINITY, -1e30}, at::kFloat), INFINITY);
}

}  // namespace
}  // namespace lockstep
