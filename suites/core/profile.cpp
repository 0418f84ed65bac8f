// SPDX-License-Identifier: Apache-2.0
#include "suites/core/profile.h"

#include <algorithm>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/program/schema.h"

namespace lockstep::suites {
namespace {

// What the case asks for, as the lists of a profile name it.
struct Asked {
  std::set<std::string> placements, dtypes, ops;
  bool draws = false;

  void add(const oracle::Target& target) {
    for (const auto& p : target.placements) placements.insert(kind(p));
    if (!target.order.empty()) placements.insert("@");
  }
  void add(const oracle::Call& call) {
    ops.insert(call.op);
    draws |= !oracle::is_own(call.op) && oracle::find_operator(call.op).random;
    for (const auto& arg : call.args)
      if (const auto* dtype = std::get_if<c10::ScalarType>(&arg)) dtypes.insert(dtype_name(*dtype));
  }
};

Asked asked_by(const oracle::Case& c) {
  Asked asked;
  for (const auto& input : c.program.inputs) asked.dtypes.insert(dtype_name(input.dtype));
  oracle::each_target(c, [&](const oracle::Target& target) { asked.add(target); });
  for (const auto& call : c.program.calls) asked.add(call);
  return asked;
}

std::string first_missing(const char* word, const std::set<std::string>& has,
                          const std::set<std::string>& asked) {
  if (has.empty()) return "";
  for (const auto& one : asked)
    if (!has.contains(one)) return concat(word, " ", one);
  return "";
}

}  // namespace

int64_t least_world(const DeviceMesh& mesh) {
  int64_t last = -1;
  for (const int64_t rank : mesh.ranks()) last = std::max(last, rank);
  return last + 1;
}

const char* name(Flag flag) {
  static constexpr std::pair<Flag, const char*> kNames[] = {
      {Flag::kTimeline, "timeline"},    {Flag::kRules, "rules"},   {Flag::kClosedForm, "closed form"},
      {Flag::kTraining, "training"},    {Flag::kFaults, "faults"}, {Flag::kOverlap, "overlap"},
      {Flag::kSomeRanks, "some ranks"}, {Flag::kMemory, "memory"}, {Flag::kGradients, "gradients"},
      {Flag::kAcross, "across"}};
  for (const auto& [known, text] : kNames)
    if (known == flag) return text;
  return "";
}

std::string lacks(const EngineProfile& profile, const oracle::Case& c) {
  const auto asked = asked_by(c);
  if (const auto version = oracle::token_version(c); version > profile.program)
    return concat("program v", version);
  if (c.mesh.ndim() > profile.most_mesh_dims) return concat("mesh of ", c.mesh.ndim(), " dimensions");
  if (profile.most_ranks > 0 && c.mesh.size() > profile.most_ranks) return concat(c.mesh.size(), " ranks");
  if (!profile.has(Flag::kSomeRanks) && least_world(c.mesh) > c.mesh.size())
    return concat("a world of ", least_world(c.mesh), " ranks for a mesh of ", c.mesh.size());
  for (const auto& missing :
       {first_missing("placement", profile.placements, asked.placements),
        first_missing("dtype", profile.dtypes, asked.dtypes), first_missing("op", profile.ops, asked.ops)})
    if (!missing.empty()) return missing;
  if (!asked.draws) return "";
  std::set<std::string> policies = {"single-device"};
  if (c.words != RandomWords::kPhilox) policies.insert("forged-words");
  for (const auto& policy : policies)
    if (!profile.random_policies.contains(policy)) return concat("random policy ", policy);
  return "";
}

}  // namespace lockstep::suites
