// SPDX-License-Identifier: Apache-2.0
#include "engine/fsdp/held_memory.h"

#include <algorithm>
#include <utility>

namespace lockstep::fsdp {

// @post storages that are gone are forgotten
int64_t HeldMemory::held(Rank& rank) {
  int64_t bytes = 0;
  std::erase_if(rank.storages, [&](const Storage& storage) {
    const auto alive = storage.lock();
    if (alive) bytes += static_cast<int64_t>(alive->nbytes());
    return !alive;
  });
  return bytes;
}

void HeldMemory::note(const PerRank<at::Tensor>& locals) {
  if (ranks_.size() < locals.size()) ranks_.resize(locals.size());
  for (size_t r = 0; r < locals.size(); ++r) {
    auto& rank = ranks_[r];
    const auto storage = locals[r].storage().getWeakStorageImpl();
    if (std::find(rank.storages.begin(), rank.storages.end(), storage) == rank.storages.end())
      rank.storages.push_back(storage);
    rank.peak = std::max(rank.peak, held(rank));
  }
}

PerRank<int64_t> HeldMemory::take_peak_bytes() {
  PerRank<int64_t> peaks;
  for (auto& rank : ranks_) peaks.push_back(std::exchange(rank.peak, held(rank)));
  return peaks;
}

}  // namespace lockstep::fsdp
