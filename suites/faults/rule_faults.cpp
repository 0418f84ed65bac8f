// SPDX-License-Identifier: Apache-2.0
// Faults of rules: rows with a wrong output placement, rows that should not exist, conditions that were
// forgotten.
#include "suites/faults/tables.h"

namespace lockstep::suites::plant {
namespace {

bool shards_any(const Row& row) {
  return std::any_of(row.inputs.begin(), row.inputs.end(), is_shard);
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
  const auto pends = [](const Placement& p) { return is_partial(p); };
  const bool some = std::any_of(row.inputs.begin(), row.inputs.end(), pends);
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

bool cuts_blocks(const Row& row) {
  return !row.inputs.empty() && is_ragged(row.inputs[0]);
}
Rows without_blocks(const OpCall&, Rows rows) {
  std::erase_if(rows, cuts_blocks);
  return rows;
}
Rows blocks_added(const OpCall&, Rows rows) {
  for (auto& row : rows)
    if (cuts_blocks(row) && is_partial(row.outputs[0])) row.outputs[0] = Partial{ReduceOp::kSum};
  return rows;
}
// One row more: what an op makes of each rank's blocks is a term of a sum.
Rows of_blocks_added(const OpCall& call, Rows rows) {
  const bool all = call.args.find("dim") == nullptr || call.integers("dim").empty();
  if (all && is_ragged(call.current[0])) rows.push_back({{Partial{ReduceOp::kSum}}, {call.current[0]}});
  return rows;
}

bool sums(const oracle::Case& c) {
  return has_backward(c) || mentions("sum")(c);
}

}  // namespace

std::vector<Fault> rule_faults() {
  return {
      {2, "mm-not-reduced", "K1", "mm over a sharded inner dimension is called Replicate", "ops", 2000, 3,
       on_ranks(mentions("mm matmul linear")), with_rows("aten::mm", not_reduced)},
      {3, "sum-not-reduced", "K1", "sum over a sharded dimension is called Replicate", "ops", 2000, 3,
       on_ranks(sums), with_rows("aten::sum", not_reduced)},
      {4, "mean-reduced-as-sum", "K1", "means of shards are summed", "ops", 2000, 3,
       on_ranks(mentions("mean")), with_rows("aten::mean", as_sum)},
      {5, "amax-reduced-as-sum", "K1", "maxima of shards are summed", "ops", 2000, 3,
       on_ranks(mentions("amax")), with_rows("aten::amax", as_sum)},
      {8, "mul-keeps-partials", "K3", "the product of two Partials is called Partial", "ops", 3000, 3,
       pending_on_ranks(mentions("mul")), with_rows("aten::mul", keeps_partials)},
      {9, "add-to-partial", "K3", "a number is added on every rank of a Partial", "ops", 3000, 3,
       pending_on_ranks(mentions("add")), with_rows("aten::add", keeps_partials)},
      {10, "relu-of-partial", "K3", "relu of a Partial is called Partial", "ops", 3000, 3,
       pending_on_ranks(mentions("relu")), with_rows("aten::relu", keeps_partials)},
      {11, "exp-of-partial", "K3", "exp of a Partial is called Partial", "ops", 3000, 3,
       pending_on_ranks(mentions("exp")), with_rows("aten::exp", keeps_partials)},
      {15, "unsqueeze-keeps-dim", "K5", "unsqueeze does not shift the sharded dimension", "ops", 2000, 3,
       on_ranks(mentions("unsqueeze")), with_rows("aten::unsqueeze", keeps_dim)},
      {16, "transpose-keeps-dim", "K5", "transpose does not swap the sharded dimension", "ops", 6000, 3,
       on_ranks(mentions("transpose matmul")), with_rows("aten::transpose", keeps_dim)},
      {17, "permute-keeps-dim", "K5", "permute does not move the sharded dimension", "ops", 2000, 3,
       on_ranks(mentions("permute")), with_rows("aten::permute", keeps_dim)},
      {25, "mean-of-uneven", "K7", "means of unequal shards are averaged", "ops", 2000, 3,
       on_ranks(mentions("mean")), with_rows("aten::mean", without_evenness)},
      {30, "argmax-of-shards", "K9", "argmax of a shard gives local indices", "ops", 3000, 3,
       on_ranks(mentions("argmax")), with_rows("aten::argmax", max_of_shards)},
      {31, "max-dim-of-shards", "K9", "max over a sharded dimension gives local indices", "ops", 3000, 3,
       on_ranks(calls("aten::max")), with_rows("aten::max", max_of_shards)},
      {32, "sort-of-shards", "K9", "shards are sorted one by one", "ops", 3000, 3, on_ranks(mentions("sort")),
       with_rows("aten::sort", shards_of_shards)},
      {36, "embedding-gradient-not-reduced", "K10", "the weight's gradient of a sharded batch is not reduced",
       "gradient", 3000, 3, on_ranks(mentions("embedding")),
       with_rows("aten::embedding_dense_backward", not_reduced)},
      {151, "blocks-gathered", "K16", "blocks are made whole for a sum", "ragged", 1500, 3, on_ranks(sums),
       with_rows("aten::sum", without_blocks)},
      {152, "maxima-of-blocks-added", "K1", "the greatest elements of blocks are added", "ragged", 1000, 3,
       on_ranks(calls("aten::max")), with_rows("aten::max", blocks_added)},
      {153, "norms-of-blocks-added", "K1", "the norms of blocks are added", "ragged", 1000, 3,
       on_ranks(calls("aten::linalg_vector_norm")), with_rows("aten::linalg_vector_norm", of_blocks_added)},
      {37, "norm-gradient-not-reduced", "K10", "the gain's gradient of a sharded batch is not reduced",
       "gradient", 3000, 3, on_ranks(mentions("layer_norm")),
       with_rows("aten::native_layer_norm_backward", not_reduced)},
  };
}

}  // namespace lockstep::suites::plant
