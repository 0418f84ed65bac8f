// SPDX-License-Identifier: Apache-2.0
// RandomCall and DeviceModel: what a random operator draws and on which device, as values. No arithmetic.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// The device whose stream is reproduced: the launch geometry of stock CUDA kernels depends on these two
// numbers.
struct DeviceModel {
  int64_t sm_count = 132;  // H100 and H200 SXM
  int64_t threads_per_sm = 2048;
  bool operator==(const DeviceModel&) const = default;
};
std::string to_string(const DeviceModel& device);  // "132x2048"
DeviceModel parse_device_model(std::string_view text);

enum class RandomKind { kUniform, kNormal, kRandint, kBernoulli, kDropoutMask };

// One call of a random operator on the *global* tensor. `shape` and `stride` are those of the single device's
// tensor: stock kernels number elements in memory order.
struct RandomCall {
  RandomKind kind = RandomKind::kUniform;
  double a = 0;     // uniform: from; normal: mean; bernoulli: p; dropout: p, the probability to drop
  double b = 1;     // uniform: to; normal: standard deviation
  int64_t low = 0;  // randint: [low, high)
  int64_t high = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;  // of the tensor filled; for a dropout mask, of the input
  std::vector<int64_t> shape, stride;
};

// Seed and offset of the one stream; the offset counts 32-bit words per thread and is a multiple of 4.
struct RandomState {
  uint64_t seed = 0;
  uint64_t offset = 0;
  bool operator==(const RandomState&) const = default;
};

}  // namespace lockstep
