// SPDX-License-Identifier: Apache-2.0
// What is left of a plan when it has been optimized, that its bits are the plan's, and what must stay.
#include "engine/plan/optimize.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/fsdp/testing.h"
#include "engine/plan/parallelize.h"

namespace lockstep {
namespace {

// b(between(a(x)))
struct Pair : nn::Module {
  explicit Pair(std::function<at::Tensor(const at::Tensor&)> between = [](auto& x) { return x; })
      : between_(std::move(between)) {
    a = add_child("a", std::make_shared<nn::Linear>(6, 6));
    b = add_child("b", std::make_shared<nn::Linear>(6, 6, false));
  }
  at::Tensor forward(const Tensors& in) override { return (*b)(between_((*a)(in.at(0)))); }
  std::shared_ptr<nn::Linear> a, b;

 private:
  std::function<at::Tensor(const at::Tensor&)> between_;
};

// q(x) + k(x) + v(x), and x where it is a residual.
struct Heads : nn::Module {
  explicit Heads(bool is_residual = false) : is_residual_(is_residual) {
    for (const auto* name : {"q", "k", "v"})
      all_.push_back(add_child(name, std::make_shared<nn::Linear>(6, 6, false)));
  }
  at::Tensor forward(const Tensors& in) override {
    auto y = (*all_[0])(in.at(0)) + (*all_[1])(in.at(0)) + (*all_[2])(in.at(0));
    return is_residual_ ? y + in.at(0) : y;
  }

 private:
  const bool is_residual_;
  std::vector<std::shared_ptr<nn::Linear>> all_;
};

struct Step {
  Tensors ends;  // output, gradient of the input, gradients of the parameters: whole
  int64_t moves = 0;
  PlanTrace traced;
};

template <class Model>
Step step_of(Model& model, const ParallelPlan& plan, const MeshInWorld& mesh, const Placements& input) {
  parallelize(model, mesh, plan);
  init(model);
  const auto x = parameter(distribute_tensor(values({12, 6}, 1), mesh, input));
  Step step;
  step.traced = trace(model, [&] {
    const auto y = model(x);
    loss_of(y).backward();
    step.ends = {full_tensor(y.detach()), full_tensor(x.grad())};
  });
  for (const auto& [path, parameter] : model.named_parameters())
    step.ends.push_back(full_tensor(parameter.grad()));
  for (const auto& move : step.traced.moves) step.moves += placements(move.came) != placements(move.left);
  return step;
}

// The plan that is left, of the same bits, which `make` makes models for.
template <class Make>
std::string left_of(const Make& make, const std::string& plan, const MeshInWorld& mesh,
                    const Placements& input, const OptimizeOptions& options = {}) {
  SCOPED_TRACE(plan);
  auto first = make(), second = make();
  const auto before = step_of(*first, parse_plan(plan), mesh, input);
  const auto optimized = optimize(parse_plan(plan), before.traced, options);
  const auto after = step_of(*second, optimized.plan, mesh, input);
  EXPECT_LE(after.moves, before.moves);
  EXPECT_EQ(optimized.changes.empty(), optimized.plan == parse_plan(plan));
  for (size_t i = 0; i < before.ends.size(); ++i) {
    if (options.reorders_sums)
      EXPECT_TRUE(at::allclose(before.ends[i], after.ends[i]));
    else
      EXPECT_TRUE(same(before.ends[i], after.ends[i])) << i;
  }
  return to_string(optimized.plan);
}

const auto pair = [] { return std::make_shared<Pair>(); };
constexpr const char* kCut = "a.init:weight:shard(S0,tp)\nb.init:weight:shard(S1,tp)\n";

// Catches: a row that is kept though nothing moves by it, or dropped though something does.
TEST(Optimize, LeavesOutWhatMovesNothing) {
  const auto mesh = init_device_mesh({2}, {"tp"});
  const auto plan =
      concat(kCut, "a.forward_pre:<in>:0:redist(->R,tp)\nb.forward_pre:<in>:0:redist(->S1,tp)\n");
  EXPECT_EQ(left_of(pair, plan, mesh, {Replicate{}}), kCut);
  EXPECT_EQ(left_of(pair, plan, mesh, {Shard{0}}), concat(kCut, "a.forward_pre:<in>:0:redist(->R,tp)\n"));
  // Never called in the step: it is kept.
  const auto unused = [] {
    struct Unused : Pair {
      at::Tensor forward(const Tensors& in) override { return (*a)(in.at(0)); }
    };
    auto model = std::make_shared<Unused>();
    for (auto& p : model->b->parameters()) at::Tensor(p).set_requires_grad(false);
    return model;
  };
  auto model = unused();
  parallelize(*model, mesh, parse_plan("b.forward_pre:<in>:0:redist(->S1,tp)"));
  init(*model);
  const auto traced = trace(*model, [&] { (*model)(distribute_tensor(at::ones({2, 6}), mesh, {Shard{0}})); });
  EXPECT_EQ(to_string(optimize(parse_plan("b.forward_pre:<in>:0:redist(->S1,tp)"), traced).plan),
            "b.forward_pre:<in>:0:redist(->S1,tp)\n");
}

// Catches: a stop that is kept; one that is skipped though somebody else reads the tensor there: an op, a
// second module, a user.
TEST(Optimize, SkipsStopsThatNobodyElseSees) {
  const auto mesh = init_device_mesh({2}, {"tp"});
  const auto plan =
      concat(kCut, "a.forward_post:<out>:redist(->R,tp)\nb.forward_pre:<in>:0:redist(->S0,tp)\n");
  EXPECT_EQ(left_of(pair, plan, mesh, {Replicate{}}),
            concat(kCut, "a.forward_post:<out>:redist_early(->S0,tp)\n"));
  const auto back =
      concat(kCut, "a.forward_post:<out>:redist(->R,tp)\nb.forward_pre:<in>:0:redist(->S1,tp)\n");
  EXPECT_EQ(left_of(pair, back, mesh, {Replicate{}}), concat(kCut, "a.backward_pre:<out>:redist(->S1,tp)\n"));

  const auto stays =
      concat(kCut, "a.forward_post:<out>:redist_early(->R,tp)\n", "b.forward_pre:<in>:0:redist(->S0,tp)\n");
  const auto by_op = [] {
    return std::make_shared<Pair>(
        [](const at::Tensor& x) { return x.detach().sum().item<float>() > 1e9 ? -x : x; });
  };
  EXPECT_EQ(left_of(by_op, plan, mesh, {Replicate{}}), stays);
  const auto by_function = [] {
    return std::make_shared<Pair>([](const at::Tensor& x) { return x.tanh(); });
  };
  EXPECT_EQ(left_of(by_function, plan, mesh, {Replicate{}}), stays);
  const auto by_locals = [] {
    return std::make_shared<Pair>([](const at::Tensor& x) { return to_local(x).empty() ? -x : x; });
  };
  EXPECT_EQ(left_of(by_locals, plan, mesh, {Replicate{}}), stays);
}

// Catches: rows along two mesh dimensions that stay two, terms that are then added up in another order.
TEST(Optimize, MergesRowsOfOnePlace) {
  const auto mesh = init_device_mesh({2, 2}, {"dp", "tp"});
  const auto plan = concat(kCut, "b.forward_post:<out>:redist(->R,tp)\na.forward_pre:<in>:0:redist(->R,dp)\n",
                           "b.forward_post:<out>:redist(->S1,dp)\na.forward_pre:<in>:0:redist(->R,tp)\n");
  EXPECT_EQ(left_of(pair, plan, mesh, {Shard{0}, Shard{1}}),
            concat(kCut, "b.forward_post:<out>:redist_early(->[R,S1],tp,dp)\n",
                   "a.forward_pre:<in>:0:redist(->[R,R],dp,tp)\n"));
  const auto said =
      concat(kCut, "a.forward_pre:<in>:0:redist(S0->R,dp)\na.forward_pre:<in>:0:redist(->R,tp)\n");
  EXPECT_EQ(left_of(pair, said, mesh, {Shard{0}, Shard{1}}), said);
}

// Catches: an input that each reader gathers; one that is moved for all though somebody reads it where it is;
// what rounds otherwise, unasked.
TEST(Optimize, HoistsOnlyWhereAsked) {
  const auto mesh = init_device_mesh({2}, {"tp"});
  const auto plan = "[qkv].init:weight:shard(S0,tp)\n[qkv].forward_pre:<in>:0:redist(->R,tp)\n";
  const auto heads = [] { return std::make_shared<Heads>(); };
  EXPECT_EQ(left_of(heads, plan, mesh, {Shard{0}}), plan);
  EXPECT_EQ(left_of(heads, plan, mesh, {Shard{0}}, {.reorders_sums = true}),
            "[qkv].init:weight:shard(S0,tp)\nforward_pre:<in>:0:redist(->R,tp)\n");
  const auto residual = [] { return std::make_shared<Heads>(true); };
  EXPECT_EQ(left_of(residual, plan, mesh, {Shard{0}}, {.reorders_sums = true}), plan);

  const auto two = [] {
    auto both = std::make_shared<nn::Sequential>();
    for (int i = 0; i < 2; ++i) both->push_back(std::make_shared<Heads>());
    return both;
  };
  const auto of_two = "\\d\\.[qkv].forward_pre:<in>:0:redist(->R,tp)\n";
  EXPECT_EQ(left_of(two, concat("\\d.forward_pre:<in>:0:redist(->S0,tp)\n", of_two), mesh, {Shard{1}},
                    {.reorders_sums = true}),
            concat("\\d.forward_pre:<in>:0:redist(->S0,tp)\n", of_two));  // the module has its row already
  EXPECT_EQ(left_of(two, concat("\\d.forward_post:<out>:redist(->S0,tp)\n", of_two), mesh, {Shard{0}},
                    {.reorders_sums = true}),
            "\\d.forward_post:<out>:redist_early(->S0,tp)\n\\d.forward_pre:<in>:0:redist(->R,tp)\n");
}

// Catches: a plan that is optimized by another one's step; one that would be taken for a step without moves.
TEST(Optimize, TheTraceIsOfThePlan) {
  const auto mesh = init_device_mesh({2}, {"tp"});
  Pair model;
  const auto plan = parse_plan("b.forward_pre:<in>:0:redist(->S0,tp)");
  auto traced = step_of(model, plan, mesh, {Replicate{}}).traced;
  EXPECT_TRUE(says(error_of([&] { optimize(parse_plan(kCut), traced); }), {"a row that is not in the plan"}));
  traced.moves[0].given = {};
  EXPECT_TRUE(says(error_of([&] { optimize(plan, traced); }), {"which the trace has not seen"}));
  EXPECT_TRUE(model.hooks().size() == 1) << "hooks of a trace are left";
}

}  // namespace
}  // namespace lockstep
