// SPDX-License-Identifier: Apache-2.0
// The end of a Program: its backward call, and the Case made of what was built.
#include "generators/program/builder.h"
#include "generators/program/trial.h"
#include "oracle/program/statements.h"

namespace lockstep::generators {

using oracle::Ref;

std::vector<Magnitude> Builder::gradient_magnitudes(const std::vector<Ref>& outputs, Magnitude seed) const {
  std::vector<Magnitude> gradient(groups_.size(), Magnitude{0, 0});
  for (const auto ref : outputs) gradient[value(ref).group] = gradient[value(ref).group] + seed;
  for (auto flow = flows_.rbegin(); flow != flows_.rend(); ++flow) {
    Magnitude arriving{0, 0};
    for (const auto g : flow->results) arriving = arriving + gradient[g];
    for (const auto& [group, factor] : flow->operands) {
      const bool view = !flow->in_place &&
                        std::find(flow->results.begin(), flow->results.end(), group) != flow->results.end();
      if (!view) gradient[group] = gradient[group] + arriving * factor;
    }
  }
  return gradient;
}

bool Builder::bound_gradients(const std::vector<Ref>& outputs, Magnitude seed, bool accumulates,
                              Growth& growth) {
  const auto magnitudes = gradient_magnitudes(outputs, seed);
  for (size_t g = 0; g < magnitudes.size(); ++g)
    if (c10::isFloatingType(groups_[g].dtype)) {
      if (!exact(magnitudes[g], groups_[g].dtype)) return false;
      growth.result = larger(growth.result, magnitudes[g]);
    }
  if (accumulates) growth.result = growth.result + accumulated_;
  // A mixed-dtype Program holds the largest gradient exactly only if its narrowest leaf could.
  return std::all_of(leaves_.begin(), leaves_.end(),
                     [&](const at::Tensor& leaf) { return exact(growth.result, leaf.scalar_type()); });
}

// Of what was written through a view, as often the tensor that the view is of; now and then another one
// beside it.
std::vector<Ref> Builder::drawn_outputs(const std::vector<Ref>& candidates) {
  std::vector<Ref> ends = {candidates.back()};
  for (const auto ref : candidates)
    if (ref != ends[0] && value(ref).group == value(ends[0]).group) ends.push_back(ref);
  std::vector<Ref> outputs = {ends.size() > 1 && random_.chance(50) ? random_.pick(ends) : ends[0]};
  if (candidates.size() > 1 && random_.chance(25))
    outputs.push_back(candidates[static_cast<size_t>(random_.below(std::ssize(candidates) - 1))]);
  return outputs;
}

bool Builder::backward(const Backward& how) {
  std::vector<Ref> candidates;
  for (size_t i = 0; i < values_.size(); ++i) {
    const auto& v = values_[i];
    if (v.input < 0 && v.trial.defined() && v.trial.requires_grad())
      candidates.push_back({static_cast<int64_t>(i)});
  }
  if (candidates.empty() || (!gradients_.empty() && !how.again)) return false;
  const auto outputs = how.outputs.empty() ? drawn_outputs(candidates) : how.outputs;
  std::vector<Ref> seeds;
  Magnitude seed;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Ref ref = outputs[i];
    go_outside(is_plain(ref));
    auto placement = how.seeds.empty() || is_plain(ref)
                         ? std::nullopt
                         : std::optional(how.seeds[std::min(i, how.seeds.size() - 1)]);
    const auto lacks = [&](const Placement& p) { return shard_dim(p) >= ndim(ref); };
    if (placement && std::any_of(placement->placements.begin(), placement->placements.end(), lacks))
      placement.reset();
    seeds.push_back(
        fresh({.dtypes = bit_of(dtype(ref)), .shape = shape(ref), .placement = placement, .grad = false}));
    seed = larger(seed, magnitude(seeds.back()));
  }
  go_outside(false);
  Growth growth{.result = {}, .factors = {}, .signs_zero = true};
  const bool accumulates = how.op == oracle::kAccumulate;
  if (settings_.integer_lane && !bound_gradients(outputs, seed, accumulates, growth)) return false;
  std::vector<oracle::Arg> args = {outputs, seeds};
  if (how.graph) args.emplace_back(true);
  if (!call(how.op, std::move(args), growth, false)) return false;
  if (accumulates) accumulated_ = growth.result;
  gradients_ = results_;
  for (size_t i = 0, next = 0; i < values_.size() && next < gradients_.size(); ++i)
    if (values_[i].input >= 0 && program_.inputs[static_cast<size_t>(values_[i].input)].requires_grad)
      values_[static_cast<size_t>(gradients_[next++].id)].plain = values_[i].plain;
  return true;
}

std::vector<std::pair<Ref, Ref>> Builder::gradients() const {
  std::vector<std::pair<Ref, Ref>> pairs;
  size_t next = 0;
  for (size_t i = 0; i < values_.size() && next < gradients_.size(); ++i) {
    const auto& v = values_[i];
    if (v.input < 0 || !program_.inputs[static_cast<size_t>(v.input)].requires_grad) continue;
    const auto gradient = gradients_[next++];
    if (tensor(gradient).defined()) pairs.emplace_back(Ref{static_cast<int64_t>(i)}, gradient);
  }
  return pairs;
}

oracle::Case Builder::finish(std::string suite, uint64_t seed, DeviceModel device) const {
  std::vector<bool> used(values_.size(), false);
  for (const auto& call : program_.calls)
    for (const auto ref : references(call)) used[static_cast<size_t>(ref.id)] = true;
  const bool with_backward = !gradients_.empty();
  oracle::Case made{.suite = std::move(suite),
                    .program = {},
                    .mesh = settings_.mesh,
                    .placements = {},
                    .device = device,
                    .integer_lane = settings_.integer_lane};
  made.program.seed = seed;
  std::vector<int64_t> number(values_.size(), -1);
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].input < 0) continue;
    auto input = program_.inputs[static_cast<size_t>(values_[i].input)];
    if (!used[i] && !(with_backward && input.requires_grad) && !program_.calls.empty()) continue;
    input.requires_grad = input.requires_grad && with_backward;
    number[i] = std::ssize(made.program.inputs);
    made.program.inputs.push_back(std::move(input));
    made.placements.push_back(placements_[static_cast<size_t>(values_[i].input)]);
  }
  auto next = std::ssize(made.program.inputs);
  for (size_t i = 0; i < values_.size(); ++i)
    if (values_[i].input < 0) number[i] = next++;
  made.program.calls = program_.calls;
  if (!with_backward)  // then nothing has a history, and there is nothing to hook
    std::erase_if(made.program.calls, [](const auto& call) { return call.op == oracle::kScaleGradient; });
  for (auto& call : made.program.calls)
    oracle::each_ref(call, [&](Ref& ref) {
      if (ref.id >= 0) ref.id = number[static_cast<size_t>(ref.id)];
    });
  return made;
}

}  // namespace lockstep::generators
