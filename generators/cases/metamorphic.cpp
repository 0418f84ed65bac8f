// SPDX-License-Identifier: Apache-2.0
#include "generators/cases/metamorphic.h"

#include <algorithm>
#include <functional>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "generators/space/placements.h"

namespace lockstep::generators {
namespace {

using oracle::Case;
using oracle::Target;

// The second half of a placement whose mesh dimension was cut in two; an InterleavedShard cuts only once.
Placement second_half(const Placement& p) {
  return std::holds_alternative<InterleavedShard>(p) ? Placement(Replicate{}) : p;
}

void cut(Target& target, size_t dim) {
  target.placements.insert(target.placements.begin() + static_cast<ptrdiff_t>(dim) + 1,
                           second_half(target.placements[dim]));
  if (target.order.empty()) return;
  std::vector<int64_t> order;
  const auto at = static_cast<int64_t>(dim);
  for (const auto d : target.order) {
    order.push_back(d > at ? d + 1 : d);
    if (d == at) order.push_back(at + 1);
  }
  target.order = order;
}

// Whether a RaggedShard cuts this mesh dimension.
bool ragged_along(Case c, size_t dim) {
  bool any = false;
  oracle::each_target(c, [&](Target& target) { any |= is_ragged(target.placements[dim]); });
  return any;
}

bool is_legal(const Case& c, const std::vector<std::vector<int64_t>>& shapes) {
  try {
    oracle::validate(c);
    size_t value = c.program.inputs.size();
    for (const auto& call : c.program.calls) {
      for (const auto& arg : call.args)
        if (const auto* target = std::get_if<Target>(&arg)) {
          const auto& shape = shapes.at(value);
          const Spec spec(c.mesh, target->placements, shape, contiguous_strides(shape),
                          c10::ScalarType::Float, target->order);
        }
      value += static_cast<size_t>(call.results);
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

Case with_ranks(const Case& c, std::vector<int64_t> ranks) {
  Case made = c;
  made.mesh = DeviceMesh(c.mesh.shape(), c.mesh.has_names() ? c.mesh.names() : std::vector<std::string>{},
                         std::move(ranks))
                  .on(c.mesh.device_type());
  return made;
}

}  // namespace

std::optional<Case> refactor_mesh(const Case& c, const std::vector<std::vector<int64_t>>& shapes) {
  if (c.mesh.ndim() >= 4) return std::nullopt;
  for (size_t dim = 0; dim < c.mesh.shape().size(); ++dim) {
    if (ragged_along(c, dim)) continue;
    const auto n = c.mesh.shape()[dim];
    for (int64_t a = 2; a * a <= n; ++a) {
      if (n % a != 0) continue;
      auto shape = c.mesh.shape();
      shape[dim] = n / a;
      shape.insert(shape.begin() + static_cast<ptrdiff_t>(dim), a);
      Case made = c;
      made.mesh = DeviceMesh(shape, {}, c.mesh.ranks()).on(c.mesh.device_type());
      oracle::each_target(made, [&](Target& target) { cut(target, dim); });
      if (is_legal(made, shapes)) return made;
    }
  }
  return std::nullopt;
}

Case permute_ranks(const Case& c, Random random) {
  auto ranks = c.mesh.ranks();
  random.shuffle(ranks);
  return with_ranks(c, std::move(ranks));
}

Case ranks_of_larger_world(const Case& c, Random random) {
  auto ranks = c.mesh.ranks();
  const int64_t step = random.between(1, 2), first = random.between(step == 1 ? 1 : 0, 4);
  for (int64_t& rank : ranks) rank = rank * step + first;
  return with_ranks(c, std::move(ranks));
}

Case world_of_one(const Case& c) {
  Case made = c;
  made.mesh = DeviceMesh(std::vector<int64_t>(c.mesh.shape().size(), 1)).on(c.mesh.device_type());
  oracle::each_target(made, [](Target& target) {
    for (auto& p : target.placements)
      if (auto* ragged = std::get_if<RaggedShard>(&p)) *ragged = {ragged->dims, {1}};
  });
  return made;
}

Case replicate_inputs(const Case& c) {
  Case made = c;
  for (auto& target : made.placements)
    if (!is_plain(target)) target = replicated(c.mesh);
  return made;
}

}  // namespace lockstep::generators
