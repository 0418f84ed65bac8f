// SPDX-License-Identifier: Apache-2.0
// What a StepPlan says of a step is what the counters say of the step, byte for byte.
#include "engine/fsdp/held_memory.h"
#include "engine/fsdp/testing.h"
#include "engine/world/world.h"
#include "suites/engines/counting_world.h"
#include "suites/fsdp/step_groups.h"
#include "suites/train/llama.h"
#include "suites/train/memory.h"
#include "suites/train/model_plan.h"

namespace lockstep::suites {
namespace {

using fsdp::Moved;
using fsdp::StepGroup;
using fsdp::StepOptions;

struct Setup {
  const char* what;
  StepOptions options;
};

// x + b(a(norm(x))), of which one linear has a bias.
struct Layer : nn::Module {
  explicit Layer(int64_t size) {
    norm = add_child("norm", std::make_shared<nn::LayerNorm>(size));
    a = add_child("a", std::make_shared<nn::Linear>(size, 2 * size + 1));
    b = add_child("b", std::make_shared<nn::Linear>(2 * size + 1, size, false));
  }
  at::Tensor forward(const nn::Tensors& in) override { return in[0] + (*b)((*a)((*norm)(in[0])).tanh()); }
  std::shared_ptr<nn::LayerNorm> norm;
  std::shared_ptr<nn::Linear> a, b;
};

// Three of these between two linears of the outermost module.
struct Stack : nn::Module {
  explicit Stack(int64_t size) {
    first = add_child("first", std::make_shared<nn::Linear>(5, size));
    for (int i = 0; i < 3; ++i)
      layers.push_back(add_child(concat("layer", i), std::make_shared<Layer>(size)));
    last = add_child("last", std::make_shared<nn::Linear>(size, 3, false));
  }
  at::Tensor forward(const nn::Tensors& in) override {
    auto x = (*first)(in[0]);
    for (const auto& layer : layers) x = (*layer)(x);
    return (*last)(x);
  }
  std::shared_ptr<nn::Linear> first, last;
  std::vector<std::shared_ptr<Layer>> layers;
};

// Of all parameters but those whose path begins so.
std::vector<fsdp::BlockTensor> blocks(const nn::Module& module, std::string_view without = {}) {
  std::vector<fsdp::BlockTensor> tensors;
  for (const auto& [path, parameter] : module.named_parameters())
    if (without.empty() || !path.starts_with(without)) tensors.push_back({parameter.numel(), 1});
  return tensors;
}

MeshInWorld mesh_of(const StepOptions& o, WorldPtr world) {
  if (o.replicas == 1) return init_device_mesh({o.shards}, {"fsdp"}, std::move(world));
  return init_device_mesh({o.replicas, o.shards}, {"dp_replicate", "fsdp"}, std::move(world));
}

// Each prefetches as many as it may, of those that run after it.
void prefetch(const std::vector<FSDPModule>& order, int64_t depth, bool forward) {
  for (size_t i = 0; i < order.size(); ++i) {
    const auto from = order.begin() + static_cast<ptrdiff_t>(i) + 1;
    const std::vector<FSDPModule> next(from, from + std::min<ptrdiff_t>(depth, order.end() - from));
    auto module = order[i];
    forward ? module.set_modules_to_forward_prefetch(next) : module.set_modules_to_backward_prefetch(next);
  }
}

// The outermost module, whose first `before` parameters are used before the modules within.
FSDPModule shard(nn::Module& model, const std::vector<nn::Module*>& within, const StepOptions& o,
                 const MeshInWorld& mesh) {
  const FullyShardOptions cut{
      .mesh_dim = "fsdp", .reshard_after_forward = o.reshard_after_forward, .mp_policy = o.policy};
  std::vector<FSDPModule> order;
  for (auto* module : within) order.push_back(fully_shard(*module, mesh, cut));
  const auto root = fully_shard(model, mesh, cut);
  order.insert(order.begin(), root);
  prefetch(order, o.prefetch, true);
  std::reverse(order.begin() + 1, order.end());
  prefetch(order, o.prefetch, false);
  init(model);
  return root;
}

// What was counted of a step: by collective up to the loss, and in all; by hosted rank.
struct Counted {
  TrafficByOp forward, all;
  PerRank<int64_t> peaks;
};

template <class Loss>
Counted counted(FSDPModule root, TrafficByOp& traffic, Loss&& loss) {
  const auto memory = std::make_shared<fsdp::HeldMemory>();
  root.watch_memory(memory);
  traffic.clear();
  Counted counted;
  const auto value = loss();
  counted.forward = traffic;
  value.backward();
  counted.all = traffic;
  counted.peaks = memory->take_peak_bytes();
  return counted;
}

void expect_counted(const char* what, const Moved& predicted, const Traffic& all,
                    const Traffic& before = {}) {
  EXPECT_EQ(predicted.calls, all.calls - before.calls) << what;
  EXPECT_EQ(predicted.bytes, all.bytes - before.bytes) << what;
  for (size_t r = 0; r < all.sent.size() && !predicted.sent.empty(); ++r)
    EXPECT_EQ(predicted.sent[r % predicted.sent.size()],
              all.sent[r] - (r < before.sent.size() ? before.sent[r] : 0))
        << what << ", rank " << r;
}

void expect_counted(const std::vector<StepGroup>& groups, const StepOptions& o, Counted counted) {
  const auto plan = plan_step(groups, o);
  auto &forward = counted.forward, &all = counted.all;
  expect_counted("all-gather, forward", plan.moves.gather_forward, forward["all_gather"]);
  expect_counted("all-gather, backward", plan.moves.gather_backward, all["all_gather"],
                 forward["all_gather"]);
  expect_counted("reduce-scatter", plan.moves.reduce_scatter, all["reduce_scatter"]);
  expect_counted("all-reduce", plan.moves.all_reduce, all["all_reduce"], forward["all_reduce"]);
  ASSERT_EQ(std::ssize(counted.peaks), o.shards * o.replicas);
  for (size_t r = 0; r < counted.peaks.size(); ++r)
    EXPECT_EQ(plan.peak.total(), counted.peaks[r]) << "rank " << r;
}

const MixedPrecisionPolicy kMixed{.param_dtype = at::kBFloat16, .reduce_dtype = at::kFloat};
const MixedPrecisionPolicy kShort{.param_dtype = at::kBFloat16};
const MixedPrecisionPolicy kLong{.reduce_dtype = at::kDouble};
const MixedPrecisionPolicy kShortSums{.reduce_dtype = at::kBFloat16};

std::vector<Setup> setups(int64_t shards) {
  std::vector<Setup> all{
      {"plain", {.shards = shards}},
      {"not cut after forward", {.shards = shards, .reshard_after_forward = false}},
      {"mixed", {.shards = shards, .policy = kMixed}},
      {"mixed, not cut", {.shards = shards, .policy = kMixed, .reshard_after_forward = false}},
      {"short", {.shards = shards, .policy = kShort}},
      {"long sums", {.shards = shards, .policy = kLong}},
      {"short sums", {.shards = shards, .policy = kShortSums}},
      {"outermost not cut", {.shards = shards, .policy = kMixed, .reshard_after_forward = std::nullopt}},
      {"outermost not cut, prefetch",
       {.shards = shards, .reshard_after_forward = std::nullopt, .prefetch = 1}},
      {"prefetch", {.shards = shards, .policy = kMixed, .prefetch = 1}},
      {"prefetch of two", {.shards = shards, .prefetch = 2}}};
  for (const int among : {1, 2, 4, 8, 16})
    if (among <= shards && shards % among == 0)
      for (const auto& policy : {MixedPrecisionPolicy(), kMixed})
        all.push_back(
            {"cut among some",
             {.shards = shards, .policy = policy, .reshard_after_forward = among, .prefetch = among / 4}});
  return all;
}

std::vector<StepGroup> groups_of(const Stack& stack) {
  std::vector<StepGroup> groups{{blocks(stack, "layer"), 1, 2}};
  for (const auto& layer : stack.layers) groups.push_back({blocks(*layer)});
  return groups;
}

FSDPModule shard(Stack& stack, const StepOptions& o, const MeshInWorld& mesh) {
  return shard(stack, {stack.layers[0].get(), stack.layers[1].get(), stack.layers[2].get()}, o, mesh);
}

void expect_stack(const StepOptions& o, int64_t size) {
  TrafficByOp traffic;
  const auto mesh = mesh_of(o, counting(local_world(o.shards * o.replicas), traffic));
  Stack stack(size);
  const auto groups = groups_of(stack);
  const auto root = shard(stack, o, mesh);
  const auto x = batch(mesh, 1);
  expect_counted(groups, o, counted(root, traffic, [&] { return loss_of(stack(x)); }));
}

// Linears with and without bias, norms, and a root with parameters on both ends; elements that ranks do not
// divide. Catches: a collective that the prediction forgets or makes twice, bytes in another dtype, padding
// counted where none is sent, a module that stays gathered or a gradient that stays whole, on any rank.
TEST(StepPlan, IsWhatAStackDoes) {
  for (const int64_t shards : {2, 3, 4, 8})
    for (const auto& setup : setups(shards)) {
      SCOPED_TRACE(concat(setup.what, " on ", shards, " ranks"));
      expect_stack(setup.options, 6);
      expect_stack(setup.options, 40);
    }
}

// Catches: what holds of few ranks alone: ranks that have no part of a tensor, or none at all.
TEST(StepPlan, IsWhatAStackDoesOn64Ranks) {
  for (const auto& setup : setups(64)) {
    SCOPED_TRACE(setup.what);
    expect_stack(setup.options, 40);
  }
}

// Catches: an all-reduce of whole tensors, replicas that are counted once, their buffers forgotten.
TEST(StepPlan, IsWhatHsdpDoes) {
  for (const auto& policy : {MixedPrecisionPolicy(), kMixed})
    for (const bool reshards : {true, false}) {
      expect_stack({.shards = 2, .replicas = 2, .policy = policy, .reshard_after_forward = reshards}, 6);
      expect_stack({.shards = 4, .replicas = 3, .policy = policy, .reshard_after_forward = reshards}, 40);
      expect_stack({.shards = 16, .replicas = 4, .policy = policy, .reshard_after_forward = reshards}, 40);
    }
}

// A step of a LLaMA of three layers.
Counted counted_llama(const ModelOptions& options, const StepOptions& o) {
  TrafficByOp traffic;
  const auto mesh = mesh_of(o, counting(local_world(o.shards), traffic));
  Llama model(options);
  std::vector<nn::Module*> within;
  for (int64_t i = 0; i < options.layers; ++i) within.push_back(&model.child(concat("layers.", i)));
  const auto root = shard(model, within, o, mesh);
  const auto tokens = distribute_tensor(at::arange(o.shards * 4).remainder(251).reshape({o.shards, 4}), mesh,
                                        batch_placements(mesh.mesh));
  return counted(root, traffic, [&] { return model(tokens, tokens); });
}

// Catches: what linears do not show: tables, tensors of one row, a loss that moves something itself.
TEST(StepPlan, IsWhatALlamaDoes) {
  const ModelOptions options{.layers = 3};
  for (const int64_t shards : {2, 3, 4, 8, 64})
    for (const auto& setup : setups(shards)) {
      if (setup.options.policy.param_dtype) continue;
      SCOPED_TRACE(concat(setup.what, " on ", shards, " ranks"));
      expect_counted(step_groups(options), setup.options, counted_llama(options, setup.options));
    }
}

// In 16 bits libtorch's rms_norm adds up in float32 and casts the sum, so that a norm's gradient is reduced
// before it comes, with as many bytes. Catches: any other gradient that does so, bytes of a norm that are
// counted in its own dtype.
TEST(StepPlan, IsWhatALlamaDoesInMixedPrecisionButForNorms) {
  const ModelOptions options{.layers = 3};
  const int64_t norms = 2 * options.layers + 1;
  for (const int64_t shards : {2, 3, 8, 64}) {
    SCOPED_TRACE(concat(shards, " ranks"));
    const StepOptions o{.shards = shards, .policy = kMixed};
    auto [forward, all, peaks] = counted_llama(options, o);
    const auto plan = plan_step(step_groups(options), o);
    expect_counted("forward", plan.moves.gather_forward, forward["all_gather"]);
    expect_counted("backward", plan.moves.gather_backward, all["all_gather"], forward["all_gather"]);
    EXPECT_EQ(plan.moves.reduce_scatter.calls + norms, all["reduce_scatter"].calls);
    EXPECT_EQ(plan.moves.reduce_scatter.bytes, all["reduce_scatter"].bytes);
    for (size_t r = 0; r < peaks.size(); ++r)
      EXPECT_LE(std::abs(plan.peak.total() - peaks[r]), norms * options.hidden * 8) << "rank " << r;
  }
}

// Against libtorch's own count of what is allocated, activations and what a kernel needs (at most a tensor of
// one rank) included; hosted ranks share what is gathered. Catches: memory that fully_shard allocates and
// neither tells nor predicts.
TEST(StepPlan, IsMostOfWhatIsAllocated) {
  constexpr int64_t kSize = 256;
  for (const int64_t shards : {1, 4})
    for (const bool reshards : {true, false}) {
      SCOPED_TRACE(concat(shards, " ranks, ", reshards ? "cut" : "not cut"));
      const StepOptions o{.shards = shards, .reshard_after_forward = reshards};
      PeakMemory memory;
      const auto mesh = mesh_of(o, local_world(shards));
      Stack stack(kSize);
      const auto plan = plan_step(groups_of(stack), o);
      shard(stack, o, mesh);
      const auto x = batch(mesh, 1);
      memory.take_peak_bytes();
      loss_of(stack(x)).backward();
      int64_t predicted = plan.peak.gathered;
      predicted += shards * (plan.peak.total() - plan.peak.gathered);
      const int64_t activations = shards * 2 * 3 * 24 * kSize * 4, kernels = kSize * (2 * kSize + 1) * 4;
      const int64_t peak = memory.take_peak_bytes();
      EXPECT_GE(peak, predicted);
      EXPECT_LE(peak, predicted + activations + kernels);
    }
}

}  // namespace
}  // namespace lockstep::suites
