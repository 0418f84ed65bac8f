// SPDX-License-Identifier: Apache-2.0
// The least shards that hold the tensors of a group without cutting a block, by the definition alone: start
// by start and size by size (veScale-FSDP, structure-aware planning). For small groups.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::oracle {

// Of so many elements, in blocks of so many, of which the last may be short. After each `period` elements a
// block begins, and that before it may be short; 0: none does for that.
struct Blocks {
  int64_t elements = 0, block = 1, period = 0;
};

// Whether that element of it is the first of a block.
bool begins(const Blocks& tensor, int64_t element);

// What of all tensors alike is asked.
struct ShardsAsked {
  int64_t shards = 1;
  int64_t alignment = 1;    // of their size
  int64_t start_align = 1;  // of where a tensor starts; the size is a multiple of it, too
};

// Elements [first, second) of all shards one behind the other.
using Place = std::pair<int64_t, int64_t>;

// What is wrong with these places in shards of this size: none begins before the last ends, no shard ends
// within a block. Empty: nothing.
std::string unlawful(const std::vector<Blocks>& tensors, const std::vector<Place>& places, int64_t size,
                     const ShardsAsked& asked);

// The least size that holds them in this order. 0 if there is nothing to hold.
int64_t least_size(const std::vector<Blocks>& tensors, const ShardsAsked& asked);
// The same, where the largest blocks, or the most elements, lie first, and ties as given.
std::vector<Blocks> by_block(std::vector<Blocks> tensors);
std::vector<Blocks> by_elements(std::vector<Blocks> tensors);

}  // namespace lockstep::oracle
