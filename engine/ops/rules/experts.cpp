// SPDX-License-Identifier: Apache-2.0
// The grouped products of a mixture of experts (kernels/operators/experts.h). Rows are cut where a block of
// them ends, and within a block, by a RaggedShard, where the rows of a rank's own experts do. How many those
// are stands in the arguments, so that a rule can see it.
#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <numeric>

#include "engine/layout/layout.h"
#include "engine/move/execute.h"
#include "engine/ops/rules/families.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/ragged.h"

namespace lockstep::rules {
namespace {

using torch::jit::Stack;

Placement s(int64_t dim) {
  return Shard{dim};
}
const Placement r = Replicate{};
const Placement p = Partial{ReduceOp::kSum};

// The rows of each expert in each block.
struct Grouping {
  explicit Grouping(const OpCall& call)
      : counts(call.integers("counts")),
        blocks(call.integer("blocks")),
        experts(std::ssize(counts) / blocks),
        rows(call.inputs[0].shape[0]) {}
  std::vector<int64_t> counts;
  int64_t blocks, experts, rows;

  int64_t of(int64_t block, Interval of_experts) const {
    const auto first = counts.begin() + block * experts + of_experts.start;
    return std::accumulate(first, first + of_experts.length, int64_t{0});
  }
  bool is_even() const {
    for (int64_t b = 0; b < blocks; ++b)
      if (of(b, {0, experts}) * blocks != rows) return false;
    return rows > 0;
  }
  // Of blocks that are even, what so many rows are; 0: no number of blocks.
  int64_t in(int64_t some_rows) const {
    return some_rows * blocks % rows == 0 ? some_rows * blocks / rows : 0;
  }
};

// Each rank has one block, and of it the rows of its own experts.
bool cuts_at_experts(const OpCall& call, const Spec& placed) {
  const Grouping grouping(call);
  // Rows without elements would be cut anywhere alike.
  if (!grouping.is_even() || placed.shape()[1] == 0) return false;
  const int64_t dim = ragged_dim(placed.placements()), ranks = placed.mesh().size(dim);
  for (int64_t position = 0; position < placed.mesh().size(); ++position) {
    const auto owned = owned_by(placed, position);
    const auto& box = owned.lists[0];
    if (length(box) * grouping.blocks != grouping.rows || box.size() != 1) return false;
    const int64_t block = box[0].start * grouping.blocks / grouping.rows;
    const int64_t width = length(owned.lists[1]);
    const auto own = chunk(grouping.experts, ranks, placed.mesh().coordinate(position)[as_size(dim)]);
    const Interval rows{grouping.of(block, {0, own.start}), grouping.of(block, own)};
    if (owned.flat != Interval{rows.start * width, rows.length * width}) return false;
  }
  return true;
}

bool may_cut_at_experts(const Placement& placement) {
  const auto* ragged = std::get_if<RaggedShard>(&placement);
  return ragged != nullptr && ragged->dims == std::vector<int64_t>{0};
}

bool cuts_at_blocks(const OpCall& call, const Grouping& grouping) {
  return grouping.is_even() && grouping.in(call.input_extents[0][0]) > 0 &&
         grouping.in(call.input_extents[0][0]) % call.mesh_size == 0;
}

// Of rows and weights; `meets`: which dimension of the weights the rows' features are.
Rows rows_of_experts(const OpCall& call, int64_t meets) {
  const Grouping grouping(call);
  Rows rows{{{s(1)}, {r, s(3 - meets)}}, {{p}, {s(1), s(meets)}}};
  if (cuts_at_blocks(call, grouping)) rows.push_back({{s(0)}, {s(0), r}});
  if (may_cut_at_experts(call.current[0])) rows.push_back({{call.current[0]}, {call.current[0], s(0)}});
  return rows;
}
Rows grouped_linear(const OpCall& call) {
  return rows_of_experts(call, 2);
}
Rows grouped_linear_input(const OpCall& call) {
  return rows_of_experts(call, 1);
}

Rows grouped_linear_weight(const OpCall& call) {
  const Grouping grouping(call);
  Rows rows{{{s(1)}, {s(1), r}}, {{s(2)}, {r, s(1)}}};
  if (cuts_at_blocks(call, grouping)) rows.push_back({{p}, {s(0), s(0)}});
  for (const auto& current : call.current)
    if (may_cut_at_experts(current)) rows.push_back({{s(0)}, {current, current}});
  return rows;
}

// What a rank has of all counts, which are of so many blocks.
struct OwnCounts {
  std::vector<int64_t> counts;
  int64_t blocks;
};
OwnCounts own_counts(const Grouping& grouping, const IndexList& rows, const IndexList& experts) {
  int64_t first = 0;
  OwnCounts own{{}, grouping.blocks};
  if (grouping.rows > 0 && !rows.empty()) {
    first = rows[0].start * grouping.blocks / grouping.rows;
    own.blocks = length(rows) * grouping.blocks / grouping.rows;
  }
  for (int64_t b = first; b < first + own.blocks; ++b)
    for (const auto& [start, length] : experts)
      for (int64_t e = start; e < start + length; ++e) own.counts.push_back(grouping.of(b, {e, 1}));
  return own;
}

// A flat local is the rows of the rank's experts.
at::Tensor as_rows(const LocalCall& c, const at::Tensor& local, const Owned& owned, int64_t rows) {
  const int64_t width = length(owned.lists[1]);
  LOCKSTEP_CHECK(local.numel() == rows * width, "[", c.op.operator_name(), "] ", to_string(*c.inputs[0]),
                 " at position ", c.position, " has ", local.numel(), " elements, but the counts ",
                 at::IntArrayRef(c.call.integers("counts")), " give its experts ", rows, " rows of ", width,
                 "; cut the rows where those of an expert end");
  return local.view({rows, width});
}

void on_own_experts(const LocalCall& c, Stack& stack) {
  const Grouping grouping(c.call);
  const bool of_weight = c.outputs[0]->shape().size() == 3;
  const auto rows = owned_by(*c.inputs[0], c.position);
  const auto experts = owned_by(of_weight ? *c.outputs[0] : *c.inputs[1], c.position).lists[0];
  const auto [counts, blocks] = own_counts(grouping, rows.lists[0], experts);
  if (rows.flat.has_value() && blocks != 1)
    throw Broken(concat("[", c.op.operator_name(), "] ", to_string(*c.inputs[0]), " is cut within blocks"));
  stack[c.call.args.position("blocks")] = blocks;
  stack[c.call.args.position("counts")] = counts;
  const int64_t own = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  stack[0] = as_rows(c, stack[0].toTensor(), rows, own);
  if (of_weight) stack[1] = as_rows(c, stack[1].toTensor(), owned_by(*c.inputs[1], c.position), own);
  const bool nothing = length(rows.lists[1]) == 0 && c.inputs[0]->shape()[1] > 0;
  c.op.callBoxed(stack);
  // Of no features: a term that leaves the others' as they are.
  if (nothing && !of_weight)
    stack[0] = stack[0].toTensor().fill_(identity(ReduceOp::kSum, c.outputs[0]->dtype()));
  if (is_flat(*c.outputs[0])) stack[0] = stack[0].toTensor().flatten();
}

// exchange_rows (engine/tensor) takes what is cut otherwise.
Rows permute_rows(const OpCall& call) {
  Rows rows{row_of(call, s(call.inputs[0].ndim() - 1), s(call.outputs[0].ndim() - 1))};
  add_partials(rows, call, {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin});
  return rows;
}

}  // namespace

Records expert_ops() {
  const auto grouped = [](const char* name, RowsOf rows) {
    return OpEntry{.name = name,
                   .rows = std::move(rows),
                   .run = on_own_experts,
                   .own_interleaved = true,
                   .ragged_fits = cuts_at_experts};
  };
  return {grouped("experts::grouped_linear", grouped_linear),
          grouped("experts::grouped_linear_input", grouped_linear_input),
          grouped("experts::grouped_linear_weight", grouped_linear_weight),
          {.name = "experts::permute_rows", .rows = permute_rows}};
}

}  // namespace lockstep::rules
