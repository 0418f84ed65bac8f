// SPDX-License-Identifier: Apache-2.0
#include "oracle/ownership/slicing.h"

#include <ATen/ATen.h>

#include <cstring>
#include <unordered_map>

#include "engine/values/as_size.h"
#include "engine/values/digest.h"
#include "engine/values/error.h"

namespace lockstep::oracle {
namespace {

Slicing make_plan(const Spec& spec) {
  Slicing plan;
  const DeviceMesh& mesh = spec.mesh();
  for (int64_t d = 0; d < mesh.ndim(); ++d) {
    const auto* partial = std::get_if<Partial>(&spec.placements()[as_size(d)]);
    if (partial == nullptr) continue;
    plan.partial_dims.push_back(d);
    plan.ops.push_back(partial->op);
    plan.sizes.push_back(mesh.size(d));
    plan.terms *= mesh.size(d);
  }
  for (int64_t p = 0; p < mesh.size(); ++p) {
    const auto coordinate = mesh.coordinate(p);
    int64_t term = 0;
    for (const int64_t d : plan.partial_dims) term = term * mesh.size(d) + coordinate[as_size(d)];
    plan.term.push_back(term);
    plan.shares.push_back(owned(spec, p));
    plan.shapes.push_back(plan.shares.back().shape());
    int64_t first = 0;
    while (plan.term[as_size(first)] != term || plan.shares[as_size(first)] != plan.shares[as_size(p)])
      ++first;
    plan.first.push_back(first);
  }
  return plan;
}

bool is_whole(const at::Tensor& term, const std::vector<int64_t>& shape) {
  return term.sizes() == shape;
}

// What a plan depends on: neither strides nor dtype.
struct PlanHash {
  size_t operator()(const Spec& spec) const {
    size_t h = static_cast<size_t>(spec.mesh().size());
    const auto add = [&h](int64_t value) { h = (h ^ static_cast<size_t>(value)) * 0x9e3779b97f4a7c15u; };
    for (const int64_t n : spec.shape()) add(n);
    for (const Placement& p : spec.placements()) {
      add(static_cast<int64_t>(p.index()));
      add(shard_dim(p));
    }
    return h ^ (h >> 29);
  }
};
struct SamePlan {
  bool operator()(const Spec& a, const Spec& b) const {
    return a.shape() == b.shape() && a.placements() == b.placements() && a.order() == b.order() &&
           a.mesh() == b.mesh();
  }
};

}  // namespace

SlicingPtr slicing_of(const Spec& spec) {
  constexpr size_t kMost = 4096;
  thread_local std::unordered_map<Spec, SlicingPtr, PlanHash, SamePlan> plans;
  const auto found = plans.find(spec);
  if (found != plans.end()) return found->second;
  if (plans.size() >= kMost) plans.clear();
  return plans.emplace(spec, std::make_shared<const Slicing>(make_plan(spec))).first->second;
}

at::Tensor cut(const at::Tensor& term, const Slicing& plan, int64_t position) {
  const auto& shape = plan.shapes[as_size(position)];
  const auto& share = plan.shares[as_size(position)];
  const at::Tensor local = at::detail::empty_strided_cpu(
      shape, local_stride(share, term.sizes(), term.strides()), term.scalar_type());
  copy_out(term, share, local);
  return local;
}

at::Tensor cut(const at::Tensor& term, const Slicing& plan, int64_t position, at::IntArrayRef stride) {
  const auto& shape = plan.shapes[as_size(position)];
  const at::Tensor local = at::detail::empty_strided_cpu(shape, stride, term.scalar_type());
  write(local, cut(term, plan, position));
  return local;
}

void write(at::Tensor target, at::Tensor values) {
  for (int64_t d = 0; d < target.dim(); ++d) {
    if (target.stride(d) != 0 || target.size(d) <= 1) continue;
    target = target.narrow(d, 0, 1);
    values = values.narrow(d, 0, 1);
  }
  target.copy_(values);
}

void paste(const at::Tensor& local, const Slicing& plan, int64_t position, const at::Tensor& term) {
  copy_in(local, plan.shares[as_size(position)], term);
}

Digest digest_of_slice(const at::Tensor& term, const Slicing& plan, int64_t position) {
  const auto& shape = plan.shapes[as_size(position)];
  if (is_whole(term, shape) && term.is_contiguous()) return digest(term);
  const at::Tensor local = at::detail::empty_cpu(shape, term.scalar_type());
  copy_out(term, plan.shares[as_size(position)], local);
  return digest(local);
}

int64_t first_mismatch(const std::vector<at::Tensor>& terms, const TensorRecord& record) {
  const SlicingPtr held = slicing_of(*record.spec);
  const Slicing& plan = *held;
  const at::Tensor& any = terms.front();
  if (std::ssize(terms) != plan.terms || any.sizes() != record.spec->shape() ||
      any.scalar_type() != record.spec->dtype() || record.digests.size() != plan.term.size())
    return 0;
  for (size_t p = 0; p < plan.term.size(); ++p) {
    const auto position = static_cast<int64_t>(p);
    const bool same =
        plan.first[p] != position
            ? record.digests[p] == record.digests[as_size(plan.first[p])]
            : record.digests[p] == digest_of_slice(terms[as_size(plan.term[p])], plan, position);
    if (!same) return position;
  }
  return -1;
}

}  // namespace lockstep::oracle
