// SPDX-License-Identifier: Apache-2.0
// Where the tensors of a group lie in one buffer that is cut evenly, so that no shard cuts a block of any of
// them (veScale-FSDP, structure-aware planning). Pure arithmetic, in elements.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::fsdp {

// A tensor in blocks of so many elements, which stay whole. The last block may be short. Blocks begin anew
// after each `period` elements (tiles of rows in each of several matrices, stacked), the last before that
// perhaps short; 0: nowhere.
struct BlockTensor {
  int64_t elements = 0, granularity = 1, period = 0;
  bool operator==(const BlockTensor&) const = default;
};

// In which order the tensors lie: as given; by blocks or by elements, the largest first and ties as given; or
// that of these in which the shards are smallest, the first of them where several are.
enum class Order { kDefault, kBlock, kShape, kBest };
// "default", "block", "shape", "best"; throws Error for the rest.
Order parse_order(const std::string& text);
const char* name(Order order);

struct PlanOptions {
  int64_t shards = 1;
  int64_t alignment = 8;    // of the shard size: what collectives ask for
  int64_t start_align = 1;  // of every tensor's start; the shard size is a multiple of it, too
  Order order = Order::kDefault;
  int64_t tries = int64_t{1} << 18;  // shard sizes times tensors, or their starts, that are tried one by one
};

// Elements start .. end-1 of the buffer.
struct Interval {
  int64_t start = 0, end = 0;
  bool operator==(const Interval&) const = default;
};

struct BufferPlan {
  int64_t shards = 1, shard_size = 0;
  Order order = Order::kDefault;    // in which the tensors lie; of kBest that which is
  bool is_least = true;             // no smaller shard size has such intervals in this order
  std::vector<Interval> intervals;  // by tensor, as given

  // Elements of the buffer that are no tensor's.
  int64_t padding() const;
};

// The plan of a group. Law: the intervals are disjoint, lie in shards x shard_size, and at each multiple b of
// the shard size within one, start < b < end, a block of it begins; the shard size is a multiple of both
// alignments, and 0 where there is nothing to place. It is the least in this order, but where that takes too
// many tries. Throws Error that names the tensor and the number for what is negative, or
// no count.
BufferPlan plan(const std::vector<BlockTensor>& tensors, const PlanOptions& options);

// The same for one shard size: each tensor, in this order, where it may lie first. nullopt: not in so many
// shards.
// @param regime what divides the shard size: only tensors of whose blocks, or periods, it is a multiple may
// have all of a shard. Law: where shards of one multiple above it hold the tensors, those of every larger one
// do; of the shard size itself, which lets every tensor that can, that does not hold.
std::optional<std::vector<Interval>> place(const std::vector<BlockTensor>& tensors, int64_t shard_size,
                                           int64_t regime, const PlanOptions& options);

// Of one tensor: how many blocks each shard has, the last of them perhaps short; what RaggedShard calls
// units.
std::vector<int64_t> units(const BlockTensor& tensor, const Interval& interval, const BufferPlan& plan);

// No order has smaller shards: they hold all elements, some shard holds its share of the blocks of one
// granularity, and a tensor of twice a shard has all of one, which is then from one of its blocks to another.
int64_t least_shard_size(const std::vector<BlockTensor>& tensors, const PlanOptions& options);

}  // namespace lockstep::fsdp
