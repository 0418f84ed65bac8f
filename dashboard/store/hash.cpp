// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/hash.h"

namespace lockstep::dashboard {

void Hasher::byte(uint8_t value) {
  constexpr unsigned __int128 kPrime = (static_cast<unsigned __int128>(1) << 88) | 0x13b;
  state_ = (state_ ^ value) * kPrime;
}

Hasher& Hasher::add(int64_t value) {
  for (int shift = 0; shift < 64; shift += 8)
    byte(static_cast<uint8_t>(static_cast<uint64_t>(value) >> shift));
  return *this;
}

Hasher& Hasher::add(std::string_view text) {
  add(static_cast<int64_t>(text.size()));
  for (char c : text) byte(static_cast<uint8_t>(c));
  return *this;
}

Key Hasher::key() const {
  Key key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<uint8_t>(state_ >> (120 - 8 * i));
  return key;
}

}  // namespace lockstep::dashboard
