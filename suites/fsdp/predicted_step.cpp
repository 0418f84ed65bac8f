// SPDX-License-Identifier: Apache-2.0
#include "suites/fsdp/predicted_step.h"

#include <algorithm>

#include "engine/fsdp/unit.h"
#include "engine/values/as_size.h"

namespace lockstep::suites {
namespace {

// Parameters of the outermost module's own blocks in front of the first one that is cut by itself.
int64_t before(const Sharding& s) {
  int64_t parameters = 0;
  for (size_t i = 0; i < s.blocks.size() && !is_wrapped(s, i); ++i)
    for (const auto& layer : s.blocks[i])
      parameters +=
          (layer.kind == 'L' || layer.kind == 'N' ? 2 : 0) + (layer.kind == 'l' || layer.kind == 'n');
  return parameters;
}

fsdp::StepGroup group_of(const FSDPModule& unit) {
  const auto* buffer = unit.unit()->buffer();
  return {buffer == nullptr ? std::vector<fsdp::BlockTensor>() : buffer->layout().blocks()};
}

}  // namespace

// Where a module's own input requires no gradient, it is reduced when the pass ends, and where blocks of the
// outermost module stand between those that are cut by themselves, gradients come in between; norms in 16
// bits add theirs up before they come.
bool is_predicted(const Sharding& s) {
  const bool is_otherwise = (s.frozen | s.recompute | s.calls | s.kept | s.by_hand | s.evaluates | s.ignored |
                             s.sides | s.tied | s.unused | s.together | s.nested | (s.wrap & 1)) != 0;
  if (is_otherwise || has_tp(s.mesh) || s.mesh.ndim() > 2 || has_short_norm(s)) return false;
  int64_t changes = 0;
  for (size_t i = 1; i < s.blocks.size(); ++i) changes += is_wrapped(s, i) != is_wrapped(s, i - 1);
  return changes <= 2;
}

std::optional<fsdp::StepPlan> predicted_step(const Sharding& s, const std::vector<FSDPModule>& units) {
  if (!is_predicted(s)) return std::nullopt;
  fsdp::StepOptions o{.order = fsdp::parse_order(s.order), .dtype = s.dtype, .policy = s.policy};
  o.shards = s.mesh.size(s.mesh.dim_index("fsdp"));
  o.replicas = s.mesh.size() / o.shards;
  if (s.gathered > 0) o.reshard_after_forward = false;
  if (s.gathered == 2) o.reshard_after_forward = std::nullopt;
  if (s.among > 0) o.reshard_after_forward = static_cast<int>(s.among);
  o.prefetch = s.prefetch;
  std::vector<fsdp::StepGroup> groups;
  for (const auto& unit : units) groups.push_back(group_of(unit));
  if (s.wrap != 0) groups.front().before = before(s);
  const bool has_empty =
      std::any_of(groups.begin() + 1, groups.end(), [](auto& g) { return g.tensors.empty(); });
  return has_empty ? std::nullopt : std::optional(plan_step(groups, o));
}

}  // namespace lockstep::suites
