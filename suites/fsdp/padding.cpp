// SPDX-License-Identifier: Apache-2.0
#include "suites/fsdp/padding.h"

#include <ATen/ATen.h>

#include "engine/values/error.h"

namespace lockstep::suites {

std::string written_padding(const fsdp::DBuffer& buffer) {
  const auto& layout = buffer.layout();
  for (size_t r = 0; r < buffer.shards().size(); ++r) {
    auto padding = at::ones_like(buffer.shards()[r], at::kBool);
    for (size_t i = 0; i < layout.size(); ++i) {
      const auto mine = layout.in_shard(i, buffer.comm()->positions[r]);
      padding.narrow(0, mine.start, mine.end - mine.start).fill_(false);
    }
    if (!buffer.shards()[r].masked_select(padding).isnan().all().item<bool>())
      return concat("the padding of a buffer is written on rank ", buffer.comm()->ranks[r]);
  }
  return "";
}

}  // namespace lockstep::suites
