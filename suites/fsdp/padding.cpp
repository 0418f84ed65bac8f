// SPDX-License-Identifier: Apache-2.0
#include "suites/fsdp/padding.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/tensor/dtensor.h"
#include "engine/values/error.h"

namespace lockstep::suites {

namespace {

// A group's memory of one hosted rank, as long as a shard.
std::string written(const fsdp::DBuffer& buffer, size_t r, const at::Tensor& memory) {
  const auto& layout = buffer.layout();
  auto padding = at::ones_like(memory, at::kBool);
  for (size_t i = 0; i < layout.size(); ++i) {
    const auto mine = layout.in_shard(i, buffer.comm()->positions[r]);
    padding.narrow(0, mine.start, mine.end - mine.start).fill_(false);
  }
  if (memory.masked_select(padding).isnan().all().item<bool>()) return "";
  return concat("the padding of a buffer is written on rank ", buffer.comm()->ranks[r]);
}

}  // namespace

bool is_aligned(const at::Tensor& t) {
  return !t.is_cpu() || t.numel() == 0 || reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 64 == 0;
}

std::string written_padding(const fsdp::DBuffer& buffer) {
  for (size_t r = 0; r < buffer.shards().size(); ++r)
    if (auto why = written(buffer, r, buffer.shards()[r]); !why.empty()) return why;
  return "";
}

std::string untidy_gradients(const fsdp::DBuffer& buffer, const std::vector<at::Tensor>& gradients,
                             bool sums) {
  const auto size = buffer.layout().plan().shard_size;
  for (size_t r = 0; r < buffer.shards().size(); ++r) {
    std::vector<at::Tensor> memories;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) continue;
      const auto& part = local_tensors(gradients[i])[r];
      const bool is_part =
          part.storage().nbytes() == static_cast<size_t>(size) * part.element_size() &&
          part.storage_offset() == buffer.layout().in_shard(i, buffer.comm()->positions[r]).start;
      if (!is_part && !sums) return concat("gradient ", i, " of a buffer has memory of its own");
      if (is_part && !is_aligned(part))
        return concat("gradient ", i, " does not start at a multiple of 64 bytes");
      const auto is_it = [&](const at::Tensor& memory) { return part.is_alias_of(memory); };
      if (!is_part || std::any_of(memories.begin(), memories.end(), is_it)) continue;
      memories.push_back(part.as_strided({size}, {1}, 0));
      if (auto why = written(buffer, r, memories.back()); !why.empty()) return why + ", beside gradients";
    }
    if (!sums && std::ssize(memories) > buffer.comm()->mesh.ndim())
      return concat("gradients of a buffer lie in ", memories.size(), " memories");
  }
  return "";
}

}  // namespace lockstep::suites
