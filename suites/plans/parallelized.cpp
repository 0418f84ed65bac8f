// SPDX-License-Identifier: Apache-2.0
#include "suites/plans/parallelized.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "engine/nn/boundary.h"
#include "engine/nn/checkpoint.h"
#include "engine/plan/optimize.h"
#include "engine/plan/parallelize.h"
#include "engine/static_eager/static_eager.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"
#include "suites/engines/counting_world.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/fsdp/sharded_model.h"
#include "suites/plans/gradients_alike.h"
#include "suites/plans/places.h"

namespace lockstep::suites {
namespace {

void check(const std::string& why) {
  if (!why.empty()) throw std::logic_error(why);
}

bool annotates_any(const PlanRow& row, const nn::Module::WithPaths& parameter) {
  return is_annotation(row) && std::any_of(parameter.paths.begin(), parameter.paths.end(),
                                           [&](const auto& path) { return annotates(row, path); });
}

// Each gradient that a row annotates is added up over its mesh dimensions, in its order, once a step.
std::string unlike_annotations(const Parallelizing& p, const nn::Module& model, const Timeline& timeline) {
  for (const auto& row : p.plan.rows()) {
    if (!is_annotation(row)) continue;
    const auto said = order_said(p, row);
    int64_t sums = 0, gradients = 0;
    for (const auto& entry : timeline)
      sums += entry.op == "lockstep::redistribute" && !entry.implicit && entry.order == said;
    for (const auto& parameter : model.parameters_with_paths())
      gradients += parameter.value.grad().defined() && annotates_any(row, parameter);
    if (sums < gradients * p.steps)
      return concat(gradients, " gradients of ", p.steps, " steps are annotated, and ", sums,
                    " sums are made so: ", row, ", ", said);
  }
  return "";
}

// @returns the loss
at::Tensor pass(nn::Module& model, const at::Tensor& x, bool is_last) {
  if (auto* gradients = model.attached<PlannedGradients>()) gradients->set_requires_gradient_sync(is_last);
  const auto y = model(x);
  const auto loss = (y * y).mean();
  loss.backward();
  return loss.detach();
}

// Gradients of one device, each pass a tensor of its own.
class PassesApart {
 public:
  PassesApart(const Parallelizing& p, const nn::Module& model) {
    for (const auto& parameter : model.parameters_with_paths())
      for (const auto& row : p.plan.rows())
        if (p.passes > 1 && tells_passes(row.sums, row.hops) && annotates_any(row, parameter))
          parameters_.push_back({parameter.value, {}});
  }
  void take() {
    for (auto& [parameter, passes] : parameters_)
      if (parameter.grad().defined()) passes.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
  }
  void add_up(const AddUp& sum_of) {
    for (auto& [parameter, passes] : parameters_)
      if (passes.size() == 1)
        parameter.mutable_grad() = std::exchange(passes, {})[0];
      else if (!passes.empty())
        parameter.mutable_grad() = sum_of(std::exchange(passes, {}));
  }

 private:
  std::vector<std::pair<at::Tensor, nn::Tensors>> parameters_;
};

struct Ran {
  nn::Tensors ends;
  ParallelPlan plan;
  PlanTrace traced;
  Timeline timeline;
  Traffic traffic;
  int64_t moves = 0;
};

Ran run_once(const WorldPtr& world, const Parallelizing& p, ParallelPlan plan, bool is_as_said,
             const ParallelizingFault& fault) {
  generator() = {{p.seed, 0}, p.device};
  Ran ran;
  const auto mesh =
      init_device_mesh(p.mesh.device_type(), p.mesh.shape(), p.mesh.names(), counting(world, ran.traffic));
  const auto model = model_of(p);
  if (is_as_said && fault.applied != nullptr) fault.applied(plan);
  ran.plan = plan;
  parallelize(*model, mesh, plan, {.in_buffers = p.as == kInBuffers, .bucket_bytes = p.bucket});
  if (fault.placed != nullptr) fault.placed(*model);
  std::optional<Places> places;
  if (is_as_said) places.emplace(p, *model);
  const auto x = parameter(distribute_tensor(p.x().to(p.mesh.device_type()), mesh, p.cut, {}, std::nullopt));
  nn::Tensors losses;
  {
    const TimelineScope log(ran.timeline);
    ran.traced = trace(*model, [&] { losses = train(*model, x, p, fault); });
  }
  if (is_as_said && fault.told != nullptr) fault.told(ran.timeline, p);
  if (places) check(places->unlike());
  check(unlike_annotations(p, *model, ran.timeline));
  ran.ends = ends_of(*model, x, losses);
  for (const auto& move : ran.traced.moves) ran.moves += !move.came.is_same(move.left);
  return ran;
}

// What ops read, and where, but for moves: also those that nobody asked for, and casts. In no order: of ops
// that need nothing of each other autograd takes those first whose nodes were made last, and moves have
// nodes.
std::vector<std::string> read_by_ops(const Timeline& timeline) {
  std::vector<std::string> all;
  for (const auto& entry : timeline) {
    if (entry.op.starts_with("lockstep::") || entry.implicit) continue;
    auto& text = all.emplace_back(entry.op);
    for (const auto& input : entry.inputs) text += input.spec == nullptr ? " none" : concat(" ", *input.spec);
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::string unlike(const Timeline& plain, const Timeline& optimized) {
  const auto a = read_by_ops(plain), b = read_by_ops(optimized);
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] != b[i])
      return concat("of all ops, sorted, number ", i, " is ", b[i], " under the optimized plan, and was ",
                    a[i]);
  if (a.size() == b.size()) return "";
  return concat(b.size(), " ops run under the optimized plan, and ", a.size(), " did");
}

Ran run_optimized(const WorldPtr& world, const Parallelizing& p, const ParallelizingFault& fault) {
  auto before = run_once(world, p, p.plan, true, fault);
  auto [plan, changes] = optimize(p.plan, before.traced, {.reorders_sums = p.as == kHoisted});
  if (fault.optimized != nullptr) fault.optimized(plan);
  auto after = run_once(world, p, plan, false, fault);
  const auto said = [&](const std::string& what) { return concat(what, "; the plan:\n", to_string(plan)); };
  if (after.moves > before.moves)
    check(said(concat(after.moves, " moves of the optimized plan were ", before.moves)));
  const bool hosts_all = std::ssize(world->hosted()) == p.mesh.size();
  if (hosts_all && after.traffic.bytes > before.traffic.bytes)
    check(said(concat("the optimized plan sends ", after.traffic.bytes, " bytes, and ", before.traffic.bytes,
                      " were sent")));
  if (auto why = unlike(before.timeline, after.timeline); !why.empty() && p.as == kOptimized)
    check(said(why));
  return after;
}

// Every other case with all ops compared.
Ran run_statically(const WorldPtr& world, const Parallelizing& p, const ParallelizingFault& fault) {
  generator() = {{p.seed, 0}, p.device};
  Ran ran;
  ran.plan = p.plan;
  const auto mesh =
      init_device_mesh(p.mesh.device_type(), p.mesh.shape(), p.mesh.names(), counting(world, ran.traffic));
  const auto model = model_of(p);
  parallelize(*model, mesh, p.plan, {.in_buffers = false, .bucket_bytes = p.bucket});
  const auto x = parameter(distribute_tensor(p.x().to(p.mesh.device_type()), mesh, p.cut, {}, std::nullopt));
  const auto step = [&] {
    x.mutable_grad().reset();
    pass(*model, x, true);
  };
  std::optional<Uncounted> trials(std::in_place);  // as many as the ranks of a process need
  const StaticEager statically(*model, step, {OnChange::kError, p.seed % 2 == 0});
  trials.reset();
  if (fault.seen != nullptr) fault.seen(*model);
  ran.ends = ends_of(*model, x, train(*model, x, p, fault));
  return ran;
}

// Where gradients are added up depends on who looks at them: a hook's input has its sum first. So do those
// of a module whose parameters lie in a buffer, and of a model whose gradients go into buckets.
void hook_alike(const Parallelizing& p, nn::Module& model, const ParallelPlan& plan) {
  const auto look = [](nn::Module& module) { module.register_full_backward_pre_hook([](auto&&...) {}); };
  if (std::any_of(plan.rows().begin(), plan.rows().end(), is_annotation)) look(model);
  for (const auto& row : plan.rows())
    for (const auto& module : modules_of(p)) {
      if (!speaks_of(row, module.path)) continue;
      const bool gathers = p.as == kInBuffers && row.phase == PlanPhase::kRun;
      if (row.phase == PlanPhase::kBackwardPre || gathers) look(model.child(module.path));
      if (row.phase == PlanPhase::kBackwardPost && !is_annotation(row))
        model.child(module.path).register_full_backward_hook([](auto&&...) {});
    }
}

}  // namespace

void act_alike(const Parallelizing& p, nn::Module& model, Acted acted) {
  struct Rest {
    Acted all;
    size_t next = 0;
    // Where the next row acted at this place, whether it moved something.
    std::optional<bool> take(const std::string& place) {
      if (next == all.size() || (all[next] != place && all[next] != place + " moved")) return std::nullopt;
      return all[next++] != place;
    }
  };
  const auto plan = parse_plan(acted.at(0));
  hook_alike(p, model, plan);
  come_back_alike(p, plan, model);
  const auto rest = std::make_shared<Rest>(Rest{std::move(acted), 1});
  const auto node = [](at::Tensor& tensor) {
    tensor = nn::at_boundary(
        {tensor}, [](auto&) {}, false)[0];
  };
  // In one call each row acts once; the next call's may stand behind.
  const auto rows_of = [&plan](const std::string& path, PlanPhase phase) {
    std::vector<PlanRow> rows;
    for (const auto& row : plan.rows())
      if (row.phase == phase && row.op.empty() && speaks_of(row, path)) rows.push_back(row);
    return rows;
  };
  for (const auto& module : modules_of(p)) {
    auto& its = model.child(module.path);
    const auto of_inputs = rows_of(module.path, PlanPhase::kForwardPre);
    its.register_forward_pre_hook([=, path = module.path](nn::Module&, nn::Tensors& inputs) {
      for (const auto& row : of_inputs)
        if (rest->take(concat(path, ":", row.index)).value_or(false)) node(inputs.at(as_size(row.index)));
    });
    const auto of_output = rows_of(module.path, PlanPhase::kForwardPost).size();
    its.register_forward_hook([=, path = module.path](nn::Module&, const nn::Tensors&, at::Tensor& output) {
      for (size_t n = of_output; n > 0; --n)
        if (rest->take(path + ":out").value_or(false)) node(output);
    });
  }
}

ReductionOrder order_said(const Parallelizing& p, const PlanRow& row) {
  using Kind = ReductionOrder::Kind;
  using Node = ReductionOrder::Node;
  constexpr Kind kKinds[] = {Kind::kFold, Kind::kTree, Kind::kExact};
  const auto kind = kKinds[static_cast<size_t>(row.sums)];
  const int64_t passes = tells_passes(row.sums, row.hops) ? p.passes : 1;
  ReductionOrder order;
  int64_t ranks = 1;
  for (const auto& dim : row.mesh_dims) order.mesh_dims.push_back(p.mesh.dim_index(dim));
  for (const auto d : order.mesh_dims) ranks *= p.mesh.size(d);
  std::sort(order.mesh_dims.begin(), order.mesh_dims.end());
  const auto sum = [&](SumHop::Over over, std::vector<Node> children) {
    Node node;
    node.kind = over == SumHop::Over::kPasses ? Kind::kFold : kind;
    node.dtype = p.dtype;
    for (const auto& hop : row.hops)
      if (hop.over == over) node.dtype = hop.dtype.value_or(p.dtype);
    node.children = std::move(children);
    return node;
  };
  const bool by_rank = !row.hops.empty() && row.hops[0].over == SumHop::Over::kPasses;
  std::vector<std::vector<Node>> terms(as_size(by_rank ? ranks : passes));
  for (int64_t pass = 0; pass < passes; ++pass)
    for (int64_t rank = 0; rank < ranks; ++rank) {
      auto& term = terms[as_size(by_rank ? rank : pass)].emplace_back();
      term.rank = rank;
      term.microbatch = pass;
    }
  std::vector<Node> children;
  for (auto& each : terms)
    if (row.hops.empty())
      children.insert(children.end(), each.begin(), each.end());
    else
      children.push_back(sum(row.hops[0].over, std::move(each)));
  order.slices.push_back({0, sum(row.hops.empty() ? SumHop::Over::kRanks : row.hops[1].over, children)});
  return order;
}

std::shared_ptr<nn::Module> model_of(const Parallelizing& p) {
  auto [model, blocks] = make_model(p.model());
  for (size_t i = 0; p.recompute != 0 && i < blocks.size(); ++i)
    checkpoint(*blocks[i], {.preserve_rng_state = true});
  size_t which = 0;
  model->replace_parameters([&](const auto&, const at::Tensor& value) {
    return p.weight(which++, value.sizes()).to(p.mesh.device_type()).requires_grad_();
  });
  return model;
}

nn::Tensors train(nn::Module& model, const at::Tensor& x, const Parallelizing& p,
                  const ParallelizingFault& fault, const AddUp& add_up) {
  nn::Tensors losses;
  std::optional<PassesApart> apart;
  std::optional<AddedAtTheEnd> at_the_end;
  if (add_up != nullptr) {
    apart.emplace(p, model);
    if (p.passes > 1) at_the_end.emplace(p, model);
  }
  for (int64_t step = 0; step < p.steps; ++step) {
    x.mutable_grad().reset();
    model.zero_grad();
    for (int64_t n = 1; n <= p.passes; ++n) {
      losses.push_back(pass(model, x, n == p.passes));
      if (apart) apart->take();
      if (at_the_end) at_the_end->take();
    }
    if (at_the_end) at_the_end->hand_in();
    if (apart) apart->add_up(add_up);
    if (fault.after_backward != nullptr) fault.after_backward(model);
    const at::NoGradGuard no_grad;
    for (const auto& parameter : model.parameters())
      if (parameter.grad().defined()) parameter.sub_(parameter.grad(), 0.125);
  }
  return losses;
}

nn::Tensors ends_of(const nn::Module& model, const at::Tensor& x, const nn::Tensors& losses) {
  nn::Tensors ends = losses;
  ends.push_back(x.detach());
  ends.push_back(x.grad());
  for (const auto& parameter : model.parameters()) ends.push_back(parameter.detach());
  for (const auto& parameter : model.parameters()) ends.push_back(parameter.grad());
  return ends;
}

EngineResult parallelized(const WorldPtr& world, const Parallelizing& p, const ParallelizingFault& fault) {
  auto ran = p.as == kStatically                      ? run_statically(world, p, fault)
             : p.as == kOptimized || p.as == kHoisted ? run_optimized(world, p, fault)
                                                      : run_once(world, p, p.plan, true, fault);
  EngineResult result;
  result.acted.push_back(to_string(ran.plan));
  for (const auto& move : ran.traced.moves) {
    const bool is_input = move.row.phase == PlanPhase::kForwardPre;
    if (!is_input && move.row.phase != PlanPhase::kForwardPost) continue;
    result.acted.push_back(concat(move.module, ":", is_input ? std::to_string(move.row.index) : "out",
                                  move.came.is_same(move.left) ? "" : " moved"));
  }
  for (const auto& tensor : ran.ends) result.values.push_back(value_of(tensor));
  result.timeline = std::move(ran.timeline);
  result.has_timeline = true;
  return result;
}

}  // namespace lockstep::suites
