// SPDX-License-Identifier: Apache-2.0
// DBuffer (veScale-FSDP, section 5): one memory for the tensors of a group. Cut, they are parts of every
// rank's shard; gathered, parts of all shards one behind the other. So one all-gather of the shards gathers
// all of them, and nothing is packed or copied out. Gathered in another dtype (mixed precision) the shards
// are cast first, tensor by tensor in one call.
#pragma once
#include <c10/core/Storage.h>

#include "engine/fsdp/group_layout.h"
#include "engine/fsdp/held_memory.h"
#include "engine/move/gathering.h"
#include "engine/tensor/redistribute.h"
#include "engine/world/world.h"

namespace lockstep::fsdp {

class DBuffer {
 public:
  // The shards of hosted ranks, filled with NaNs, which padding stays.
  DBuffer(CommPtr comm, GroupLayout layout);
  DBuffer(const DBuffer&) = delete;
  DBuffer& operator=(const DBuffer&) = delete;

  const GroupLayout& layout() const { return layout_; }
  const CommPtr& comm() const { return comm_; }
  // plan().shard_size elements each.
  const PerRank<at::Tensor>& shards() const { return shards_; }
  // Tensor i as it is cut: its locals are the shards' memory.
  const at::Tensor& sharded(size_t i) const { return sharded_[i]; }
  // Tensor i gathered: the same DTensor always, whose locals have memory from the end of gather's wait until
  // release.
  const at::Tensor& whole(size_t i) const { return wholes_[i]; }

  // Begins to gather the shards. Law: then whole(i) has the bits of redistribute(sharded(i)) to its
  // placements; each is logged as such, and where the dtype is another, as a cast before that, which each
  // log has once until one of the tensors is written. @pre not gathered
  Work gather();
  // Gives the memory back: all of it, or all but what as many neighbours along the mesh dimension have
  // together, each an equal part, from whom the next gather is then. @pre `among` divides the shards
  void release(int64_t among = 0);
  bool is_gathered() const { return gathered_; }
  // Memory like that of the shards, in another dtype, for what belongs to the group: NaNs.
  PerRank<at::Tensor> empty_shards(c10::ScalarType dtype) const;
  // What is tensor i's in such memory of hosted rank r; of all of them, a DTensor that is cut as tensor i.
  at::Tensor in_shard(size_t i, size_t r, const at::Tensor& shard) const;
  at::Tensor cut(size_t i, const PerRank<at::Tensor>& shards) const;
  // Whether a DTensor is tensor i as it is cut.
  bool has(size_t i, const at::Tensor& tensor) const;
  // Whether a DTensor has memory of what is gathered.
  bool holds(const at::Tensor& tensor) const;

  // From now on `memory` is told what is allocated for the group; null: nobody asks.
  void watch(std::shared_ptr<HeldMemory> memory);
  bool is_watched() const { return held_ != nullptr; }
  // Locals of the group's tensors or gradients have been allocated.
  void note(const PerRank<at::Tensor>& locals) const {
    if (held_ != nullptr) held_->note(locals);
  }

 private:
  at::Tensor part(const c10::Storage& memory, int64_t start, at::IntArrayRef shape) const;
  PerRank<at::Tensor> cast() const;
  std::vector<LogResult> log_gather(const PerRank<at::Tensor>& sent);
  void note_begun(const Gathering& gathering) const;
  void note_gathered() const;
  void keep(int64_t among);
  void take(PerRank<at::Tensor> arrived);

  const CommPtr comm_;
  const GroupLayout layout_;
  PerRank<at::Tensor> shards_;
  PerRank<c10::Storage> memory_;  // of what is gathered; empty in between
  PerRank<at::Tensor> kept_;      // parts of what was gathered; empty: none
  int64_t among_ = 0;             // as many neighbours as have all of it together
  std::vector<at::Tensor> sharded_, wholes_;
  std::vector<uint32_t> cast_;         // versions of what was cast last, as it is logged
  const Timeline* cast_in_ = nullptr;  // in which log
  bool gathered_ = false;
  std::shared_ptr<HeldMemory> held_;
};

}  // namespace lockstep::fsdp
