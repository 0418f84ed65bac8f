// SPDX-License-Identifier: Apache-2.0
#include "suites/train/train.h"

#include <ATen/ATen.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>

#include "dashboard/store/hash.h"
#include "engine/debug/breakpoint.h"
#include "engine/debug/chrome_trace.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "suites/core/most_ranks.h"
#include "suites/train/memory.h"
#include "suites/train/saved_run.h"
#include "suites/train/team.h"
#include "suites/train/trainer.h"

namespace lockstep::suites {
namespace {

uint64_t bits_of(double value, bool wide) {
  return wide ? std::bit_cast<uint64_t>(value) : std::bit_cast<uint32_t>(static_cast<float>(value));
}

Chain extend(const Chain& chain, const TrainStep& step) {
  return dashboard::Hasher()
      .add(std::string_view(reinterpret_cast<const char*>(chain.data()), chain.size()))
      .add(static_cast<int64_t>(step.loss_bits))
      .add(static_cast<int64_t>(step.norm_bits))
      .key();
}

void check_mesh(const TrainOptions& o) {
  const bool has_experts = model_options(o).experts > 0;
  int64_t parts = 1;  // of the batch; a mixture of experts takes examples, also from ranks that cut sequences
  for (size_t d = 0; d < o.mesh->names().size(); ++d) {
    const auto& name = o.mesh->names()[d];
    LOCKSTEP_CHECK(std::find(kMeshDims.begin(), kMeshDims.end(), name) != kMeshDims.end(),
                   "[train] the mesh ", to_string(*o.mesh),
                   " has a dimension other than dp_replicate, dp, fsdp, sp, ep and tp; write tp:4, ",
                   "dp:2,tp:2 or fsdp:4");
    if (name != "tp" && (name != "sp" || has_experts)) parts *= o.mesh->shape()[d];
  }
  const auto& names = o.mesh->names();
  LOCKSTEP_CHECK(has_experts || std::find(names.begin(), names.end(), "ep") == names.end(),
                 "[train] the mesh ", to_string(*o.mesh),
                 " has the dimension ep, and the model no experts; choose mixtral");
  const auto behind_ep = std::find(names.begin(), names.end(), "ep");
  LOCKSTEP_CHECK(std::all_of(behind_ep, names.end(), [](const auto& n) { return n == "ep" || n == "tp"; }),
                 "[train] the mesh ", to_string(*o.mesh),
                 " has dimensions behind ep; write it last, or before tp: fsdp:2,ep:2");
  LOCKSTEP_CHECK((!o.precision.param_dtype && !o.precision.reduce_dtype) ||
                     std::find(names.begin(), names.end(), "fsdp") != names.end(),
                 "[train] --param-dtype and --reduce-dtype are fully_shard's, and the mesh ",
                 to_string(*o.mesh),
                 " has no dimension fsdp; write for example fsdp:2, or choose the model's --dtype");
  const bool is_of_fsdp = o.without == Without::kDBuffer || o.without == Without::kPlanning;
  LOCKSTEP_CHECK(!is_of_fsdp || std::find(names.begin(), names.end(), "fsdp") != names.end(),
                 "[train] --without ", name(o.without), " is of fully_shard, and the mesh ",
                 to_string(*o.mesh), " has no dimension fsdp; write for example fsdp:4");
  LOCKSTEP_CHECK(o.world || o.mesh->size() <= kMostRanks, "[train] the mesh ", to_string(*o.mesh), " has ",
                 o.mesh->size(), " ranks, and one process hosts them all; use at most ", kMostRanks);
  LOCKSTEP_CHECK(o.batch % parts == 0, "[train] the mesh ", to_string(*o.mesh), " cuts a batch into ", parts,
                 ", which does not divide ", o.batch, "; choose --batch as a multiple of it");
}

// Runs `work`, and tells what the engine did meanwhile if somebody wants to know.
void observed(const TrainObserver& observer, int64_t step, const std::function<void()>& work) {
  if (!observer.on_timeline) return work();
  Timeline timeline;
  {
    const TimelineScope scope(timeline);
    work();
  }
  observer.on_timeline(step, timeline);
}

// What hundreds of ranks compute alike and drop at once would leave a hole in the heap for each rank, between
// the small things that stay. Large blocks are then the system's, which costs a fault for each of their
// pages.
void keep_heap_whole(int64_t ranks) {
  constexpr int64_t kMany = 128;
  constexpr int kLarge = 128 << 10;  // bytes
  if (ranks >= kMany) mallopt(M_MMAP_THRESHOLD, kLarge);
}

void check_sizes(const TrainOptions& o) {
  const auto model = model_options(o);
  for (const int64_t n : {model.hidden, model.heads, model.kv_heads, model.mlp, model.vocabulary})
    LOCKSTEP_CHECK(n > 0, "[train] hidden, heads, kv heads, mlp and vocabulary must be above 0; got ",
                   model.hidden, ", ", model.heads, ", ", model.kv_heads, ", ", model.mlp, ", ",
                   model.vocabulary);
  LOCKSTEP_CHECK(model.layers >= 0 && (model.head > 0 || model.hidden % model.heads == 0) &&
                     model.heads % model.kv_heads == 0,
                 "[train] hidden must be divisible by heads and heads by kv heads, and layers be 0 or more; "
                 "got hidden ",
                 model.hidden, ", heads ", model.heads, ", kv heads ", model.kv_heads, ", layers ",
                 model.layers);
  LOCKSTEP_CHECK(model.experts == 0 || (model.experts > 0 && model.top_k > 0 && model.top_k <= model.experts),
                 "[train] a token has the best ", model.top_k, " of ", model.experts,
                 " experts; choose top_k from 1 to these");
  const auto parameters = static_cast<double>(parameter_count(model));
  const auto bytes = parameters * 4 * static_cast<double>(c10::elementSize(o.dtype));
  LOCKSTEP_CHECK(o.sizes || o.preset != "8b", "[train] preset 8b has ", std::round(parameters / 1e8) / 10,
                 " billion parameters: with gradients and AdamW's two moments ", std::round(bytes / 1e9),
                 " GB in ", dtype_name(o.dtype),
                 " before any activation. It is for lockstep init, which draws it module by module; choose "
                 "tiny or odd");
}

// Whether any process is asked to, where something is left then.
bool stops(const TrainOptions& options) {
  return !options.save.empty() && options.asked_to_stop != nullptr &&
         anyone(options.world, options.asked_to_stop());
}

// Whether after the step, the last one or not.
bool saves(const TrainOptions& options, const TrainStep& step, bool goes_on) {
  const bool is_due = !goes_on || (options.save_every > 0 && step.step % options.save_every == 0);
  return !options.save.empty() && is_due && decided(options.world, finite(step));
}

// What the engine does in the first steps, by way of options.trace.
class Tracing {
 public:
  explicit Tracing(const TrainOptions& options) : options_(options) {
    if (options.trace.empty()) return;
    log_ = std::make_shared<ActivityLog>(/*wants_candidates=*/true);
    recording_.emplace(log_);
  }
  // Called after each step by all that host ranks.
  void after_step(size_t steps, bool goes_on) {
    if (!recording_ || (goes_on && steps < as_size(options_.trace_steps))) return;
    recording_.reset();
    export_chrome_trace(options_.trace, *log_, options_.world);
  }

 private:
  const TrainOptions& options_;
  ActivityLogPtr log_;
  std::optional<Recording> recording_;
};

constexpr std::array kWithoutNames = {"nothing", "dbuffer", "planning", "overlap"};
constexpr std::array kNames = {"adamw", "adamw-fused", "sgd", "sgd-fused", "adamw-8bit", "muon"};

}  // namespace

const char* name(OptimizerKind kind) {
  return kNames.at(static_cast<size_t>(kind));
}

OptimizerKind parse_optimizer(std::string_view text) {
  const auto found = std::find(kNames.begin(), kNames.end(), text);
  LOCKSTEP_CHECK(found != kNames.end(), "[train] no optimizer '", text,
                 "'; there are: adamw, adamw-fused, sgd, sgd-fused, adamw-8bit, muon");
  return static_cast<OptimizerKind>(found - kNames.begin());
}

const char* name(Without what) {
  return kWithoutNames.at(static_cast<size_t>(what));
}

Without parse_without(std::string_view text) {
  const auto found = std::find(kWithoutNames.begin(), kWithoutNames.end(), text);
  LOCKSTEP_CHECK(found != kWithoutNames.end(), "[train] a training cannot be without '", text,
                 "'; there are: nothing, dbuffer, planning, overlap");
  return static_cast<Without>(found - kWithoutNames.begin());
}

ModelOptions model_options(const TrainOptions& options) {
  auto model = options.sizes ? *options.sizes : model_preset(options.model, options.preset);
  model.max_sequence = options.sequence;
  model.dropout = options.dropout;
  model.dtype = options.dtype;
  model.token_blocks = options.token_blocks;
  return model;
}

int64_t token_blocks(const DeviceMesh& mesh) {
  int64_t blocks = 1;
  for (int64_t d = 0; d < mesh.ndim(); ++d)
    if (const auto& name = mesh.names()[static_cast<size_t>(d)]; name != "tp" && name != "ep")
      blocks *= mesh.size(d);
  return blocks;
}

void check_options(const TrainOptions& o) {
  check_sizes(o);
  LOCKSTEP_CHECK(o.steps > 0 && o.batch > 0 && o.sequence > 0,
                 "[train] steps, batch and sequence must be above 0; got ", o.steps, ", ", o.batch, ", ",
                 o.sequence);
  LOCKSTEP_CHECK(o.dropout >= 0 && o.dropout < 1, "[train] dropout ", o.dropout, " is not in [0, 1)");
  LOCKSTEP_CHECK(std::isfinite(o.lr) && o.lr >= 0, "[train] the learning rate ", o.lr,
                 " is not a finite number of at least 0; write for example 1e-3");
  LOCKSTEP_CHECK(c10::isFloatingType(o.dtype), "[train] dtype ", dtype_name(o.dtype),
                 "; choose f64, f32, bf16 or f16");
  for (const auto& dtype : {o.precision.param_dtype, o.precision.reduce_dtype})
    LOCKSTEP_CHECK(!dtype || c10::isFloatingType(*dtype), "[train] parameters and gradients in ",
                   dtype_name(*dtype), "; choose f64, f32, bf16 or f16");
  LOCKSTEP_CHECK(
      o.optimizer != OptimizerKind::kFusedSgd || o.on != c10::kCPU || c10::elementSize(o.dtype) > 2,
      "[train] on the CPU libtorch's sgd-fused updates parameters in ", dtype_name(o.dtype),
      " wrongly; choose sgd, or f32 with a param dtype of 16 bits on a mesh with fsdp");
  LOCKSTEP_CHECK(runs_on(o.optimizer, o.on), "[train] ", name(o.optimizer),
                 " runs on the CPU alone; choose adamw, or leave ", "out --device");
  LOCKSTEP_CHECK(model_options(o).experts == 0 || o.on == c10::kCPU,
                 "[train] the products of experts run on the CPU alone; choose llama, or leave out --device");
  LOCKSTEP_CHECK(o.without != Without::kPlanning || o.optimizer == OptimizerKind::kAdamW8bit,
                 "[train] --without planning: only adamw-8bit has blocks that are planned; write --optimizer "
                 "adamw-8bit");
  LOCKSTEP_CHECK(o.without == Without::kNothing || o.mesh, "[train] --without ", name(o.without),
                 " is of a mesh, and one device has none; write for example --mesh fsdp:4");
  LOCKSTEP_CHECK(
      o.trace.empty() || o.mesh,
      "[train] --trace without --mesh: one device is plain libtorch, of which nothing is recorded; "
      "write --mesh tp:1");
  LOCKSTEP_CHECK(
      !o.statically || o.on == c10::kCPU,
      "[train] --static is compared op by op with eager mode on the CPU alone; leave out --device");
  if (!o.break_at.empty()) {
    const auto model = make_model(model_options(o));
    check_break_at(*model, o.break_at);
  }
  if (o.mesh) check_mesh(o);
}

c10::ScalarType compute_dtype(const TrainOptions& options) {
  return options.precision.param_dtype.value_or(options.dtype);
}

c10::ScalarType coarsest_dtype(const TrainOptions& o) {
  auto coarsest = o.dtype;
  for (const auto& dtype : {o.precision.param_dtype, o.precision.reduce_dtype})
    if (dtype && c10::elementSize(*dtype) < c10::elementSize(coarsest)) coarsest = *dtype;
  return coarsest;
}

std::string loss_dtype(const TrainOptions& options) {
  return compute_dtype(options) == c10::ScalarType::Double ? "f64" : "f32";
}

bool finite(const TrainStep& step) {
  return std::isfinite(step.loss) && std::isfinite(step.norm);
}

TrainStep measure(const TrainOptions& options, const at::Tensor& loss, const at::Tensor& norm) {
  const bool wide = loss_dtype(options) == "f64";
  TrainStep result;
  result.loss = loss.item().toDouble();
  result.norm = norm.item().toDouble();
  result.loss_bits = bits_of(result.loss, wide);
  result.norm_bits = bits_of(result.norm, wide);
  return result;
}

std::vector<TrainStep> train(const TrainOptions& options, std::string_view text,
                             const TrainObserver& observer) {
  check_options(options);
  LOCKSTEP_CHECK(text.size() >= static_cast<size_t>(options.sequence), "[train] the text has ", text.size(),
                 " bytes; one example needs ", options.sequence);
  if (options.mesh) keep_heap_whole(options.mesh->size());
  if (!decided(options.world, observer.begins())) return {};
  if (!options.save.empty()) dcp::prepare(options.save, options.world);
  PeakMemory memory(options.on);
  Tracing tracing(options);
  Trainer trainer(options);
  observed(observer, 0, [&] { trainer.init(); });
  SavedRun run;
  if (!options.resume.empty()) {
    run = saved_run(options, trainer.resume(options.resume));
    generator().state = run.random;
  }
  std::vector<TrainStep> steps;
  bool goes_on = true;
  for (int64_t number = run.step + 1; goes_on; ++number) {
    std::optional<TrainState> before;
    if (decided(options.world, observer.wants_state(number))) before = trainer.state();
    memory.take_peak_bytes();  // what the observer needed is not the step's
    const auto began = std::chrono::steady_clock::now();
    Trainer::Result result;
    observed(observer, number, [&] { result = trainer.step(trainer.batch(text, number)); });
    auto& step = steps.emplace_back(measure(options, result.loss, result.norm));
    step.step = number;
    step.chain = run.chain = extend(run.chain, step);
    step.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    step.tokens_per_second = static_cast<double>(options.batch * options.sequence) / step.seconds;
    step.peak_bytes = memory.take_peak_bytes();
    step.choices = trainer.choices();
    observer.on_step(step);
    if (before) observer.on_state(*before, step);
    goes_on = decided(options.world, observer.goes_on(step)) && !stops(options) && number < options.steps;
    tracing.after_step(steps.size(), goes_on);
    if (saves(options, step, goes_on)) {
      run.step = number;
      run.random = generator().state;
      trainer.save(options.save, metadata_of(options, text, run));
      observer.on_save(step);
    }
  }
  return steps;
}

std::vector<TrainStep> train(const Team& team, const TrainOptions& options, std::string_view text,
                             const TrainObserver& observer) {
  std::vector<TrainStep> steps;
  team.in_world(options.mesh ? options.mesh->size() : 1, [&](const WorldPtr& world) {
    auto hosted = options;
    hosted.world = world;
    if (leads(world))
      steps = train(hosted, text, observer);
    else
      train(hosted, text);
  });
  return steps;
}

}  // namespace lockstep::suites
