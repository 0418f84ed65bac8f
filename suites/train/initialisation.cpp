// SPDX-License-Identifier: Apache-2.0
#include "suites/train/initialisation.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "dashboard/store/recorder.h"
#include "engine/nn/deferred.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/digest.h"
#include "engine/values/error.h"
#include "engine/world/worlds.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/ownership.h"
#include "oracle/random/random_simulation.h"
#include "suites/train/memory.h"
#include "suites/train/model_plan.h"
#include "suites/train/train.h"

namespace lockstep::suites {
namespace {

ModelOptions model_options(const InitOptions& options) {
  auto model = model_preset(options.model, options.preset);
  model.dtype = options.dtype;
  return model;
}

std::shared_ptr<LanguageModel> deferred_model(const InitOptions& options) {
  return nn::deferred_init([&] { return make_model(model_options(options)); });
}

bool is_own(const std::string& path) {
  return path.find('.') == std::string::npos;
}

// Gives a module's own parameters memory, draws them, and takes the memory away again after `look`.
template <class Look>
void visit_values(nn::Module& module, const Look& look) {
  const at::NoGradGuard no_grad;
  nn::Named<at::Tensor> without_values;
  for (const auto& [path, parameter] : module.named_parameters())
    if (is_own(path)) without_values.emplace_back(path, parameter);
  for (const auto& [path, parameter] : without_values)
    module.set_parameter(path, at::empty_like(parameter, at::kCPU).requires_grad_());
  module.reset_own_parameters();
  look();
  for (const auto& [path, parameter] : without_values) module.set_parameter(path, parameter);
}

// A model of which one module at a time has values, with a generator of its own.
struct Walk {
  std::string policy;
  std::shared_ptr<LanguageModel> model;
  RandomPolicy random = RandomPolicy::kSingleDevice;
  Generator generator;
  InitStatistics statistics{};
  double sum = 0, squares = 0;
};

void add_moments(Walk& walk, const at::Tensor& values) {
  if (values.numel() == 0) return;
  const auto wide = values.to(at::kDouble);
  walk.statistics.elements += values.numel();
  walk.sum += wide.sum().item<double>();
  walk.squares += wide.square().sum().item<double>();
}

void conclude_moments(Walk& walk) {
  const auto n = static_cast<double>(std::max<int64_t>(walk.statistics.elements, 1));
  walk.statistics.policy = walk.policy;
  walk.statistics.mean = walk.sum / n;
  walk.statistics.deviation =
      std::sqrt(std::max(0.0, walk.squares / n - walk.statistics.mean * walk.statistics.mean));
}

// Positions that hold elements which no earlier one holds.
bool is_first_holder(const Spec& spec, int64_t position) {
  const auto coordinate = spec.mesh().coordinate(position);
  for (size_t d = 0; d < coordinate.size(); ++d)
    if (!distributes(spec.placements()[d]) && coordinate[d] > 0) return false;
  return true;
}

// The single device's part of each rank, by path.
using Parts = std::map<std::string, std::vector<Digest>>;

void add_parameter(Walk& walk, const Spec& placed, const PerRank<at::Tensor>& locals,
                   const at::Tensor& whole) {
  const bool cut = std::any_of(placed.placements().begin(), placed.placements().end(), distributes);
  std::set<Digest> pieces;
  for (size_t p = 0; p < locals.size(); ++p) {
    const auto position = static_cast<int64_t>(p);
    if (!is_first_holder(placed, position)) continue;
    add_moments(walk, locals[p]);
    const auto difference = oracle::compare(oracle::slice(whole, placed, position), locals[p]);
    walk.statistics.different += difference.different;
    walk.statistics.largest = std::max(walk.statistics.largest, difference.max_abs);
    if (!cut || locals[p].numel() == 0) continue;
    ++walk.statistics.shards;
    walk.statistics.repeated += pieces.insert(digest(locals[p])).second ? 0 : 1;
  }
}

// A bias that begins as zeros is none, though its module's weight has been drawn.
bool is_constant(const at::Tensor& values) {
  if (values.numel() == 0) return true;
  const auto [least, most] = at::aminmax(values);
  return at::equal(least, most);
}

std::vector<Digest> parts_of(const at::Tensor& whole, const Spec& spec) {
  std::vector<Digest> parts;
  for (int64_t p = 0; p < spec.mesh().size(); ++p) parts.push_back(digest(oracle::slice(whole, spec, p)));
  return parts;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One rank of the mesh, without the others.
InitRank draw_alone(const InitOptions& options, int64_t rank, const Parts& parts) {
  InitRank result{.rank = rank};
  manual_seed(options.seed);
  generator().device = options.device;
  const auto start = std::chrono::steady_clock::now();
  PeakMemory memory;
  const auto model = deferred_model(options);
  const auto mesh =
      init_device_mesh(options.mesh.shape(), options.mesh.names(), lone_world(options.mesh.size(), rank));
  parallelize_model(*model, model_options(options), mesh);
  nn::reset_parameters(*model);
  result.seconds = seconds_since(start);
  result.peak_bytes = memory.take_peak_bytes();
  for (const auto& [path, buffer] : model->named_buffers())
    result.buffer_bytes += static_cast<int64_t>(local_tensors(buffer)[0].nbytes());
  for (const auto& [path, parameter] : model->named_parameters()) {
    const auto local = local_tensors(parameter)[0];
    result.bytes += static_cast<int64_t>(local.nbytes());
    if (digest(local) != parts.at(path)[static_cast<size_t>(rank)]) result.different.push_back(path);
  }
  return result;
}

std::vector<Walk> walks_of(const InitOptions& options, const WorldPtr& world) {
  const auto mesh = init_device_mesh(options.mesh.shape(), options.mesh.names(), world);
  std::vector<Walk> walks;
  std::vector<RandomPolicy> policies{RandomPolicy::kSingleDevice};
  for (const auto policy : options.policies)
    if (policy != RandomPolicy::kSingleDevice) policies.push_back(policy);
  for (const auto policy : policies) {
    walks.push_back({name(policy), deferred_model(options), policy, generator()});
    parallelize_model(*walks.back().model, model_options(options), mesh);
  }
  return walks;
}

// Runs `draw` with the walk's generator as the thread's, and keeps how far it came.
template <class Draw>
void with_generator_of(Walk& walk, const Draw& draw) {
  generator() = walk.generator;
  draw();
  walk.generator = generator();
}

nn::Module& module_of(const Walk& walk, const std::string& path) {
  return path.empty() ? *walk.model : walk.model->child(path);
}

// One module of a walk: `look` sees each own parameter's name, Spec and locals, of all positions where this
// thread leads.
template <class Look>
void draw_module(const std::string& path, Walk& walk, const Look& look) {
  nn::Module& placed = module_of(walk, path);
  const RandomPolicyScope policy(walk.random);
  with_generator_of(walk, [&] {
    visit_values(placed, [&] {
      for (const auto& [own, value] : placed.named_parameters())
        if (is_own(own)) look(own, spec(value), gathered(value));
    });
  });
}

// One module of all walks: the reference first, whose values the others are compared with. A parameter that
// no random operator wrote is the same everywhere and not counted.
void walk_module(const std::string& path, Walk& reference, std::vector<Walk>& walks, Parts& parts,
                 InitReport& report) {
  nn::Module& plain = module_of(reference, path);
  const auto before = reference.generator.state.offset;
  oracle::SimulatedSource simulation;
  const auto compare_walk = [&](Walk& walk, bool drawn) {
    draw_module(path, walk, [&](const std::string& own, const Spec& placed, const auto& locals) {
      const auto whole = plain.parameter(own);
      const auto full = path.empty() ? own : concat(path, ".", own);
      if (!parts.contains(full)) parts[full] = parts_of(whole, placed);
      if (drawn && !is_constant(whole)) add_parameter(walk, placed, locals, whole);
    });
  };
  generator() = reference.generator;
  std::optional<RandomScope> scope(simulation);
  visit_values(plain, [&] {
    reference.generator = generator();
    scope.reset();
    const bool drawn = reference.generator.state.offset != before;
    for (const auto& [own, value] : plain.named_parameters()) {
      if (!is_own(own)) continue;
      const bool is_random = drawn && !is_constant(value);
      ++report.parameters;
      report.drawn += is_random;
      if (is_random) add_moments(reference, value);
    }
    for (auto& walk : walks) compare_walk(walk, drawn);
  });
}

// Of modules that have parameters of their own, or share them with modules behind them.
std::vector<std::string> module_paths(const Walk& walk) {
  std::set<std::string> owners;
  for (const auto& [path, value] : walk.model->named_parameters())
    owners.insert(is_own(path) ? "" : path.substr(0, path.rfind('.')));
  std::vector<std::string> paths;
  for (const auto& [path, module] : walk.model->named_modules())
    if (owners.contains(path)) paths.push_back(path);
  return paths;
}

void begin_stream(const InitOptions& options) {
  manual_seed(options.seed);
  generator().device = options.device;
}

// All modules, where this thread leads.
void walk_all(const InitOptions& options, const WorldPtr& world, Parts& parts, InitReport& report) {
  begin_stream(options);
  Walk reference{"one device", deferred_model(options), RandomPolicy::kSingleDevice, generator()};
  auto walks = walks_of(options, world);
  for (const auto& path : module_paths(reference)) walk_module(path, reference, walks, parts, report);
  conclude_moments(reference);
  report.reference = reference.statistics;
  for (auto& walk : walks) {
    conclude_moments(walk);
    report.policies.push_back(walk.statistics);
  }
}

// The same for those that follow: their ranks' shards, in the same order.
void draw_all(const InitOptions& options, const WorldPtr& world) {
  begin_stream(options);
  auto walks = walks_of(options, world);
  for (const auto& path : module_paths(walks.at(0)))
    for (auto& walk : walks) draw_module(path, walk, [](const auto&, const Spec&, const auto&) {});
}

}  // namespace

bool InitReport::passed() const {
  const auto is_exact = [](const InitStatistics& s) {
    return s.policy != name(RandomPolicy::kSingleDevice) || s.different == 0;
  };
  return drawn > 0 && !policies.empty() && std::all_of(policies.begin(), policies.end(), is_exact) &&
         std::all_of(ranks.begin(), ranks.end(), [](const InitRank& r) { return r.different.empty(); });
}

InitReport initialise(const InitOptions& options, const InitObserver& observer) {
  for (const auto& dim : options.mesh.names())
    LOCKSTEP_CHECK(std::find(kMeshDims.begin(), kMeshDims.end(), dim) != kMeshDims.end(),
                   "[init] mesh dimension '", dim, "'; there are: dp_replicate, dp, fsdp, sp, ep, tp");
  const auto& names = options.mesh.names();
  LOCKSTEP_CHECK(
      model_options(options).experts > 0 || std::find(names.begin(), names.end(), "ep") == names.end(),
      "[init] ", options.model, " is not cut along the mesh dimension ep; choose mixtral");
  InitReport report;
  Parts parts;
  options.team.in_world(options.mesh.size(), [&](const WorldPtr& world) {
    if (leads(world))
      walk_all(options, world, parts, report);
    else
      draw_all(options, world);
  });
  if (!options.team.leads) return {};
  for (int64_t rank = 0; rank < options.mesh.size(); ++rank) {
    report.ranks.push_back(draw_alone(options, rank, parts));
    observer.on_rank(report.ranks.back());
  }
  return report;
}

void record(const InitOptions& options, const InitReport& report, dashboard::Recorder& recorder) {
  const auto about = concat("init ", options.model, " ", options.preset, " ", to_string(options.mesh));
  const auto add = [&](const std::string& policy, const char* what, const char* unit, double value) {
    recorder.record(dashboard::Measurement{concat(about, " | ", policy, " | ", what), unit, value});
  };
  const auto add_statistics = [&](const InitStatistics& s) {
    add(s.policy, "elements", "elements", static_cast<double>(s.elements));
    add(s.policy, "elements that differ", "elements", static_cast<double>(s.different));
    add(s.policy, "largest difference", "", s.largest);
    add(s.policy, "mean", "", s.mean);
    add(s.policy, "deviation", "", s.deviation);
    add(s.policy, "shards", "shards", static_cast<double>(s.shards));
    add(s.policy, "repeated shards", "shards", static_cast<double>(s.repeated));
  };
  add_statistics(report.reference);
  for (const auto& s : report.policies) add_statistics(s);
  for (const auto& r : report.ranks) {
    const auto rank = concat("rank ", r.rank, " alone");
    add(rank, "held", "bytes", static_cast<double>(r.bytes));
    add(rank, "most ever held", "bytes", static_cast<double>(r.peak_bytes));
    add(rank, "parameters that differ", "parameters", static_cast<double>(r.different.size()));
    add(rank, "time", "s", r.seconds);
  }
}

std::string markdown_table(const InitReport& report) {
  std::ostringstream out;
  out << "| random policy | elements that differ | of | largest difference | mean | deviation | repeated "
         "shards |\n"
      << "|---|--:|--:|--:|--:|--:|--:|\n";
  const auto row = [&](const InitStatistics& s) {
    char numbers[96];
    std::snprintf(numbers, sizeof numbers, "%.3g | %.3g | %.6g", s.largest, s.mean, s.deviation);
    out << "| " << s.policy << " | " << s.different << " | " << s.elements << " | " << numbers << " | "
        << s.repeated << " of " << s.shards << " |\n";
  };
  row(report.reference);
  for (const auto& s : report.policies) row(s);
  return out.str();
}

}  // namespace lockstep::suites
