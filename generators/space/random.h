// SPDX-License-Identifier: Apache-2.0
// Random: a splittable deterministic generator (SplitMix64). Integer arithmetic only, so that every machine
// draws the same; splitting depends on the key alone, never on how much was drawn before.
#pragma once
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::generators {

class Random {
 public:
  explicit Random(uint64_t key) : key_(mix(key + kGolden)), state_(key_) {}

  // @post independent of draws made from *this; split(i) and split(j) are unrelated for i != j
  Random split(uint64_t i) const { return Random(key_ ^ mix(i + kGolden * 3)); }
  Random split(std::string_view name) const {
    uint64_t hash = 0xcbf29ce484222325;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return split(hash);
  }

  uint64_t next() { return mix(state_ += kGolden); }
  // Uniform in [0, n). The bias of the multiplication is below n / 2^64. @pre n > 0
  int64_t below(int64_t n) {
    return static_cast<int64_t>((static_cast<unsigned __int128>(next()) * static_cast<uint64_t>(n)) >> 64);
  }
  // Uniform in [low, high].
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  // True in `percent` of 100.
  bool chance(int64_t percent) { return below(100) < percent; }

  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[static_cast<size_t>(below(std::ssize(list)))];
  }
  template <class T>
  T pick(std::initializer_list<T> list) {
    return list.begin()[below(std::ssize(list))];
  }
  // The first of each pair is its weight. @pre the weights' sum is positive
  template <class T>
  T weighted(std::initializer_list<std::pair<int, T>> list) {
    int64_t total = 0;
    for (const auto& entry : list) total += entry.first;
    int64_t at = below(total);
    for (const auto& entry : list)
      if ((at -= entry.first) < 0) return entry.second;
    return list.begin()->second;
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
  }

 private:
  static constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t key_, state_;
};

// The generator of one case: a pure function of these three.
inline Random random_of_case(uint64_t run_seed, std::string_view suite, uint64_t index) {
  return Random(run_seed).split(suite).split(index);
}

}  // namespace lockstep::generators
