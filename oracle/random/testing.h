// SPDX-License-Identifier: Apache-2.0
// For tests: calls of random operators in one line, what the simulation draws for them, digests of it.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "engine/values/spec.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::oracle {

inline RandomCall call_of(RandomKind kind, c10::ScalarType dtype, std::vector<int64_t> shape, double a = 0,
                          double b = 1) {
  RandomCall call;
  call.kind = kind;
  call.dtype = dtype;
  call.shape = std::move(shape);
  call.stride = contiguous_strides(call.shape);
  call.a = a;
  call.b = b;
  return call;
}

inline RandomCall integers(int64_t n, int64_t low, int64_t high, c10::ScalarType dtype = at::kLong) {
  auto call = call_of(RandomKind::kRandint, dtype, {n});
  call.low = low;
  call.high = high;
  return call;
}

// What a call fills: bool for a mask, with the call's strides.
inline at::Tensor room_for(const RandomCall& call) {
  const bool mask = call.kind == RandomKind::kDropoutMask;
  return at::empty_strided(call.shape, call.stride, at::TensorOptions(mask ? at::kBool : call.dtype));
}

inline at::Tensor draw(const RandomCall& call, RandomState state, const DeviceModel& device = {}) {
  auto out = room_for(call);
  SimulatedSource().fill(call, out, device, state);
  return out;
}

// The offset after the call from offset 0.
inline uint64_t advanced(const RandomCall& call, const DeviceModel& device = {}) {
  RandomState state{0, 0};
  SimulatedSource().fill(call, room_for(call), device, state);
  return state.offset;
}

// 64-bit FNV-1a over the bytes in logical order.
inline uint64_t fnv(const at::Tensor& t) {
  const auto dense = t.contiguous();
  const auto* bytes = static_cast<const unsigned char*>(dense.const_data_ptr());
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < dense.nbytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
  return hash;
}

}  // namespace lockstep::oracle
