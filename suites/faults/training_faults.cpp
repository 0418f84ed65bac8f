// SPDX-License-Identifier: Apache-2.0
// Faults of the model and of its update. One device computes them as a mesh does, so only formulas written
// elsewhere tell.
#include <ATen/ATen.h>

#include "engine/tensor/dtensor.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/faults/tables.h"
#include "suites/train/train_fault.h"

namespace lockstep::suites::plant {
namespace {

using optim::Tensors;

class Mistrained : public LockstepEngine {
 public:
  explicit Mistrained(TrainFault fault) : fault_(fault) {}
  const TrainFault* train_fault() const override { return &fault_; }

 private:
  TrainFault fault_;
};
Plant with_training(TrainFault fault) {
  return [=] { return std::make_unique<Mistrained>(fault); };
}

template <class Each>
void each_attention(nn::Module& model, Each each) {
  for (const auto& [path, module] : model.named_modules())
    if (path.ends_with(".self_attn")) each(*module);
}

// Turns keys once more, by the angle of one position: queries see them one step nearer.
at::Tensor one_later(const nn::Module& attention, const at::Tensor& keys) {
  const int64_t at = std::min<int64_t>(1, attention.buffer("cos").size(0) - 1);
  const auto cos = attention.buffer("cos").narrow(0, at, 1), sin = attention.buffer("sin").narrow(0, at, 1);
  const int64_t half = cos.size(1) / 2, rest = keys.size(-1) - 2 * half;
  const auto a = keys.narrow(-1, 0, half), b = keys.narrow(-1, half, half);
  const auto turned = keys.narrow(-1, 0, 2 * half) * cos + at::cat({b.neg(), a}, -1) * sin;
  return at::cat({turned, keys.narrow(-1, 2 * half, rest)}, -1);
}

void keys_one_late(nn::Module& model) {
  each_attention(model, [](nn::Module& attention) {
    attention.child("core").register_forward_pre_hook([&attention](nn::Module&, nn::Tensors& inputs) {
      inputs.at(1) = one_later(attention, inputs.at(1));
    });
  });
}

// [batch, heads, …] in which neighbours share: the heads that share stand side by side no longer.
at::Tensor dealt_out(const at::Tensor& heads, int64_t kv_heads) {
  const int64_t group = heads.size(1) / kv_heads;
  const auto whole =
      is_dtensor(heads) ? redistribute(heads, Placements(placements(heads).size(), Replicate{})) : heads;
  Tensors dealt;
  for (int64_t h = 0; h < heads.size(1); ++h) dealt.push_back(whole.narrow(1, h % kv_heads * group, 1));
  return at::cat(dealt, 1);
}

void heads_dealt_out(nn::Module& model) {
  each_attention(model, [](nn::Module& attention) {
    attention.child("core").register_forward_pre_hook([&attention](nn::Module&, nn::Tensors& inputs) {
      const int64_t kv_heads = attention.parameter("k_proj.weight").size(0) / inputs.at(1).size(3);
      for (const size_t i : {1, 2}) inputs.at(i) = dealt_out(inputs.at(i), kv_heads);
    });
  });
}

void drops_in_evaluation(nn::Module& model) {
  for (const auto& [path, module] : model.named_modules())
    if (path.ends_with("dropout"))
      module->register_forward_hook([](nn::Module& dropout, const Tensors&, at::Tensor& output) {
        if (!dropout.is_training()) output = at::dropout(output, TrainOptions{}.dropout, /*train=*/true);
      });
}

// Before the first update: zero moments, as they would be, after one step.
void steps_from_two(const Tensors& parameters, Optimizer& optimizer) {
  auto state = optimizer.state();
  if (state.steps.empty() || state.steps[0] > 0) return;
  for (auto& moment : state.moments)
    for (size_t i = 0; i < parameters.size(); ++i) moment[i] = at::zeros_like(parameters[i].detach());
  state.steps.assign(state.steps.size(), 1);
  optimizer.load_state(std::move(state));
}

void no_decay(TrainOptions& options) {
  options.weight_decay = 0;
}
void decay_in_gradient(const Tensors& parameters, Optimizer&) {
  const double decay = TrainOptions{}.weight_decay;
  for (const auto& parameter : parameters) parameter.grad().add_(parameter.detach(), decay);
}

// Cases in which AdamW updates.
bool by_adamw(const oracle::Case& c) {
  const auto found = c.options.find("optimizer");
  return found == c.options.end() || found->second == "adamw-fused";
}

}  // namespace

Plant unharmed_training() {
  return with_training({});
}

std::vector<Fault> training_faults() {
  return {
      {78, "keys-one-late", "K15", "keys are turned as if each stood one position later", "train", 1, 0, any,
       with_training({.model = keys_one_late})},
      {79, "heads-dealt-out", "K15", "query heads take the key heads in turn, not in groups of neighbours",
       "train", 1, 0, any, with_training({.model = heads_dealt_out})},
      {80, "bias-of-next-step", "K15", "AdamW corrects the bias of its moments as of the next step", "train",
       1, 0, by_adamw, with_training({.update = steps_from_two})},
      {81, "decay-coupled", "K15", "AdamW's weight decay goes into the gradient, as Adam's", "train", 1, 0,
       by_adamw, with_training({.options = no_decay, .update = decay_in_gradient})},
      {154, "drops-in-evaluation", "K15", "dropout drops in evaluation, too", "train", 1, 0, any,
       with_training({.model = drops_in_evaluation})},
  };
}

}  // namespace lockstep::suites::plant
