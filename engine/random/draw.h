// SPDX-License-Identifier: Apache-2.0
// Random ops on DTensors: the hosted ranks' parts of one draw from the generator.
#pragma once
#include <functional>

#include "engine/random/compounds.h"
#include "engine/random/integer_range.h"
#include "engine/stream/random_source.h"
#include "engine/values/per_rank.h"
#include "engine/values/spec.h"
#include "engine/world/comm.h"

namespace lockstep {

// As the RandomPolicy says: what the rank at a position draws, and how far a call moves the offset.
at::Tensor local_by_policy(const RandomCall& call, const Spec& spec, int64_t position,
                           const RandomState& state, const DeviceModel& device);
uint64_t advance_by_policy(const RandomCall& call, const Spec& spec, const DeviceModel& device);

// How DTensors draw, and what random ops make of a draw. A scope may replace any of it: another generator,
// another system's formulas.
struct Drawing {
  std::function<at::Tensor(const RandomCall&, const Spec&, int64_t position, const RandomState&,
                           const DeviceModel&)>
      local = local_by_policy;
  std::function<uint64_t(const RandomCall&, const Spec&, const DeviceModel&)> advance = advance_by_policy;
  IntegerRange (*integers)(c10::ScalarType, int64_t from, std::optional<int64_t> to) = integer_range;
  at::Tensor (*bernoulli)(const at::Tensor& u, const at::Tensor& p) = bernoulli_hits;
  at::Tensor (*rrelu)(const at::Tensor& input, const at::Tensor& slopes) = rrelu_noise;
  at::Tensor (*multinomial)(const at::Tensor& weights, const at::Tensor& drawn, int64_t samples,
                            bool replacement) = multinomial_pick;
  at::Tensor (*dropout)(const at::Tensor& x, const at::Tensor& keep, double p) = dropped;
};

// The current Context's.
const Drawing& drawing();

// While alive, DTensors draw in this way.
struct DrawingScope : Within<const Drawing*> {
  explicit DrawingScope(const Drawing& drawing) : Within(&Context::drawing, &drawing) {}
};

// @pre values is not Partial. @post locals hold the elements that `values` places there of the single
// device's tensor (or, under another policy, what that policy draws); generator() has advanced as the policy
// says, once.
PerRank<at::Tensor> draw(const RandomCall& call, const Spec& values, const Comm& comm);

}  // namespace lockstep
