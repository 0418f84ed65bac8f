// SPDX-License-Identifier: Apache-2.0
// RandomSource: who serves random operators on plain tensors within a scope. The engine installs its closed
// form, the oracle its simulation; neither calls the other. The thread's generator (seed, offset, device) is
// shared by both plain and distributed tensors, so that they draw from one stream.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <span>

#include "engine/stream/random_call.h"

namespace lockstep {

// The thread's generator.
struct Generator {
  RandomState state;
  DeviceModel device;
};
Generator& generator();
// torch.manual_seed: sets the seed, resets the offset to 0.
void manual_seed(uint64_t seed);

// torch.cuda.get_rng_state: 16 bytes, the seed and then the offset, each little endian.
std::array<uint8_t, 16> get_rng_state();
// torch.cuda.set_rng_state. 8 bytes are a seed, at offset 0. Throws Error for other lengths and for an offset
// that is not a multiple of 4.
void set_rng_state(std::span<const uint8_t> state);

// torch.random.fork_rng: what is drawn within the scope moves the thread's generator only until its end.
class ForkRng {
 public:
  ForkRng() : before_(generator()) {}
  ~ForkRng() { generator() = before_; }
  ForkRng(const ForkRng&) = delete;
  ForkRng& operator=(const ForkRng&) = delete;

 private:
  Generator before_;
};

class RandomSource {
 public:
  virtual ~RandomSource() = default;
  // Writes the values of `call` into `out` and advances `state` as the stock kernel would. `out` has the
  // call's shape and dtype (bool for a dropout mask, true for keep); its strides are the call's but for the
  // mask of an input that is not dense. Which element gets which number depends on the call's strides alone.
  virtual void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel& device,
                    RandomState& state) = 0;
};

// Within the scope random operators on plain tensors of this thread draw from `source` and generator(): the
// in-place fills (uniform_ to random_ and geometric_), bernoulli, normal, dropout in its forms, rrelu,
// multinomial, randperm, and the factories, composites and initialisers built on them. They call the source
// for the draws and stock CPU operators for the rest. Any other operator tagged nondeterministic_seeded is an
// error that names it. DTensors are not affected: they always draw from generator().
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
