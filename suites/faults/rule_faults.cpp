// SPDX-License-Identifier: Apache-2.0
// Faults of rules: rows with a wrong output placement, rows that should not exist, conditions that were
// forgotten.
#include "suites/faults/planters.h"

namespace lockstep::suites::plant {
namespace {

bool shards_any(const Row& row) {
  return std::any_of(row.inputs.begin(), row.inputs.end(), [](const Placement& p) { return is_shard(p); });
}

Placements several(size_t n, const Placement& p) {
  Placements list;
  while (list.size() < n) list.push_back(p);
  return list;
}

// Rows that shard an input and leave a Partial: the output is called `instead`.
Rows relabel(Rows rows, const Placement& instead) {
  for (auto& row : rows)
    for (auto& out : row.outputs)
      if (shards_any(row) && is_partial(out)) out = instead;
  return rows;
}

Rows not_reduced(const OpCall&, Rows rows) {
  return relabel(std::move(rows), Replicate{});
}
Rows as_sum(const OpCall&, Rows rows) {
  return relabel(std::move(rows), Partial{ReduceOp::kSum});
}

// One row more: all tensor inputs that are sum Partials stay so, and the outputs are called Partial.
Rows keeps_partials(const OpCall& call, Rows rows) {
  Row row;
  row.inputs = call.current;
  row.outputs = several(call.outputs.size(), Partial{});
  const bool some =
      std::any_of(row.inputs.begin(), row.inputs.end(), [](const Placement& p) { return is_partial(p); });
  if (some) rows.insert(rows.begin(), row);
  return rows;
}

// Outputs shard the dimension that the input shards, whatever the view does to it.
Rows keeps_dim(const OpCall& call, Rows rows) {
  for (auto& row : rows) {
    if (row.inputs.empty() || row.outputs.empty() || !is_shard(row.inputs[0])) continue;
    if (shard_dim(row.inputs[0]) < static_cast<int64_t>(call.outputs[0].shape.size()))
      row.outputs[0] = row.inputs[0];
  }
  return rows;
}

Rows without_evenness(const OpCall&, Rows rows) {
  for (auto& row : rows) {
    row.even.clear();
    row.even_outputs.clear();
  }
  return rows;
}

// One row more for each dimension: a sharded input gives outputs that are called `output`.
Rows of_shards(const OpCall& call, Rows rows, bool keep) {
  for (int64_t d = 0; d < call.inputs[0].ndim(); ++d) {
    Row row;
    row.inputs = several(call.inputs.size(), Replicate{});
    row.inputs[0] = Shard{d};
    row.outputs =
        keep ? several(call.outputs.size(), Shard{d}) : several(call.outputs.size(), Partial{ReduceOp::kMax});
    rows.insert(rows.begin(), row);
  }
  return rows;
}
Rows max_of_shards(const OpCall& call, Rows rows) {
  const auto* dim = call.args.find("dim");
  return dim != nullptr && dim->isInt() ? of_shards(call, std::move(rows), false) : rows;
}
Rows shards_of_shards(const OpCall& call, Rows rows) {
  return of_shards(call, std::move(rows), true);
}

}  // namespace

EnginePtr mm_not_reduced() {
  return with_rows("aten::mm", not_reduced);
}
EnginePtr sum_not_reduced() {
  return with_rows("aten::sum", not_reduced);
}
EnginePtr mean_reduced_as_sum() {
  return with_rows("aten::mean", as_sum);
}
EnginePtr amax_reduced_as_sum() {
  return with_rows("aten::amax", as_sum);
}
EnginePtr mul_keeps_partials() {
  return with_rows("aten::mul", keeps_partials);
}
EnginePtr add_to_partial() {
  return with_rows("aten::add", keeps_partials);
}
EnginePtr relu_of_partial() {
  return with_rows("aten::relu", keeps_partials);
}
EnginePtr exp_of_partial() {
  return with_rows("aten::exp", keeps_partials);
}
EnginePtr unsqueeze_keeps_dim() {
  return with_rows("aten::unsqueeze", keeps_dim);
}
EnginePtr transpose_keeps_dim() {
  return with_rows("aten::transpose", keeps_dim);
}
EnginePtr permute_keeps_dim() {
  return with_rows("aten::permute", keeps_dim);
}
EnginePtr mean_of_uneven() {
  return with_rows("aten::mean", without_evenness);
}
EnginePtr argmax_of_shards() {
  return with_rows("aten::argmax", max_of_shards);
}
EnginePtr max_dim_of_shards() {
  return with_rows("aten::max", max_of_shards);
}
EnginePtr sort_of_shards() {
  return with_rows("aten::sort", shards_of_shards);
}
EnginePtr embedding_gradient_not_reduced() {
  return with_rows("aten::embedding_dense_backward", not_reduced);
}
EnginePtr norm_gradient_not_reduced() {
  return with_rows("aten::native_layer_norm_backward", not_reduced);
}

}  // namespace lockstep::suites::plant
