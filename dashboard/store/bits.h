// SPDX-License-Identifier: Apache-2.0
// Bit patterns of tensor elements, and the numbers they stand for.
#pragma once
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::dashboard {

// SQLite's INTEGER is signed: a pattern is stored as the int64 with the same 64 bits, and read back the same
// way.
inline int64_t to_column(uint64_t bits) {
  return static_cast<int64_t>(bits);
}
inline uint64_t from_column(int64_t column) {
  return static_cast<uint64_t>(column);
}

// The value of a pattern in dtype f64 f32 bf16 f16 (exact), or of an integer or bool dtype; of another dtype,
// as u64.
double value_of(uint64_t bits, std::string_view dtype);

// The shortest text that reads back as the same value of the dtype ("0.1" for the f32 nearest to it), "-0",
// "nan".
std::string shortest(uint64_t bits, std::string_view dtype);

// "0x3f800000": as many digits as the dtype has.
std::string hex(uint64_t bits, std::string_view dtype);
// Two digits a byte: "3f80".
std::string hex(std::span<const uint8_t> bytes);

}  // namespace lockstep::dashboard
