// SPDX-License-Identifier: Apache-2.0
#include "engine/fsdp/reduce.h"

#include <ATen/ATen.h>

#include "engine/tensor/plain_guard.h"
#include "engine/tensor/redistribute.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/collectives.h"
#include "engine/world/fold.h"

namespace lockstep::fsdp {
namespace {

bool pends(const Spec& spec, int64_t d) {
  return is_partial(spec.placements()[as_size(d)], ReduceOp::kSum);
}

// Whether it pends along the buffer's mesh dimension, and else lies as the tensor, or pends where that is
// whole.
bool is_term(const Spec& grad, const Spec& whole, int64_t mesh_dim) {
  for (int64_t d = 0; d < grad.mesh().ndim(); ++d) {
    const bool replicated = is_replicate(whole.placements()[as_size(d)]);
    if (d == mesh_dim ? !pends(grad, d)
                      : grad.placements()[as_size(d)] != whole.placements()[as_size(d)] &&
                            !(replicated && pends(grad, d)))
      return false;
  }
  return grad.order() == whole.order();
}

// The terms of some of the group's tensors on their way to the shards.
class Terms {
 public:
  explicit Terms(const DBuffer& buffer)
      : buffer_(buffer), groups_(buffer.comm()->along[as_size(buffer.layout().mesh_dim())]) {
    for (const int64_t position : buffer.comm()->positions)
      lines_.push_back(buffer.comm()->mesh.line(position, buffer.layout().mesh_dim()));
  }

  void add(size_t i, const DTensorImpl& grad) {
    indices_.push_back(i);
    auto& locals = flat_.emplace_back();
    for (const auto& local : grad.locals()) locals.push_back(local.reshape({-1}));
  }
  const std::vector<size_t>& indices() const { return indices_; }

  // A parcel for each place and each tensor of which it holds a part; from each place what this one holds.
  Exchange exchange() {
    Exchange asked{"reduce_scatter", PerRank<Part>(groups_.size()), nullptr};
    for (size_t r = 0; r < groups_.size(); ++r) {
      asked.parts[r].group = &groups_[r];
      folds_.emplace_back(indices_.size(), Fold(ReduceOp::kSum));
      auto& mine = mine_.emplace_back();
      for (size_t t = 0; t < indices_.size(); ++t)
        if (piece(r, t, groups_[r].place).numel() > 0) mine.push_back(t);
      for (int64_t place = 0; place < std::ssize(groups_[r].ranks); ++place) {
        for (size_t t = 0; t < indices_.size(); ++t)
          if (auto sent = piece(r, t, place); sent.numel() > 0)
            asked.parts[r].sent.push_back({place, std::move(sent)});
        for (const size_t t : mine) asked.parts[r].received.push_back({place, piece(r, t, groups_[r].place)});
      }
    }
    asked.arrived = [this](size_t r, size_t parcel, const at::Tensor& term) {
      const PlainGuard plain;
      folds_[r][mine_[r][parcel % mine_[r].size()]].add(term);
    };
    return asked;
  }

  // [tensor][hosted rank]
  std::vector<PerRank<at::Tensor>> results() const {
    std::vector<PerRank<at::Tensor>> results(indices_.size());
    for (size_t t = 0; t < indices_.size(); ++t)
      for (size_t r = 0; r < groups_.size(); ++r)
        results[t].push_back(piece(r, t, groups_[r].place).numel() > 0
                                 ? folds_[r][t].result()
                                 : at::empty({0}, flat_[t][r].options()));
    return results;
  }

 private:
  Slab piece(size_t r, size_t t, int64_t place) const {
    const auto [start, end] = buffer_.layout().in_tensor(indices_[t], lines_[r][as_size(place)]);
    return {flat_[t][r], 0, start, end - start};
  }

  const DBuffer& buffer_;
  const Groups& groups_;
  PerRank<std::vector<int64_t>> lines_;    // mesh positions by place
  std::vector<size_t> indices_;            // of the group's tensors
  std::vector<PerRank<at::Tensor>> flat_;  // [tensor][hosted rank]
  PerRank<std::vector<Fold>> folds_;       // [hosted rank][tensor]
  PerRank<std::vector<size_t>> mine_;      // by hosted rank: tensors of which it has a part
};

// What pends along these mesh dimensions too, as one tensor a rank.
void all_reduce_over(std::vector<PerRank<at::Tensor>>& parts, const std::vector<size_t>& which,
                     int64_t mesh_dim, const DBuffer& buffer) {
  if (which.empty()) return;
  const auto& comm = *buffer.comm();
  PerRank<at::Tensor> terms, sums(comm.positions.size());
  for (size_t r = 0; r < sums.size(); ++r) {
    std::vector<at::Tensor> all;
    for (const size_t t : which) all.push_back(parts[t][r]);
    terms.push_back(at::cat(all));
  }
  all_reduce(*comm.world, comm.along[as_size(mesh_dim)], ReduceOp::kSum, terms, sums).wait();
  for (size_t r = 0; r < sums.size(); ++r) {
    int64_t from = 0;
    for (const size_t t : which) {
      const int64_t n = parts[t][r].numel();
      parts[t][r] = sums[r].narrow(0, from, n).clone();
      from += n;
    }
  }
  buffer.note(terms);
  buffer.note(sums);
  for (const size_t t : which) buffer.note(parts[t]);
}

// A gradient that is no term of the exchange, by its own way.
at::Tensor moved(const at::Tensor& grad, const Spec& target) {
  const auto there = move_to(grad, target.placements(), target.order(), false);
  return there.is_same(grad) ? grad.clone() : there;
}

struct Reduction {
  explicit Reduction(const DBuffer& buffer) : terms(buffer) {}
  Terms terms;
  std::vector<SpecPtr> targets;  // where each of the terms goes
  std::vector<LogResult> logs;
  std::vector<std::vector<size_t>> pending;  // by mesh dimension: which of the terms pend along it, too
};

}  // namespace

at::Tensor cast_terms(const at::Tensor& gradient, c10::ScalarType dtype) {
  const PlainGuard guard;
  const auto& from = require_dtensor(gradient, "fully_shard");
  PerRank<at::Tensor> locals;
  for (const auto& local : from.locals()) locals.push_back(local.to(dtype));
  auto cast = make_dtensor(in_dtype(from.spec(), dtype), from.comm(), std::move(locals));
  log_cast(gradient, cast);
  return cast;
}

Reducing reduce(const DBuffer& buffer, const std::vector<at::Tensor>& gradients) {
  const auto& layout = buffer.layout();
  const int64_t ndim = buffer.comm()->mesh.ndim();
  const PlainGuard guard;
  auto reduced = std::make_shared<std::vector<at::Tensor>>(gradients.size());
  const auto all = std::make_shared<Reduction>(buffer);
  all->pending.resize(as_size(ndim));
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const auto& grad = require_dtensor(gradients[i], "fully_shard");
    if (!is_term(*grad.spec(), *layout.whole(i), layout.mesh_dim())) {
      (*reduced)[i] = moved(gradients[i], *layout.sharded(i));
      buffer.note(dtensor_impl((*reduced)[i])->locals());
      continue;
    }
    std::vector<int64_t> over{layout.mesh_dim()};
    for (int64_t d = 0; d < ndim; ++d)
      if (d != layout.mesh_dim() && pends(*grad.spec(), d)) {
        over.push_back(d);
        all->pending[as_size(d)].push_back(all->terms.indices().size());
      }
    all->terms.add(i, grad);
    all->targets.push_back(in_dtype(layout.sharded(i), grad.spec()->dtype()));
    all->logs.push_back(
        log_redistribution(grad, all->targets.back(), [&] { return fold_over(*grad.spec(), over); }));
  }
  if (all->terms.indices().empty()) return {reduced, Work("reduce_scatter", [] {})};
  auto work = buffer.comm()->world->exchange(all->terms.exchange());
  return {reduced, std::move(work).then([all, reduced, &buffer, ndim] {
            const PlainGuard plain;
            auto parts = all->terms.results();
            for (const auto& part : parts) buffer.note(part);
            for (int64_t d = 0; d < ndim; ++d) all_reduce_over(parts, all->pending[as_size(d)], d, buffer);
            for (size_t t = 0; t < parts.size(); ++t) {
              const size_t i = all->terms.indices()[t];
              all->logs[t](parts[t]);
              (*reduced)[i] = make_dtensor(all->targets[t], buffer.comm(), std::move(parts[t]));
            }
          })};
}

}  // namespace lockstep::fsdp
