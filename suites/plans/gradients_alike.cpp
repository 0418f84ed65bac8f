// SPDX-License-Identifier: Apache-2.0
#include "suites/plans/gradients_alike.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/nn/boundary.h"
#include "engine/nn/checkpoint.h"
#include "suites/plans/places.h"

namespace lockstep::suites {

std::vector<Shown> shown_of(const Parallelizing& p, const ParallelPlan& plan) {
  std::vector<Shown> all;
  for (const auto& module : modules_of(p)) all.push_back({module.path, {}});
  for (const auto& module : modules_of(p))
    for (const auto& [name, dims] : module.parameters) {
      const auto first = said(p, plan, PlanPhase::kInit, module.path, name);
      const auto run = said(p, plan, PlanPhase::kRun, module.path, name);
      for (auto& [path, parameters] : all) {
        bool moves = false;
        for (size_t d = 0; d < run.size(); ++d)
          moves |= run[d] && run[d]->by == path &&
                   run[d]->place != (first[d] ? first[d]->place : Placement(Replicate{}));
        if (moves) parameters.push_back(module.path.empty() ? name : module.path + "." + name);
      }
    }
  std::erase_if(all, [](const Shown& shown) { return shown.parameters.empty(); });
  return all;
}

namespace {

// Each before those within it, and of these the last one first.
std::vector<Shown> on_the_way_back(std::vector<Shown> in_calls) {
  std::vector<Shown> all;
  while (!in_calls.empty()) {
    auto outer = in_calls.begin();
    for (auto next = outer; next != in_calls.end(); ++next)
      if (!is_around(outer->path, next->path)) outer = next;
    std::vector<Shown> within(outer + 1, in_calls.end());
    all.push_back(*outer);
    in_calls.erase(outer, in_calls.end());
    for (auto& each : on_the_way_back(std::move(within))) all.push_back(std::move(each));
  }
  return all;
}

}  // namespace

void come_back_alike(const Parallelizing& p, const ParallelPlan& plan, nn::Module& model) {
  if (p.as == kInBuffers) return;
  for (const auto& shown : shown_of(p, plan)) {
    auto& module = model.child(shown.path);
    const auto prefix = shown.path.empty() ? "" : shown.path + ".";
    module.call_around([&module, prefix, shown](nn::Tensors inputs, const nn::Module::Forward& forward) {
      StandIns elsewhere(module);
      for (const auto& [value, paths] : module.parameters_with_paths()) {
        const auto is_shown = [&](const std::string& path) {
          return std::find(shown.parameters.begin(), shown.parameters.end(), prefix + path) !=
                 shown.parameters.end();
        };
        const auto nothing = [](nn::Tensors&) {};
        if (std::any_of(paths.begin(), paths.end(), is_shown))
          elsewhere.set(paths, nn::at_boundary({value}, nothing, /*held=*/false)[0]);
      }
      return forward(std::move(inputs));
    });
  }
}

AddedAtTheEnd::AddedAtTheEnd(const Parallelizing& p, const nn::Module& model) {
  if (p.as != kInBuffers) return;
  for (const auto& shown : on_the_way_back(shown_of(p, p.plan)))
    for (const auto& path : shown.parameters) all_.push_back({model.parameter(path), {}});
}

void AddedAtTheEnd::take() {
  const at::NoGradGuard no_grad;
  for (auto& [parameter, sum] : all_) {
    auto term = std::exchange(parameter.mutable_grad(), at::Tensor());
    if (sum.defined() && term.defined())
      sum.add_(term);
    else if (term.defined())
      sum = std::move(term);
  }
}

void AddedAtTheEnd::hand_in() {
  for (auto& [parameter, sum] : all_)
    if (sum.defined()) parameter.mutable_grad() = std::exchange(sum, at::Tensor());
}

}  // namespace lockstep::suites
