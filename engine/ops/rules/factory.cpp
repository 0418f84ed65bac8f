// SPDX-License-Identifier: Apache-2.0
// Factories that look at a tensor: only shape and placement matter, never the input's values.
#include <ATen/ATen.h>

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

// Follows if the shape is the input's.
Rows new_tensor(const OpCall& call) {
  auto rows = follow(call);
  // Of another shape: the input's placement says nothing about the result, and need not change.
  if (call.inputs[0].shape != call.outputs[0].shape)
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
  add_alike(records, {.rows = like}, {"zeros_like", "ones_like", "empty_like", "full_like"});
  add_alike(records, {.rows = new_tensor, .run = local::sized},
            {"new_zeros", "new_ones", "new_empty", "new_full"});
  return records;
}

}  // namespace lockstep::rules
