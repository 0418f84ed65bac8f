// SPDX-License-Identifier: Apache-2.0
// RandomSource: who serves random operators on plain tensors within a scope. The engine installs its closed
// form, the oracle its simulation; neither calls the other, and each writes every operator for itself, since
// a formula that both share is one that no comparison can find wrong. The generator (seed, offset, device) is
// shared by both plain and distributed tensors, so that they draw from one stream.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <span>
#include <variant>

#include "engine/context/context.h"
#include "engine/stream/random_call.h"

namespace lockstep {

// The current Context's.
Generator& generator();
// torch.manual_seed: sets the seed, resets the offset to 0.
void manual_seed(uint64_t seed);

// torch.cuda.get_rng_state: 16 bytes, the seed and then the offset, each little endian.
std::array<uint8_t, 16> get_rng_state();
// torch.cuda.set_rng_state. 8 bytes are a seed, at offset 0. Throws Error for other lengths and for an offset
// that is not a multiple of 4.
void set_rng_state(std::span<const uint8_t> state);

// torch.random.fork_rng: what is drawn within the scope moves the generator only until its end.
class ForkRng {
 public:
  ForkRng() : before_(generator()) {}
  ~ForkRng() { generator() = before_; }
  ForkRng(const ForkRng&) = delete;
  ForkRng& operator=(const ForkRng&) = delete;

 private:
  Generator before_;
};

// A parameter of a distribution: one number for all elements, or a tensor that broadcasts.
using Parameter = std::variant<double, at::Tensor>;

struct Dropped {
  at::Tensor output, mask;  // the mask is bool, true for keep
  double scale = 1;         // of the gradient of what is kept
};

// Whole operators, on tensors of any strides and without autograd. Each draws by `now` and advances it as the
// stock kernels would; nothing is drawn for a tensor without elements. Arguments were checked before
// (random_checks.h), but for a range that does not fit its dtype, which throws Error.
class RandomSource {
 public:
  virtual ~RandomSource() = default;
  // Writes the values of `call` into `out` and advances `state` as the stock kernel would. `out` has the
  // call's shape and dtype (bool for a dropout mask, true for keep); its strides are the call's but for the
  // mask of an input that is not dense. Which element gets which number depends on the call's strides alone.
  virtual void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel& device,
                    RandomState& state) = 0;
  // random_(from, to) into `out`; without `to`, up to the largest integer that is exact in its dtype. A bound
  // that a floating dtype would round out of the interval moves to the next value inside.
  virtual void integers(const at::Tensor& out, int64_t from, std::optional<int64_t> to, Generator& now) = 0;
  // bernoulli_(P): what `self` becomes. 1 where u <= P.
  virtual at::Tensor bernoulli(const at::Tensor& self, const at::Tensor& p, Generator& now) = 0;
  // normal(mean, std) into `out`, in the order of its memory: normal numbers, times std, plus mean, each
  // operator rounded; a std that is a number goes into the draw.
  virtual void normal(const at::Tensor& out, const Parameter& mean, const Parameter& std, Generator& now) = 0;
  // native_dropout in training.
  virtual Dropped dropout(const at::Tensor& input, double p, Generator& now) = 0;
  // rrelu in training: a slope for each element that is not positive, else 1, goes into `noise`. Returns the
  // input times noise, contiguous.
  virtual at::Tensor rrelu(const at::Tensor& input, const at::Tensor& noise, double lower, double upper,
                           Generator& now) = 0;
  // An exponential number for each weight, whose ratio decides; or, with replacement and several samples, a
  // uniform number for each sample, looked up among the cumulative weights. Those are summed by stock CPU
  // operators, not in the order of the GPU's scan.
  virtual at::Tensor multinomial(const at::Tensor& weights, int64_t samples, bool replacement,
                                 Generator& now) = 0;
};

// Within the scope random operators on plain tensors of this thread draw from `source` and generator(): the
// in-place fills (uniform_ to random_ and geometric_), bernoulli, normal, dropout in its forms, rrelu,
// multinomial, randperm, and the factories, composites and initialisers built on them. What is done here is
// dispatch, checks and autograd; every number is the source's. Any other operator tagged
// nondeterministic_seeded is an error that names it. DTensors are not affected: they always draw from
// generator().
class RandomScope {
 public:
  explicit RandomScope(RandomSource& source);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  ContextScope carried_;  // to the threads on which libtorch runs a backward pass, as the mode is
  Within<RandomSource*> source_;
  bool was_included_;
};

}  // namespace lockstep
