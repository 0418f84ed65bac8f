// SPDX-License-Identifier: Apache-2.0
// RandomPolicy: what a random operator on a DTensor draws on each rank. The single device's stream is the
// product, the indexed one its twin without a device; the other two are what other systems do, for curves
// that show the difference.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "engine/context/context.h"
#include "engine/random/tensor_source.h"
#include "engine/stream/random_call.h"
#include "engine/values/spec.h"

namespace lockstep {

enum class RandomPolicy {
  kSingleDevice = 0,  // each rank draws its elements of the one stream
  // Megatron, DeepSpeed: a stock kernel on the local tensor, seeded with seed + 2718 + the rank's index among
  // the mesh dimensions that shard the tensor. Replicas agree; a tensor that is not sharded keeps the common
  // seed. Such systems keep one offset for each rank; here all ranks share one, which moves as on the rank
  // with the most elements.
  kPerRankSeeds,
  // torch DTensor's OffsetBasedRNGTracker: a stock kernel on the local tensor, at an offset that counts the
  // elements of the shards before it, as if an offset counted elements. Every rank then moves by the global
  // number of elements.
  kOffsetBased,
  // Numbers that no device has a part in: element j, row-major in the global tensor, takes lane j % lanes of
  // block philox(seed, subsequence = offset / 4, counter = j / lanes), and each call moves the offset by 4.
  kIndexed,
};

const char* name(RandomPolicy policy);  // "single-device", "per-rank-seeds", "offset-based",
                                        // "indexed"
RandomPolicy parse_random_policy(std::string_view text);

// The current Context's: kSingleDevice outside every scope.
RandomPolicy random_policy();

struct RandomPolicyScope : Within<RandomPolicy> {
  explicit RandomPolicyScope(RandomPolicy policy) : Within(&Context::policy, policy) {}
};

// The local tensor of the rank at `position` of spec's mesh, with local_stride(spec, …). `call` describes the
// global tensor of `spec`, whose placements decide what the rank holds; Partial counts as Replicate.
at::Tensor draw_local(const RandomCall& call, const Spec& spec, int64_t position, const RandomState& state,
                      const DeviceModel& device, RandomPolicy policy = random_policy());
// The same into an existing local tensor of any strides.
void fill_local(const RandomCall& call, const Spec& spec, int64_t position, const RandomState& state,
                const DeviceModel& device, const at::Tensor& out, RandomPolicy policy = random_policy());
// How far the call moves the offset, the same on every rank.
uint64_t advance(const RandomCall& call, const Spec& spec, const DeviceModel& device,
                 RandomPolicy policy = random_policy());

// Serves random operators on plain tensors (RandomScope) as kIndexed does on distributed ones.
class IndexedSource : public TensorSource {
 public:
  void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel& device,
            RandomState& state) override;
};

}  // namespace lockstep
