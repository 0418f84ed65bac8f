// SPDX-License-Identifier: Apache-2.0
// What tests of this folder share.
#pragma once
#include <ATen/ATen.h>

#include <functional>

#include "engine/tensor/dtensor.h"
#include "engine/values/text.h"

namespace lockstep {

// One placement of each kind that behaves differently, for each tensor dimension.
inline Placements placement_choices(int64_t ndim) {
  Placements result{Replicate{}, Partial{}};
  for (int64_t d = 0; d < ndim; ++d) {
    result.emplace_back(Shard{d});
    result.emplace_back(InterleavedShard{d, 2});
  }
  return result;
}

// The tensors on a mesh of so many ranks, in each combination of these choices of placements for a tensor of
// so many dimensions; those beyond the third are placed as the one before.
inline void each_placing(
    int64_t ranks, Placements (*choices)(int64_t ndim), const std::vector<at::Tensor>& all,
    const std::function<void(const std::vector<at::Tensor>&, const std::string&)>& visit) {
  const auto mesh = init_device_mesh({ranks});
  std::vector<Placements> chosen{{}};
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<Placements> longer;
    for (const auto& before : chosen)
      for (const auto& p : choices(all[i].dim())) {
        if (i >= 3 && p != before.back()) continue;
        longer.push_back(before);
        longer.back().push_back(p);
      }
    chosen = std::move(longer);
  }
  for (const auto& placements : chosen) {
    std::vector<at::Tensor> placed;
    for (size_t i = 0; i < all.size(); ++i)
      placed.push_back(distribute_tensor(all[i], mesh, {placements[i]}));
    visit(placed, to_string(placements));
  }
}

// -7, -6, …
inline at::Tensor ramp(std::vector<int64_t> shape) {
  return at::arange(c10::multiply_integers(shape), at::kFloat).sub(7).reshape(shape);
}

// What it throws; empty: nothing.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

// Whether a message has all of these in it.
inline bool says(const std::string& message, std::initializer_list<const char*> parts) {
  for (const auto* part : parts)
    if (message.find(part) == std::string::npos) return false;
  return true;
}

}  // namespace lockstep
