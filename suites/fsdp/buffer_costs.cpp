// SPDX-License-Identifier: Apache-2.0
#include "suites/fsdp/buffer_costs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "engine/tensor/dtensor_impl.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/world.h"
#include "suites/train/memory.h"

namespace lockstep::suites {
namespace {

int64_t size_of(c10::ScalarType dtype) {
  return static_cast<int64_t>(c10::elementSize(dtype));
}

void allocate(Spent& needed, int64_t times, int64_t bytes) {
  if (bytes > 0) needed.allocated.insert(needed.allocated.end(), as_size(times), bytes);
}

std::vector<int64_t> sorted(std::vector<int64_t> bytes) {
  std::sort(bytes.begin(), bytes.end());
  return bytes;
}

std::string described(const std::vector<int64_t>& bytes) {
  return concat(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}), " bytes in ", bytes.size(),
                " pieces");
}

}  // namespace

Spent spent_on(const fsdp::DBuffer& buffer, const std::function<int64_t()>& sent,
               const std::function<void()>& act) {
  const int64_t before = sent();
  const Allocations allocations(buffer.comm()->mesh.device_type());
  act();
  return {allocations.bytes(), sent() - before};
}

Spent needed_to_gather(const fsdp::DBuffer& buffer, int64_t among) {
  const auto& layout = buffer.layout();
  const int64_t ranks = buffer.comm()->mesh.size(), shards = layout.plan().shards;
  const int64_t parts = among > 0 ? among : shards, size = size_of(layout.gathered_dtype());
  const int64_t whole = shards * layout.plan().shard_size * size;
  Spent needed{{}, ranks * (parts - 1) * (whole / parts)};
  allocate(needed, ranks / parts, whole);
  if (among == 0 && layout.gathered_dtype() != layout.dtype())
    allocate(needed, ranks, layout.plan().shard_size * size);
  return needed;
}

Spent needed_to_reduce(const fsdp::DBuffer& buffer, const std::vector<at::Tensor>& gradients) {
  const auto& layout = buffer.layout();
  const auto& mesh = buffer.comm()->mesh;
  const int64_t size = size_of(gradients.front().scalar_type());
  Spent needed;
  for (int64_t d = 0; d < mesh.ndim(); ++d) {
    const bool scatters = d == layout.mesh_dim();
    if (!scatters && mesh.size(d) == 1) continue;
    bool pends = scatters;
    for (size_t i = 0; i < layout.size(); ++i) {
      if (!is_partial(placements(gradients[i])[as_size(d)])) continue;
      pends = true;
      for (int64_t p = 0; p < mesh.size(); ++p) {
        const auto [start, end] = layout.in_tensor(i, p);
        const int64_t all = local_tensors(gradients[i])[as_size(p)].numel();
        needed.sent += size * (scatters ? all - (end - start) : (mesh.size(d) - 1) * (end - start));
      }
    }
    if (pends) allocate(needed, mesh.size(), layout.plan().shard_size * size);
  }
  return needed;
}

std::vector<at::Tensor> terms_of_ones(const fsdp::DBuffer& buffer, c10::ScalarType dtype) {
  const auto& layout = buffer.layout();
  std::vector<at::Tensor> terms;
  for (size_t i = 0; i < layout.size(); ++i) {
    const auto& whole = *layout.whole(i);
    auto placements = whole.placements();
    for (auto& placement : placements)
      if (is_replicate(placement)) placement = Partial{};
    PerRank<at::Tensor> locals;
    for (const int64_t p : buffer.comm()->positions)
      locals.push_back(at::ones(local_shape(whole, p), local_options(whole).dtype(dtype)));
    const auto pending = std::make_shared<const Spec>(whole.with_placements(std::move(placements)));
    terms.push_back(make_dtensor(in_dtype(pending, dtype), buffer.comm(), std::move(locals)));
  }
  return terms;
}

std::string wasted(const fsdp::DBuffer& buffer, const char* what, const Spent& spent, const Spent& needed) {
  if (spent.sent != needed.sent)
    return concat(what, " has moved ", spent.sent, " bytes, where ranks lack ", needed.sent);
  if (checks_in_flight) return "";
  const bool is_exact = buffer.comm()->mesh.device_type() == c10::kCPU;
  if (is_exact ? sorted(spent.allocated) == sorted(needed.allocated)
               : spent.allocated.size() == needed.allocated.size())
    return "";
  return concat(what, " has allocated ", described(spent.allocated), ", where ", described(needed.allocated),
                " are needed: something is copied that is not to be");
}

}  // namespace lockstep::suites
