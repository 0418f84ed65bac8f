// SPDX-License-Identifier: Apache-2.0
// Faults of plans: rows that are lost or taken for others, what is optimized away that must not be.
#include <ATen/ATen.h>

#include <algorithm>

#include "engine/tensor/dtensor.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/faults/tables.h"
#include "suites/plans/parallelized.h"

namespace lockstep::suites::plant {
namespace {

using enum PlanPhase;

// ---- in which cases ----

using Asked = bool (*)(const Parallelizing& p);

template <Asked asked>
bool of_plans(const oracle::Case& c) {
  if (c.suite != "plans" || c.mesh.size() == 1) return false;
  return asked(parallelizing_of(c));
}

template <PlanPhase... phases>
bool is_one_of(const PlanRow& row) {
  return ((row.phase == phases) || ...);
}

using OfRow = bool (*)(const PlanRow& row);
constexpr OfRow kForward = is_one_of<kForwardPre, kForwardPost>,
                kBackward = is_one_of<kBackwardPre, kBackwardPost>, kFirst = is_one_of<kInit>,
                kShown = is_one_of<kRun>;

template <OfRow is_it>
bool has(const Parallelizing& p) {
  return p.as != kInBuffers && std::any_of(p.plan.rows().begin(), p.plan.rows().end(), is_it);
}
bool any(const Parallelizing&) {
  return true;
}
bool is_tied(const Parallelizing& p) {
  return p.tied != 0;
}
bool is_of_sums(const PlanRow& row) {
  return is_annotation(row) && row.sums != SumOrder::kFold;
}
bool tells(const PlanRow& row) {
  return is_annotation(row) && tells_passes(row.sums, row.hops);
}
bool has_hops(const PlanRow& row) {
  return !row.hops.empty();
}
bool is_of_all(const PlanRow& row) {
  return tells(row) && row.hops.empty();
}
// Of several passes.
template <OfRow is_it>
bool has_passes(const Parallelizing& p) {
  return p.passes > 1 && p.as != kHoisted && has<is_it>(p);
}
bool has_wider_hop(const Parallelizing& p) {
  const auto is_wider = [&](const PlanRow& row) {
    return std::any_of(row.hops.begin(), row.hops.end(),
                       [&](const SumHop& hop) { return hop.dtype.value_or(p.dtype) != p.dtype; });
  };
  return p.passes > 1 && p.as != kHoisted &&
         std::any_of(p.plan.rows().begin(), p.plan.rows().end(), is_wider);
}
bool is_second(const PlanRow& row) {
  return row.phase == kForwardPre && row.index == 1;
}
bool is_static(const Parallelizing& p) {
  return p.as == kStatically;
}
template <OfRow is_it>
bool has_optimized(const Parallelizing& p) {
  return p.as == kOptimized && has<is_it>(p);
}

// ---- what is planted ----

class Misplanned : public LockstepEngine {
 public:
  explicit Misplanned(ParallelizingFault fault) : fault_(fault) {}
  EngineResult run(const oracle::Case& c, bool want_timeline) override {
    if (c.suite != "plans") return LockstepEngine::run(c, want_timeline);
    auto result = parallelized(local_world(c.mesh.size(), c.mesh.device_type()), parallelizing_of(c), fault_);
    result.random_after = generator().state;
    return result;
  }

 private:
  ParallelizingFault fault_;
};
Plant with_plan(ParallelizingFault fault) {
  return [=] { return std::make_unique<Misplanned>(fault); };
}

void set_rows(ParallelPlan& plan, std::vector<PlanRow> rows) {
  plan = ParallelPlan(std::move(rows));
}

template <OfRow is_it>
void all_lost(ParallelPlan& plan) {
  auto rows = plan.rows();
  std::erase_if(rows, is_it);
  set_rows(plan, std::move(rows));
}

template <OfRow is_it>
void first_lost(ParallelPlan& plan) {
  auto rows = plan.rows();
  if (const auto found = std::find_if(rows.begin(), rows.end(), is_it); found != rows.end())
    rows.erase(found);
  set_rows(plan, std::move(rows));
}

void second_inputs_are_first(ParallelPlan& plan) {
  auto rows = plan.rows();
  for (auto& row : rows)
    if (is_second(row)) row.index = 0;
  set_rows(plan, std::move(rows));
}

void goes_elsewhere(ParallelPlan& plan) {
  auto rows = plan.rows();
  for (auto& row : rows)
    if (kForward(row))
      for (auto& to : row.to) to = is_replicate(to) ? Placement(Shard{0}) : Placement(Replicate{});
  set_rows(plan, std::move(rows));
}

// Every block's output is brought together, though nobody asks for it.
void stops_more(ParallelPlan& plan) {
  auto rows = plan.rows();
  if (rows.empty()) return;
  std::erase_if(rows, [](const PlanRow& row) { return row.phase == kForwardPost && row.module != ""; });
  rows.push_back({"\\d+", kForwardPost, "<out>", 0, std::nullopt, {Replicate{}}, {rows.at(0).mesh_dims[0]}});
  set_rows(plan, std::move(rows));
}

void sums_are_folds(ParallelPlan& plan) {
  auto rows = plan.rows();
  for (auto& row : rows) row.sums = SumOrder::kFold;
  set_rows(plan, std::move(rows));
}

void change_hops(ParallelPlan& plan, void (*change)(PlanRow& row)) {
  auto rows = plan.rows();
  for (auto& row : rows)
    if (is_annotation(row)) change(row);
  set_rows(plan, std::move(rows));
}

void hops_are_swapped(ParallelPlan& plan) {
  change_hops(plan, [](PlanRow& row) {
    std::reverse(row.hops.begin(), row.hops.end());
    if (row.sums != SumOrder::kExact) return;
    for (auto& hop : row.hops) hop.dtype.reset();  // none is then rounded to a narrower one
  });
}

void hops_are_narrow(ParallelPlan& plan) {
  change_hops(plan, [](PlanRow& row) {
    for (auto& hop : row.hops) hop.dtype.reset();
  });
}

void passes_are_rounded_first(ParallelPlan& plan) {
  change_hops(plan, [](PlanRow& row) {
    if (row.hops.empty()) row.hops = {{SumHop::Over::kPasses}, {SumHop::Over::kRanks}};
  });
}

// Each sum of passes and ranks is said to be what the plan asks for.
void says_as_planned(Timeline& timeline, const Parallelizing& p) {
  for (const auto& row : p.plan.rows()) {
    if (!tells(row)) continue;
    const auto said = order_said(p, row);
    for (auto& entry : timeline)
      if (std::ssize(entry.inputs) == p.passes && entry.order.mesh_dims == said.mesh_dims &&
          entry.op == "lockstep::redistribute" && !entry.implicit)
        entry.order = said;
  }
}

// What the first pass leaves in the first parameter that has a gradient, and each second one after it.
void change_first_pass(nn::Module& model, double factor) {
  const auto parameter = model.parameters().at(0);
  const auto come = std::make_shared<int64_t>(0);
  parameter.register_hook([come, factor](const at::Tensor& gradient) {
    if (gradient.defined() && (*come)++ % 2 == 0)
      for (const auto& local : local_tensors(gradient)) local.mul_(factor);
    return at::Tensor();
  });
}
void first_pass_counts_twice(nn::Module& model) {
  change_first_pass(model, 2);
}
void first_pass_is_lost(nn::Module& model) {
  change_first_pass(model, 0);
}

void shared_are_parted(nn::Module& model) {
  for (const auto& [value, paths] : model.parameters_with_paths())
    for (size_t i = 1; i < paths.size(); ++i)
      model.set_parameter(paths[i], parameter(value.detach().clone()));
}

// ---- after a step has been seen that runs statically ----

void frozen(nn::Module& model) {
  for (auto& parameter : model.parameters()) parameter.requires_grad_(false);
}

void in_another_mode(nn::Module& model) {
  model.eval();
}

void hooked(nn::Module& model) {
  for (const auto& [path, module] : model.named_modules())
    module->register_forward_hook([](auto&&...) {}, "another row");
}

void elsewhere(nn::Module& model) {
  model.replace_parameters([](const auto&, const at::Tensor& value) {
    auto to = placements(value);
    for (auto& p : to)
      if (is_replicate(p))
        p = Shard{0};
      else
        p = Replicate{};
    return parameter(redistribute(value.detach(), to));
  });
}

void gradient_lost_on_last(nn::Module& model) {
  for (const auto& p : model.parameters()) {
    if (!p.grad().defined()) continue;
    local_tensors(p.grad()).back().zero_();
    return;
  }
}

}  // namespace

Plant unharmed_plans() {
  return with_plan({});
}

std::vector<Fault> plan_faults() {
  return {
      {217, "plan-row-lost", "K15", "inputs and outputs stay where they come from", "plans", 60, 0,
       of_plans<has<kForward>>, with_plan({.applied = all_lost<kForward>})},
      {218, "plan-run-lost", "K15", "parameters stay cut while their module runs", "plans", 200, 0,
       of_plans<has<kShown>>, with_plan({.applied = all_lost<kShown>})},
      {219, "plan-init-lost", "K15", "parameters are whole that a row cuts", "plans", 60, 0,
       of_plans<has<kFirst>>, with_plan({.applied = all_lost<kFirst>})},
      {220, "plan-gradients-stay", "K15", "gradients go back where they come from", "plans", 200, 0,
       of_plans<has<kBackward>>, with_plan({.applied = all_lost<kBackward>})},
      {221, "plan-input-of-another", "K15", "a row of the second input is taken for one of the first",
       "plans", 600, 0, of_plans<has<is_second>>, with_plan({.applied = second_inputs_are_first})},
      {222, "plan-parts-what-is-shared", "K11", "a parameter that two modules share becomes two", "plans",
       200, 0, of_plans<is_tied>, with_plan({.placed = shared_are_parted})},
      {223, "optimizer-drops-a-row", "K15", "of an optimized plan a row is left out that moves something",
       "plans", 200, 0, of_plans<has_optimized<kForward>>, with_plan({.optimized = first_lost<kForward>})},
      {224, "optimizer-goes-elsewhere", "K15", "rows of an optimized plan go where nobody wants it", "plans",
       200, 0, of_plans<has_optimized<kForward>>, with_plan({.optimized = goes_elsewhere})},
      {225, "optimizer-adds-a-stop", "K16", "an optimized plan moves what the plan did not", "plans", 200, 0,
       of_plans<has_optimized<kForward>>, with_plan({.optimized = stops_more})},
      {226, "planned-gradient-lost", "K1", "the last rank's part of a gradient is zero", "plans", 60, 0,
       of_plans<any>, with_plan({.after_backward = gradient_lost_on_last})},
      {227, "annotation-lost", "K15", "gradients are reduced one by one that are to pend", "plans", 200, 0,
       of_plans<has<is_annotation>>, with_plan({.applied = all_lost<is_annotation>})},
      {228, "sums-in-another-order", "K6",
       "gradients are added up in rank order that are to be a tree, or exact", "plans", 200, 0,
       of_plans<has<is_of_sums>>, with_plan({.applied = sums_are_folds})},
      {243, "ranks-before-passes", "K6",
       "ranks go first where passes are to, or the other way, and nobody says", "plans", 600, 0,
       of_plans<has_passes<has_hops>>, with_plan({.applied = hops_are_swapped, .told = says_as_planned})},
      {244, "hop-in-another-dtype", "K6",
       "sums are made in the gradients' dtype that are to be in a wider one", "plans", 1000, 0,
       of_plans<has_wider_hop>, with_plan({.applied = hops_are_narrow, .told = says_as_planned})},
      {245, "pass-counted-twice", "K1", "the first pass's terms of a gradient come twice to the sum", "plans",
       600, 0, of_plans<has_passes<tells>>, with_plan({.placed = first_pass_counts_twice})},
      {246, "exact-rounds-twice", "K6",
       "passes are added up and rounded before the sum that is to be rounded once", "plans", 1000, 0,
       of_plans<has_passes<is_of_all>>,
       with_plan({.applied = passes_are_rounded_first, .told = says_as_planned})},
      {247, "planned-hops-swapped", "K15", "a row's sums are made, and declared, in the other order", "plans",
       600, 0, of_plans<has_passes<has_hops>>, with_plan({.applied = hops_are_swapped})},
      {248, "pass-lost", "K1", "the first pass's terms of a gradient are zero", "plans", 600, 0,
       of_plans<has_passes<tells>>, with_plan({.placed = first_pass_is_lost})},
      {249, "static-frozen", "K15", "parameters are frozen after a step has been seen", "plans", 60, 0,
       of_plans<is_static>, with_plan({.seen = frozen})},
      {250, "static-in-another-mode", "K15", "a model is evaluated as it was seen in training", "plans", 200,
       0, of_plans<is_static>, with_plan({.seen = in_another_mode})},
      {251, "static-under-another-plan", "K15", "hooks come after a step has been seen", "plans", 200, 0,
       of_plans<is_static>, with_plan({.seen = hooked})},
      {252, "static-elsewhere", "K15", "parameters are elsewhere after a step has been seen", "plans", 200, 0,
       of_plans<is_static>, with_plan({.seen = elsewhere})},
  };
}

}  // namespace lockstep::suites::plant
