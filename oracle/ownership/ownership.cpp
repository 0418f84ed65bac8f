// SPDX-License-Identifier: Apache-2.0
#include "oracle/ownership/ownership.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/in_host.h"
#include "oracle/ownership/reduce.h"
#include "oracle/ownership/slicing.h"

namespace lockstep::oracle {
namespace {

// Each of `parts` pieces is cut over the mesh dimension; the shares are concatenated.
Indices interleaved(const Indices& list, int64_t parts, int64_t ranks, int64_t rank) {
  Indices held;
  for (int64_t part = 0; part < parts; ++part) {
    const auto share = chunk_of(chunk_of(list, parts, part), ranks, rank);
    held.insert(held.end(), share.begin(), share.end());
  }
  return held;
}

const RaggedShard* ragged_of(const Spec& spec, int64_t* mesh_dim = nullptr) {
  for (size_t d = 0; d < spec.placements().size(); ++d)
    if (const auto* ragged = std::get_if<RaggedShard>(&spec.placements()[d])) {
      if (mesh_dim != nullptr) *mesh_dim = static_cast<int64_t>(d);
      return ragged;
    }
  return nullptr;
}

// The units by which a rank's share is cut: those of its coordinate along the other mesh dimensions, the last
// of which runs fastest, if they differ by it.
std::vector<int64_t> units_of(const RaggedShard& ragged, const DeviceMesh& mesh, int64_t mesh_dim,
                              int64_t position) {
  const auto ranks = as_size(mesh.size(mesh_dim));
  if (ragged.units.size() == ranks) return ragged.units;
  size_t others = 0, stride = 1;
  const auto at = mesh.coordinate(position);
  for (int64_t d = mesh.ndim() - 1; d >= 0; --d) {
    if (d == mesh_dim) continue;
    others += stride * as_size(at[as_size(d)]);
    stride *= as_size(mesh.size(d));
  }
  std::vector<int64_t> units;
  for (size_t r = 0; r < ranks; ++r) units.push_back(ragged.units.at(others * ranks + r));
  return units;
}

// Of `elements`, cut into as many equal blocks as there are units, those of one rank: ranks take their blocks
// in order.
Run blocks_of(const std::vector<int64_t>& units, int64_t elements, int64_t rank) {
  int64_t all = 0, before = 0;
  for (size_t r = 0; r < units.size(); ++r) {
    all += units[r];
    if (static_cast<int64_t>(r) < rank) before += units[r];
  }
  const int64_t block = elements / all;
  return {before * block, (before + units[as_size(rank)]) * block};
}

std::optional<Disagreement> misfit(const std::vector<at::Tensor>& locals, const Spec& spec) {
  LOCKSTEP_CHECK(std::ssize(locals) == spec.mesh().size(), "[assemble] ", locals.size(),
                 " local tensors for the ", spec.mesh().size(), " ranks of mesh ", spec.mesh());
  for (int64_t p = 0; p < spec.mesh().size(); ++p) {
    const auto& local = locals[as_size(p)];
    if (!local.defined()) return Disagreement{p, p, {}, concat("position ", p, " holds no tensor")};
    const auto shape = local_shape(spec, p);
    if (local.sizes().vec() != shape || local.scalar_type() != spec.dtype())
      return Disagreement{p,
                          p,
                          {},
                          concat("position ", p, " holds ", dtype_name(local.scalar_type()), "[",
                                 shape_text(local.sizes().vec()), "], where ", spec, " gives it ",
                                 dtype_name(spec.dtype()), "[", shape_text(shape), "]")};
  }
  return std::nullopt;
}

// The first position that holds the same elements: coordinate 0 along every mesh dimension that does not
// distribute.
int64_t first_replica(const Spec& spec, int64_t position) {
  auto at = spec.mesh().coordinate(position);
  for (size_t d = 0; d < at.size(); ++d)
    if (!distributes(spec.placements()[d])) at[d] = 0;
  return spec.mesh().position(at);
}

std::optional<Disagreement> compare_replicas(const std::vector<at::Tensor>& locals, const Spec& spec) {
  for (int64_t p = 0; p < spec.mesh().size(); ++p) {
    const auto reference = first_replica(spec, p);
    if (locals[as_size(p)].is_same(locals[as_size(reference)])) continue;
    const auto difference = compare(locals[as_size(reference)], locals[as_size(p)]);
    if (difference.equal()) continue;
    Disagreement found{p, reference, owned(spec, p).global_index(difference.first_index), ""};
    found.text = concat("replicas at positions ", reference, " and ", p,
                        " differ: ", describe(difference, spec.dtype()));
    return found;
  }
  return std::nullopt;
}

// Each position's local with the terms of its group, which stand along `mesh_dims`, made one: the same tensor
// at all positions of the group.
template <class Value>
std::vector<at::Tensor> fold_groups(std::vector<at::Tensor> locals, const Spec& spec,
                                    const std::vector<int64_t>& mesh_dims, const Value& value) {
  const at::NoGradGuard no_grad;
  for (const auto& group : groups_along(mesh_dims, spec.mesh().shape())) {
    std::vector<at::Tensor> terms;
    for (const auto position : group) terms.push_back(locals[position]);
    const at::Tensor folded = value(terms, static_cast<int64_t>(group.front()));
    for (const auto position : group) locals[position] = folded;
  }
  return locals;
}

Assembly assembled(const std::vector<at::Tensor>& values, const Spec& spec) {
  const at::NoGradGuard no_grad;
  const auto stride = local_stride(spec.shape(), spec.stride(), spec.shape());
  Assembly result{at::empty_strided(spec.shape(), stride, at::TensorOptions(spec.dtype())), std::nullopt};
  int64_t written = 0;
  for (int64_t p = 0; p < spec.mesh().size(); ++p) {
    if (first_replica(spec, p) != p) continue;
    written += values[as_size(p)].numel();
    copy_in(values[as_size(p)], owned(spec, p), result.global);
  }
  if (written != spec.numel()) throw Broken(concat("[assemble] ", written, " elements written of ", spec));
  result.disagreement = compare_replicas(values, spec);
  return result;
}

}  // namespace

Indices chunk_of(const Indices& list, int64_t pieces, int64_t which) {
  const auto n = std::ssize(list);
  const int64_t piece_size = (n + pieces - 1) / pieces;
  Indices held;
  for (int64_t i = 0; i < n; ++i)
    if (i / piece_size == which) held.push_back(list[as_size(i)]);
  return held;
}

Share owned(const Spec& spec, int64_t position) {
  Share share;
  auto& lists = share.lists;
  for (const auto n : spec.shape()) {
    lists.emplace_back(as_size(n));
    std::iota(lists.back().begin(), lists.back().end(), 0);
  }
  const auto coordinate = spec.mesh().coordinate(position);
  for (const auto mesh_dim : spec.order()) {
    const auto& placement = spec.placements()[as_size(mesh_dim)];
    const auto ranks = spec.mesh().size(mesh_dim), rank = coordinate[as_size(mesh_dim)];
    if (const auto* s = std::get_if<Shard>(&placement))
      lists[as_size(s->dim)] = chunk_of(lists[as_size(s->dim)], ranks, rank);
    if (const auto* s = std::get_if<InterleavedShard>(&placement))
      lists[as_size(s->dim)] = interleaved(lists[as_size(s->dim)], s->parts, ranks, rank);
  }
  int64_t mesh_dim = 0, elements = 1;
  for (const auto& list : lists) elements *= std::ssize(list);
  if (const auto* ragged = ragged_of(spec, &mesh_dim))
    share.run = blocks_of(units_of(*ragged, spec.mesh(), mesh_dim, position), elements,
                          coordinate[as_size(mesh_dim)]);
  return share;
}

std::vector<int64_t> local_shape(const Spec& spec, int64_t position) {
  return owned(spec, position).shape();
}

at::DimVector local_stride(at::IntArrayRef shape, at::IntArrayRef stride, at::IntArrayRef local_shape) {
  const at::DimVector dense(at::infer_dense_strides(shape, stride));
  bool is_dense = true, is_empty = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    is_dense &= shape[d] <= 1 || stride[d] == dense[d];
    is_empty |= shape[d] == 0;
  }
  const at::DimVector whole = is_dense || is_empty ? at::DimVector(stride) : dense;
  if (local_shape == shape) return whole;
  at::DimVector result(at::infer_dense_strides(local_shape, whole));
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == 1 && local_shape[d] == 1) result[d] = whole[d];
  return result;
}

at::DimVector local_stride(const Share& share, at::IntArrayRef shape, at::IntArrayRef stride) {
  return share.run ? at::DimVector{1} : local_stride(shape, stride, share.shape());
}

at::Tensor slice(const at::Tensor& whole, const Spec& spec, int64_t position) {
  const at::Tensor global = in_host(whole);
  LOCKSTEP_CHECK(global.sizes().vec() == spec.shape(), "[slice] a global tensor of shape ",
                 shape_text(global.sizes().vec()), " for ", spec);
  const at::NoGradGuard no_grad;
  const auto share = owned(spec, position);
  const auto shape = share.shape();
  const auto local =
      at::empty_strided(shape, local_stride(share, spec.shape(), spec.stride()), global.options());
  copy_out(global, share, local);
  return local;
}

std::vector<at::Tensor> slices(const at::Tensor& global, const Spec& spec) {
  std::vector<at::Tensor> result;
  for (int64_t p = 0; p < spec.mesh().size(); ++p) result.push_back(slice(global, spec, p));
  return result;
}

std::vector<at::Tensor> reduce(std::vector<at::Tensor> locals, const Spec& spec,
                               const ReductionOrder& order) {
  const at::NoGradGuard no_grad;
  const auto numbers = slice_numbers(order, spec.shape());
  return fold_groups(std::move(locals), spec, order.mesh_dims, [&](const auto& terms, int64_t position) {
    const auto slice_of = numbers.defined() ? slice(numbers, spec, position) : numbers;
    return reduce(
        order, [&](int64_t rank, int64_t) { return terms.at(as_size(rank)); }, slice_of, spec.dtype());
  });
}

Assembly assemble(const std::vector<at::Tensor>& locals, const Spec& spec) {
  if (auto wrong = misfit(locals, spec)) return {at::Tensor(), std::move(wrong)};
  const auto plan = slicing_of(spec);
  return assembled(
      fold_groups(in_host(locals), spec, plan->partial_dims,
                  [&](const auto& terms, int64_t) { return fold_terms(terms, plan->ops, plan->sizes); }),
      spec);
}

Assembly assemble(const std::vector<at::Tensor>& locals, const Spec& spec, const ReductionOrder& order) {
  if (auto wrong = misfit(locals, spec)) return {at::Tensor(), std::move(wrong)};
  return assembled(reduce(in_host(locals), spec, order), spec);
}

}  // namespace lockstep::oracle
