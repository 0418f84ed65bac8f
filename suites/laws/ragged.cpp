// SPDX-License-Identifier: Apache-2.0
// Law: ops on tensors that lie in the same blocks (RaggedShard) give the oracle's bits, and no block is
// gathered for an op that looks at each element alone, reduces all of them, or stays within rows.
#include <algorithm>
#include <optional>
#include <set>

#include "engine/values/error.h"
#include "engine/values/ragged.h"
#include "generators/ops/ops.h"
#include "oracle/program/schema.h"
#include "oracle/program/statements.h"
#include "suites/core/facts.h"
#include "suites/core/judge.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

using oracle::kRedistribute;
using Shape = std::vector<int64_t>;

// "add" of "aten::_foreach_add_.List".
std::string plain_name(std::string_view op) {
  std::string name(oracle::stem(op).substr(std::string_view("aten::").size()));
  if (name.starts_with("_foreach_")) name = name.substr(std::string_view("_foreach_").size());
  if (name.ends_with('_')) name.pop_back();
  return name;
}

// Ops that look at each element alone, by the families of the generators.
bool is_elementwise(const std::string& name) {
  static const auto names = [] {
    std::set<std::string> all;
    using namespace generators;
    for (const auto& known : op_templates())
      if (known.family & (kUnary | kBinary | kScalars | kCompare | kTernary))
        all.insert(plain_name(known.op));
    return all;
  }();
  return names.contains(name);
}

// The dimensions of its first input that a reduction goes over; nullopt: it is none.
std::optional<std::vector<bool>> reduced_by(const TimelineEntry& entry, const std::string& name) {
  static const std::set<std::string> kReductions = {
      "sum",       "prod", "amax",     "amin",   "max",
      "min",       "any",  "all",      "argmax", "argmin",
      "logsumexp", "var",  "var_mean", "std",    "linalg_vector_norm",
      "norm",      "mean"};
  if (!kReductions.contains(name) || entry.inputs.size() != 1) return std::nullopt;
  const auto& args = oracle::find_operator(entry.op).args;
  const auto ndim = entry.inputs[0].spec->ndim();
  Shape dims;
  for (size_t a = 0; a < args.size(); ++a)
    if (args[a].name == "dim" && !entry.args[a].isNone())
      dims = entry.args[a].isInt() ? Shape{entry.args[a].toInt()} : entry.args[a].toIntVector();
  std::vector<bool> reduced(static_cast<size_t>(ndim), dims.empty());
  for (const int64_t d : dims) reduced.at(static_cast<size_t>(d < 0 ? d + ndim : d)) = true;
  return reduced;
}

// Of all elements, what ranks make of their parts and then add up, multiply or compare; the last along a
// dimension say where they stand, too.
bool is_folded(const TimelineEntry& entry, const std::string& name) {
  static const std::set<std::string> kFolded = {"sum", "prod", "amax", "amin", "max", "min", "any", "all"};
  return kFolded.contains(name) && entry.outputs.size() == 1;
}

// Whether the op needs no more of what lies in these blocks along this mesh dimension than each rank has.
bool needs_no_other(const TimelineEntry& entry, const RaggedShard& blocks, int64_t mesh_dim) {
  const auto name = plain_name(entry.op);
  if (const auto reduced = reduced_by(entry, name)) {
    const auto begin = reduced->begin(), behind_rows = begin + std::ssize(blocks.dims);
    if (std::find(begin, reduced->end(), false) == reduced->end()) return is_folded(entry, name);
    return !blocks.dims.empty() && std::find(begin, behind_rows, true) == behind_rows;
  }
  if (!is_elementwise(name) || entry.outputs.empty()) return false;
  const auto& shape = entry.outputs[0].spec->shape();
  const auto meets = [&](const TensorRecord& t) {
    return !t.spec || t.spec->numel() == 1 || t.spec->shape() == shape;
  };
  // What is written stays where it lies.
  const auto elsewhere = [&](const TensorRecord& t) {
    return t.spec && t.spec->placements()[static_cast<size_t>(mesh_dim)] != Placement(blocks);
  };
  const bool writes =
      std::any_of(entry.aliases.begin(), entry.aliases.end(), [](int64_t i) { return i >= 0; });
  return std::all_of(entry.inputs.begin(), entry.inputs.end(), meets) &&
         !(writes && std::any_of(entry.outputs.begin(), entry.outputs.end(), elsewhere));
}

// The mesh dimension along which an implicit redistribution makes blocks whole; -1: none. Of fewer elements
// than ranks share them, they are fewer bytes than what ranks would add up.
int64_t gathered_along(const TimelineEntry& entry) {
  if (entry.op != kRedistribute || !entry.implicit) return -1;
  const Spec &from = *entry.inputs.at(0).spec, &to = *entry.outputs.at(0).spec;
  const auto d = ragged_dim(from.placements());
  if (d < 0 || from.mesh().size(d) == 1 || from.numel() < from.mesh().size()) return -1;
  return is_replicate(to.placements()[static_cast<size_t>(d)]) ? d : -1;
}

bool reads(const TimelineEntry& entry, const TensorRecord& value) {
  return std::any_of(entry.inputs.begin(), entry.inputs.end(), [&](const TensorRecord& t) {
    return t.spec && *t.spec == *value.spec && t.digests == value.digests;
  });
}

}  // namespace

Outcome judge_ragged(const oracle::Case& c, EngineUnderTest& engine) {
  auto outcome = judge_against_oracle(c, engine, Allowed::kExplained);
  if (!std::holds_alternative<Passed>(outcome) || !engine.profile().has(Flag::kTimeline)) return outcome;
  if (std::get<Passed>(outcome).refusal) return outcome;
  const auto timeline = engine.run(c, true).timeline;
  for (auto entry = timeline.begin(); entry != timeline.end(); ++entry) {
    const auto d = gathered_along(*entry);
    if (d < 0) continue;
    const auto& spec = *entry->inputs[0].spec;
    const auto& blocks = std::get<RaggedShard>(spec.placements()[static_cast<size_t>(d)]);
    const auto user = std::find_if(entry, timeline.end(), [](auto& e) { return e.op != kRedistribute; });
    if (user == timeline.end() || !reads(*user, entry->outputs[0]) || !needs_no_other(*user, blocks, d))
      continue;
    return failed("ragged", "gathered", user->op, placement_pattern(c), dtype_name(spec.dtype()),
                  concat(user->op, " needs no more of ", spec, " than each rank has, and it is gathered"));
  }
  return outcome;
}

}  // namespace lockstep::suites
