// SPDX-License-Identifier: Apache-2.0
#include "generators/space/meshes.h"

#include <c10/util/accumulate.h>

namespace lockstep::generators {
namespace {

struct Weighted {
  int weight;
  std::vector<int64_t> shape;
  int64_t ranks() const { return c10::multiply_integers(shape); }
};
// clang-format off
const Weighted kMeshes[] = {
    {2, {1}}, {5, {2}}, {7, {3}}, {7, {4}}, {3, {5}}, {2, {6}},
    {2, {7}}, {4, {8}}, {6, {2, 2}}, {14, {2, 3}}, {10, {3, 2}}, {6, {2, 4}},
    {5, {4, 2}}, {2, {1, 4}}, {2, {3, 1}}, {1, {1, 1}}, {4, {2, 2, 2}}, {2, {1, 3, 2}},
    {2, {3, 1, 2}}, {1, {2, 3, 1}}, {2, {2, 3, 2}}, {2, {3, 4}}, {2, {5, 3}}, {1, {4, 4}},
    {1, {16}}, {1, {2, 2, 4}}, {1, {13}}, {1, {2, 5}},
};
// clang-format on

std::vector<std::string> draw_names(Random& random, size_t ndim) {
  if (!random.chance(25)) return {};
  std::vector<std::string> names = {"pp", "dp", "tp"};
  return {names.end() - static_cast<ptrdiff_t>(ndim), names.end()};
}

}  // namespace

DeviceMesh draw_mesh(Random& random, int64_t max_ranks) {
  int64_t total = 0;
  for (const auto& entry : kMeshes) total += entry.ranks() <= max_ranks ? entry.weight : 0;
  int64_t at = random.below(total);
  for (const auto& entry : kMeshes) {
    if (entry.ranks() > max_ranks || (at -= entry.weight) >= 0) continue;
    return DeviceMesh(entry.shape, draw_names(random, entry.shape.size()));
  }
  return DeviceMesh({1});
}

}  // namespace lockstep::generators
