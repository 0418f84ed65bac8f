// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/bucket.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <functional>

#include "engine/context/context.h"
#include "engine/layout/layout.h"
#include "engine/plan/sums.h"
#include "engine/tensor/plain_guard.h"
#include "engine/tensor/timeline_log.h"
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

int64_t ranks_along(const DeviceMesh& mesh, const std::vector<int64_t>& dims) {
  int64_t ranks = 1;
  for (const auto d : dims) ranks *= mesh.size(d);
  return ranks;
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

Bucket::Bucket(std::vector<size_t> which, const std::vector<SpecPtr>& like, CommPtr comm,
               const std::vector<int64_t>& dims, const SumPath& path)
    : which_(std::move(which)),
      path_(path),
      dims_(dims),
      comm_(std::move(comm)),
      groups_(groups_over(*comm_, dims)),
      elements_(groups_.size(), 0),
      came_(like.size(), 0),
      records_(like.size()) {
  for (const auto& spec : like) {
    const auto to = dual(spec->placements());  // where a gradient is, whole along `dims`
    targets_.push_back(std::make_shared<const Spec>(
        spec->with_placements(to, spec->order())
            .with_tensor(spec->shape(), dense_stride(*spec, spec->shape()), spec->dtype())));
    for (size_t r = 0; r < groups_.size(); ++r)
      elements_[r] += c10::multiply_integers(local_shape(*targets_.back(), comm_->positions[r]));
  }
}

Bucket::~Bucket() {
  const PlainGuard guard;
  const auto let_go = [](std::optional<Work>& work) {
    try {
      if (work) work->wait();
    } catch (const std::exception&) {  // other ranks are lost, which whoever asks next is told
    }
  };
  for (auto& round : rounds_) let_go(round.work);
  let_go(gathering_);
}

// In the order in which they come, whoever records when the sum is made.
void Bucket::note(const std::vector<at::Tensor>& terms) {
  const bool is_recorded = comm_->context->timeline != nullptr;
  for (size_t k = 0; k < terms.size(); ++k) {
    if (!terms[k].defined()) continue;
    ++came_[k];
    if (path_.tells_passes() && is_recorded) records_[k].push_back(record(terms[k]));
    if (!path_.tells_passes())
      logs_.push_back(log_redistribution(*dtensor_impl(terms[k]), targets_[k], [&] {
        return order_of(path_, dims_, ranks_along(comm_->mesh, dims_), 1);
      }));
  }
}

// What has not come is -0.0, which changes no sum.
PerRank<at::Tensor> Bucket::in_one_memory(const std::vector<at::Tensor>& terms, c10::ScalarType dtype) const {
  const auto& some = *std::find_if(terms.begin(), terms.end(), std::mem_fn(&at::Tensor::defined));
  PerRank<at::Tensor> all;
  for (size_t r = 0; r < groups_.size(); ++r) {
    auto& flat =
        all.emplace_back(at::empty({elements_[r]}, dtensor_impl(some)->locals()[r].options().dtype(dtype)));
    int64_t from = 0;
    for (size_t k = 0; k < terms.size(); ++k) {
      const auto shape = local_shape(*targets_[k], comm_->positions[r]);
      const auto its = in_flat(flat, from, *targets_[k], shape);
      if (terms[k].defined())
        its.copy_(dtensor_impl(terms[k])->locals()[r]);
      else
        its.fill_(-0.0);
      from += c10::multiply_integers(shape);
    }
  }
  return all;
}

void Bucket::add(const std::vector<at::Tensor>& terms) {
  const PlainGuard guard;
  note(terms);
  auto flat = in_one_memory(terms, path_.sends_each_pass() ? path_.in_ranks : path_.in_passes);
  if (path_.sends_each_pass())
    send(std::move(flat));
  else
    add_pass(std::move(flat));
}

// In the memory of the first pass.
void Bucket::add_pass(PerRank<at::Tensor> values) {
  if (passes_.empty())
    for (const auto& value : values) passes_.emplace_back(ReduceOp::kSum, value);
  for (size_t r = 0; r < values.size(); ++r) passes_[r].add(values[r]);
}

void Bucket::close() {
  if (path_.sends_each_pass()) return;
  const PlainGuard guard;
  PerRank<at::Tensor> sums;
  for (const auto& pass : passes_) sums.push_back(pass.result().to(path_.in_ranks));
  passes_.clear();
  send(std::move(sums));
}

void Bucket::send(PerRank<at::Tensor> terms) {
  auto& round = rounds_.emplace_back(Round{std::move(terms)});
  PerRank<Buffers> sent, into;
  for (size_t r = 0; r < groups_.size(); ++r)
    sent.push_back(pieces_of(round.terms[r], std::ssize(groups_[r].ranks)));
  if (path_.order == SumOrder::kFold) {
    for (size_t r = 0; r < groups_.size(); ++r)
      round.parts.push_back(at::empty_like(sent[r][as_size(groups_[r].place)].tensor()));
    round.work.emplace(reduce_scatter(*comm_->world, groups_, ReduceOp::kSum, sent, round.parts));
    return;
  }
  for (size_t r = 0; r < groups_.size(); ++r) {
    const auto mine = sent[r][as_size(groups_[r].place)].tensor();
    auto& received = round.received.emplace_back();
    auto& buffers = into.emplace_back();
    for (size_t k = 0; k < groups_[r].ranks.size(); ++k) {
      received.push_back(at::empty_like(mine));
      buffers.emplace_back(received.back());
    }
  }
  round.work.emplace(all_to_all(*comm_->world, groups_, std::move(sent), std::move(into)));
}

void Bucket::settle() {
  const PlainGuard guard;
  for (auto& round : rounds_) {
    std::exchange(round.work, std::nullopt)->wait();
    take(round);
  }
  rounds_.clear();
}

void Bucket::take(Round& round) {
  if (path_.first == SumPath::First::kAll) {
    all_.resize(groups_.size());
    for (size_t r = 0; r < groups_.size(); ++r)
      all_[r].insert(all_[r].end(), round.received[r].begin(), round.received[r].end());
    return;
  }
  for (const auto& received : round.received)
    round.parts.push_back(path_.order == SumOrder::kTree ? tree_sum(received) : exact_sum(received));
  if (path_.first != SumPath::First::kRanks) {
    parts_ = std::move(round.parts);
    return;
  }
  for (auto& part : round.parts) part = part.to(path_.in_passes);
  add_pass(std::move(round.parts));
}

void Bucket::gather() {
  const PlainGuard guard;
  for (const auto& terms : all_) parts_.push_back(exact_sum(terms));
  for (const auto& pass : passes_) parts_.push_back(pass.result());
  for (size_t r = 0; r < groups_.size(); ++r) {
    parts_[r] = parts_[r].to(path_.gradient);
    whole_.push_back(at::empty({elements_[r]}, parts_[r].options()));
    into_.push_back(pieces_of(whole_[r], std::ssize(groups_[r].ranks)));
  }
  gathering_.emplace(all_gather(*comm_->world, groups_, parts_, into_));
}

std::vector<at::Tensor> Bucket::finish() {
  const PlainGuard guard;
  std::exchange(gathering_, std::nullopt)->wait();
  std::vector<at::Tensor> sums;
  std::vector<int64_t> from(groups_.size());
  for (size_t k = 0; k < targets_.size(); ++k) {
    PerRank<at::Tensor> locals;
    for (size_t r = 0; r < groups_.size(); ++r) {
      const auto shape = local_shape(*targets_[k], comm_->positions[r]);
      locals.push_back(in_flat(whole_[r], from[r], *targets_[k], shape));
      from[r] += c10::multiply_integers(shape);
    }
    sums.push_back(came_[k] == 0 ? at::Tensor() : make_dtensor(targets_[k], comm_, std::move(locals)));
  }
  return sums;
}

void Bucket::log(size_t k, const at::Tensor& sum) {
  const PlainGuard guard;
  if (!path_.tells_passes()) return logs_[k](dtensor_impl(sum)->locals());
  auto* timeline = comm_->context->timeline;
  if (timeline == nullptr || std::ssize(records_[k]) != came_[k]) return;  // passes before it was recorded
  TimelineEntry entry;
  entry.op = "lockstep::redistribute";
  entry.args.resize(records_[k].size());
  entry.tensors_per_arg.assign(records_[k].size(), 1);
  entry.inputs = std::move(records_[k]);
  entry.outputs = {record(sum)};
  entry.aliases = {-1};
  entry.order = order_of(path_, dims_, ranks_along(comm_->mesh, dims_), came_[k]);
  timeline->push_back(std::move(entry));
}

}  // namespace lockstep
