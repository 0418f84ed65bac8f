// SPDX-License-Identifier: Apache-2.0
// Indexing, joining and index-valued ops: the dimension that is indexed must be whole.
#include <ATen/ATen.h>

#include "engine/ops/rules/families.h"
#include "engine/values/as_size.h"

namespace lockstep::rules {
namespace {

// Dimension d keeps its shard, in all tensors that have as many dimensions as the result.
Row kept(const OpCall& call, int64_t d) {
  auto row = row_of(call, Replicate{}, Shard{d});
  for (size_t i = 0; i < call.inputs.size(); ++i)
    if (call.inputs[i].ndim() == call.outputs[0].ndim()) row.inputs[i] = Shard{d};
  return row;
}

// What picks or arranges elements commutes with these, element by element.
constexpr std::initializer_list<ReduceOp> kElementwise = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax,
                                                          ReduceOp::kMin};

// Of tensors that are joined, all pend alike, if none is converted.
void add_joined_partials(Rows& rows, const OpCall& call) {
  for (const auto& input : call.inputs)
    if (input.dtype != call.outputs[0].dtype) return;
  add_partials(rows, call, kElementwise, call.inputs.size());
}

Rows index_select(const OpCall& call) {
  const int64_t dim = wrap_dim(call.integer("dim"), call.inputs[0].ndim());
  Rows rows;
  for (int64_t d = 0; d < call.outputs[0].ndim(); ++d) {
    if (d == dim && call.inputs[1].ndim() == 0) continue;
    auto row = row_of(call, Shard{d}, Shard{d});
    if (d == dim) row.inputs = {Replicate{}, Shard{0}};
    rows.push_back(std::move(row));
  }
  add_partials(rows, call, kElementwise);
  return rows;
}

Rows gather(const OpCall& call) {
  const auto &self = call.inputs[0], &index = call.inputs[1];
  const int64_t dim = wrap_dim(call.integer("dim"), self.ndim());
  Rows rows;
  for (int64_t d = 0; d < index.ndim(); ++d) {
    auto row = row_of(call, Replicate{}, Shard{d});
    row.inputs[1] = Shard{d};
    // The index may be smaller than the tensor: then a shard of one is not the shard of the other.
    if (d != dim) {
      if (self.shape[as_size(d)] != index.shape[as_size(d)]) continue;
      row.inputs[0] = Shard{d};
    }
    rows.push_back(std::move(row));
  }
  add_partials(rows, call, kElementwise);
  return rows;
}

Rows scatter(const OpCall& call) {
  const auto &self = call.inputs[0], &index = call.inputs[1];
  const int64_t dim = wrap_dim(call.integer("dim"), self.ndim());
  Rows rows;
  for (int64_t d = 0; d < self.ndim(); ++d) {
    bool same = d != dim;
    for (const auto& input : call.inputs)
      if (input.ndim() != self.ndim() || input.shape[as_size(d)] != self.shape[as_size(d)]) same = false;
    if (!same || index.ndim() == 0) continue;
    auto row = row_of(call, Replicate{}, Shard{d});
    row.inputs.assign(call.inputs.size(), Shard{d});
    rows.push_back(std::move(row));
  }
  return rows;
}

// What a list of indices picks of a tensor: the dimensions that it leaves whole, each with its place in what
// is picked. The indices' own stand where the first of them does; in front, where one is left between them.
struct Picked {
  std::vector<std::pair<int64_t, int64_t>> whole;
  int64_t ndim = 0;
};

bool is_mask(const TensorMeta& index) {
  return index.defined && (index.dtype == at::kBool || index.dtype == at::kByte);
}

Picked picked_by(std::span<const TensorMeta> indices, int64_t ndim) {
  std::vector<bool> indexed;
  int64_t own = 0;
  for (const auto& index : indices) {
    indexed.insert(indexed.end(), as_size(is_mask(index) ? index.ndim() : 1), index.defined);
    if (index.defined) own = std::max(own, is_mask(index) ? 1 : index.ndim());
  }
  indexed.resize(as_size(ndim), false);
  const auto first = std::find(indexed.begin(), indexed.end(), true);
  const auto behind = std::find(first, indexed.end(), false);
  const bool together = std::find(behind, indexed.end(), true) == indexed.end();
  const int64_t in_front = together ? first - indexed.begin() : 0;
  Picked picked;
  for (int64_t d = 0; d < ndim; ++d) {
    if (indexed[as_size(d)]) continue;
    const auto before = std::ssize(picked.whole);
    picked.whole.emplace_back(d, before < in_front ? before : before + own);
  }
  picked.ndim = std::ssize(picked.whole) + own;
  return picked;
}

// self, indices, values. Dimensions that are not indexed stay; of one mask alone also its own, where one
// value goes to all places.
Rows index_put(const OpCall& call) {
  const auto &self = call.inputs.front(), &values = call.inputs.back(), &first = call.inputs[1];
  // A timeline does not say which dimensions a list with gaps indexes.
  const auto& list = call.args["indices"];
  if (!list.isList() || list.toListRef().size() + 2 != call.inputs.size()) return {};
  const auto picked = picked_by(std::span(call.inputs).subspan(1, call.inputs.size() - 2), self.ndim());
  const auto own = [&](int64_t place) { return values.ndim() - picked.ndim + place; };
  Rows rows;
  for (const auto& [d, place] : picked.whole) {
    auto row = row_of(call, Replicate{}, Shard{d});
    row.inputs.front() = Shard{d};
    if (own(place) >= 0 && values.shape[as_size(own(place))] != 1) row.inputs.back() = Shard{own(place)};
    if (self.shape[as_size(d)] > 1) rows.push_back(std::move(row));
  }
  const bool one_mask = call.inputs.size() == 3 && is_mask(first);
  if (!one_mask || (own(0) >= 0 && values.shape[as_size(own(0))] != 1)) return rows;
  for (int64_t d = 0; d < first.ndim(); ++d) {
    auto row = row_of(call, Replicate{}, Shard{d});
    row.inputs[0] = row.inputs[1] = Shard{d};
    rows.push_back(std::move(row));
  }
  if (first.shape == self.shape && !first.plain) add_ragged_rows(rows, call);
  return rows;
}

Rows cat(const OpCall& call) {
  Rows rows;
  // Legacy empty 1-d tensors take part without a dimension of their own.
  for (const auto& input : call.inputs)
    if (input.ndim() != call.outputs[0].ndim()) return rows;
  rows = dim_whole(call);
  add_joined_partials(rows, call);
  return rows;
}

// The result has one dimension more than the inputs: select_backward puts what was selected back into zeros.
Rows one_dim_more(const OpCall& call) {
  const int64_t ndim = call.outputs[0].ndim(), dim = wrap_dim(call.integer("dim"), ndim);
  Rows rows;
  for (int64_t d = 0; d < ndim; ++d) {
    if (d == dim) continue;
    rows.push_back(row_of(call, Replicate{}, Shard{d}));
    rows.back().inputs.assign(call.inputs.size(), Shard{d - (d > dim)});
  }
  return rows;
}

Rows stack(const OpCall& call) {
  auto rows = one_dim_more(call);
  add_joined_partials(rows, call);
  return rows;
}

Rows triangle(const OpCall& call) {
  auto rows = last_two_whole(call);
  add_partials(rows, call, {ReduceOp::kSum, ReduceOp::kAvg});
  return rows;
}

// weight, indices: columns, rows of indices, or a vocabulary shard, whose missing rows are -0.0 and pend as a
// sum.
Rows embedding(const OpCall& call) {
  const int64_t index_ndim = call.inputs[1].ndim();
  Rows rows{{{Shard{index_ndim}}, {Shard{1}, Replicate{}}}, {{Partial{}}, {Shard{0}, Replicate{}}}};
  for (int64_t d = 0; d < index_ndim; ++d) rows.push_back({{Shard{d}}, {Replicate{}, Shard{d}}});
  return rows;
}

// grad_output, indices.
Rows embedding_dense_backward(const OpCall& call) {
  const int64_t index_ndim = call.inputs[1].ndim();
  Rows rows{{{Shard{1}}, {Shard{index_ndim}, Replicate{}}}};
  // Scaling by frequency needs all indices in one place.
  if (call.args["scale_grad_by_freq"].toBool()) return rows;
  rows.push_back({{Partial{}}, {Partial{}, Replicate{}}});
  for (int64_t d = 0; d < index_ndim; ++d) rows.push_back({{Partial{}}, {Shard{d}, Shard{d}}});
  return rows;
}

// --- results ---

Metas of_index_select(const Arguments& args) {
  const auto self = args.tensor("self");
  auto shape = self.sizes().vec();
  if (!shape.empty())
    shape[as_size(wrap_dim(args.integer("dim"), self.dim()))] = args.tensor("index").numel();
  return {{sized(self, shape)}};
}
// As stock does it: each dimension's two pieces put together, which keeps a memory format that both have.
Metas of_roll(const Arguments& args) {
  const auto shifts = args.integers("shifts"), dims = args.integers("dims");
  if (dims.empty()) return dense_self(args);
  auto rolled = args.tensor("self");
  for (size_t i = 0; i < dims.size(); ++i) {
    if (rolled.numel() == 0) return laid_as_self(args);
    const int64_t n = rolled.size(dims[i]), start = ((n - shifts[i]) % n + n) % n;
    rolled = at::cat({rolled.narrow(dims[i], start, n - start), rolled.narrow(dims[i], 0, start)}, dims[i]);
  }
  return {{rolled}};
}

Metas of_embedding(const Arguments& args) {
  auto shape = args.tensor("indices").sizes().vec();
  shape.push_back(args.tensor("weight").size(1));
  return {{sized(args.tensor("weight"), shape)}};
}
Metas of_embedding_backward(const Arguments& args) {
  const auto grad = args.tensor("grad_output");
  return {{sized(grad, {args.integer("num_weights"), grad.size(-1)})}};
}

}  // namespace

Rows dim_whole(const OpCall& call) {
  const int64_t ndim = call.outputs[0].ndim(), whole = wrap_dim(call.integer("dim"), ndim);
  Rows rows;
  for (int64_t d = 0; d < ndim; ++d)
    if (d != whole) rows.push_back(kept(call, d));
  return rows;
}

Rows last_two_whole(const OpCall& call) {
  Rows rows;
  for (int64_t d = 0; d + 2 < call.outputs[0].ndim(); ++d) rows.push_back(kept(call, d));
  return rows;
}

Records index_ops() {
  // clang-format off
  Records records = {
      {.name = "index_select", .rows = index_select, .infer = of_index_select},
      {.name = "gather", .rows = gather},
      {.name = "scatter", .rows = scatter},
      {.name = "scatter_add", .rows = scatter},
      {.name = "index_put", .rows = index_put},
      {.name = "cat", .rows = cat},
      {.name = "stack", .rows = stack},
      {.name = "tril", .rows = triangle},
      {.name = "triu", .rows = triangle},
      {.name = "flip", .infer = laid_as_self},
      {.name = "roll", .infer = of_roll},
      {.name = "select_backward", .rows = one_dim_more, .run = local::sized_as_input},
      {.name = "slice_backward", .rows = dim_whole, .run = local::sized_as_input},
      {.name = "embedding", .rows = rules::embedding, .run = local::embedding, .infer = of_embedding},
      {.name = "embedding_dense_backward", .rows = embedding_dense_backward, .run = local::unless_empty,
       .infer = of_embedding_backward},
      {.name = "sort", .rows = dim_whole},
      // A mask picks as many elements as it has ones.
      {.name = "index", .kind = OpKind::kWhole},
      {.name = "nonzero", .kind = OpKind::kWhole},
      {.name = "masked_select", .kind = OpKind::kWhole},
  };
  // clang-format on
  add_alike(records, {.rows = dim_whole}, {"cumsum", "cumprod", "index_fill", "topk"});
  add_alike(records, {}, {"_index_put_impl", "constant_pad_nd", "diagonal_backward", "index_add"});
  return records;
}

}  // namespace lockstep::rules
