// SPDX-License-Identifier: Apache-2.0
#include "engine/move/execute.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <map>

#include "engine/values/error.h"

namespace lockstep {
namespace {

size_t u(int64_t i) {
  return static_cast<size_t>(i);
}

using Locals = PerRank<at::Tensor>;

// What a group folds is the same for all its ranks: fold once for each group hosted here, then copy.
Locals fold_groups(const Step& step, const PerRank<std::vector<at::Tensor>>& terms,
                   const std::vector<Group>& groups) {
  const auto op = std::get<Partial>(step.from->placements()[u(step.mesh_dim)]).op;
  std::map<int64_t, at::Tensor> folded;
  Locals result;
  for (size_t i = 0; i < terms.size(); ++i) {
    auto& value = folded[groups[i].ranks.front()];
    result.push_back(value.defined() ? value.clone() : (value = fold(op, terms[i])));
    result.back() = conform(result.back(), *step.to);
  }
  return result;
}

Locals all_reduce(const Step& step, const Locals& locals, const Comm& comm) {
  const auto& groups = comm.along[u(step.mesh_dim)];
  return fold_groups(step, comm.world->all_gather(comm.ranks, groups, locals), groups);
}

// Along one mesh dimension: cut each local into one piece for each rank of the group.
PerRank<std::vector<at::Tensor>> cut(const Locals& locals, int64_t dim, int64_t m) {
  PerRank<std::vector<at::Tensor>> pieces;
  for (const auto& local : locals) {
    auto& mine = pieces.emplace_back();
    for (int64_t r = 0; r < m; ++r) {
      const auto piece = chunk(local.size(dim), m, r);
      mine.push_back(local.narrow(dim, piece.start, piece.length));
    }
  }
  return pieces;
}

Locals reduce_scatter(const Step& step, const Locals& locals, const Comm& comm) {
  const auto& groups = comm.along[u(step.mesh_dim)];
  const int64_t dim = shard_dim(step.to->placements()[u(step.mesh_dim)]);
  const auto op = std::get<Partial>(step.from->placements()[u(step.mesh_dim)]).op;
  const auto received =
      comm.world->all_to_all(comm.ranks, groups, cut(locals, dim, step.from->mesh().size(step.mesh_dim)));
  Locals result;
  for (const auto& terms : received) result.push_back(conform(fold(op, terms), *step.to));
  return result;
}

at::Tensor concatenate(const std::vector<at::Tensor>& parts, int64_t dim, const Spec& spec) {
  auto whole = at::cat(parts, dim);
  return conform(whole, spec);
}

Locals all_gather(const Step& step, const Locals& locals, const Comm& comm) {
  const int64_t dim = shard_dim(step.from->placements()[u(step.mesh_dim)]);
  Locals result;
  for (const auto& parts : comm.world->all_gather(comm.ranks, comm.along[u(step.mesh_dim)], locals))
    result.push_back(concatenate(parts, dim, *step.to));
  return result;
}

Locals all_to_all(const Step& step, const Locals& locals, const Comm& comm) {
  const int64_t from = shard_dim(step.from->placements()[u(step.mesh_dim)]);
  const int64_t to = shard_dim(step.to->placements()[u(step.mesh_dim)]);
  const auto received = comm.world->all_to_all(comm.ranks, comm.along[u(step.mesh_dim)],
                                               cut(locals, to, step.from->mesh().size(step.mesh_dim)));
  Locals result;
  for (const auto& parts : received) result.push_back(concatenate(parts, from, *step.to));
  return result;
}

Locals slice(const Step& step, const Locals& locals, const Comm& comm) {
  Locals result;
  for (size_t i = 0; i < locals.size(); ++i) {
    auto local = empty_local(*step.to, local_shape(*step.to, comm.positions[i]));
    for (const auto& t : transfers(*step.from, *step.to, comm.positions[i]))
      put(local, t.at_target, take(locals[i], t.at_source));
    result.push_back(std::move(local));
  }
  return result;
}

// What each hosted rank sends to each rank of the mesh: its transfers' elements one after another, flat.
PerRank<std::vector<at::Tensor>> parcels(const Step& step, const Locals& locals, const Comm& comm) {
  const int64_t ranks = comm.mesh.size();
  const auto nothing = at::empty({0}, locals.front().options());
  std::vector<size_t> hosted_index(u(ranks), locals.size());
  for (size_t i = 0; i < comm.positions.size(); ++i) hosted_index[u(comm.positions[i])] = i;
  PerRank<std::vector<at::Tensor>> sent(locals.size(), std::vector<at::Tensor>(u(ranks), nothing));
  for (int64_t target = 0; target < ranks; ++target)
    for (const auto& t : transfers(*step.from, *step.to, target)) {
      const size_t i = hosted_index[u(t.source)];
      if (i == locals.size()) continue;
      auto& parcel = sent[i][u(target)];
      const auto block = take(locals[i], t.at_source).reshape({-1});
      parcel = parcel.numel() == 0 ? block : at::cat({parcel, block});
    }
  return sent;
}

Locals exchange(const Step& step, const Locals& locals, const Comm& comm) {
  const auto received = comm.world->all_to_all(comm.ranks, comm.whole, parcels(step, locals, comm));
  Locals result;
  for (size_t i = 0; i < locals.size(); ++i) {
    auto local = empty_local(*step.to, local_shape(*step.to, comm.positions[i]));
    std::vector<int64_t> unpacked(received[i].size(), 0);  // elements, by source
    for (const auto& t : transfers(*step.from, *step.to, comm.positions[i])) {
      const int64_t n = t.at_target.numel();
      int64_t& at = unpacked[u(t.source)];
      put(local, t.at_target, received[i][u(t.source)].narrow(0, at, n).view(t.at_target.shape()));
      at += n;
    }
    result.push_back(std::move(local));
  }
  return result;
}

Locals make_partial(const Step& step, const Locals& locals, const Comm& comm) {
  const auto op = std::get<Partial>(step.to->placements()[u(step.mesh_dim)]).op;
  const bool same_everywhere = op == ReduceOp::kAvg || op == ReduceOp::kMin || op == ReduceOp::kMax;
  Locals result;
  for (size_t i = 0; i < locals.size(); ++i) {
    const bool owner = comm.along[u(step.mesh_dim)][i].place == 0;
    result.push_back(owner || same_everywhere ? locals[i].clone()
                                              : at::full_like(locals[i], identity(op, step.to->dtype())));
  }
  return result;
}

Locals run(const Step& step, const Locals& locals, const Comm& comm) {
  switch (step.kind) {
    case StepKind::kAllReduce:
      return all_reduce(step, locals, comm);
    case StepKind::kReduceScatter:
      return reduce_scatter(step, locals, comm);
    case StepKind::kSlice:
      return slice(step, locals, comm);
    case StepKind::kAllGather:
      return all_gather(step, locals, comm);
    case StepKind::kAllToAll:
      return all_to_all(step, locals, comm);
    case StepKind::kExchange:
      return exchange(step, locals, comm);
    case StepKind::kMakePartial:
      return make_partial(step, locals, comm);
  }
  throw Broken("[execute] unknown step");
}

// The run that a region lies in, or the whole local tensor.
at::Tensor run_of(const at::Tensor& local, const Region& region) {
  if (!region.run.has_value()) return local;
  const auto& [start, shape] = *region.run;
  return local.narrow(0, start, c10::multiply_integers(shape)).view(shape);
}

void put_from(const at::Tensor& local, const std::vector<IndexList>& lists, const at::Tensor& block,
              size_t dim) {
  if (dim == lists.size()) {
    local.copy_(block);
    return;
  }
  const auto d = static_cast<int64_t>(dim);
  int64_t at = 0;
  for (const auto& i : lists[dim]) {
    put_from(local.narrow(d, i.start, i.length), lists, block.narrow(d, at, i.length), dim + 1);
    at += i.length;
  }
}

}  // namespace

Locals execute(const Route& route, const Locals& locals, const Comm& comm) {
  Locals now = locals;
  for (const auto& step : route.steps) now = run(step, now, comm);
  return now;
}

at::Scalar identity(ReduceOp op, c10::ScalarType dtype) {
  const bool floating = c10::isFloatingType(dtype);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return floating ? at::Scalar(-0.0) : at::Scalar(0);
    case ReduceOp::kProduct:
      return 1;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      break;
  }
  const bool max = op == ReduceOp::kMax;
  if (floating)
    return max ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  if (dtype == at::kBool) return !max;
  const auto limits = [max](auto zero) -> at::Scalar {
    using T = decltype(zero);
    return static_cast<int64_t>(max ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max());
  };
  switch (dtype) {
    case at::kByte:
      return limits(uint8_t{});
    case at::kChar:
      return limits(int8_t{});
    case at::kShort:
      return limits(int16_t{});
    case at::kInt:
      return limits(int32_t{});
    default:
      return limits(int64_t{});
  }
}

// A NaN passes with its own bits, and the first of two: what arithmetic makes of two NaNs, and of a half's
// payload, depends on where in the tensor an element stands.
static at::Tensor with_nans_of(const at::Tensor& a, const at::Tensor& b, at::Tensor value) {
  // One read tells whether there is any.
  if (!value.is_floating_point() || !std::isnan(value.sum().item<double>())) return value;
  return at::where(at::isnan(a), a, at::where(at::isnan(b), b, value));
}

at::Tensor fold(ReduceOp op, const std::vector<at::Tensor>& terms) {
  auto value = terms.front().clone();
  for (size_t i = 1; i < terms.size(); ++i) {
    const auto& term = terms[i];
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        value = with_nans_of(value, term, value.add(term));
        break;
      case ReduceOp::kProduct:
        value = with_nans_of(value, term, value.mul(term));
        break;
      // at::maximum's NaN payload and sign of zero depend on where in the tensor an element stands; these do
      // not.
      case ReduceOp::kMax:
        value = at::where(value.gt(term).logical_or_(value.isnan()), value, term);
        break;
      case ReduceOp::kMin:
        value = at::where(value.lt(term).logical_or_(value.isnan()), value, term);
        break;
    }
  }
  if (op != ReduceOp::kAvg) return value;
  return with_nans_of(value, value, value.div(static_cast<double>(terms.size())));
}

at::Tensor empty_local(const Spec& spec, const std::vector<int64_t>& shape) {
  return at::empty_strided(shape, local_stride(spec, shape), at::TensorOptions().dtype(spec.dtype()));
}

namespace {
bool same_memory(const at::Tensor& local, const std::vector<int64_t>& stride) {
  for (size_t d = 0; d < stride.size(); ++d)
    if (local.size(static_cast<int64_t>(d)) > 1 && stride[d] != local.stride(static_cast<int64_t>(d)))
      return false;
  return true;
}
}  // namespace

at::Tensor conform(const at::Tensor& local, const Spec& spec) {
  const auto shape = local.sizes().vec();
  const auto stride = local_stride(spec, shape);
  if (local.strides() == at::IntArrayRef(stride)) return local;
  if (same_memory(local, stride) || local.numel() == 0) return local.as_strided(shape, stride);
  auto copy = at::empty_strided(shape, stride, local.options());
  copy.copy_(local);
  return copy;
}

at::Tensor conform_view(const at::Tensor& local, const Spec& spec) {
  const auto stride = local_stride(spec, local.sizes().vec());
  if (local.strides() == at::IntArrayRef(stride) || !same_memory(local, stride)) return local;
  return local.as_strided(local.sizes(), stride);
}

at::Tensor take(const at::Tensor& local, const Region& region) {
  const auto& lists = region.lists;
  auto block = run_of(local, region);
  for (size_t dim = 0; dim < lists.size(); ++dim) {
    const auto d = static_cast<int64_t>(dim);
    if (lists[dim].size() == 1) {
      block = block.narrow(d, lists[dim][0].start, lists[dim][0].length);
      continue;
    }
    std::vector<at::Tensor> parts;
    for (const auto& i : lists[dim]) parts.push_back(block.narrow(d, i.start, i.length));
    block = at::cat(parts, d);
  }
  return block;
}

void put(const at::Tensor& local, const Region& region, const at::Tensor& block) {
  put_from(run_of(local, region), region.lists, block, 0);
}

}  // namespace lockstep
