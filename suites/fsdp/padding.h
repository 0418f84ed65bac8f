// SPDX-License-Identifier: Apache-2.0
// Padding: what lies in a shard between tensors, NaN from the start, which nobody writes.
#pragma once
#include <string>
#include <vector>

#include "engine/fsdp/dbuffer.h"

namespace lockstep::suites {

// Whether a tensor starts at a multiple of 64 bytes. The addresses of a device are its allocator's.
bool is_aligned(const at::Tensor& tensor);

// On which rank it has been written. Empty: on none.
std::string written_padding(const fsdp::DBuffer& buffer);

// The same of gradients, by tensor of the group, undefined where there is none; and that they are parts of a
// memory like the shards, of one for those that were reduced last along the same mesh dimension. Those that
// are no parts of any, since they came as sums, are left out, if `sums`.
std::string untidy_gradients(const fsdp::DBuffer& buffer, const std::vector<at::Tensor>& gradients,
                             bool sums);

}  // namespace lockstep::suites
