// SPDX-License-Identifier: Apache-2.0
// GroupLayout: where the tensors of a group lie in one buffer that the ranks of a mesh dimension share, and
// so what each of them is when it is cut: a RaggedShard.
#pragma once
#include <optional>

#include "engine/fsdp/planner.h"
#include "engine/values/spec.h"

namespace lockstep::fsdp {

// How a group's buffer is planned that holds its tensors, or their gradients, in these dtypes: every tensor
// starts at a multiple of 64 bytes, and shards are such, in each of them.
PlanOptions buffer_options(int64_t shards, Order order, std::initializer_list<c10::ScalarType> dtypes);

// A tensor as it is when gathered, and of how many elements of a rank's part a block is, which stays whole.
struct GroupTensor {
  SpecPtr whole;
  int64_t granularity = 1;
};

// In which dtypes the tensors are gathered, and their gradients reduced. None: their own, and as gathered.
struct GroupDtypes {
  std::optional<c10::ScalarType> gathered = {}, reduced = {};
};

class GroupLayout {
 public:
  // Planned by buffer_options. A tensor of which another mesh dimension leaves ranks rows of different
  // lengths is one block, unless blocks are of one element. Throws Error where tensors are of several meshes
  // or dtypes, or not whole along `mesh_dim`.
  GroupLayout(std::vector<GroupTensor> tensors, int64_t mesh_dim, Order order = Order::kDefault,
              GroupDtypes dtypes = {});

  size_t size() const { return wholes_.size(); }
  int64_t mesh_dim() const { return mesh_dim_; }
  c10::ScalarType dtype() const { return sharded_.front()->dtype(); }
  c10::ScalarType gathered_dtype() const { return wholes_.front()->dtype(); }
  const BufferPlan& plan() const { return plan_; }
  // In gathered_dtype().
  const SpecPtr& whole(size_t i) const { return wholes_[i]; }
  // The same in dtype(), cut by a RaggedShard along mesh_dim, of the fewest leading dimensions that tell it.
  const SpecPtr& sharded(size_t i) const { return sharded_[i]; }
  // What the plan was told of each.
  const std::vector<BlockTensor>& blocks() const { return blocks_; }
  // Of tensor i the elements in the shard of the rank at this mesh position, counted within the shard: start
  // = end for none.
  Interval in_shard(size_t i, int64_t position) const;
  // The same elements, counted within what the others leave to the rank of the tensor.
  Interval in_tensor(size_t i, int64_t position) const;

 private:
  int64_t place(int64_t position) const;

  int64_t mesh_dim_;
  std::vector<SpecPtr> wholes_, sharded_;
  std::vector<std::vector<int64_t>> elements_;  // of tensor i at each mesh position
  std::vector<BlockTensor> blocks_;
  BufferPlan plan_;
};

}  // namespace lockstep::fsdp
