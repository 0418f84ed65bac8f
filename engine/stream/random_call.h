// SPDX-License-Identifier: Apache-2.0
// RandomCall: what a random operator draws, as a value. No arithmetic.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/context/generator.h"

namespace lockstep {

std::string to_string(const DeviceModel& device);  // "132x2048"
DeviceModel parse_device_model(std::string_view text);

const char* name(RandomWords words);  // "philox", "zeros", "ones", "equal", "edges"
RandomWords parse_random_words(std::string_view text);

enum class RandomKind {
  kUniform,             // uniform_(a, b)
  kNormal,              // normal_(mean a, standard deviation b)
  kLogNormal,           // log_normal_(mean a, standard deviation b of the logarithm)
  kExponential,         // exponential_(rate a)
  kCauchy,              // cauchy_(median a, scale b)
  kGeometric,           // geometric_(p = a)
  kBernoulli,           // bernoulli_(p = a)
  kBernoulliUniform,    // the uniform numbers u that bernoulli_(Tensor P) compares: 1 where u <= P
  kRandint,             // random_(low, high)
  kRandom,              // random_() without a range: what the dtype holds exactly
  kRandomBits,          // random_(lowest int64, none): all 64 bits, converted
  kRandperm,            // randperm(n): shape is {n}
  kDropoutMask,         // native_dropout(p = a, the probability to drop): true where kept
  kRreluNoise,          // rrelu(lower a, upper b) in training: the slope of each element
  kMultinomialUniform,  // multinomial with replacement: one uniform number for each (distribution, sample)
};

// One call of a random operator on the *global* tensor. `shape` and `stride` are those of the single device's
// tensor: stock kernels number elements in memory order.
struct RandomCall {
  RandomKind kind = RandomKind::kUniform;
  double a = 0;
  double b = 1;
  int64_t low = 0;  // randint: [low, high); high - low is taken modulo 2^64
  int64_t high = 0;
  // Of the tensor filled. For a dropout mask, of the input; for kBernoulliUniform Double where P is compared
  // in double, else Float.
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> shape = {}, stride = {};
};

}  // namespace lockstep
