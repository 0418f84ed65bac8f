// SPDX-License-Identifier: Apache-2.0
#include "oracle/random/random_permutation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "oracle/random/random_forgery.h"

namespace lockstep::oracle {
namespace {

template <class Key>
Key mask_of(int bits) {
  return static_cast<Key>((uint64_t{1} << bits) - 1);
}

// What a radix sort compares: a signed key with its sign turned, so that -1 comes before 0; of that, the low
// bits.
template <class Key>
auto digits(Key key, int bits) {
  using Unsigned = std::make_unsigned_t<Key>;
  constexpr auto kSign = static_cast<Unsigned>(std::numeric_limits<Key>::min());
  return static_cast<Unsigned>((static_cast<Unsigned>(key) ^ kSign) &
                               static_cast<Unsigned>(mask_of<Key>(bits)));
}

}  // namespace

int permutation_bits(int64_t n) {
  const double log_threshold_12 = std::log(0.9) * 12, nd = static_cast<double>(n);
  return std::min(64, static_cast<int>(std::ceil(std::log2(nd - (6 * nd * nd + 1) / log_threshold_12))));
}

template <class Key>
std::vector<int64_t> sort_by_keys(std::vector<Key>& keys, int bits) {
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto digits_of = [&](int64_t i) { return digits(keys[static_cast<size_t>(i)], bits); };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return digits_of(a) < digits_of(b); });
  std::vector<Key> sorted;
  sorted.reserve(keys.size());
  for (const auto i : order) sorted.push_back(keys[static_cast<size_t>(i)]);
  keys = std::move(sorted);
  return order;
}

template <class Key>
void shuffle_islands(const std::vector<Key>& keys, int bits, const RandomState& state,
                     std::vector<int64_t>& data) {
  const auto n = keys.size();
  const auto equal = [&, mask = mask_of<Key>(bits)](size_t a, size_t b) {
    return (keys[a] & mask) == (keys[b] & mask);
  };
  for (size_t thread = 0; thread < n; ++thread) {
    if (thread + 1 >= n || !equal(thread, thread + 1)) continue;  // not in an island
    if (thread != 0 && equal(thread, thread - 1)) continue;       // not its first
    size_t size = 0;
    do ++size;
    while (thread + size < n && equal(thread + size, thread));
    auto generator = thread_of(state, thread);
    for (size_t i = size - 1; i > 0; --i) {
      const auto r = generator.next_word() % static_cast<uint32_t>(i + 1);
      std::swap(data[thread + i], data[thread + r]);
    }
  }
}

uint64_t islands_reserve(int64_t n) {
  return static_cast<uint64_t>((n + 3) / 4) * 4;
}

template std::vector<int64_t> sort_by_keys(std::vector<int32_t>&, int);
template std::vector<int64_t> sort_by_keys(std::vector<int64_t>&, int);
template void shuffle_islands(const std::vector<int32_t>&, int, const RandomState&, std::vector<int64_t>&);
template void shuffle_islands(const std::vector<int64_t>&, int, const RandomState&, std::vector<int64_t>&);

}  // namespace lockstep::oracle
