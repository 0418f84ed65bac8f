// SPDX-License-Identifier: Apache-2.0
// Factories that look at a tensor, and random ops: only shape and placement matter, never the input's values.
#include "engine/ops/rules/families.h"

namespace lockstep::rules {
namespace {

Rows follow(const OpCall& call) {
  Rows rows;
  for (int64_t d = 0; d < call.inputs[0].ndim(); ++d) {
    auto row = replicate_row(call);
    row.inputs[0] = Shard{d};
    for (auto& output : row.outputs) output = Shard{d};
    rows.push_back(std::move(row));
  }
  add_ragged_rows(rows, call);
  return rows;
}

// The input's values are not read, so a Partial input need not be reduced.
void ignore_partials(Rows& rows, const OpCall& call) {
  for (const auto op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    auto row = replicate_row(call);
    row.inputs[0] = Partial{op};
    rows.push_back(std::move(row));
  }
}

}  // namespace

Rows like(const OpCall& call) {
  auto rows = follow(call);
  ignore_partials(rows, call);
  return rows;
}

Rows new_tensor(const OpCall& call) {
  auto rows = follow(call);
  // Of another shape: the input's placement says nothing about the result, and need not change.
  if (call.inputs[0].shape != call.outputs[0].shape)
    for (auto& row : rows) row.outputs.assign(call.outputs.size(), Replicate{});
  ignore_partials(rows, call);
  return rows;
}

Rows dropout(const OpCall& call) {
  return follow(call);
}

Rows bernoulli(const OpCall& call) {
  const bool reads = call.overload.empty() || call.overload == "Tensor";
  return reads ? pointwise(call) : like(call);
}

Rows normal(const OpCall& call) {
  const bool fills = call.overload.empty() || call.overload == "out";
  return fills ? like(call) : pointwise(call);
}

Rows none(const OpCall&) {
  return {};
}

}  // namespace lockstep::rules
