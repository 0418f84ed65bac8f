// SPDX-License-Identifier: Apache-2.0
#include "suites/laws/sample_call.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "engine/ops/decide.h"
#include "engine/ops/resolve.h"
#include "engine/values/error.h"
#include "generators/cases/programs.h"
#include "oracle/program/schema.h"
#include "suites/core/facts.h"
#include "suites/engines/make_engine.h"

namespace lockstep::suites {
namespace {

TensorMeta meta_of(const TensorRecord& record) {
  TensorMeta meta;
  if (!record.spec) return meta;
  meta.defined = true;
  meta.shape = record.spec->shape();
  meta.stride = record.spec->stride();
  meta.dtype = record.spec->dtype();
  return meta;
}

// @pre find_op(name) is nullptr. An overload by names of dimensions is often composed where the op itself is
// not.
std::string why_without_rule(const std::string& name) {
  bool exists = false, composed = true;
  for (const auto& known : c10::Dispatcher::singleton().getAllOpNames()) {
    if (known.name != name) continue;
    exists = true;
    const auto op = c10::Dispatcher::singleton().findSchema(known);
    if (!op.has_value()) continue;
    const auto& resolved = resolve(*op);
    if (resolved.entry != nullptr)
      return concat(" runs by the rule of ", resolved.entry->name, "; show that");
    composed &= resolved.composite || resolved.variant == Variant::kOut;
  }
  if (!exists) return " is no operator of libtorch; `lockstep list --ops` names those that have a rule";
  if (!composed)
    return " has no rule; `lockstep list --ops` names those that have, register_sharding adds one";
  return " needs no rule: libtorch composes it of other ops, and each of those runs by its own; a "
         "TimelineScope "
         "(engine/tensor/timeline_log.h) records them";
}

// As rules see it, over one mesh dimension of two. @pre `entry` outlives it
OpCall call_of(const TimelineEntry& entry) {
  OpCall call;
  call.name = oracle::stem(entry.op);
  call.overload = entry.op == call.name ? "" : entry.op.substr(call.name.size() + 1);
  call.args = {oracle::find_operator(entry.op).handle.schema(), entry.args};
  for (const auto& r : entry.inputs) call.inputs.push_back(meta_of(r));
  for (const auto& r : entry.outputs) call.outputs.push_back(meta_of(r));
  for (const auto& m : call.inputs) {
    call.current.push_back(Replicate{});
    call.input_extents.push_back(m.shape);
  }
  if (!call.outputs.empty()) call.output_extents = call.outputs[0].shape;
  call.mesh_size = 2;
  return call;
}

std::vector<std::string> short_forms(const Placements& placements, const std::vector<TensorRecord>& records) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < records.size(); ++i)
    texts.push_back(records[i].spec ? short_form(placements[i]) : "-");
  return texts;
}

// A list of more tensors is ruled as one of three.
bool has_long_list(const TimelineEntry& entry) {
  return std::any_of(entry.tensors_per_arg.begin(), entry.tensors_per_arg.end(),
                     [](int64_t n) { return n > 3; });
}

// What is written stays as it is placed; a view in place writes nothing.
bool leaves_in_place(const TimelineEntry& entry, const OpEntry& known, const Row& row) {
  if (known.kind == OpKind::kView) return true;
  for (size_t k = 0; k < entry.aliases.size(); ++k)
    if (entry.aliases[k] >= 0 && row.outputs[k] != row.inputs[static_cast<size_t>(entry.aliases[k])])
      return false;
  return true;
}

// A mean that pends is for who asks for that row; by default sums are added first.
bool is_on_request(const OpEntry& known, const Row& row) {
  return known.of_shared == OfShared::kMean &&
         std::any_of(row.outputs.begin(), row.outputs.end(),
                     [](auto& p) { return is_partial(p, ReduceOp::kAvg); });
}

}  // namespace

oracle::Case on_one_device(oracle::Case c) {
  c.mesh = DeviceMesh({1}).on(c.mesh.device_type());
  oracle::each_target(c, [](oracle::Target& target) { target = {{Replicate{}}, {}}; });
  return c;
}

std::set<std::string> offered_rows(const EngineResult& run) {
  std::set<std::string> offers;
  for (const auto& entry : run.timeline) {
    if (!takes_a_row(entry) || has_long_list(entry)) continue;
    // In-place: of the functional op.
    const auto* known = resolve(oracle::find_operator(entry.op).handle).entry;
    if (known == nullptr) continue;
    for (const auto& row : legal_rows(*known, call_of(entry)))
      if (leaves_in_place(entry, *known, row) && !is_on_request(*known, row))
        offers.insert(row_text(entry.op, short_forms(row.inputs, entry.inputs),
                               short_forms(row.outputs, entry.outputs)));
  }
  return offers;
}

EngineResult sampled(const generators::OpTemplate& op, int64_t i, EngineUnderTest& engine) {
  const generators::Random random(static_cast<uint64_t>(i));
  try {
    return engine.run(on_one_device(generators::op_case(random, op, i % 2 == 1)), true);
  } catch (const NotBuilt&) {
    return {};
  }
}

std::set<std::string> offered_rows(int64_t samples) {
  const auto engine = make_engine("lockstep");
  std::set<std::string> offers;
  for (const auto& candidate : generators::op_templates())
    for (int64_t i = 0; i < samples; ++i) offers.merge(offered_rows(sampled(candidate, i, *engine)));
  return offers;
}

SampleCall call_in(const oracle::Case& c, const std::string& op, EngineUnderTest& engine) {
  SampleCall sample;
  const auto run = engine.run(c, true);
  for (const auto& entry : run.timeline) {
    if (oracle::stem(entry.op) != oracle::stem(op)) continue;
    sample.logged = std::make_shared<TimelineEntry>(entry);
    sample.entry = find_op(oracle::stem(op));
    sample.token = oracle::to_token(c);
    sample.call = call_of(*sample.logged);
    if (c.mesh.size() > 1) sample.call.mesh_size = c.mesh.size();
    break;
  }
  return sample;
}

SampleCall sample_call(const std::string& op) {
  LOCKSTEP_CHECK(find_op(oracle::stem(op)) != nullptr, "[show rules] ", op,
                 why_without_rule(std::string(oracle::stem(op))));
  const auto engine = make_engine("lockstep");
  for (const auto& candidate : generators::op_templates()) {
    if (oracle::stem(candidate.op) != oracle::stem(op)) continue;
    for (uint64_t i = 0; i < 20; ++i) {
      const auto c = on_one_device(generators::op_case(generators::Random(i), candidate));
      auto sample = call_in(c, op, *engine);
      if (sample.logged && sample.call.inputs.size() > 0) return sample;
    }
  }
  throw Error(
      concat("[show rules] ", op, " has a rule, but no generated case calls it: there is no sample to show"));
}

}  // namespace lockstep::suites
