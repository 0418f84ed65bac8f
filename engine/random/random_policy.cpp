// SPDX-License-Identifier: Apache-2.0
// The policies, each a choice of what to draw, from which seed and offset.
#include "engine/random/random_policy.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/layout/layout.h"
#include "engine/random/random.h"
#include "engine/values/error.h"
#include "engine/values/ragged.h"

namespace lockstep {
namespace {

using c10::multiply_integers;

constexpr std::array<std::pair<RandomPolicy, const char*>, 4> kNames{{
    {RandomPolicy::kSingleDevice, "single-device"},
    {RandomPolicy::kPerRankSeeds, "per-rank-seeds"},
    {RandomPolicy::kOffsetBased, "offset-based"},
    {RandomPolicy::kIndexed, "indexed"},
}};
constexpr uint64_t kMegatronSeedOffset = 2718;

uint64_t round_up_to_4(int64_t n) {
  return (static_cast<uint64_t>(n) + 3) / 4 * 4;
}

// The largest local shape of all ranks.
std::vector<int64_t> largest_local(const Spec& spec) {
  std::vector<int64_t> largest = local_shape(spec, 0);
  for (int64_t p = 1; p < spec.mesh().size(); ++p)
    if (auto shape = local_shape(spec, p); multiply_integers(shape) > multiply_integers(largest))
      largest = std::move(shape);
  return largest;
}

// The position's row-major index among the mesh dimensions that shard the tensor.
uint64_t index_among_shards(const Spec& spec, int64_t position) {
  const std::vector<int64_t> coordinate = spec.mesh().coordinate(position);
  int64_t index = 0;
  for (int64_t m = 0; m < spec.mesh().ndim(); ++m)
    if (distributes(spec.placements()[static_cast<size_t>(m)]))
      index = index * spec.mesh().size(m) + coordinate[static_cast<size_t>(m)];
  return static_cast<uint64_t>(index);
}

// torch's shard_linear_idx: along each tensor dimension the coordinates fold in mesh order, then dimensions
// fold row-major. A RaggedShard, which torch does not have, is applied last and folds last.
int64_t shard_index(const Spec& spec, int64_t position) {
  const std::vector<int64_t> coordinate = spec.mesh().coordinate(position);
  int64_t index = 0;
  for (int64_t d = 0; d < spec.ndim(); ++d)
    for (int64_t m = 0; m < spec.mesh().ndim(); ++m)
      if (shard_dim(spec.placements()[static_cast<size_t>(m)]) == d)
        index = index * spec.mesh().size(m) + coordinate[static_cast<size_t>(m)];
  if (const int64_t last = ragged_dim(spec.placements()); last >= 0)
    index = index * spec.mesh().size(last) + coordinate[static_cast<size_t>(last)];
  return index;
}

bool is_sharded(const Spec& spec) {
  return std::any_of(spec.placements().begin(), spec.placements().end(), distributes);
}

// The call that a stock kernel on the local tensor alone would serve.
RandomCall local_call(const RandomCall& call, std::vector<int64_t> shape, std::vector<int64_t> stride) {
  RandomCall result = call;
  result.shape = std::move(shape);
  result.stride = std::move(stride);
  return result;
}

// Where the rank's own stock kernel begins, under a baseline policy.
RandomState local_state(const Spec& spec, int64_t position, const RandomState& state, RandomPolicy policy) {
  RandomState result = state;
  if (policy == RandomPolicy::kPerRankSeeds && is_sharded(spec))
    result.seed += kMegatronSeedOffset + index_among_shards(spec, position);
  if (policy == RandomPolicy::kOffsetBased)
    result.offset += round_up_to_4(shard_index(spec, position) * multiply_integers(largest_local(spec)));
  return result;
}

}  // namespace

const char* name(RandomPolicy policy) {
  for (const auto& [known, text] : kNames)
    if (known == policy) return text;
  throw Broken("an unknown random policy");
}

RandomPolicy parse_random_policy(std::string_view text) {
  for (const auto& [policy, known] : kNames)
    if (text == known) return policy;
  throw Error(concat("[random policy] '", text,
                     "' is none of single-device, per-rank-seeds, offset-based, indexed."));
}

RandomPolicy random_policy() {
  return current_context()->policy;
}
void fill_local(const RandomCall& call, const Spec& spec, int64_t position, const RandomState& state,
                const DeviceModel& device, const at::Tensor& out, RandomPolicy policy) {
  if (policy == RandomPolicy::kSingleDevice) {
    fill_local(call, owned_by(spec, position), state, device, out);
    return;
  }
  if (policy == RandomPolicy::kIndexed) {
    fill_local(call, owned_by(spec, position), state, indexed_geometry(call), out);
    return;
  }
  const std::vector<int64_t> shape = local_shape(spec, position);
  fill_local(local_call(call, shape, out.strides().vec()), owned_whole(shape),
             local_state(spec, position, state, policy), device, out);
}

at::Tensor draw_local(const RandomCall& call, const Spec& spec, int64_t position, const RandomState& state,
                      const DeviceModel& device, RandomPolicy policy) {
  const std::vector<int64_t> shape = local_shape(spec, position);
  // Past the engine's fallback, to which factories may be routed here.
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::DispatchKey::Fake);
  const at::Tensor out =
      at::empty_strided(shape, local_stride(spec, shape), local_options(spec).dtype(value_dtype(call)));
  fill_local(call, spec, position, state, device, out, policy);
  return out;
}

uint64_t advance(const RandomCall& call, const Spec& spec, const DeviceModel& device, RandomPolicy policy) {
  if (policy == RandomPolicy::kSingleDevice) return advance(call, device);
  if (policy == RandomPolicy::kIndexed) return indexed_geometry(call).advance;
  if (policy == RandomPolicy::kOffsetBased) return round_up_to_4(multiply_integers(call.shape));
  const std::vector<int64_t> shape = largest_local(spec);
  return advance(local_call(call, shape, local_stride(spec, shape)), device);
}

void IndexedSource::fill(const RandomCall& call, const at::Tensor& out, const DeviceModel&,
                         RandomState& state) {
  const RandomGeometry geometry = indexed_geometry(call);
  fill_local(call, owned_whole(call.shape), state, geometry, out);
  state.offset += geometry.advance;
}

}  // namespace lockstep
