// SPDX-License-Identifier: Apache-2.0
// Views: the result aliases the input, so the input never moves. Every Partial passes, since a view moves no
// value.
#include <c10/util/accumulate.h>
#include <algorithm>
#include <numeric>

#include "engine/layout/layout.h"
#include "engine/ops/rules/families.h"
#include "engine/values/as_size.h"
#include "engine/values/ragged.h"

namespace lockstep::rules {
namespace {

// The indices of the first k dimensions, flattened.
int64_t rows_of(const std::vector<int64_t>& shape, size_t k) {
  return c10::multiply_integers(shape.begin(), shape.begin() + static_cast<int64_t>(k));
}

// A view that leaves all elements in their order is, of a flat local, that local. Blocks are equal shares of
// the elements, so they are rows of the result too, wherever these can be shared out alike; best the same
// rows.
void add_flat_rows(Rows& rows, const OpCall& call) {
  const auto* ragged = std::get_if<RaggedShard>(&call.current[0]);
  if (ragged == nullptr) return;
  const auto& from = call.inputs[0].shape;
  const auto& to = call.outputs[0].shape;
  if (from == to) return rows.push_back(row_of(call, *ragged, *ragged));
  const int64_t of_input = rows_of(from, ragged->dims.size());
  std::vector<size_t> others;
  const auto add = [&](size_t k) {
    rows.push_back(
        row_of(call, *ragged, RaggedShard{up_to(static_cast<int64_t>(k)), ragged->units, ragged->lists}));
  };
  for (size_t k = 0; k <= to.size(); ++k)
    if (rows_of(to, k) == of_input)
      add(k);
    else if (ragged->lists == 1 && rows_of(to, k) % block_count(*ragged) == 0)
      others.push_back(k);
  std::for_each(others.begin(), others.end(), add);
}

// Whether all elements stay, in their order: no dimension with several indices goes, or passes another.
bool keeps_order(const OpCall& call, const std::vector<int64_t>& to) {
  if (call.outputs.size() != 1) return false;
  const auto& from = call.inputs[0].shape;
  int64_t last = -1;
  for (size_t d = 0; d < to.size(); ++d) {
    if (from[d] == 1) continue;
    if (to[d] <= last) return false;
    last = to[d];
  }
  return c10::multiply_integers(from) == c10::multiply_integers(call.outputs[0].shape);
}

// Rows where input dimension d becomes output dimension to[d] (-1: it must be whole), and Partials pass.
Rows mapped(const OpCall& call, const std::vector<int64_t>& to) {
  Rows rows;
  for (size_t d = 0; d < to.size(); ++d)
    if (to[d] >= 0) rows.push_back(row_of(call, Shard{static_cast<int64_t>(d)}, Shard{to[d]}));
  if (keeps_order(call, to)) add_flat_rows(rows, call);
  add_partials(rows, call, kEveryReduction);
  return rows;
}

// Where each dimension goes when some are gone.
std::vector<int64_t> without(int64_t ndim, const std::vector<int64_t>& gone) {
  std::vector<int64_t> to;
  int64_t next = 0;
  for (int64_t d = 0; d < ndim; ++d)
    to.push_back(std::find(gone.begin(), gone.end(), d) != gone.end() ? -1 : next++);
  return to;
}

// A run of input dimensions that becomes a run of output dimensions of the same number of elements; no size-1
// dims.
struct DimGroup {
  std::vector<int64_t> in, out;
};

std::vector<int64_t> longer_than_one(const std::vector<int64_t>& shape) {
  std::vector<int64_t> dims;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) dims.push_back(static_cast<int64_t>(d));
  return dims;
}

std::vector<DimGroup> groups(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  const auto in = longer_than_one(from), out = longer_than_one(to);
  std::vector<DimGroup> result;
  size_t i = 0, j = 0;
  while (i < in.size() && j < out.size()) {
    DimGroup group{{in[i]}, {out[j]}};
    int64_t a = from[as_size(in[i++])], b = to[as_size(out[j++])];
    while (a != b) {
      if (a < b) {
        if (i == in.size()) return {};
        a *= from[as_size(in[i])];
        group.in.push_back(in[i++]);
      } else {
        if (j == out.size()) return {};
        b *= to[as_size(out[j])];
        group.out.push_back(out[j++]);
      }
    }
    result.push_back(std::move(group));
  }
  return result;
}

// Whether the mesh dimension alone cuts both, and its pieces, of whole rows of the one shape, are of as many
// elements as those of whole rows of the other.
bool pieces_meet(const OpCall& call, const DimGroup& group) {
  const auto d = as_size(group.in[0]), o = as_size(group.out[0]);
  const int64_t rows = call.inputs[0].shape[d], of_output = call.outputs[0].shape[o];
  if (call.input_extents[0][d] != rows || call.output_extents[o] != of_output) return false;
  int64_t elements = 1;
  for (const int64_t in : group.in) elements *= call.inputs[0].shape[as_size(in)];
  const auto piece = [&](int64_t n) { return chunk(n, call.mesh_size, 0).length * (elements / n); };
  return piece(rows) == piece(of_output);
}

// Whether the mesh dimensions before this one leave each rank as much of the dimension.
bool are_even(const std::vector<int64_t>& shape, const std::vector<int64_t>& extents, int64_t dim) {
  return shape[as_size(dim)] % extents[as_size(dim)] == 0;
}

// Shard of input dimension group.in[k].
void add_shard_row(Rows& rows, const OpCall& call, const DimGroup& group, size_t k) {
  const int64_t d = group.in[k];
  if (group.in.size() == 1 && group.out.size() == 1) {
    rows.push_back(row_of(call, Shard{d}, Shard{group.out[0]}));
  } else if (k == 0) {
    // A run of whole rows is a run of whole rows of the other shape, if both divide.
    auto row = row_of(call, Shard{d}, Shard{group.out[0]});
    if (!pieces_meet(call, group)) {
      row.even = {{0, d}};
      row.even_outputs = {group.out[0]};
    }
    rows.push_back(std::move(row));
  } else if (group.out.size() == 1) {
    // A shard of an inner dimension is a share of every one of the outer pieces.
    int64_t pieces = 1;
    for (size_t i = 0; i < k; ++i) {
      if (!are_even(call.inputs[0].shape, call.input_extents[0], group.in[i])) return;
      pieces *= call.input_extents[0][as_size(group.in[i])];
    }
    auto row = row_of(call, Shard{d}, InterleavedShard{group.out[0], pieces});
    if (k + 1 < group.in.size()) row.even = {{0, d}};  // else a piece is the dimension
    rows.push_back(std::move(row));
  }
}

// How many pieces of a dimension hold something: of 4 elements in 3 pieces two have 2, and the last has none.
int64_t filled_pieces(const Placement& p, int64_t size) {
  const int64_t piece = chunk(size, parts(p), 0).length;  // the longest, and so many of it reach the end
  return chunk(size, piece, 0).length;
}

// Of a shard that is no one run: in a dimension that stays; in the outermost of several, where each run is
// one of whole rows of both shapes; and the inverse, an interleaved dimension whose pieces the split names.
void add_scattered_row(Rows& rows, const OpCall& call, const DimGroup& group, const Placement& current) {
  if (group.in[0] != shard_dim(current)) return;
  rows.push_back(row_of(call, current, with_dim(current, group.out[0])));
  if (group.in.size() == 1 && group.out.size() == 1) return;
  rows.back().even = {{0, group.in[0]}};
  rows.back().even_outputs = {group.out[0]};
  if (group.in.size() != 1) return;
  const auto cut = as_size(group.in[0]);
  const int64_t size = call.inputs[0].shape[cut];
  const bool alone = call.input_extents[0][cut] == size;
  const int64_t filled = alone ? filled_pieces(current, size) : parts(current);
  int64_t pieces = 1;
  for (const int64_t d : group.out) {
    if (pieces == filled) {
      auto row = row_of(call, current, Shard{d});
      if (d != group.out.back()) row.even_outputs = {d};
      rows.push_back(std::move(row));
    }
    if (!are_even(call.outputs[0].shape, call.output_extents, d)) return;
    pieces *= call.output_extents[as_size(d)];
  }
}

// A dimension of one element lies on one rank, and so does whatever dimension of one element the result has.
void add_rows_of_ones(Rows& rows, const OpCall& call) {
  const auto& to = call.outputs[0].shape;
  const auto one = std::find(to.begin(), to.end(), 1);
  if (one == to.end()) return;
  for (int64_t d = 0; d < call.inputs[0].ndim(); ++d) {
    if (call.inputs[0].shape[as_size(d)] != 1) continue;
    const bool same = d < std::ssize(to) && to[as_size(d)] == 1;
    rows.push_back(row_of(call, Shard{d}, Shard{same ? d : one - to.begin()}));
  }
}

// The target shape is the output's.
Rows reshape_view(const OpCall& call) {
  Rows rows;
  add_flat_rows(rows, call);
  add_partials(rows, call, kEveryReduction);
  const auto& from = call.inputs[0].shape;
  const auto& to = call.outputs[0].shape;
  if (c10::multiply_integers(from) == 0) {
    for (size_t d = 0; d < std::min(from.size(), to.size()) && from[d] == to[d]; ++d)
      rows.push_back(row_of(call, Shard{static_cast<int64_t>(d)}, Shard{static_cast<int64_t>(d)}));
    return rows;
  }
  for (const auto& group : groups(from, to)) {
    for (size_t k = 0; k < group.in.size(); ++k) add_shard_row(rows, call, group, k);
    if (is_scattered(call.current[0])) add_scattered_row(rows, call, group, call.current[0]);
  }
  add_rows_of_ones(rows, call);
  return rows;
}

Rows transpose(const OpCall& call) {
  const int64_t ndim = call.inputs[0].ndim();
  auto to = up_to(ndim);
  if (ndim > 0)
    std::swap(to[as_size(wrap_dim(call.integer("dim0"), ndim))],
              to[as_size(wrap_dim(call.integer("dim1"), ndim))]);
  return mapped(call, to);
}

Rows matrix_transpose(const OpCall& call) {
  return mapped(call, call.inputs[0].ndim() == 2 ? std::vector<int64_t>{1, 0} : up_to(call.inputs[0].ndim()));
}

Rows permute(const OpCall& call) {
  const auto dims = call.integers("dims");
  auto to = up_to(call.inputs[0].ndim());
  for (size_t i = 0; i < dims.size(); ++i)
    to[as_size(wrap_dim(dims[i], static_cast<int64_t>(dims.size())))] = static_cast<int64_t>(i);
  return mapped(call, to);
}

Rows expand(const OpCall& call) {
  const auto& in = call.inputs[0];
  const auto& out = call.outputs[0];
  auto to = up_to(in.ndim());
  for (int64_t d = 0; d < in.ndim(); ++d) {
    const int64_t o = d + out.ndim() - in.ndim();
    to[as_size(d)] = in.shape[as_size(d)] == out.shape[as_size(o)] ? o : -1;
  }
  return mapped(call, to);
}

Rows squeeze(const OpCall& call) {
  return mapped(call, without(call.inputs[0].ndim(), squeezed_dims(call)));
}

Rows unsqueeze(const OpCall& call) {
  const int64_t at = wrap_dim(call.integer("dim"), call.outputs[0].ndim());
  auto to = up_to(call.inputs[0].ndim());
  for (auto& d : to)
    if (d >= at) ++d;
  return mapped(call, to);
}

Rows identity_view(const OpCall& call) {
  if (call.inputs[0].shape != call.outputs[0].shape) return {};
  return mapped(call, up_to(call.inputs[0].ndim()));
}

// The memory that the input names; elsewhere no rank's part of a cut tensor has it.
Rows as_strided(const OpCall& call) {
  const auto &from = call.inputs[0], &to = call.outputs[0];
  const auto& offset = call.args["storage_offset"];
  bool same = offset.isNone() || offset.toInt() == from.offset;
  for (size_t d = 0; same && d < std::min(from.shape.size(), to.shape.size()); ++d)
    same = from.shape[d] == 1 || from.stride[d] == to.stride[d];
  return same || c10::multiply_integers(from.shape) == 0 ? identity_view(call) : Rows{};
}

// What the memory holds is not asked: the input's own is all of it that a meta tensor would have.
Metas of_as_strided(const Arguments& args) {
  const auto self = args.tensor("self");
  return {{at::empty_strided(args.integers("size"), args.integers("stride"), self.options())}};
}

Rows select(const OpCall& call) {
  const int64_t ndim = call.inputs[0].ndim();
  return mapped(call, without(ndim, {wrap_dim(call.integer("dim"), ndim)}));
}

// Where the dimension is a whole number of steps, and each gives an element, pieces of whole numbers of steps
// keep what they have of them.
void add_stepped_row(Rows& rows, const OpCall& call, int64_t dim) {
  const int64_t n = call.inputs[0].shape[as_size(dim)], step = call.integer("step");
  const auto& start = call.args["start"];
  const bool from_end =
      !start.isNone() && start.toInt() < 0 && start.toInt() > -n;  // which is each piece's own
  if (step == 1 || from_end || call.outputs[0].shape[as_size(dim)] * step != n) return;
  auto row = row_of(call, Shard{dim}, Shard{dim});
  row.even = {{0, dim}};
  row.even_outputs = {dim};
  rows.push_back(std::move(row));
}

// Of a result that has neighbours of the first dimension's indices, who has how many.
std::optional<RaggedShard> runs_of(const OpCall& call, const RaggedShard& ragged, const TensorMeta& result) {
  const auto& from = call.inputs[0];
  const int64_t n = from.shape[0], count = result.shape[0];
  const bool neighbours = from.stride[0] > 0 && (count == 1 || result.stride[0] == from.stride[0]);
  if (count == 0 || ragged.lists != 1 || ragged.dims.empty() || !neighbours) return std::nullopt;
  int64_t together = 1;  // elements of the dimensions that are cut as one
  for (const auto d : ragged.dims) together *= from.shape[as_size(d)];
  const int64_t of_index = together / n, of_unit = together / block_count(ragged);
  const int64_t first = result.offset / from.stride[0] * of_index, last = first + count * of_index;
  auto among = ragged;
  int64_t end = 0, largest = 0;  // blocks as large as they can be: each shard has its part of them
  for (auto& units : among.units) {
    const int64_t begin = std::exchange(end, end + units * of_unit);
    units = std::max<int64_t>(std::min(end, last) - std::max(begin, first), 0);
    largest = std::gcd(largest, units);
  }
  if (last <= first) return std::nullopt;
  for (auto& units : among.units) units /= largest;
  return among;
}

// Where a dimension falls into runs of its indices.
void add_run_row(Rows& rows, const OpCall& call, int64_t dim) {
  const auto* ragged = std::get_if<RaggedShard>(&call.current[0]);
  if (ragged == nullptr || dim != 0) return;
  auto row = row_of(call, *ragged, Replicate{});
  for (size_t j = 0; j < call.outputs.size(); ++j) {
    const auto runs = runs_of(call, *ragged, call.outputs[j]);
    if (!runs.has_value()) return;
    row.outputs[j] = *runs;
  }
  rows.push_back(std::move(row));
}

Rows slice(const OpCall& call) {
  auto to = up_to(call.inputs[0].ndim());
  const int64_t at = wrap_dim(call.integer("dim"), call.inputs[0].ndim());
  const bool whole = call.inputs[0].shape == call.outputs[0].shape;
  if (!whole) to[as_size(at)] = -1;
  auto rows = mapped(call, to);
  add_stepped_row(rows, call, at);
  if (!whole) add_run_row(rows, call, at);
  return rows;
}

Rows split(const OpCall& call) {
  auto to = up_to(call.inputs[0].ndim());
  if (call.outputs.size() == 1 && call.args.find("split_size") != nullptr) return mapped(call, to);
  const int64_t at = wrap_dim(call.integer("dim"), call.inputs[0].ndim());
  to[as_size(at)] = -1;
  auto rows = mapped(call, to);
  add_run_row(rows, call, at);
  return rows;
}

Rows diagonal(const OpCall& call) {
  const int64_t ndim = call.inputs[0].ndim();
  return mapped(call,
                without(ndim, {wrap_dim(call.integer("dim1"), ndim), wrap_dim(call.integer("dim2"), ndim)}));
}

}  // namespace

std::vector<int64_t> squeezed_dims(const OpCall& call) {
  const auto& in = call.inputs[0];
  const bool every = call.args.find("dim") == nullptr;
  auto dims = every ? up_to(in.ndim()) : call.integers("dim");
  for (auto& d : dims) d = wrap_dim(d, in.ndim());
  std::erase_if(dims, [&](int64_t d) { return d >= in.ndim() || in.shape[as_size(d)] != 1; });
  return dims;
}

Records view_ops() {
  constexpr auto kView = OpKind::kView;
  // clang-format off
  return {
      {.name = "view", .rows = reshape_view, .kind = kView, .run = local::sized,
       .except = "dtype", .own_interleaved = true},
      // A copy, so its input may move.
      {.name = "_unsafe_view", .rows = reshape_view, .run = local::sized, .own_interleaved = true},
      {.name = "_reshape_alias", .rows = reshape_view, .kind = kView, .run = local::as_view,
       .own_interleaved = true},
      {.name = "transpose", .rows = transpose, .kind = kView, .run = local::view},
      {.name = "permute", .rows = permute, .kind = kView, .run = local::view},
      {.name = "t", .rows = matrix_transpose, .kind = kView, .run = local::view},
      {.name = "expand", .rows = expand, .kind = kView, .run = local::sized},
      {.name = "squeeze", .rows = squeeze, .kind = kView, .run = local::squeeze},
      {.name = "unsqueeze", .rows = unsqueeze, .kind = kView, .run = local::view},
      {.name = "alias", .rows = identity_view, .kind = kView, .run = local::view},
      {.name = "detach", .rows = identity_view, .kind = kView, .run = local::view},
      {.name = "lift_fresh", .rows = identity_view, .kind = kView, .run = local::view,
       .returns_input = true},
      {.name = "as_strided", .rows = as_strided, .kind = kView, .run = local::as_strided,
       .infer = of_as_strided, .absolute_offset = true, .written_by_autograd = true},
      {.name = "select", .rows = select, .kind = kView, .run = local::view},
      {.name = "slice", .rows = slice, .kind = kView, .run = local::blocks},
      {.name = "split", .rows = split, .kind = kView, .run = local::blocks},
      {.name = "split_with_sizes", .rows = split, .kind = kView, .run = local::blocks},
      {.name = "unbind", .rows = select, .kind = kView, .run = local::view},
      {.name = "diagonal", .rows = diagonal, .kind = kView, .run = local::view},
  };
  // clang-format on
}

}  // namespace lockstep::rules
