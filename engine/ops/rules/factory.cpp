// SPDX-License-Identifier: Apache-2.0
// Factories that look at a tensor: only shape and placement matter, never the input's values.
#include <ATen/ATen.h>

#include <algorithm>

#include "engine/ops/rules/families.h"

namespace lockstep::rules {

Rows follow(const OpCall& call) {
  Rows rows;
  for (int64_t d = 0; d < call.inputs[0].ndim(); ++d) rows.push_back(row_of(call, Shard{d}, Shard{d}));
  add_ragged_rows(rows, call);
  return rows;
}

namespace {

// The input's values are not read, so a Partial input need not be reduced.
void ignore_partials(Rows& rows, const OpCall& call) {
  for (const auto op : kEveryReduction) rows.push_back(row_of(call, Partial{op}, Replicate{}));
}

// Whether elements may share memory, so that what is written to one shows in another: not if each dimension
// steps over all that those of smaller steps reach.
bool may_overlap(const TensorMeta& made) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // and how many
  for (size_t d = 0; d < made.shape.size(); ++d)
    if (made.shape[d] > 1) steps.emplace_back(made.stride[d], made.shape[d] - 1);
  std::sort(steps.begin(), steps.end());
  int64_t reached = 0;
  for (const auto& [stride, count] : steps) {
    if (stride <= reached) return true;
    reached += stride * count;
  }
  return false;
}

// Follows if the shape is the input's, and no element would have to share memory with one on another rank.
// Else the input's placement says nothing about the result, and need not change.
Rows new_tensor(const OpCall& call) {
  auto rows = follow(call);
  if (call.inputs[0].shape != call.outputs[0].shape || may_overlap(call.outputs[0]))
    for (auto& row : rows) row.outputs.assign(call.outputs.size(), Replicate{});
  ignore_partials(rows, call);
  return rows;
}

}  // namespace

Rows like(const OpCall& call) {
  auto rows = follow(call);
  ignore_partials(rows, call);
  return rows;
}

at::Tensor sized(const at::Tensor& of, at::IntArrayRef shape) {
  return at::empty(shape, of.options());
}
Metas dense_self(const Arguments& args) {
  return {{sized(args.tensor("self"), args.tensor("self").sizes())}};
}

Metas laid_as_self(const Arguments& args) {
  return {{at::empty_like(args.tensor("self"))}};
}

void add_alike(Records& records, const OpEntry& like, std::initializer_list<const char*> names) {
  for (const auto* name : names) {
    records.push_back(like);
    records.back().name = name;
  }
}

Records factory_ops() {
  Records records{{.name = "new_empty_strided", .rows = new_tensor, .run = local::sized_and_strided}};
  add_alike(records, {.rows = like}, {"zeros_like", "ones_like", "empty_like"});
  add_alike(records, {.rows = new_tensor, .run = local::sized}, {"new_zeros", "new_ones", "new_empty"});
  records.push_back({.name = "full_like", .rows = like, .run = local::filled});
  records.push_back({.name = "new_full", .rows = new_tensor, .run = local::sized_filled});
  return records;
}

}  // namespace lockstep::rules
