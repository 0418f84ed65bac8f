// SPDX-License-Identifier: Apache-2.0
// Reductions: a dimension that stays keeps its shard; a sharded dimension that is reduced leaves a pending
// reduction of the op's own kind, or must be whole where there is none.
#include <algorithm>

#include "engine/ops/rules/families.h"

namespace lockstep::rules {
namespace {

size_t u(int64_t i) {
  return static_cast<size_t>(i);
}

// The reduced dimensions, named by argument `at` (absent, None or empty: all), and whether they stay as
// size 1.
struct Reduced {
  std::vector<bool> dims;
  bool keepdim = false;
  // The output's dimension for input dimension d.
  int64_t output_dim(int64_t d) const {
    if (keepdim) return d;
    return d - std::count(dims.begin(), dims.begin() + d, true);
  }
};

// In the full overloads a dtype, an integer too, stands where the others have their dims.
bool is_full_overload(const OpCall& call) {
  const bool full = call.name == "aten::sum" || call.name == "aten::mean" || call.name == "aten::prod";
  return (full && call.overload.empty()) || call.overload.ends_with("_dtype");
}

bool has_dims(const OpCall& call, size_t at) {
  if (is_full_overload(call) && call.args.size() <= at + 1) return false;
  return at < call.args.size() && (call.args[at].isInt() || call.args[at].isIntList());
}

Reduced reduced(const OpCall& call, size_t at) {
  const int64_t ndim = call.inputs[0].ndim();
  Reduced result{std::vector<bool>(u(ndim), true), call.outputs[0].ndim() == ndim && ndim > 0};
  if (!has_dims(call, at)) return result;
  const auto dims = call.integers(at);
  if (dims.empty()) return result;
  result.dims.assign(u(ndim), false);
  for (const int64_t d : dims)
    if (ndim > 0) result.dims[u(wrap_dim(d, ndim))] = true;
  return result;
}

Rows kept_dims(const OpCall& call, const Reduced& by) {
  Rows rows;
  for (int64_t d = 0; d < call.inputs[0].ndim(); ++d) {
    if (by.dims[u(d)]) continue;
    auto row = replicate_row(call);
    row.inputs[0] = Shard{d};
    for (auto& output : row.outputs) output = Shard{by.output_dim(d)};
    rows.push_back(std::move(row));
  }
  return rows;
}

void add_pending(Rows& rows, const OpCall& call, const Reduced& by, ReduceOp op, bool even) {
  for (int64_t d = 0; d < call.inputs[0].ndim(); ++d) {
    if (!by.dims[u(d)]) continue;
    auto row = replicate_row(call);
    row.inputs[0] = Shard{d};
    for (auto& output : row.outputs) output = Partial{op};
    if (even) row.even.push_back({0, d});
    rows.push_back(std::move(row));
  }
}

bool same_dtype(const OpCall& call) {
  return call.inputs[0].dtype == call.outputs[0].dtype;
}

Rows extremum(const OpCall& call, ReduceOp op) {
  const auto by = reduced(call, 1);
  auto rows = kept_dims(call, by);
  add_pending(rows, call, by, op, false);
  add_partials(rows, call, {op});
  return rows;
}

}  // namespace

Rows sum(const OpCall& call) {
  const auto by = reduced(call, 1);
  auto rows = kept_dims(call, by);
  add_pending(rows, call, by, ReduceOp::kSum, false);
  if (same_dtype(call)) add_partials(rows, call, {ReduceOp::kSum, ReduceOp::kAvg});
  return rows;
}

Rows mean(const OpCall& call) {
  const auto by = reduced(call, 1);
  auto rows = kept_dims(call, by);
  // A mean of means is the mean only of equal counts.
  add_pending(rows, call, by, ReduceOp::kAvg, true);
  if (same_dtype(call)) add_partials(rows, call, {ReduceOp::kSum, ReduceOp::kAvg});
  return rows;
}

Rows prod(const OpCall& call) {
  const auto by = reduced(call, 1);
  auto rows = kept_dims(call, by);
  add_pending(rows, call, by, ReduceOp::kProduct, false);
  return rows;
}

Rows amax(const OpCall& call) {
  return extremum(call, ReduceOp::kMax);
}
Rows amin(const OpCall& call) {
  return extremum(call, ReduceOp::kMin);
}

Rows any(const OpCall& call) {
  const auto by = reduced(call, 1);
  auto rows = kept_dims(call, by);
  add_pending(rows, call, by, ReduceOp::kMax, false);
  return rows;
}

Rows all(const OpCall& call) {
  const auto by = reduced(call, 1);
  auto rows = kept_dims(call, by);
  add_pending(rows, call, by, ReduceOp::kMin, false);
  return rows;
}

Rows replicate_reduced_dims(const OpCall& call) {
  return kept_dims(call, reduced(call, 1));
}
Rows replicate_reduced_dims_at_2(const OpCall& call) {
  return kept_dims(call, reduced(call, 2));
}

Rows full_reduction(const OpCall&) {
  return {};
}

Rows replicate_along_dim(const OpCall& call) {
  Rows rows;
  const int64_t ndim = call.inputs[0].ndim(), whole = wrap_dim(call.integer(1), ndim);
  for (int64_t d = 0; d < ndim; ++d) {
    if (d == whole) continue;
    auto row = replicate_row(call);
    row.inputs[0] = Shard{d};
    for (auto& output : row.outputs) output = Shard{d};
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace lockstep::rules
