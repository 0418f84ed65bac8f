// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/mapped.h"

#include <algorithm>

#include "engine/layout/layout.h"
#include "engine/tensor/local_map.h"
#include "engine/values/as_size.h"
#include "engine/world/comm.h"
#include "oracle/plain/evaluate.h"

namespace lockstep::suites {
namespace {

using Locals = PerRank<at::Tensor>;

// A mesh made of the whole one, and which of the ranks hosted here its hosted ones are.
struct Part {
  MeshInWorld mesh;
  std::vector<size_t> hosted;
};

DeviceMesh made(const DeviceMesh& whole, const oracle::LocalMap& map, int64_t rank) {
  if (map.flat) return whole.flatten();
  std::vector<std::string> names;
  for (const int64_t d : map.kept) names.push_back(whole.names().at(as_size(d)));
  return whole.sub_mesh(names, rank);
}

// Those that have ranks here, in an order that all processes know.
std::vector<Part> parts_of(const MeshInWorld& whole, const oracle::LocalMap& map, const Remade& remade) {
  std::vector<Part> parts;
  for (const int64_t rank : whole.mesh.ranks()) {
    auto mesh = made(whole.mesh, map, rank);
    if (mesh.ranks()[0] != rank) continue;
    if (remade) mesh = remade(whole.mesh, mesh);
    Part part{{mesh, whole.world, std::make_shared<const Comm>(mesh, whole.world)}, {}};
    const auto& here = whole.comm->ranks;
    for (const int64_t r : part.mesh.comm->ranks)
      part.hosted.push_back(as_size(std::find(here.begin(), here.end(), r) - here.begin()));
    if (!part.hosted.empty()) parts.push_back(std::move(part));
  }
  return parts;
}

// How what is placed so on the whole mesh lies on a part of it.
oracle::Target on_part(const oracle::LocalMap& map, const oracle::Target& target) {
  if (map.flat) return {{target.placements.at(0)}, {}};
  oracle::Target part;
  for (const int64_t d : map.kept) part.placements.push_back(target.placements.at(as_size(d)));
  for (const int64_t d : target.order)
    if (map.keeps(d)) part.order.push_back(std::find(map.kept.begin(), map.kept.end(), d) - map.kept.begin());
  return part;
}

// Of what the ranks of the part at this position of the whole mesh hold together.
std::vector<int64_t> shape_of_part(const Spec& placed, const oracle::LocalMap& map, int64_t position) {
  auto placements = placed.placements();
  for (size_t d = 0; d < placements.size(); ++d)
    if (map.keeps(static_cast<int64_t>(d))) placements[d] = Replicate{};
  return local_shape(placed.with_placements(placements, placed.order()), position);
}

// What is written is the first operand.
at::Tensor on_each_rank(const oracle::LocalMap& map, const std::vector<at::Tensor>& placed) {
  std::vector<LocalMapResult> results;
  std::vector<LocalMapInput> inputs;
  if (!oracle::is_in_place(map.op))
    results = {{map.out.placements, map.out.order, map.shape, contiguous_strides(map.shape)}};
  for (const auto& gradient : map.gradients) inputs.push_back({.grad_placements = gradient.placements});
  const auto run = [&](const std::vector<at::Tensor>& mine) {
    return std::vector<at::Tensor>(results.size(), oracle::run_mapped(map, mine));
  };
  const auto made = local_map(run, results, inputs)(placed);
  return made.empty() ? placed[0] : made[0];
}

// On DTensors of each part.
Locals on_each_part(const MeshInWorld& mesh, const oracle::LocalMap& map, const std::vector<SpecPtr>& specs,
                    const std::vector<Locals>& locals, const Remade& remade) {
  Locals results(mesh.comm->positions.size());
  for (const Part& part : parts_of(mesh, map, remade)) {
    const int64_t position = mesh.comm->positions[part.hosted[0]];
    std::vector<at::Tensor> operands;
    for (size_t i = 0; i < locals.size(); ++i) {
      Locals theirs;
      for (const size_t r : part.hosted) theirs.push_back(locals[i][r]);
      const auto in = on_part(map, map.in[i]);
      operands.push_back(from_local(theirs, part.mesh, in.placements, shape_of_part(*specs[i], map, position),
                                    std::nullopt, true, in.order));
    }
    const auto out = on_part(map, map.out);
    const auto result = redistribute(oracle::run_mapped(map, operands), out.placements, out.order);
    const auto theirs = to_local(result);
    for (size_t r = 0; r < theirs.size(); ++r) results[part.hosted[r]] = theirs[r];
  }
  return results;
}

}  // namespace

at::Tensor mapped(const MeshInWorld& mesh, const oracle::LocalMap& map,
                  const std::vector<at::Tensor>& operands, const Remade& remade) {
  const bool writes = oracle::is_in_place(map.op);
  const c10::AutoGradMode mode(at::GradMode::is_enabled() && !writes);
  std::vector<at::Tensor> placed;
  for (size_t i = 0; i < operands.size(); ++i)
    placed.push_back(redistribute(operands[i], map.in[i].placements, map.in[i].order));
  if (map.kept.empty() && !map.flat) return on_each_rank(map, placed);
  std::vector<Locals> locals;
  std::vector<SpecPtr> specs;
  for (size_t i = 0; i < placed.size(); ++i) {
    locals.push_back(to_local(placed[i], map.gradients[i].placements));
    specs.push_back(std::make_shared<const Spec>(spec(placed[i])));
  }
  const Locals results = on_each_part(mesh, map, specs, locals, remade);
  if (writes) return placed[0];
  return from_local(results, mesh, map.out.placements, map.shape, contiguous_strides(map.shape), true,
                    map.out.order);
}

}  // namespace lockstep::suites
