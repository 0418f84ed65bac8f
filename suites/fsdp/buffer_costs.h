// SPDX-License-Identifier: Apache-2.0
// What a DBuffer allocates and sends when it gathers and reduces, and what it must: copies that nobody needs
// are seen, whatever their bits.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/fsdp/dbuffer.h"

namespace lockstep::suites {

// In bytes.
struct Spent {
  std::vector<int64_t> allocated;  // on the buffer's device, one for each allocation
  int64_t sent = 0;                // from rank to rank
};

// What `act` spends in this thread. @param sent all that has been sent so far
Spent spent_on(const fsdp::DBuffer& buffer, const std::function<int64_t()>& sent,
               const std::function<void()>& act);

// Law: a gather needs what is gathered, once for ranks that share it, and the shards of all once in its dtype
// where that is another; it sends what ranks lack. All ranks are hosted here.
// @param among as many neighbours as have all of it together; 0: each has its shard
Spent needed_to_gather(const fsdp::DBuffer& buffer, int64_t among = 0);
// Law: a reduction needs for each rank the memory of a shard, and once more for each other mesh dimension
// along which terms pend; ranks send what of their terms is others', and to replicas their parts.
// @param gradients as reduce() takes them: all of them terms, of one dtype
Spent needed_to_reduce(const fsdp::DBuffer& buffer, const std::vector<at::Tensor>& gradients);
// A gradient of ones for each tensor, which pends along all mesh dimensions that do not cut it otherwise.
std::vector<at::Tensor> terms_of_ones(const fsdp::DBuffer& buffer, c10::ScalarType dtype);

// Empty: what was spent is what is needed. On CUDA, whose allocator rounds, allocations are counted alone;
// where Worlds look for who touches what is in flight, what they keep for that is theirs, and bytes are asked
// alone.
std::string wasted(const fsdp::DBuffer& buffer, const char* what, const Spent& spent, const Spent& needed);

}  // namespace lockstep::suites
