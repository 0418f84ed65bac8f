// SPDX-License-Identifier: Apache-2.0
// Reductions: a dimension that stays keeps its shard; a sharded dimension that is reduced leaves a pending
// reduction of the op's own kind, or must be whole where there is none. So does a RaggedShard of which all is
// reduced.
#include <ATen/ATen.h>

#include <algorithm>
#include <functional>

#include "engine/ops/rules/families.h"
#include "engine/values/as_size.h"

namespace lockstep::rules {
namespace {

// The reduced dimensions (absent, None or empty: all; of any.dims and all.dims, where they are empty, none),
// and whether they stay as size 1.
struct Reduced {
  std::vector<bool> dims;
  bool keepdim = false;
  // The output's dimension for input dimension d.
  int64_t output_dim(int64_t d) const {
    if (keepdim) return d;
    return d - std::count(dims.begin(), dims.begin() + d, true);
  }
};

Reduced reduced(const OpCall& call) {
  const int64_t ndim = call.inputs[0].ndim();
  Reduced result{std::vector<bool>(as_size(ndim), true), call.outputs[0].ndim() == ndim && ndim > 0};
  const bool named = call.args.find("dim") != nullptr;
  const auto dims = named ? call.integers("dim") : std::vector<int64_t>{};
  if (dims.empty() && (call.overload != "dims" || call.args["dim"].isNone())) return result;
  result.dims.assign(as_size(ndim), false);
  for (const int64_t d : dims)
    if (ndim > 0) result.dims[as_size(wrap_dim(d, ndim))] = true;
  return result;
}

// Blocks are whole rows, the indices of the first dimensions: what is reduced within rows leaves these where
// they are.
void add_blocks(Rows& rows, const OpCall& call, const Reduced& by) {
  const auto* ragged = std::get_if<RaggedShard>(&call.current[0]);
  if (ragged == nullptr || ragged->dims.empty()) return;
  const auto of_rows = by.dims.begin() + std::ssize(ragged->dims);
  if (std::find(by.dims.begin(), of_rows, true) == of_rows) rows.push_back(row_of(call, *ragged, *ragged));
}

Rows kept_shards(const OpCall& call, const Reduced& by) {
  Rows rows;
  add_blocks(rows, call, by);
  for (int64_t d = 0; d < call.inputs[0].ndim(); ++d)
    if (!by.dims[as_size(d)]) rows.push_back(row_of(call, Shard{d}, Shard{by.output_dim(d)}));
  return rows;
}

Rows reduced_whole(const OpCall& call) {
  return kept_shards(call, reduced(call));
}

// Flat locals are reduced whole. `even`: as below.
void add_flat(Rows& rows, const OpCall& call, const Reduced& by, ReduceOp op, bool even) {
  const auto* ragged = std::get_if<RaggedShard>(&call.current[0]);
  if (ragged == nullptr || std::find(by.dims.begin(), by.dims.end(), false) != by.dims.end()) return;
  const auto& units = ragged->units;
  const bool alike = std::adjacent_find(units.begin(), units.end(), std::not_equal_to<>()) == units.end();
  if (even && (ragged->lists > 1 || !alike)) return;
  rows.push_back(row_of(call, *ragged, Partial{op}));
}

// `even`: only where ranks have as many elements each.
Rows pending(const OpCall& call, ReduceOp op, bool even = false) {
  const auto by = reduced(call);
  auto rows = kept_shards(call, by);
  for (int64_t d = 0; d < call.inputs[0].ndim(); ++d) {
    if (!by.dims[as_size(d)]) continue;
    rows.push_back(row_of(call, Shard{d}, Partial{op}));
    if (even) rows.back().even = {{0, d}};
  }
  add_flat(rows, call, by, op, even);
  return rows;
}

bool same_dtype(const OpCall& call) {
  return call.inputs[0].dtype == call.outputs[0].dtype;
}

Rows extremum(const OpCall& call, ReduceOp op) {
  auto rows = pending(call, op);
  add_partials(rows, call, {op});
  return rows;
}

Rows sum(const OpCall& call) {
  auto rows = pending(call, ReduceOp::kSum);
  if (same_dtype(call)) add_partials(rows, call, {ReduceOp::kSum, ReduceOp::kAvg});
  return rows;
}

Rows mean(const OpCall& call) {
  // A mean of means is the mean only of equal counts.
  auto rows = pending(call, ReduceOp::kAvg, true);
  if (same_dtype(call)) add_partials(rows, call, {ReduceOp::kSum, ReduceOp::kAvg});
  return rows;
}

Rows prod(const OpCall& call) {
  return pending(call, ReduceOp::kProduct);
}

Rows amax(const OpCall& call) {
  return extremum(call, ReduceOp::kMax);
}
Rows amin(const OpCall& call) {
  return extremum(call, ReduceOp::kMin);
}

// Of all elements; along a dimension they say where the extremum stands, too.
Rows max(const OpCall& call) {
  return call.args.find("dim") == nullptr ? amax(call) : reduced_whole(call);
}
Rows min(const OpCall& call) {
  return call.args.find("dim") == nullptr ? amin(call) : reduced_whole(call);
}

Rows any(const OpCall& call) {
  return pending(call, ReduceOp::kMax);
}

Rows all(const OpCall& call) {
  return pending(call, ReduceOp::kMin);
}

// --- results ---

at::Tensor as_sum(const Arguments& args) {
  if (args.find("dim") == nullptr) return at::sum(args.tensor("self"));
  const bool keepdim = args["keepdim"].toBool();
  if (args["dim"].isNone()) return at::sum(args.tensor("self"), at::OptionalIntArrayRef(), keepdim);
  return at::sum(args.tensor("self"), args.integers("dim"), keepdim);
}
Metas of_variance(const Arguments& args) {
  return {{as_sum(args)}};
}
Metas of_variance_and_mean(const Arguments& args) {
  const auto sum = as_sum(args);
  return {{sum, at::empty_like(sum)}};
}

// Full reductions: the overloads with dims have meta kernels, and max(self, other) too.
Metas of_extremum(const Arguments& args) {
  if (args.find("dim") != nullptr || args.find("other") != nullptr) return std::nullopt;
  return {{at::amax(args.tensor("self"))}};
}
Metas of_prod(const Arguments& args) {
  if (args.find("dim") != nullptr) return std::nullopt;
  return {{at::sum(args.tensor("self"), args["dtype"].toOptional<at::ScalarType>())}};
}

}  // namespace

Records reduction_ops() {
  // clang-format off
  return {
      {.name = "sum", .rows = rules::sum, .run = local::reduction},
      {.name = "mean", .rows = mean, .run = local::reduction, .of_shared = OfShared::kMean},
      {.name = "prod", .rows = prod, .run = local::reduction, .infer = of_prod},
      {.name = "amax", .rows = amax, .run = local::reduction},
      {.name = "amin", .rows = amin, .run = local::reduction},
      {.name = "any", .rows = rules::any, .run = local::reduction},
      {.name = "all", .rows = rules::all, .run = local::reduction},
      {.name = "argmax", .rows = reduced_whole, .run = local::within_rows},
      {.name = "argmin", .rows = reduced_whole, .run = local::within_rows},
      {.name = "logsumexp", .rows = reduced_whole, .run = local::within_rows},
      {.name = "var", .rows = reduced_whole, .run = local::within_rows, .infer = of_variance},
      {.name = "var_mean", .rows = reduced_whole, .run = local::within_rows, .infer = of_variance_and_mean},
      {.name = "std", .rows = reduced_whole, .run = local::within_rows, .infer = of_variance},
      {.name = "linalg_vector_norm", .rows = reduced_whole, .run = local::within_rows,
       .of_shared = OfShared::kNorm},
      {.name = "norm", .rows = reduced_whole, .run = local::within_rows, .of_shared = OfShared::kNorm},
      {.name = "_foreach_max"},
      {.name = "_foreach_norm", .of_shared = OfShared::kNorms},
      {.name = "max", .rows = rules::max, .run = local::reduction, .infer = of_extremum},
      {.name = "min", .rows = rules::min, .run = local::reduction, .infer = of_extremum},
      {.name = "_local_scalar_dense", .kind = OpKind::kScalar},
      {.name = "equal", .kind = OpKind::kScalar},
      {.name = "is_nonzero", .kind = OpKind::kScalar},
  };
  // clang-format on
}

}  // namespace lockstep::rules
