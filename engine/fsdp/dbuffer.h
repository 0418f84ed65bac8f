// SPDX-License-Identifier: Apache-2.0
// DBuffer (veScale-FSDP, section 5): one memory for the tensors of a group. Cut, they are parts of every
// rank's shard; gathered, parts of all shards one behind the other. So one all-gather of the shards gathers
// all of them, and nothing is packed or copied out. Gathered in another dtype (mixed precision) the shards
// are cast first, in one pass over them.
#pragma once
#include <c10/core/Storage.h>

#include "engine/fsdp/group_layout.h"
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
  // placements; each is logged as such, and where the dtype is another, as a cast before that, which is
  // logged once until one of the tensors is written. @pre not gathered
  Work gather();
  // Gives the memory back.
  void release();
  bool is_gathered() const { return gathered_; }
  // Whether a DTensor has memory of what is gathered.
  bool holds(const at::Tensor& tensor) const;

 private:
  at::Tensor part(const c10::Storage& memory, int64_t start, at::IntArrayRef shape) const;
  at::Tensor cut(size_t i, const PerRank<at::Tensor>& shards) const;
  PerRank<at::Tensor> cast();
  std::vector<LogResult> log_gather(const PerRank<at::Tensor>& sent);
  void take(PerRank<at::Tensor> arrived);

  const CommPtr comm_;
  const GroupLayout layout_;
  PerRank<at::Tensor> shards_;
  PerRank<c10::Storage> memory_;  // of what is gathered; empty in between
  std::vector<at::Tensor> sharded_, wholes_;
  std::vector<uint32_t> cast_;  // versions of what was cast last, as it is logged
  bool gathered_ = false;
};

}  // namespace lockstep::fsdp
