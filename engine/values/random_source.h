// SPDX-License-Identifier: Apache-2.0
// RandomSource: who serves random operators on plain tensors within a scope. The engine installs its closed
// form, the oracle its simulation; neither calls the other. The thread's generator (seed, offset, device) is
// shared by both plain and distributed tensors, so that they draw from one stream.
#pragma once
#include <ATen/core/Tensor.h>

#include "engine/values/random_call.h"

namespace lockstep {

// The thread's generator.
struct Generator {
  RandomState state;
  DeviceModel device;
};
Generator& generator();
// torch.manual_seed: sets the seed, resets the offset to 0.
void manual_seed(uint64_t seed);

class RandomSource {
 public:
  virtual ~RandomSource() = default;
  // Writes the values of `call` into `out` and advances `state` as the stock kernel would. `out` has the
  // call's shape and dtype (bool for a dropout mask, true for keep); its strides are the call's but for the
  // mask of an input that is not dense. Which element gets which number depends on the call's strides alone.
  virtual void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel& device,
                    RandomState& state) = 0;
};

// Within the scope, uniform_, normal_, random_, bernoulli_, dropout, native_dropout, the factories and
// initialisers built on them, on plain tensors of this thread draw from `source` and generator(); any other
// operator tagged nondeterministic_seeded is an error that names it. DTensors are not affected: they always
// draw from generator().
class RandomScope {
 public:
  explicit RandomScope(RandomSource& source);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  RandomSource* previous_;
  bool was_included_;
};

}  // namespace lockstep
