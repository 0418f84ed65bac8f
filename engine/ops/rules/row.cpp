// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/rules/row.h"

namespace lockstep {

std::vector<int64_t> OpCall::integers(size_t i) const {
  const auto& value = args[i];
  if (value.isNone()) return {};
  if (value.isInt()) return {value.toInt()};
  return value.toIntVector();
}

int64_t wrap_dim(int64_t dim, int64_t ndim) {
  return dim < 0 ? dim + (ndim == 0 ? 1 : ndim) : dim;
}

Row replicate_row(const OpCall& call) {
  return {Placements(call.outputs.size(), Replicate{}), Placements(call.inputs.size(), Replicate{}), {}};
}

void add_partials(Rows& rows, const OpCall& call, std::initializer_list<ReduceOp> ops, size_t inputs) {
  for (const auto op : ops) {
    auto row = replicate_row(call);
    for (size_t i = 0; i < inputs; ++i) row.inputs[i] = Partial{op};
    for (auto& output : row.outputs) output = Partial{op};
    rows.push_back(std::move(row));
  }
}

}  // namespace lockstep
