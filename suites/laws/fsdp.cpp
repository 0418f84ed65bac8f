// SPDX-License-Identifier: Apache-2.0
// The law: steps of modules under fully_shard, in any wrapping and schedule, are what one device computes:
// parameters, gradients, moments, losses and norms, in bits or with proof. sharding.h says what a case is.
#include <ATen/ATen.h>

#include "engine/fsdp/held_memory.h"
#include "engine/fsdp/reduce.h"
#include "engine/fsdp/unit.h"
#include "engine/tensor/timeline_log.h"
#include "oracle/judge/check.h"
#include "oracle/plain/recording.h"
#include "suites/core/engine_threw.h"
#include "suites/core/judge.h"
#include "suites/engines/counting_world.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/fsdp/buffer_costs.h"
#include "suites/fsdp/microbatches.h"
#include "suites/fsdp/predicted_step.h"
#include "suites/fsdp/sharded_training.h"
#include "suites/laws/laws.h"
#include "suites/train/step_judgement.h"

namespace lockstep::suites {
namespace {

// Tensors of one device, and of the mesh.
struct Pairs {
  std::vector<at::Tensor> plain, placed;
  std::vector<bool> gradients;  // whether they are
  std::string unlike;           // what only one of them has

  void add(const std::string& what, const at::Tensor& a, const at::Tensor& b, bool gradient = false) {
    if (a.defined() != b.defined() && unlike.empty())
      unlike = concat(what, " is there on ", a.defined() ? "one device" : "the mesh", " alone");
    if (!a.defined() || !b.defined()) return;
    plain.push_back(a);
    placed.push_back(b);
    gradients.push_back(gradient);
  }
  void add(const std::string& what, const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i)
      add(concat(what, " ", i), i < a.size() ? a[i] : at::Tensor(), i < b.size() ? b[i] : at::Tensor());
  }
};

void add_state(Pairs& pairs, ShardedTraining& plain, ShardedTraining& mesh) {
  const auto of_plain = plain.model().named_parameters(), of_mesh = mesh.model().named_parameters();
  if (of_plain.size() != of_mesh.size()) {
    pairs.unlike = concat(of_plain.size(), " parameters on one device are ", of_mesh.size(), " on the mesh");
    return;
  }
  for (size_t i = 0; i < of_plain.size(); ++i) {
    pairs.add(of_plain[i].first, of_plain[i].second, of_mesh[i].second);
    pairs.add("the gradient of " + of_plain[i].first, of_plain[i].second.grad(), of_mesh[i].second.grad(),
              true);
  }
  const auto a = plain.optimizer(), b = mesh.optimizer();
  for (size_t k = 0; k < a.moments.size(); ++k) pairs.add("moment of parameter", a.moments[k], b.moments[k]);
}

// What a training sends and holds, beside what ranks lack, and what is predicted of its steps where that is
// known.
class Counted {
 public:
  Counted(const Sharding& sharding, ShardedTraining& mesh, TrafficByOp& traffic)
      : sharding_(sharding),
        mesh_(mesh),
        traffic_(traffic),
        before_(traffic),
        step_(predicted_step(sharding, mesh.units())) {
    if (step_) in_engine([&] { FSDPModule(mesh.units()[0]).watch_memory(memory_); });
  }

  // Empty: it is as it should be.
  std::string wrong() const {
    const int64_t passes = sharding_.steps * sharding_.passes;
    const int64_t reduces = sharding_.each != 0 ? passes : sharding_.steps;
    if (const auto gathers = gathers_of_a_pass(sharding_)) {
      const int64_t moved = since_then("all_gather").bytes,
                    needed = passes * *gathers * mesh_.bytes_of_a_gather();
      if (moved != needed) return concat("gathers have moved ", moved, " bytes, and ranks lacked ", needed);
    }
    if (!step_) return "";
    const auto& [forward, backward, reduce, replicas] = step_->moves;
    if (auto why = other_than("all_gather", passes * (forward.bytes + backward.bytes),
                              passes * (forward.calls + backward.calls));
        !why.empty())
      return why;
    if (auto why = other_than("reduce_scatter", reduces * reduce.bytes, reduces * reduce.calls); !why.empty())
      return why;
    // Losses and norms are reduced, too.
    const int64_t needed = (sharding_.each == 1 ? passes : sharding_.steps) * replicas.bytes;
    if (const auto moved = since_then("all_reduce").bytes; moved < needed)
      return concat("all_reduces have moved ", moved, " bytes, and replicas' gradients are ", needed);
    if (sharding_.passes > 1) return "";  // gradients that wait are held beside
    for (const auto peak : memory_->take_peak_bytes())
      if (peak != step_->peak.total())
        return concat("a rank has held ", peak, " bytes, and ", step_->peak.total(), " are predicted");
    return "";
  }

 private:
  struct Moved {
    int64_t bytes = 0, calls = 0;
  };
  Moved since_then(const std::string& op) const {
    Moved moved;
    if (const auto is = traffic_.find(op); is != traffic_.end()) moved = {is->second.bytes, is->second.calls};
    if (const auto was = before_.find(op); was != before_.end())
      moved = {moved.bytes - was->second.bytes, moved.calls - was->second.calls};
    return moved;
  }

  std::string other_than(const std::string& op, int64_t bytes, int64_t calls) const {
    const auto moved = since_then(op);
    if (moved.bytes == bytes && moved.calls == calls) return "";
    return concat(moved.calls, " ", op, "s have moved ", moved.bytes, " bytes, and ", calls, " of ", bytes,
                  " bytes are predicted");
  }

  const Sharding& sharding_;
  const ShardedTraining& mesh_;
  const TrafficByOp& traffic_;
  const TrafficByOp before_;
  const std::optional<fsdp::StepPlan> step_;
  const std::shared_ptr<fsdp::HeldMemory> memory_ = std::make_shared<fsdp::HeldMemory>();
};

int64_t bytes_of(const TrafficByOp& traffic) {
  int64_t bytes = 0;
  for (const auto& [op, of_op] : traffic) bytes += of_op.bytes;
  return bytes;
}

// At once, or over the buffer's mesh dimension first and then over the others.
void reduce_terms(const fsdp::DBuffer& buffer, const std::vector<at::Tensor>& terms, bool at_once) {
  auto reducing = fsdp::reduce(buffer, terms, at_once);
  reducing.finish();
  if (!at_once) fsdp::reduce_across(buffer, reducing.gradients());
}

// Of each unit, gathered and reduced once more after the steps. Empty: nothing is copied, and nothing sent,
// that need not be.
std::string wasted(const Sharding& sharding, const ShardedTraining& mesh, const TrafficByOp& traffic) {
  const auto sent = [&] { return bytes_of(traffic); };
  const at::NoGradGuard no_grad;
  for (auto unit : mesh.units()) {
    const auto* buffer = unit.unit()->buffer();
    if (buffer == nullptr) continue;
    const auto gathering = spent_on(*buffer, sent, [&] { unit.unshard(); });
    unit.reshard();
    if (auto why = wasted(*buffer, "a gather", gathering, needed_to_gather(*buffer)); !why.empty())
      return why;
    const auto terms =
        terms_of_ones(*buffer, sharding.policy.reduce_dtype.value_or(buffer->layout().gathered_dtype()));
    const auto reducing = spent_on(*buffer, sent, [&] { reduce_terms(*buffer, terms, sharding.each != 2); });
    if (auto why = wasted(*buffer, "a reduction", reducing, needed_to_reduce(*buffer, terms)); !why.empty())
      return why;
  }
  return "";
}

std::string pattern_at(const Timeline& timeline, size_t entry) {
  std::vector<Placements> placements;
  if (entry < timeline.size())
    for (const auto& r : timeline[entry].inputs)
      if (r.spec) placements.push_back(r.spec->placements());
  return placements.empty() ? "-" : placement_pattern(placements);
}

Outcome judge(const Sharding& sharding, const ShardedFault* fault) {
  const auto fails = [&](const std::string& verdict, const std::string& op, const std::string& pattern,
                         const std::string& text) {
    return failed("fsdp", verdict, op, pattern, dtype_name(sharding.dtype), text);
  };
  const ForkRng keep;
  TrafficByOp traffic;
  ShardedTraining plain(sharding, nullptr);
  plain.init();
  const auto begin = generator().state;
  auto world = local_world(sharding.mesh.size(), sharding.mesh.device_type());
  if (fault != nullptr && fault->world != nullptr) world = fault->world(std::move(world));
  world = counting(std::move(world), traffic);
  const auto made = in_engine([&] { return std::make_unique<ShardedTraining>(sharding, world, fault); });
  auto& mesh = *made;
  in_engine([&] { mesh.init(); });
  const auto whole = plain.batches(), placed = in_engine([&] { return mesh.batches(); });
  Pairs starts;
  add_state(starts, plain, mesh);
  for (size_t step = 0; step < whole.size(); ++step) starts.add("batch", whole[step], placed[step]);
  const auto start_records = starts_of(starts.plain, starts.placed);
  nn::Tensors first;
  for (const auto& parameter : plain.model().parameters()) first.push_back(parameter.detach().clone());

  oracle::Recording recording;
  recording.device = sharding.mesh.device_type();
  ShardedTraining::Result expected, actual;
  generator().state = begin;
  {
    const oracle::RecordingScope recorder(recording);
    expected = plain.run(whole);
    recorder.check();
  }
  const auto random_after = generator().state;
  generator().state = begin;
  Timeline timeline;
  const Counted counted(sharding, mesh, traffic);
  {
    const TimelineScope log(timeline);
    actual = in_engine([&] { return mesh.run(placed); });
  }
  if (generator().state != random_after)
    return fails("different", "", "-", "the random stream ends elsewhere than on one device");
  if (const auto why = mesh.untidy(sharding); !why.empty()) return fails("untidy", "", "-", why);
  if (const auto why = counted.wrong(); !why.empty()) return fails("bytes", "", "-", why);
  const int64_t moved = bytes_of(traffic);
  if (const auto why = in_engine([&] { return wasted(sharding, mesh, traffic); }); !why.empty())
    return fails("bytes", "", "-", why);

  Pairs finals;
  add_state(finals, plain, mesh);
  finals.add("loss", expected.losses, actual.losses);
  finals.add("norm", expected.norms, actual.norms);
  if (!finals.unlike.empty()) return fails("different", "", "-", finals.unlike);
  auto ends = finals_of(finals.plain, finals.placed);
  for (size_t i = 0; i < ends.size(); ++i) ends[i].is_gradient = finals.gradients[i];
  const auto judgement = oracle::check(recording, timeline, start_records, ends, sharding.numerics);
  if (judgement.mismatch)
    return fails(dashboard::name(dashboard::Verdict::kDifferent), judgement.mismatch->op,
                 pattern_at(timeline, judgement.mismatch->entry), oracle::describe(judgement));
  if (has_microbatches(sharding))
    if (const auto why = unlike_microbatches(sharding, first, whole, mesh); !why.empty())
      return fails("unequal", "", "-", why);
  auto passed = passed_with(judgement);
  passed.bytes_moved = moved;
  return passed;
}

}  // namespace

oracle::Case fsdp_case(uint64_t run_seed, int64_t index) {
  return case_of(any_sharding(run_seed, index));
}

void check_fsdp(const oracle::Case& c) {
  sharding_of(c);
}

std::vector<oracle::Case> simpler_fsdp(const oracle::Case& c) {
  return simpler_shardings(c);
}

EngineResult run_fsdp(const WorldPtr& world, const oracle::Case& c) {
  const auto sharding = sharding_of(c);
  ShardedTraining mesh(sharding, world);
  mesh.init();
  const auto result = mesh.run(mesh.batches());
  if (const auto why = mesh.untidy(sharding); !why.empty()) throw std::logic_error(why);
  EngineResult ends;
  const auto add = [&](const nn::Tensors& tensors) {
    for (const auto& tensor : tensors) ends.values.push_back(value_of(tensor));
  };
  for (const auto& parameter : mesh.model().parameters()) add({parameter, parameter.grad()});
  for (const auto& moments : mesh.optimizer().moments) add(moments);
  add(result.losses);
  add(result.norms);
  return ends;
}

// A training is no Program: it is judged here, whatever the engine under test.
Outcome judge_fsdp(const oracle::Case& c, EngineUnderTest& engine) {
  const auto sharding = sharding_of(c);
  if (!runs_on(sharding.optimizer, sharding.mesh.device_type()))
    return not_judged("no kernel of the device", concat(name(sharding.optimizer), " runs on the CPU"));
  try {
    return judge(sharding, engine.sharded_fault());
  } catch (const EngineThrew& e) {
    return failed("fsdp", "exception", e.op, "-", dtype_name(sharding.dtype), e.what());
  }
}

}  // namespace lockstep::suites
