// SPDX-License-Identifier: Apache-2.0
#include "engine/fsdp/reduce.h"

#include <ATen/ATen.h>

#include <functional>
#include <numeric>

#include "engine/tensor/plain_guard.h"
#include "engine/tensor/redistribute.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/fold.h"
#include "engine/world/observed.h"

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

// Terms of tensors, one a rank, along one mesh dimension on their way to whoever has the same shard: each
// part is folded in rank order as its terms come, all of them in one memory like the shards.
class Hop {
 public:
  // What hosted rank r has of the k-th tensor for the rank at this place.
  using Sent = std::function<Slab(size_t r, size_t k, int64_t place)>;
  // @param tensors of the group, by index
  Hop(const char* op, const DBuffer& buffer, int64_t mesh_dim, std::vector<size_t> tensors, Sent sent)
      : op_(op),
        buffer_(buffer),
        groups_(buffer.comm()->along[as_size(mesh_dim)]),
        tensors_(std::move(tensors)),
        sent_(std::move(sent)) {}

  // @post after wait(), parts() are there
  Work begin() {
    Exchange asked{op_, PerRank<Part>(groups_.size()), nullptr};
    mine_.resize(groups_.size());
    for (size_t r = 0; r < groups_.size(); ++r) {
      asked.parts[r].group = &groups_[r];
      for (size_t k = 0; k < tensors_.size(); ++k)
        if (!own(r, k).empty()) mine_[r].push_back(k);
      for (int64_t place = 0; place < std::ssize(groups_[r].ranks); ++place) {
        for (size_t k = 0; k < tensors_.size(); ++k)
          if (auto sent = sent_(r, k, place); !sent.empty())
            asked.parts[r].sent.push_back({place, std::move(sent)});
        for (const size_t k : mine_[r]) asked.parts[r].received.push_back({place, own(r, k)});
      }
    }
    asked.arrived = [this](size_t r, size_t parcel, const at::Tensor& term) {
      const PlainGuard plain;
      if (memory_.empty()) allocate(term.scalar_type());
      folds_[r][parcel % mine_[r].size()].add(term);
    };
    return begin_exchange(*buffer_.comm()->world, std::move(asked)).then([this] {
      const PlainGuard plain;
      if (memory_.empty()) allocate(sent_(0, 0, 0).of.scalar_type());  // of no elements
      buffer_.note(memory_);
    });
  }

  // Of the k-th tensor, by hosted rank.
  PerRank<at::Tensor> parts(size_t k) const {
    PerRank<at::Tensor> parts;
    for (size_t r = 0; r < groups_.size(); ++r) parts.push_back(buffer_.in_shard(tensors_[k], r, memory_[r]));
    return parts;
  }

 private:
  Slab own(size_t r, size_t k) const { return sent_(r, k, groups_[r].place); }
  void allocate(c10::ScalarType dtype) {
    memory_ = buffer_.empty_shards(dtype);
    for (size_t r = 0; r < groups_.size(); ++r) {
      auto& folds = folds_.emplace_back();
      for (const size_t k : mine_[r])
        folds.emplace_back(ReduceOp::kSum, buffer_.in_shard(tensors_[k], r, memory_[r]));
    }
  }

  const char* const op_;
  const DBuffer& buffer_;
  const Groups& groups_;
  const std::vector<size_t> tensors_;
  const Sent sent_;
  PerRank<std::vector<size_t>> mine_;  // of the tensors those of which a hosted rank has a part
  PerRank<at::Tensor> memory_;
  PerRank<std::vector<Fold>> folds_;  // as mine_
};

// A gradient that is no term of the exchange, by its own way.
at::Tensor moved(const at::Tensor& grad, const Spec& target) {
  const auto there = move_to(grad, target.placements(), target.order(), false);
  return there.is_same(grad) ? grad.clone() : there;
}

}  // namespace

// The terms of a group's gradients, and what becomes of them.
class Reduction {
 public:
  // @param reduced what is there already
  // @param across over the other mesh dimensions than the buffer's, too
  Reduction(const DBuffer& buffer, std::vector<at::Tensor> reduced, bool across)
      : buffer_(buffer),
        reduced_(std::move(reduced)),
        across_(across),
        pending_(as_size(buffer.comm()->mesh.ndim())) {}

  void add(size_t i, const DTensorImpl& grad) {
    const auto mesh_dim = buffer_.layout().mesh_dim();
    const auto& cut = *buffer_.layout().sharded(i);
    std::vector<int64_t> over;
    if (pends(*grad.spec(), mesh_dim)) over.push_back(mesh_dim);
    auto placements = cut.placements();
    for (int64_t d = 0; d < std::ssize(pending_); ++d) {
      if (d == mesh_dim || !pends(*grad.spec(), d)) continue;
      if (across_) over.push_back(d), pending_[as_size(d)].push_back(indices_.size());
      if (!across_) placements[as_size(d)] = Partial{};
    }
    indices_.push_back(i);
    auto& flat = parts_.emplace_back();
    for (const auto& local : grad.locals()) flat.push_back(local.reshape({-1}));
    targets_.push_back(in_dtype(std::make_shared<const Spec>(cut.with_placements(std::move(placements))),
                                grad.spec()->dtype()));
    logs_.push_back(log_redistribution(grad, targets_.back(), [&] { return fold_over(*grad.spec(), over); }));
  }
  void add_reduced(size_t i, at::Tensor gradient) { reduced_[i] = std::move(gradient); }
  const std::vector<at::Tensor>& reduced() const { return reduced_; }

  // Of whole gradients: each part goes to whoever has it.
  Work scatter() {
    const auto mesh_dim = buffer_.layout().mesh_dim();
    for (const int64_t position : buffer_.comm()->positions)
      lines_.push_back(buffer_.comm()->mesh.line(position, mesh_dim));
    std::vector<size_t> all(indices_.size());
    std::iota(all.begin(), all.end(), size_t{0});
    return begin("reduce_scatter", mesh_dim, std::move(all), [this](size_t r, size_t k, int64_t place) {
      const auto [start, end] = buffer_.layout().in_tensor(indices_[k], lines_[r][as_size(place)]);
      return Slab(parts_[k][r], 0, start, end - start);
    });
  }

  // Of parts, over the next mesh dimension along which some pend. None: reduced() has all of them.
  // @pre what has begun has been waited for
  std::optional<Work> add_up_next() {
    const PlainGuard plain;
    for (size_t k = 0; hop_ && k < hopping_.size(); ++k) parts_[hopping_[k]] = hop_->parts(k);
    hop_.reset();
    while (next_ < std::ssize(pending_)) {
      const int64_t mesh_dim = next_++;
      auto& which = pending_[as_size(mesh_dim)];
      if (which.empty() || buffer_.comm()->mesh.size(mesh_dim) == 1) continue;
      return begin("all_reduce", mesh_dim, std::move(which),
                   [this](size_t r, size_t k, int64_t) { return Slab(parts_[hopping_[k]][r]); });
    }
    for (size_t k = 0; k < indices_.size(); ++k) {
      logs_[k](parts_[k]);
      reduced_[indices_[k]] = make_dtensor(targets_[k], buffer_.comm(), std::move(parts_[k]));
    }
    indices_.clear();
    return std::nullopt;
  }

 private:
  // @param which of the terms
  Work begin(const char* op, int64_t mesh_dim, std::vector<size_t> which, Hop::Sent sent) {
    hopping_ = std::move(which);
    std::vector<size_t> tensors;
    for (const size_t k : hopping_) tensors.push_back(indices_[k]);
    hop_.emplace(op, buffer_, mesh_dim, std::move(tensors), std::move(sent));
    return hop_->begin();
  }

  const DBuffer& buffer_;
  std::vector<at::Tensor> reduced_;
  const bool across_;
  std::vector<size_t> indices_;             // of the group's tensors: the terms
  std::vector<PerRank<at::Tensor>> parts_;  // of each term: flat; then what it is folded to
  std::vector<SpecPtr> targets_;            // where each goes
  std::vector<LogResult> logs_;
  std::vector<std::vector<size_t>> pending_;  // by mesh dimension: which of the terms pend along it, too
  int64_t next_ = 0;                          // of these, that has not begun
  PerRank<std::vector<int64_t>> lines_;       // mesh positions by place
  std::vector<size_t> hopping_;               // the terms that are on their way
  std::optional<Hop> hop_;
};

Reducing::Reducing(std::shared_ptr<Reduction> reduction, std::optional<Work> begun)
    : reduction_(std::move(reduction)), begun_(std::move(begun)) {}

bool Reducing::go_on() {
  stop();
  if (auto next = reduction_->add_up_next()) begun_.emplace(std::move(*next));
  return begun_.has_value();
}

void Reducing::stop() {
  if (!begun_) return;
  auto begun = std::move(*begun_);
  begun_.reset();
  begun.wait();
}

const std::vector<at::Tensor>& Reducing::gradients() const {
  return reduction_->reduced();
}

at::Tensor cast_terms(const at::Tensor& gradient, c10::ScalarType dtype) {
  const PlainGuard guard;
  const auto& from = require_dtensor(gradient, "fully_shard");
  PerRank<at::Tensor> locals;
  for (const auto& local : from.locals()) locals.push_back(local.to(dtype));
  auto cast = make_dtensor(in_dtype(from.spec(), dtype), from.comm(), std::move(locals));
  log_cast(gradient, cast, true);
  return cast;
}

std::vector<at::Tensor> cast_reduced(const DBuffer& buffer, const std::vector<at::Tensor>& gradients,
                                     c10::ScalarType dtype) {
  const PlainGuard guard;
  const auto memory = buffer.empty_shards(dtype);
  buffer.note(memory);
  std::vector<at::Tensor> cast(gradients.size());
  PerRank<std::vector<at::Tensor>> from(memory.size()), into(memory.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    cast[i] = buffer.cut(i, memory);
    for (size_t r = 0; r < memory.size(); ++r) {
      from[r].push_back(dtensor_impl(gradients[i])->locals()[r]);
      into[r].push_back(dtensor_impl(cast[i])->locals()[r]);
    }
  }
  for (size_t r = 0; r < memory.size(); ++r)
    if (!from[r].empty()) at::_foreach_copy_(into[r], from[r]);
  for (size_t i = 0; i < gradients.size(); ++i)
    if (cast[i].defined()) log_cast(gradients[i], cast[i], false);
  return cast;
}

Reducing reduce(const DBuffer& buffer, const std::vector<at::Tensor>& gradients, bool across) {
  const auto& layout = buffer.layout();
  const PlainGuard guard;
  const auto reduction =
      std::make_shared<Reduction>(buffer, std::vector<at::Tensor>(gradients.size()), across);
  bool any_terms = false;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const auto& grad = require_dtensor(gradients[i], "fully_shard");
    const bool comes_as_terms = is_term(*grad.spec(), *layout.whole(i), layout.mesh_dim());
    any_terms |= comes_as_terms;
    if (comes_as_terms) {
      reduction->add(i, grad);
      continue;
    }
    auto there = moved(gradients[i], *layout.sharded(i));
    buffer.note(dtensor_impl(there)->locals());
    reduction->add_reduced(i, std::move(there));
  }
  return any_terms ? Reducing(reduction, reduction->scatter()) : Reducing(reduction);
}

std::vector<at::Tensor> reduce_across(const DBuffer& buffer, const std::vector<at::Tensor>& gradients) {
  const PlainGuard guard;
  const auto reduction = std::make_shared<Reduction>(buffer, gradients, true);
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined() && require_dtensor(gradients[i], "fully_shard").spec()->has_partial())
      reduction->add(i, *dtensor_impl(gradients[i]));
  Reducing reducing(reduction);
  reducing.finish();
  return reducing.gradients();
}

}  // namespace lockstep::fsdp
