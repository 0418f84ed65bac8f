// SPDX-License-Identifier: Apache-2.0
// Gradients are added up over passes and ranks in the order that was asked for; their exchanges begin while
// the pass goes on, and are waited for when it ends.
#include "engine/plan/sum_path.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "engine/plan/gradient_buckets.h"
#include "engine/plan/testing.h"
#include "engine/tensor/timeline_log.h"
#include "engine/world/world.h"
#include "engine/world/worlds.h"

namespace lockstep {
namespace {

using Terms = std::vector<std::vector<at::Tensor>>;  // by pass, then by rank

// What passes leave in the gradient of a bfloat16 linear's weight, on each rank.
struct Passes {
  explicit Passes(const MeshInWorld& mesh) : mesh_(mesh) {}
  void run(nn::Linear& linear, GradientBuckets& buckets) const {
    for (uint64_t pass = 0; pass < 3; ++pass) {
      buckets.set_requires_gradient_sync(pass == 2);
      const auto x = values({4, 5}, pass).to(at::kBFloat16);
      loss_of(linear(distribute_tensor(x, mesh_, Placements(1, Shard{0})))).backward();
    }
  }
  void place(nn::Linear& linear) const {
    linear.set_parameter("weight", parameter(distribute_tensor(values({3, 5}, 9).to(at::kBFloat16), mesh_,
                                                               Placements(1, Replicate{}))));
  }
  const MeshInWorld mesh_;
};

at::Tensor as_is(const at::Tensor& t) {
  return t;
}
at::Tensor f32(const at::Tensor& t) {
  return t.to(at::kFloat);
}
at::Tensor f64(const at::Tensor& t) {
  return t.to(at::kDouble);
}
at::Tensor bf16(const at::Tensor& t) {
  return t.to(at::kBFloat16);
}
using In = at::Tensor (*)(const at::Tensor&);
at::Tensor of_rank(const Terms& t, size_t r, In in) {
  return in(t[0][r]) + in(t[1][r]) + in(t[2][r]);
}
at::Tensor of_pass(const Terms& t, size_t m, In in) {
  return in(t[m][0]) + in(t[m][1]);
}

// What is asked for, how it is logged, and what it comes to.
struct Asked {
  SumOrder order;
  std::vector<SumHop> hops;
  const char* text;
  at::Tensor (*sum)(const Terms& t);
};

std::vector<Asked> all_asked() {
  using enum SumHop::Over;
  return {
      {SumOrder::kFold,
       {{kPasses}, {kRanks}},
       "over 0: sum:bf16(fold (fold 0 0.m1 0.m2) (fold 1 1.m1 1.m2))",
       [](const Terms& t) { return of_rank(t, 0, as_is) + of_rank(t, 1, as_is); }},
      {SumOrder::kFold,
       {{kPasses, at::kFloat}, {kRanks}},
       "over 0: sum:bf16(fold sum:f32(fold 0 0.m1 0.m2) sum:f32(fold 1 1.m1 1.m2))",
       [](const Terms& t) { return bf16(of_rank(t, 0, f32)) + bf16(of_rank(t, 1, f32)); }},
      {SumOrder::kTree,
       {{kPasses, at::kFloat}, {kRanks, at::kFloat}},
       "over 0: sum:f32(tree (fold 0 0.m1 0.m2) (fold 1 1.m1 1.m2))",
       [](const Terms& t) { return bf16(of_rank(t, 0, f32) + of_rank(t, 1, f32)); }},
      {SumOrder::kFold,
       {{kRanks}, {kPasses}},
       "over 0: sum:bf16(fold (fold 0 1) (fold 0.m1 1.m1) (fold 0.m2 1.m2))",
       [](const Terms& t) { return of_pass(t, 0, as_is) + of_pass(t, 1, as_is) + of_pass(t, 2, as_is); }},
      {SumOrder::kTree,
       {{kRanks}, {kPasses, at::kFloat}},
       "over 0: sum:f32(fold sum:bf16(tree 0 1) sum:bf16(tree 0.m1 1.m1) sum:bf16(tree 0.m2 1.m2))",
       [](const Terms& t) {
         return bf16(f32(of_pass(t, 0, as_is)) + f32(of_pass(t, 1, as_is)) + f32(of_pass(t, 2, as_is)));
       }},
      {SumOrder::kExact,
       {},
       "over 0: sum:bf16(exact 0 1 0.m1 1.m1 0.m2 1.m2)",
       [](const Terms& t) { return bf16(of_rank(t, 0, f64) + of_rank(t, 1, f64)); }},
      {SumOrder::kExact,
       {{kPasses, at::kFloat}, {kRanks, at::kFloat}},
       "over 0: sum:f32(exact (fold 0 0.m1 0.m2) (fold 1 1.m1 1.m2))",
       [](const Terms& t) { return bf16(f32(f64(of_rank(t, 0, f32)) + f64(of_rank(t, 1, f32)))); }},
  };
}

// Catches: sums over passes and over ranks that change places, or are made in another dtype; a pass that is
// lost, or counts twice; an exact sum that rounds twice; an order that is not what is logged.
TEST(GradientBuckets, AddUpPassesAndRanksAsIsAsked) {
  const auto mesh = init_device_mesh({2}, {"dp"});
  const Passes passes(mesh);
  Terms terms;
  {
    nn::Linear linear(5, 3, false, at::kBFloat16);
    passes.place(linear);
    GradientBuckets apart(linear, mesh, {"weight"}, {{"dp"}});
    for (uint64_t pass = 0; pass < 3; ++pass) {
      apart.set_requires_gradient_sync(false);
      const auto x = values({4, 5}, pass).to(at::kBFloat16);
      loss_of(linear(distribute_tensor(x, mesh, Placements(1, Shard{0})))).backward();
      terms.push_back(local_tensors(linear.parameter("weight").grad()));
      linear.zero_grad();
    }
  }
  for (const auto& c : all_asked()) {
    SCOPED_TRACE(c.text);
    nn::Linear linear(5, 3, false, at::kBFloat16);
    passes.place(linear);
    GradientBuckets buckets(linear, mesh, {"weight"}, {{"dp"}, c.order, 1000, c.hops});
    Timeline timeline;
    {
      const TimelineScope log(timeline);
      for (const bool again : {false, true}) {  // a step leaves nothing to the next one
        if (again) linear.zero_grad();
        passes.run(linear, buckets);
        EXPECT_TRUE(same(full_tensor(linear.parameter("weight").grad()), c.sum(terms)));
      }
    }
    std::vector<TimelineEntry> sums;
    for (const auto& entry : timeline)
      if (entry.inputs.size() == 3 && entry.op == "lockstep::redistribute") sums.push_back(entry);
    ASSERT_EQ(sums.size(), 2);
    EXPECT_EQ(to_string(sums[0].order), c.text);
  }
}

// Catches: what was there before the passes that is lost with them, or comes before their sum; terms of a
// pass that has failed, in the next step.
TEST(GradientBuckets, PassesToldApartLeaveWhatWasThere) {
  const auto mesh = init_device_mesh({2}, {"dp"});
  Two nets(mesh);
  for (auto* net : {&nets.bucketed, &nets.single}) set_integers(*net, mesh);
  GradientBuckets buckets(nets.bucketed, mesh, all_paths(nets.bucketed),
                          {{"dp"}, SumOrder::kFold, 400, {{SumHop::Over::kRanks}, {SumHop::Over::kPasses}}});
  const auto pass = [&](Net& net) { net(batch(mesh, 1) * 0 + 1).sum().backward(); };
  const auto both = [&] {
    for (auto* net : {&nets.bucketed, &nets.single}) pass(*net);
  };
  both();
  expect_same_parameters(nets.bucketed, nets.single);
  buckets.set_requires_gradient_sync(false);
  pass(nets.bucketed);
  expect_same_parameters(nets.bucketed, nets.single);  // as if there had been none
  pass(nets.single);
  buckets.set_requires_gradient_sync(true);
  both();
  expect_same_parameters(nets.bucketed, nets.single);
  bool fails = true;
  nets.bucketed.first->register_full_backward_pre_hook([&](nn::Module&, at::Tensor&) {
    if (fails) throw Error("stop");
  });
  buckets.set_requires_gradient_sync(false);
  EXPECT_EQ(error_of([&] { pass(nets.bucketed); }), "stop");
  fails = false;
  for (auto* net : {&nets.bucketed, &nets.single}) net->zero_grad();
  buckets.set_requires_gradient_sync(true);
  both();
  expect_same_parameters(nets.bucketed, nets.single);
}

// A World that notes what is begun, and what is waited for.
class Watched : public World {
 public:
  Watched(WorldPtr world, std::vector<std::string>& seen)
      : World(*world), world_(std::move(world)), seen_(seen) {}
  Work exchange(Exchange asked) override {
    const std::string op = asked.op;
    seen_.push_back(op + " begins");
    return world_->exchange(std::move(asked)).around([this, op](const std::function<void()>& finish) {
      seen_.push_back(op + " is waited for");
      finish();
    });
  }

 private:
  const WorldPtr world_;
  std::vector<std::string>& seen_;
};

// Catches: an exchange that waits for the pass to end, or is waited for while the pass goes on.
TEST(GradientBuckets, BeginEarlyAndWaitLate) {
  std::vector<std::string> seen;
  const auto mesh = init_device_mesh(c10::kCPU, {2}, {"dp"}, std::make_shared<Watched>(local_world(2), seen));
  for (const bool tells : {false, true}) {
    Net net;
    replicate(net, mesh);
    std::vector<SumHop> hops;
    if (tells) hops = {{SumHop::Over::kRanks}, {SumHop::Over::kPasses}};
    GradientBuckets buckets(net, mesh, all_paths(net), {{"dp"}, SumOrder::kFold, 400, hops});
    for (const auto& p : net.parameters())
      p.register_hook([&](const at::Tensor&) {
        seen.emplace_back("gradient");
        return at::Tensor();
      });
    for (const bool syncs : {false, true}) {
      buckets.set_requires_gradient_sync(syncs);
      const auto loss = loss_of(net(batch(mesh, 1)));
      seen.clear();
      loss.backward();
      const auto at = [&](const char* what) {
        return std::find(seen.begin(), seen.end(), what) - seen.begin();
      };
      const auto last = seen.rend() - std::find(seen.rbegin(), seen.rend(), "gradient");
      if (syncs || tells) {
        EXPECT_LT(at("reduce_scatter begins"), last) << testing::PrintToString(seen);
        EXPECT_GE(at("reduce_scatter is waited for"), last) << testing::PrintToString(seen);
        EXPECT_LT(at("reduce_scatter is waited for"), std::ssize(seen));
      } else {
        EXPECT_EQ(at("reduce_scatter begins"), std::ssize(seen));
      }
      EXPECT_EQ(at("all_gather begins") < std::ssize(seen), syncs);
      if (syncs) {
        EXPECT_GE(at("all_gather begins"), last);
      }
    }
  }
}

// Catches: a sum that the dtype of its gradients cannot have.
TEST(GradientBuckets, SumsHoldWhatTheyAddUp) {
  using enum SumHop::Over;
  const auto mesh = init_device_mesh({2}, {"dp"});
  nn::Linear linear(4, 4);
  nn::distribute_module(linear, mesh, {});
  const auto error = [&](SumOrder order, std::vector<SumHop> hops) {
    return error_of([&] {
      GradientBuckets(linear, mesh, {"weight"}, {{"dp"}, order, 1000, std::move(hops)});
    });
  };
  EXPECT_TRUE(says(error(SumOrder::kFold, {{kPasses}, {kRanks, at::kBFloat16}}),
                   {"gradients of f32 are added up in bf16", "wider"}));
  EXPECT_TRUE(says(error(SumOrder::kExact, {{kPasses, at::kDouble}, {kRanks}}), {"would round twice"}));
  EXPECT_TRUE(says(error(SumOrder::kFold, {{kPasses}}), {"over ranks once", "1 sums"}));
  EXPECT_TRUE(says(error(SumOrder::kFold, {{kRanks}, {kRanks}}), {"over passes once"}));
  EXPECT_EQ(error(SumOrder::kExact, {{kRanks}, {kPasses, at::kDouble}}), "");
}

}  // namespace
}  // namespace lockstep
