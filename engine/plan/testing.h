// SPDX-License-Identifier: Apache-2.0
// What tests of gradients in buckets share: two models alike, one whose gradients lie in buckets.
#pragma once
#include "engine/fsdp/testing.h"

namespace lockstep {

inline std::vector<std::string> all_paths(const nn::Module& module) {
  std::vector<std::string> paths;
  for (const auto& [path, value] : module.named_parameters()) paths.push_back(path);
  return paths;
}

struct Two {
  explicit Two(const MeshInWorld& mesh) {
    for (auto* net : {&bucketed, &single}) replicate(*net, mesh);
  }
  Net bucketed, single;
};

// Small integers, whose sums are exact in any order.
inline void set_integers(nn::Module& module, const MeshInWorld& mesh) {
  uint64_t seed = 0;
  for (const auto& [path, value] : module.named_parameters()) {
    const auto whole = at::randint(-2, 3, value.sizes(), at::detail::createCPUGenerator(++seed), at::kFloat);
    module.set_parameter(path, parameter(distribute_tensor(whole, mesh, placements(value))));
  }
}

}  // namespace lockstep
