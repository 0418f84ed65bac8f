// SPDX-License-Identifier: Apache-2.0
#include "engine/static_eager/implicit_rows.h"

#include <algorithm>
#include <map>

#include "engine/ops/resolve.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

// A path as a regular expression for itself.
std::string escaped(const std::string& path) {
  std::string all;
  for (const char c : path) {
    if (std::string_view(R"(.^$|()[]{}*+?\)").find(c) != std::string_view::npos) all += '\\';
    all += c;
  }
  return all;
}

// Its number among the op's tensors, in the order of the schema, of the listed input.
int64_t number_of(const TimelineEntry& entry, const Resolved& resolved, size_t listed) {
  int64_t number = 0;
  size_t next = 0;
  for (size_t arg = 0; arg < resolved.kinds.size(); ++arg) {
    if (resolved.kinds[arg] == ArgKind::kConstant) continue;
    const auto tensors = entry.tensors_per_arg[arg];
    if (tensors > 0 && listed < next + static_cast<size_t>(tensors))
      return number + static_cast<int64_t>(listed - next);
    next += tensors > 0 ? static_cast<size_t>(tensors) : 0;
    number += resolved.kinds[arg] == ArgKind::kTensor ? 1 : std::max<int64_t>(tensors, 0);
  }
  throw Broken(concat("[static_eager] ", entry.op, " has no input ", listed));
}

// The row that moves this input before its op.
PlanRow row_of(const TimelineEntry& move, const std::string& module, const std::string& op, int64_t index) {
  const auto &from = *move.inputs[0].spec, &to = *move.outputs[0].spec;
  PlanRow row;
  row.module = escaped(module);
  row.phase = PlanPhase::kForwardPre;
  row.tensor = "<in>";
  row.index = index;
  row.op = op;
  for (size_t d = 0; d < to.placements().size(); ++d) {
    if (from.placements()[d] == to.placements()[d]) continue;
    row.to.push_back(to.placements()[d]);
    row.mesh_dims.push_back(to.mesh().names()[d]);
  }
  return row;
}

// The listed inputs that have just been moved, in turn.
std::vector<size_t> moved_inputs(const TimelineEntry& entry, const std::vector<const TimelineEntry*>& moves) {
  std::vector<size_t> inputs;
  size_t next = 0;
  for (const auto* move : moves)
    while (next < entry.inputs.size()) {
      const auto input = next++;
      if (entry.inputs[input].digests != move->outputs[0].digests) continue;
      inputs.push_back(input);
      break;
    }
  return inputs;
}

}  // namespace

ParallelPlan implicit_rows(const StepLog& eager, std::string& on_the_way_back) {
  std::vector<PlanRow> rows;
  std::map<std::pair<const Stretch*, std::string>, int64_t> calls;
  std::vector<const TimelineEntry*> moves;
  for (size_t i = 0; i < eager.timeline.size(); ++i) {
    const auto& entry = eager.timeline[i];
    if (entry.op == "lockstep::redistribute" && entry.implicit) moves.push_back(&entry);
    if (!entry.op.starts_with("aten::")) continue;
    const auto* stretch = eager.forward_of(i);
    const auto name = entry.op.substr(0, entry.op.find('.'));
    const auto op = concat(name, "#", stretch == nullptr ? 0 : calls[{stretch, name}]++);
    const auto inputs = moved_inputs(entry, moves);
    for (size_t k = 0; k < inputs.size(); ++k) {
      const auto index = number_of(entry, resolve(handle_of(entry)), inputs[k]);
      if (stretch == nullptr)
        on_the_way_back += concat("# on the way back: ", name, ", input ", index, ": ",
                                  to_string(*moves[k]->inputs[0].spec), " -> ",
                                  moves[k]->outputs[0].spec->placements(), "\n");
      else if (auto row = row_of(*moves[k], stretch->site->path, op, index);
               !row.to.empty() && std::find(rows.begin(), rows.end(), row) == rows.end())
        rows.push_back(std::move(row));
    }
    moves.clear();
  }
  return ParallelPlan(std::move(rows));
}

}  // namespace lockstep
