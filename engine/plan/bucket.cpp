// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/bucket.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>

#include "engine/layout/layout.h"
#include "engine/plan/sums.h"
#include "engine/tensor/plain_guard.h"
#include "engine/values/as_size.h"
#include "engine/world/comm.h"

namespace lockstep {
namespace {

// The positions that differ from this one along the mesh dimensions alone, in the row-major order of these.
std::vector<int64_t> positions_over(const DeviceMesh& mesh, int64_t position,
                                    const std::vector<int64_t>& dims) {
  std::vector<int64_t> positions{position};
  for (const auto d : dims) {
    std::vector<int64_t> more;
    for (const auto p : positions)
      for (const auto q : mesh.line(p, d)) more.push_back(q);
    positions = std::move(more);
  }
  return positions;
}

Groups groups_over(const Comm& comm, const std::vector<int64_t>& dims) {
  Groups groups;
  for (const auto position : comm.positions) {
    Group group;
    const auto positions = positions_over(comm.mesh, position, dims);
    for (const auto p : positions) group.ranks.push_back(comm.mesh.ranks()[as_size(p)]);
    group.place = std::find(positions.begin(), positions.end(), position) - positions.begin();
    groups.push_back(std::move(group));
  }
  return groups;
}

ReductionOrder order_over(const Spec& spec, const std::vector<int64_t>& dims, SumOrder order) {
  ReductionOrder::Node root;
  root.kind = order == SumOrder::kFold   ? ReductionOrder::Kind::kFold
              : order == SumOrder::kTree ? ReductionOrder::Kind::kTree
                                         : ReductionOrder::Kind::kExact;
  root.dtype = spec.dtype();
  int64_t ranks = 1;
  for (const auto d : dims) ranks *= spec.mesh().size(d);
  for (int64_t r = 0; r < ranks; ++r) {
    ReductionOrder::Node term;
    term.rank = r;
    term.dtype = spec.dtype();
    root.children.push_back(std::move(term));
  }
  return {dims, {{0, std::move(root)}}};
}

// A local tensor in the memory of all, as the Spec says that it lies.
at::Tensor in_flat(const at::Tensor& flat, int64_t from, const Spec& spec, at::IntArrayRef shape) {
  return flat.as_strided(shape, local_stride(spec, shape.vec()), from);
}

Buffers pieces_of(const at::Tensor& flat, int64_t ranks) {
  Buffers pieces;
  for (int64_t r = 0; r < ranks; ++r) {
    const auto piece = chunk(flat.numel(), ranks, r);
    pieces.emplace_back(flat, 0, piece.start, piece.length);
  }
  return pieces;
}

}  // namespace

Bucket::Bucket(std::vector<size_t> which, const std::vector<at::Tensor>& terms,
               const std::vector<int64_t>& dims, SumOrder order)
    : which_(std::move(which)),
      order_(order),
      comm_(dtensor_impl(terms.at(0))->comm()),
      groups_(groups_over(*comm_, dims)) {
  const PlainGuard guard;
  for (const auto& term : terms) {
    const auto& from = *dtensor_impl(term);
    auto to = from.spec()->placements();
    for (const auto d : dims) to[as_size(d)] = Replicate{};
    const auto& spec = *from.spec();
    targets_.push_back(std::make_shared<const Spec>(
        spec.with_placements(std::move(to), spec.order())
            .with_tensor(spec.shape(), dense_stride(spec, spec.shape()), spec.dtype())));
    logs_.push_back(
        log_redistribution(from, targets_.back(), [&] { return order_over(*from.spec(), dims, order); }));
  }
  for (size_t r = 0; r < groups_.size(); ++r) {
    int64_t elements = 0;
    for (const auto& term : terms) elements += dtensor_impl(term)->locals()[r].numel();
    auto flat = at::empty({elements}, dtensor_impl(terms[0])->locals()[r].options());
    int64_t from = 0;
    for (size_t k = 0; k < terms.size(); ++k) {
      const auto& local = dtensor_impl(terms[k])->locals()[r];
      in_flat(flat, from, *targets_[k], local.sizes()).copy_(local);
      from += local.numel();
    }
    terms_.push_back(std::move(flat));
  }
  work_.emplace(begin());
}

Bucket::~Bucket() {
  const PlainGuard guard;
  try {
    if (work_) work_->wait();
  } catch (const std::exception&) {  // other ranks are lost, which whoever asks next is told
  }
}

Work Bucket::begin() {
  PerRank<Buffers> sent, into;
  for (size_t r = 0; r < groups_.size(); ++r)
    sent.push_back(pieces_of(terms_[r], std::ssize(groups_[r].ranks)));
  if (order_ == SumOrder::kFold) {
    for (size_t r = 0; r < groups_.size(); ++r)
      parts_.push_back(at::empty_like(sent[r][as_size(groups_[r].place)].tensor()));
    return reduce_scatter(*comm_->world, groups_, ReduceOp::kSum, sent, parts_);
  }
  for (size_t r = 0; r < groups_.size(); ++r) {
    const auto mine = sent[r][as_size(groups_[r].place)].tensor();
    auto& received = received_.emplace_back();
    auto& buffers = into.emplace_back();
    for (size_t k = 0; k < groups_[r].ranks.size(); ++k) {
      received.push_back(at::empty_like(mine));
      buffers.emplace_back(received.back());
    }
  }
  return all_to_all(*comm_->world, groups_, std::move(sent), std::move(into));
}

void Bucket::go_on() {
  const PlainGuard guard;
  std::exchange(work_, std::nullopt)->wait();
  for (const auto& received : received_)
    parts_.push_back(order_ == SumOrder::kTree ? tree_sum(received) : exact_sum(received));
  received_.clear();
  for (size_t r = 0; r < groups_.size(); ++r) {
    whole_.push_back(at::empty_like(terms_[r]));
    into_.push_back(pieces_of(whole_[r], std::ssize(groups_[r].ranks)));
  }
  work_.emplace(all_gather(*comm_->world, groups_, parts_, into_));
}

std::vector<at::Tensor> Bucket::finish() {
  const PlainGuard guard;
  std::exchange(work_, std::nullopt)->wait();
  std::vector<at::Tensor> sums;
  std::vector<int64_t> from(groups_.size());
  for (size_t k = 0; k < targets_.size(); ++k) {
    PerRank<at::Tensor> locals;
    for (size_t r = 0; r < groups_.size(); ++r) {
      const auto shape = local_shape(*targets_[k], comm_->positions[r]);
      locals.push_back(in_flat(whole_[r], from[r], *targets_[k], shape));
      from[r] += c10::multiply_integers(shape);
    }
    logs_[k](locals);
    sums.push_back(make_dtensor(targets_[k], comm_, std::move(locals)));
  }
  return sums;
}

}  // namespace lockstep
