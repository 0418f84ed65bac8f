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
  Hasher& add(std::string_view text);
  Hasher& add(int64_t value);
  Key key() const;

 private:
  void byte(uint8_t value);
  // The offset basis of 128-bit FNV-1a.
  unsigned __int128 state_ = (static_cast<unsigned __int128>(0x6c62272e07bb0142) << 64) | 0x62b821756295c58d;
};

}  // namespace lockstep::dashboard
