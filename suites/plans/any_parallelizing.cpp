// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "generators/space/random.h"
#include "suites/plans/parallelizing.h"

namespace lockstep::suites {
namespace {

using generators::Random;
using enum PlanPhase;

void any_model(Random& draw, Parallelizing& p) {
  p.width = draw.between(1, 9);
  p.blocks.clear();
  int64_t width = p.width;
  for (int64_t n = draw.between(1, 3); n > 0; --n) {
    const int64_t came = width;
    auto& block = p.blocks.emplace_back();
    if (draw.chance(25)) block.push_back({draw.chance(50) ? 'n' : 'N'});
    for (int64_t k = draw.between(1, 2); k > 0; --k) {
      width = k == 1 && draw.chance(60) ? came : draw.between(1, 10);
      block.push_back({draw.chance(50) ? 'l' : 'L', width});
      if (draw.chance(40)) block.push_back({'t'});
      if (draw.chance(15)) block.push_back({'d'});
    }
    if (width == came && draw.chance(50)) block.push_back({'r'});
  }
  p.sides = draw.chance(20);
}

DeviceMesh any_mesh(Random& draw) {
  std::vector<int64_t> shape(as_size(draw.weighted<int64_t>({{6, 1}, {4, 2}, {1, 3}})));
  for (auto& n : shape) n = draw.between(1, shape.size() == 1 ? 5 : shape.size() == 2 ? 3 : 2);
  std::vector<std::string> names;
  for (size_t d = 0; d < shape.size(); ++d) names.emplace_back(1, static_cast<char>('a' + d));
  return DeviceMesh(shape, names);
}

Placement any_place(Random& draw, int64_t dims) {
  Placement place = Replicate{};
  if (!draw.chance(40)) place = Shard{draw.below(dims)};
  return place;
}

Placements only(Placement placement) {
  Placements all;
  all.push_back(std::move(placement));
  return all;
}

// One mesh dimension, or several.
void say_where(Random& draw, const DeviceMesh& mesh, int64_t dims, PlanRow& row) {
  auto names = mesh.names();
  if (draw.chance(50)) std::reverse(names.begin(), names.end());
  const int64_t some = draw.chance(65) ? 1 : draw.between(1, mesh.ndim());
  for (int64_t d = 0; d < some; ++d) {
    row.mesh_dims.push_back(names[as_size(d)]);
    row.to.push_back(any_place(draw, dims));
  }
}

// A module's path, sometimes that of all like it.
std::string any_path(Random& draw, const std::string& path) {
  if (path.empty()) return "";
  const auto dot = path.find('.');
  const auto block = draw.chance(25) ? std::string("\\d+") : path.substr(0, dot);
  return dot == std::string::npos ? block : concat(block, "\\.", path.substr(dot + 1));
}

PlanRow any_row(Random& draw, const Parallelizing& p) {
  const auto modules = modules_of(p);
  const auto& module = modules[as_size(draw.below(std::ssize(modules)))];
  PlanRow row;
  row.module = any_path(draw, module.path);
  row.phase = draw.weighted<PlanPhase>({{module.parameters.empty() ? 0 : 6, kInit},
                                        {module.parameters.empty() ? 0 : 4, kRun},
                                        {6, kForwardPre},
                                        {5, kForwardPost},
                                        {2, kBackwardPre},
                                        {2, kBackwardPost}});
  int64_t dims = 2;
  if (is_of_parameters(row.phase)) {
    const auto& [name, its] = module.parameters[as_size(draw.below(std::ssize(module.parameters)))];
    row.tensor = name;
    dims = its;
  } else {
    const bool is_input = row.phase == kForwardPre || row.phase == kBackwardPost;
    row.tensor = is_input ? "<in>" : "<out>";
    if (is_input) row.index = draw.below(module.inputs);
  }
  say_where(draw, p.mesh, dims, row);
  row.starts_early = row.phase == kForwardPost && draw.chance(25);
  return row;
}

// Adds them if the case stays one.
void add_rows(Parallelizing& p, const std::vector<PlanRow>& rows) {
  auto more = p;
  more.plan += ParallelPlan(rows);
  if (unfit(more).empty()) p = std::move(more);
}

// Sums over passes and over ranks, each in a dtype that holds the gradients' numbers.
std::vector<SumHop> any_hops(Random& draw, const Parallelizing& p) {
  using Dtype = std::optional<c10::ScalarType>;
  const auto any_dtype = [&] {
    if (p.dtype == at::kBFloat16)
      return draw.pick<Dtype>({std::nullopt, at::kFloat, at::kFloat, at::kDouble});
    if (p.dtype == at::kFloat) return draw.pick<Dtype>({std::nullopt, at::kFloat, at::kDouble, at::kDouble});
    return Dtype();
  };
  std::vector<SumHop> hops = {{SumHop::Over::kPasses, any_dtype()}, {SumHop::Over::kRanks, any_dtype()}};
  if (draw.chance(50)) std::reverse(hops.begin(), hops.end());
  return hops;
}

// Gradients of all parameters, which nothing cuts there.
void add_annotation(Random& draw, Parallelizing& p) {
  PlanRow row;
  row.phase = kBackwardPost;
  row.tensor = "*.grad";
  for (const auto& dim : p.mesh.names())
    if (row.mesh_dims.empty() || draw.chance(50)) {
      row.mesh_dims.push_back(dim);
      row.to.push_back(Partial{});
    }
  row.sums = draw.pick({SumOrder::kFold, SumOrder::kTree, SumOrder::kExact});
  if (draw.chance(60)) row.hops = any_hops(draw, p);
  auto more = p;
  if (tells_passes(row.sums, row.hops)) more.passes = draw.between(1, 3);
  add_rows(more, {row});
  if (more.plan != p.plan) p = std::move(more);
}

// An input of an op that a block or a layer calls itself.
void add_op(Random& draw, Parallelizing& p) {
  const auto modules = modules_of(p);
  const auto& module = modules[as_size(draw.below(std::ssize(modules)))];
  PlanRow row;
  row.module = any_path(draw, module.path);
  row.phase = kForwardPre;
  row.tensor = "<in>";
  row.op = draw.pick({"aten::tanh", "aten::add", "aten::mm", "aten::addmm", "aten::t"});
  row.mesh_dims = {draw.pick(p.mesh.names())};
  row.to = only(any_place(draw, 1));
  add_rows(p, {row});
}

// All parameters of a module, from the start and while it runs.
void add_whole_module(Parallelizing& p, const std::string& module, const std::string& dim) {
  PlanRow init;
  init.module = module;
  init.tensor = "*";
  init.to = only(Shard{0});
  init.mesh_dims = {dim};
  auto run = init;
  run.phase = kRun;
  run.to = only(Replicate{});
  add_rows(p, {init, run});
}

// An output that goes where the next module will not have it: what can be optimized.
void add_stop(Random& draw, Parallelizing& p) {
  const auto block = draw.below(std::ssize(p.blocks));
  PlanRow row;
  row.module = std::to_string(block);
  row.phase = kForwardPost;
  row.tensor = "<out>";
  row.to = only(any_place(draw, 2));
  row.mesh_dims = {"a"};
  add_rows(p, {row});
  if (block + 1 == std::ssize(p.blocks)) return;
  row.module = std::to_string(block + 1);
  row.phase = kForwardPre;
  row.tensor = "<in>";
  row.to = only(any_place(draw, 2));
  add_rows(p, {row});
}

Parallelizing in_buffers(Random& draw, Parallelizing p) {
  p.as = kInBuffers;
  p.sides = p.tied = 0;
  p.plan = {};
  p.cut.assign(as_size(p.mesh.ndim()), Replicate{});
  p.cut[0] = Shard{0};
  for (size_t i = 0; i < p.blocks.size(); ++i)
    if (draw.chance(50)) add_whole_module(p, std::to_string(i), "a");
  add_whole_module(p, "", "a");
  return p;
}

}  // namespace

Parallelizing any_parallelizing(uint64_t run_seed, int64_t index) {
  auto draw = Random(run_seed).split("plans").split(static_cast<uint64_t>(index));
  Parallelizing p;
  any_model(draw, p);
  p.mesh = any_mesh(draw);
  p.cut.assign(as_size(p.mesh.ndim()), Replicate{});
  for (auto& cut : p.cut) cut = any_place(draw, 2);
  p.examples = draw.between(1, 10);
  p.steps = draw.weighted<int64_t>({{4, 1}, {3, 2}, {1, 3}});
  p.passes = draw.weighted<int64_t>({{5, 1}, {1, 2}, {1, 3}});
  p.recompute = draw.chance(15);
  p.bucket = draw.pick({1, 100, 1000});
  p.dtype = draw.weighted<c10::ScalarType>({{6, at::kFloat}, {2, at::kDouble}, {1, at::kBFloat16}});
  p.seed = run_seed * 100003 + static_cast<uint64_t>(index);
  p.tied = draw.chance(12);
  if (!unfit(p).empty()) p.tied = 0;
  if (draw.chance(20)) return in_buffers(draw, std::move(p));
  if (draw.chance(30)) add_whole_module(p, draw.chance(50) ? "" : "\\d+", draw.pick(p.mesh.names()));
  if (draw.chance(50)) add_stop(draw, p);
  if (draw.chance(25)) add_annotation(draw, p);
  if (draw.chance(25)) add_op(draw, p);
  for (int64_t n = draw.between(0, 8); n > 0; --n) add_rows(p, {any_row(draw, p)});
  p.as = draw.weighted<int64_t>({{4, kAsItStands}, {4, kOptimized}, {2, kHoisted}, {3, kStatically}});
  return p;
}

}  // namespace lockstep::suites
