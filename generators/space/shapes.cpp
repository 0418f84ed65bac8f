// SPDX-License-Identifier: Apache-2.0
#include "generators/space/shapes.h"

#include <algorithm>
#include <numeric>

namespace lockstep::generators {

int64_t numel(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t draw_size(Random& random, const DeviceMesh& mesh, int64_t least) {
  const int64_t n = mesh.size(random.below(mesh.ndim()));
  const int64_t size = random.weighted<int64_t>({{3, 0},
                                                 {10, 1},
                                                 {9, n - 1},
                                                 {12, n},
                                                 {16, n + 1},
                                                 {7, 2 * n},
                                                 {6, 2 * n + 1},
                                                 {3, 2 * n - 1},
                                                 {5, std::min<int64_t>(mesh.size(), 9)},
                                                 {3, std::min<int64_t>(mesh.size(), 9) + 1},
                                                 {26, random.pick({2, 3, 5, 7, 4, 6, 11, 13})}});
  return std::max(size, least);
}

Shape draw_shape(Random& random, const DeviceMesh& mesh, int64_t ndim, int64_t max_numel, int64_t least) {
  Shape shape;
  for (int64_t d = 0; d < ndim; ++d) shape.push_back(draw_size(random, mesh, least));
  // The largest dimension gives way.
  while (numel(shape) > max_numel) {
    auto& largest = *std::max_element(shape.begin(), shape.end());
    largest = std::max(largest / 2, std::max<int64_t>(least, 1));
  }
  return shape;
}

Shape draw_memory_order(Random& random, int64_t ndim) {
  if (ndim < 2 || !random.chance(35)) return {};
  Shape order(static_cast<size_t>(ndim));
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(order);
  return std::is_sorted(order.begin(), order.end()) ? Shape{} : order;
}

Shape draw_broadcastable(Random& random, const Shape& shape) {
  const auto dropped = !shape.empty() && random.chance(45) ? random.between(1, std::ssize(shape)) : 0;
  Shape result(shape.begin() + dropped, shape.end());
  for (auto& n : result)
    if (random.chance(25)) n = 1;
  return result;
}

}  // namespace lockstep::generators
