// SPDX-License-Identifier: Apache-2.0
// Optimizer steps: what torch::optim and its foreach and fused forms emit, on the gradients of a backward
// call.
#include "generators/ops/makers.h"

namespace lockstep::generators {
namespace {

// Parameters of one dtype without history, with their gradients.
struct Parameters {
  std::vector<Ref> leaves, values, gradients;
};

// Steps are taken in the parameter's own placements: gradients and state follow them.
std::optional<Parameters> parameters(Builder& b, uint32_t dtypes = kFloats) {
  Parameters found;
  for (const auto& [leaf, gradient] : b.gradients()) {
    const auto placed = b.value(leaf).placement;
    if (!placed || has_partial(*placed) || b.frozen(leaf) || !(bit_of(b.dtype(leaf)) & dtypes)) continue;
    if (!found.values.empty() && b.dtype(leaf) != b.dtype(found.values[0])) continue;
    // Stock fused kernels walk the memory of all their lists alike, whatever the strides.
    if (!b.tensor(leaf).is_contiguous() || !b.tensor(gradient).is_contiguous()) continue;
    if (!b.call("lockstep::detach", {leaf}, {}, false)) return std::nullopt;
    found.leaves.push_back(leaf);
    found.values.push_back(b.results()[0]);
    found.gradients.push_back(b.redistribute(gradient, *placed));
    if (found.values.size() == 3) break;
  }
  if (found.values.empty()) return std::nullopt;
  return found;
}

// Appends what gradients are divided by, and whether one of them overflowed and the step is skipped, as a
// gradient scaler hands them over; or neither of them.
void append_scaling(Builder& b, std::vector<Arg>& args) {
  const auto number = [&](int64_t low, int64_t high) -> Arg {
    const oracle::Values value{.kind = oracle::ValueKind::kIntegers, .low = low, .high = high};
    if (!b.random().chance(45)) return None{};
    return b.fresh(
        {.dtypes = kF32, .shape = Shape{}, .values = value, .placement = replicated(b.settings().mesh)});
  };
  args.push_back(number(1, 5));
  args.push_back(number(0, 1));
}

// A learning rate that is a tensor, as a captured step reads it.
Ref rate(Builder& b) {
  const oracle::Values value{.kind = oracle::ValueKind::kUniform, .low = 0, .high = 1};
  return b.fresh(
      {.dtypes = kF32, .shape = Shape{}, .values = value, .placement = replicated(b.settings().mesh)});
}

}  // namespace

std::vector<Ref> OptimizerState::like(Builder& b, const std::vector<Ref>& leaves, const char* name,
                                      int64_t high) {
  const oracle::Values start{
      .kind = high > 0 ? oracle::ValueKind::kUniform : oracle::ValueKind::kZeros, .low = 0, .high = high};
  std::vector<Ref> state;
  for (const auto leaf : leaves) {
    const auto found = kept_.find({name, leaf.id});
    state.push_back(found != kept_.end() ? found->second
                                         : b.fresh({.dtypes = bit_of(b.dtype(leaf)),
                                                    .shape = b.shape(leaf),
                                                    .dense = true,
                                                    .values = start,
                                                    .placement = b.value(leaf).placement}));
    kept_[{name, leaf.id}] = state.back();
  }
  return state;
}

std::vector<Ref> OptimizerState::steps(Builder& b, const std::vector<Ref>& leaves) {
  std::vector<Ref> steps, again;
  for (const auto leaf : leaves) {
    const auto found = kept_.find({"step", leaf.id});
    const oracle::Values count{.kind = oracle::ValueKind::kIntegers, .low = 1, .high = 3};
    steps.push_back(found != kept_.end() ? found->second
                                         : b.fresh({.dtypes = kF32,
                                                    .shape = Shape{},
                                                    .values = count,
                                                    .placement = replicated(b.settings().mesh)}));
    if (found != kept_.end()) again.push_back(found->second);
    kept_[{"step", leaf.id}] = steps.back();
  }
  if (!again.empty()) b.call("aten::_foreach_add_.Scalar", {again, int64_t{1}}, {}, false);
  return steps;
}

bool OptimizerState::has(const std::vector<Ref>& leaves, const char* name) const {
  return std::all_of(leaves.begin(), leaves.end(), [&](const Ref leaf) {
    return kept_.contains({name, leaf.id});
  });
}

bool adam_step(Builder& b, OptimizerState& state) {
  const auto p = parameters(b);
  if (!p) return false;
  const auto averages = state.like(b, p->leaves, "exp_avg", 0),
             squares = state.like(b, p->leaves, "exp_avg_sq", 1);
  const auto steps = state.steps(b, p->leaves);
  const bool amsgrad = b.random().chance(20);
  const auto largest = amsgrad ? state.like(b, p->leaves, "max_exp_avg_sq", 1) : std::vector<Ref>{};
  std::vector<Arg> args = {p->values,
                           p->gradients,
                           averages,
                           squares,
                           largest,
                           steps,
                           0.01,
                           0.9,
                           0.999,
                           b.random().pick({0.0, 0.1}),
                           1e-8,
                           amsgrad,
                           b.random().chance(20)};
  append_scaling(b, args);
  const bool decoupled = b.random().chance(65), by_tensor = b.random().chance(30);
  if (by_tensor) args[6] = rate(b);
  const char* op = decoupled   ? by_tensor ? "aten::_fused_adamw_.tensor_lr" : "aten::_fused_adamw_"
                   : by_tensor ? "aten::_fused_adam_.tensor_lr"
                               : "aten::_fused_adam_";
  bool done = b.call(op, args, {}, false);
  // A second step with the same gradients shows what the first one left behind.
  if (done && b.random().chance(40)) done = b.call(op, args, {}, false);
  return done;
}

// Of wide dtypes alone: in half types the vector body of libtorch's CPU kernel leaves the parameters as they
// are and loses a term of the momentum, while its scalar tail does not, so that no two sizes of a tensor
// agree.
bool fused_sgd_step(Builder& b, OptimizerState& state) {
  const auto p = parameters(b, kWide);
  if (!p) return false;
  const bool heavy = b.random().chance(70), nesterov = heavy && b.random().chance(40);
  std::vector<Arg> args = {p->values,
                           p->gradients,
                           heavy ? state.like(b, p->leaves, "momentum", 1) : std::vector<Ref>{},
                           b.random().pick({0.0, 0.1}),
                           heavy ? 0.9 : 0.0,
                           0.01,
                           nesterov ? 0.0 : b.random().pick({0.0, 0.25}),
                           nesterov,
                           b.random().chance(20),
                           b.random().chance(30)};
  append_scaling(b, args);
  const bool by_tensor = b.random().chance(35);
  if (by_tensor) args[5] = rate(b);
  return b.call(by_tensor ? "aten::_fused_sgd_.tensor_lr" : "aten::_fused_sgd_", args, {}, false);
}

bool sgd_step(Builder& b, OptimizerState& state) {
  const auto p = parameters(b);
  if (!p) return false;
  const auto momentum = state.like(b, p->leaves, "momentum", 0);
  if (!b.call("aten::_foreach_add.List", {p->gradients, p->values, 0.1}, {}, false)) return false;
  const auto decayed = b.results();
  return b.call("aten::_foreach_mul_.Scalar", {momentum, 0.9}, {}, false) &&
         b.call("aten::_foreach_add_.List", {momentum, decayed, 0.5}, {}, false) &&
         b.call("aten::_foreach_add_.List", {p->values, momentum, -0.01}, {}, false);
}

bool clip_gradients(Builder& b) {
  std::vector<Ref> gradients;
  for (const auto& [leaf, gradient] : b.gradients())
    if (gradients.empty() || b.dtype(gradient) == b.dtype(gradients[0])) gradients.push_back(gradient);
  if (gradients.empty()) return false;
  if (!b.call("aten::_foreach_norm.Scalar", {gradients, 2.0}, {}, false)) return false;
  const auto norms = b.results();
  if (!b.call("aten::stack", {norms}, {}, false)) return false;
  if (!b.call("aten::linalg_vector_norm", {b.results()[0], 2.0}, {}, false)) return false;
  if (!b.call("aten::add.Scalar", {b.results()[0], 1e-6}, {}, false)) return false;
  if (!b.call("aten::reciprocal", {b.results()[0]}, {}, false)) return false;
  if (!b.call("aten::clamp", {b.results()[0], None{}, 1.0}, {}, false)) return false;
  return b.call("aten::_foreach_mul.Tensor", {gradients, b.results()[0]}, {}, false);
}

}  // namespace lockstep::generators
