// SPDX-License-Identifier: Apache-2.0
// The content hash behind the keys of rows: FNV-1a with 128 bits. Not meant against an adversary.
#pragma once
#include <cstdint>
#include <string_view>

#include "dashboard/store/rows.h"

namespace lockstep::dashboard {

// Law: two sequences of add() give the same key exactly if they are the same, but for collisions: each text
// is preceded by its length, so that ("ab", "c") differs from ("a", "bc").
class Hasher {
 public:
  Hasher& add(std::string_view text) {
    add(static_cast<int64_t>(text.size()));
    for (char c : text) byte(static_cast<uint8_t>(c));
    return *this;
  }
  Hasher& add(int64_t value) {
    for (int shift = 0; shift < 64; shift += 8)
      byte(static_cast<uint8_t>(static_cast<uint64_t>(value) >> shift));
    return *this;
  }
  Key key() const {
    Key key;
    for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<uint8_t>(state_ >> (120 - 8 * i));
    return key;
  }

 private:
  using Wide = unsigned __int128;
  static constexpr Wide kBasis = (static_cast<Wide>(0x6c62272e07bb0142) << 64) | 0x62b821756295c58d;
  static constexpr Wide kPrime = (static_cast<Wide>(1) << 88) | 0x13b;
  void byte(uint8_t value) { state_ = (state_ ^ value) * kPrime; }
  Wide state_ = kBasis;
};

}  // namespace lockstep::dashboard
