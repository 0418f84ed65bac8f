// SPDX-License-Identifier: Apache-2.0
#include "generators/space/meshes.h"

#include <array>

namespace lockstep::generators {
namespace {

struct Weighted {
  int weight;
  std::array<int64_t, 3> shape;  // 0 ends it
};
// clang-format off
constexpr Weighted kMeshes[] = {
    {2, {1, 0, 0}}, {5, {2, 0, 0}}, {7, {3, 0, 0}}, {7, {4, 0, 0}}, {3, {5, 0, 0}}, {2, {6, 0, 0}},
    {2, {7, 0, 0}}, {4, {8, 0, 0}}, {6, {2, 2, 0}}, {14, {2, 3, 0}}, {10, {3, 2, 0}}, {6, {2, 4, 0}},
    {5, {4, 2, 0}}, {2, {1, 4, 0}}, {2, {3, 1, 0}}, {1, {1, 1, 0}}, {4, {2, 2, 2}}, {2, {1, 3, 2}},
    {2, {3, 1, 2}}, {1, {2, 3, 1}}, {2, {2, 3, 2}}, {2, {3, 4, 0}}, {2, {5, 3, 0}}, {1, {4, 4, 0}},
    {1, {16, 0, 0}}, {1, {2, 2, 4}}, {1, {13, 0, 0}}, {1, {2, 5, 0}},
};
// clang-format on

std::vector<int64_t> sizes(const Weighted& entry) {
  std::vector<int64_t> shape;
  for (const auto n : entry.shape)
    if (n > 0) shape.push_back(n);
  return shape;
}

int64_t ranks(const Weighted& entry) {
  int64_t product = 1;
  for (const auto n : sizes(entry)) product *= n;
  return product;
}

std::vector<std::string> draw_names(Random& random, size_t ndim) {
  if (!random.chance(25)) return {};
  std::vector<std::string> names = {"pp", "dp", "tp"};
  return {names.end() - static_cast<ptrdiff_t>(ndim), names.end()};
}

void extend(std::vector<int64_t>& prefix, int64_t max_ranks, int64_t max_dims,
            std::vector<DeviceMesh>& found) {
  if (!prefix.empty()) found.emplace_back(prefix);
  if (static_cast<int64_t>(prefix.size()) == max_dims) return;
  for (int64_t n = 1; n <= max_ranks; ++n) {
    prefix.push_back(n);
    extend(prefix, max_ranks / n, max_dims, found);
    prefix.pop_back();
  }
}

}  // namespace

DeviceMesh draw_mesh(Random& random, int64_t max_ranks) {
  int64_t total = 0;
  for (const auto& entry : kMeshes) total += ranks(entry) <= max_ranks ? entry.weight : 0;
  int64_t at = random.below(total);
  for (const auto& entry : kMeshes) {
    if (ranks(entry) > max_ranks || (at -= entry.weight) >= 0) continue;
    auto shape = sizes(entry);
    auto names = draw_names(random, shape.size());
    return DeviceMesh(std::move(shape), std::move(names));
  }
  return DeviceMesh({1});
}

std::vector<DeviceMesh> all_meshes(int64_t max_ranks, int64_t max_dims) {
  std::vector<DeviceMesh> found;
  std::vector<int64_t> prefix;
  extend(prefix, max_ranks, max_dims, found);
  return found;
}

}  // namespace lockstep::generators
