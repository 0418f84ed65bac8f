// SPDX-License-Identifier: Apache-2.0
#include "engine/fsdp/dbuffer.h"

#include <ATen/ATen.h>

#include <limits>

#include "engine/tensor/plain_guard.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/collectives.h"

namespace lockstep::fsdp {
namespace {

// An all-gather of equal parts, and what it refers to.
struct Gathered {
  Gathered(Groups meeting, PerRank<at::Tensor> sent)
      : groups(std::move(meeting)), shards(std::move(sent)), gathering(groups, shards, [this](size_t i) {
          const int64_t size = shards[i].numel(), places = std::ssize(groups[i].ranks);
          auto whole = at::empty({places * size}, shards[i].options());
          Buffers pieces;
          for (int64_t k = 0; k < places; ++k) pieces.emplace_back(whole, 0, k * size, size);
          return Whole{std::move(whole), std::move(pieces)};
        }) {}
  const Groups groups;
  const PerRank<at::Tensor> shards;
  Gathering gathering;
};

at::Tensor poisoned(int64_t size, const at::TensorOptions& options) {
  return at::full({size}, std::numeric_limits<double>::quiet_NaN(), options);
}

// Of each group the ranks that stand beside one another, as many as `among`.
Groups neighbours(const Groups& groups, int64_t among) {
  Groups near;
  for (const auto& [ranks, place] : groups) {
    const auto first = ranks.begin() + place / among * among;
    near.push_back({{first, first + among}, place % among});
  }
  return near;
}

}  // namespace

DBuffer::DBuffer(CommPtr comm, GroupLayout layout) : comm_(std::move(comm)), layout_(std::move(layout)) {
  const PlainGuard guard;
  const auto options = local_options(*layout_.sharded(0));
  for (size_t r = 0; r < comm_->positions.size(); ++r) {
    memory_.push_back(at::empty({0}, options).storage());
    shards_.push_back(poisoned(layout_.plan().shard_size, options));
  }
  for (size_t i = 0; i < layout_.size(); ++i) {
    PerRank<at::Tensor> wholes;
    for (size_t r = 0; r < comm_->positions.size(); ++r)
      wholes.push_back(part(memory_[r], layout_.plan().intervals[i].start,
                            local_shape(*layout_.whole(i), comm_->positions[r])));
    sharded_.push_back(cut(i, shards_));
    wholes_.push_back(make_dtensor(layout_.whole(i), comm_, std::move(wholes)));
  }
}

// A view of memory that need not be there yet.
at::Tensor DBuffer::part(const c10::Storage& memory, int64_t start, at::IntArrayRef shape) const {
  auto view = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(memory), shards_.front().key_set(),
                                                       c10::scalarTypeToTypeMeta(layout_.gathered_dtype()));
  auto* impl = view.unsafeGetTensorImpl();
  impl->set_storage_offset(start);
  impl->set_sizes_contiguous(shape);
  return view;
}

PerRank<at::Tensor> DBuffer::empty_shards(c10::ScalarType dtype) const {
  PerRank<at::Tensor> shards;
  for (const auto& shard : shards_)
    shards.push_back(poisoned(layout_.plan().shard_size, shard.options().dtype(dtype)));
  return shards;
}

at::Tensor DBuffer::in_shard(size_t i, size_t r, const at::Tensor& shard) const {
  const auto mine = layout_.in_shard(i, comm_->positions[r]);
  return shard.narrow(0, mine.start, mine.end - mine.start);
}

at::Tensor DBuffer::cut(size_t i, const PerRank<at::Tensor>& shards) const {
  PerRank<at::Tensor> parts;
  for (size_t r = 0; r < shards.size(); ++r) parts.push_back(in_shard(i, r, shards[r]));
  return make_dtensor(in_dtype(layout_.sharded(i), shards.front().scalar_type()), comm_, std::move(parts));
}

// Tensor by tensor, as one device does: at the end of its vectors the stock kernel makes other NaNs of f16.
PerRank<at::Tensor> DBuffer::cast() const {
  if (layout_.gathered_dtype() == layout_.dtype()) return shards_;
  auto cast = empty_shards(layout_.gathered_dtype());
  for (size_t r = 0; r < shards_.size(); ++r) {
    std::vector<at::Tensor> from, into;
    for (size_t i = 0; i < layout_.size(); ++i) {
      from.push_back(in_shard(i, r, shards_[r]));
      into.push_back(in_shard(i, r, cast[r]));
    }
    at::_foreach_copy_(into, from);
  }
  return cast;
}

std::vector<LogResult> DBuffer::log_gather(const PerRank<at::Tensor>& sent) {
  std::vector<LogResult> logs;
  const auto* log = comm_->context->timeline;
  if (log == nullptr) return logs;
  std::vector<at::Tensor> parts = sharded_;
  const bool anew =
      sent.front().numel() == layout_.plan().shard_size;  // else from neighbours, what was cast before
  if (layout_.gathered_dtype() != layout_.dtype()) {
    const auto shards = anew ? sent : cast();
    for (size_t i = 0; i < parts.size(); ++i) parts[i] = cut(i, shards);
    std::vector<uint32_t> versions;
    for (const auto& tensor : sharded_) versions.push_back(static_cast<uint32_t>(tensor._version()));
    const bool is_new = versions != cast_ || log != cast_in_ || log->empty();
    for (size_t i = 0; i < parts.size() && is_new; ++i) log_cast(sharded_[i], parts[i], true);
    cast_ = std::move(versions);
    cast_in_ = log;
  }
  for (size_t i = 0; i < parts.size(); ++i)
    logs.push_back(
        log_redistribution(*dtensor_impl(parts[i]), layout_.whole(i), [] { return ReductionOrder(); }));
  return logs;
}

void DBuffer::take(PerRank<at::Tensor> arrived) {
  for (size_t r = 0; r < arrived.size(); ++r) {
    auto* from = arrived[r].storage().unsafeGetStorageImpl();
    auto* into = memory_[r].unsafeGetStorageImpl();
    into->set_data_ptr_noswap(std::move(from->_mutable_data_ptr_no_checks()));
    into->set_nbytes(from->nbytes());
    from->set_nbytes(size_t{0});
  }
  gathered_ = true;
}

void DBuffer::watch(std::shared_ptr<HeldMemory> memory) {
  held_ = std::move(memory);
  note(shards_);
}

// What a rank gathers into has its memory from now on, though hosted ranks have one together at first.
void DBuffer::note_begun(const Gathering& gathering) const {
  if (!is_watched()) return;
  PerRank<at::Tensor> wholes;
  for (const auto* pieces : gathering.forms()) wholes.push_back(pieces->front().of);
  note(wholes);
}

void DBuffer::note_gathered() const {
  if (!is_watched()) return;
  PerRank<at::Tensor> wholes;
  for (const auto& memory : memory_) wholes.push_back(part(memory, 0, {0}));
  note(wholes);
}

Work DBuffer::gather() {
  if (gathered_) throw Broken("[DBuffer] gathered twice");
  const PlainGuard guard;
  const auto& groups = comm_->along[as_size(layout_.mesh_dim())];
  auto near = kept_.empty() ? groups : neighbours(groups, among_);
  const auto all =
      std::make_shared<Gathered>(std::move(near), kept_.empty() ? cast() : std::exchange(kept_, {}));
  note(all->shards);
  note_begun(all->gathering);
  auto logs = log_gather(all->shards);
  auto work = all_gather(*comm_->world, all->groups, all->shards, all->gathering.forms(),
                         [all](size_t i, size_t k, const at::Tensor& piece) {
                           const PlainGuard plain;
                           all->gathering.arrive(i, k, piece);
                         });
  return std::move(work).then([this, all, logs = std::move(logs)] {
    const PlainGuard plain;
    take(std::move(all->gathering).result());
    note_gathered();
    for (size_t i = 0; i < logs.size(); ++i) logs[i](dtensor_impl(wholes_[i])->locals());
  });
}

bool DBuffer::has(size_t i, const at::Tensor& tensor) const {
  const auto *impl = dtensor_impl(tensor), *mine = dtensor_impl(sharded_[i]);
  return impl != nullptr && *impl->spec() == *mine->spec() &&
         std::equal(impl->locals().begin(), impl->locals().end(), mine->locals().begin(),
                    mine->locals().end(), [](const at::Tensor& a, const at::Tensor& b) {
                      return a.is_alias_of(b) && a.storage_offset() == b.storage_offset();
                    });
}

bool DBuffer::holds(const at::Tensor& tensor) const {
  const auto* impl = dtensor_impl(tensor);
  if (impl == nullptr || impl->comm() != comm_) return false;
  const auto& locals = impl->locals();
  for (size_t r = 0; r < std::min(locals.size(), memory_.size()); ++r)
    if (locals[r].has_storage() && locals[r].storage().is_alias_of(memory_[r])) return true;
  return false;
}

// What a rank keeps is its part among its neighbours.
void DBuffer::keep(int64_t among) {
  const PlainGuard guard;
  among_ = among;
  const int64_t size = layout_.plan().shards * layout_.plan().shard_size / among;
  for (size_t r = 0; r < memory_.size(); ++r) {
    const int64_t place = comm_->along[as_size(layout_.mesh_dim())][r].place % among;
    kept_.push_back(part(memory_[r], place * size, {size}).clone());
  }
  note(kept_);
}

void DBuffer::release(int64_t among) {
  kept_.clear();
  if (!gathered_) return;
  if (among > 0) keep(among);
  for (auto& memory : memory_) {
    memory.unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(nullptr, memory.device()));
    memory.unsafeGetStorageImpl()->set_nbytes(size_t{0});
  }
  gathered_ = false;
}

}  // namespace lockstep::fsdp
