// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/align.h"

#include <algorithm>

namespace lockstep::curves {
namespace {

using Sequence = std::span<const uint64_t>;

// Round d knows, for each diagonal k = x - y in -d, -d + 2, … d, the farthest x that d edits reach.
struct Rounds {
  std::vector<std::vector<int32_t>> farthest{};

  int32_t at(int64_t d, int64_t k) const {
    return farthest[static_cast<size_t>(d)][static_cast<size_t>((k + d) / 2)];
  }
  // Whether the best way to diagonal k in round d ends with an insertion. @pre d > 0
  bool inserts(int64_t d, int64_t k) const {
    return k == -d || (k != d && at(d - 1, k - 1) < at(d - 1, k + 1));
  }
};

// @post the last round reaches the end of both; empty if the limits were met
std::optional<Rounds> search(Sequence a, Sequence b) {
  const auto n = static_cast<int64_t>(a.size()), m = static_cast<int64_t>(b.size());
  Rounds rounds;
  size_t comparisons = 0;
  for (int64_t d = 0; d <= static_cast<int64_t>(kMostEdits); ++d) {
    auto& mine = rounds.farthest.emplace_back();
    mine.reserve(static_cast<size_t>(d) + 1);
    for (int64_t k = -d; k <= d; k += 2) {
      int64_t x = 0;
      if (d > 0) x = rounds.inserts(d, k) ? rounds.at(d - 1, k + 1) : rounds.at(d - 1, k - 1) + 1;
      while (x < n && x - k < m && x - k >= 0 && a[static_cast<size_t>(x)] == b[static_cast<size_t>(x - k)])
        ++x, ++comparisons;
      mine.push_back(static_cast<int32_t>(x));
      if (x >= n && x - k >= m) return rounds;
    }
    if ((comparisons += static_cast<size_t>(d) + 1) > kMostComparisons) return std::nullopt;
  }
  return std::nullopt;
}

// The edits of the last round's way, as hunks that are `skipped` elements further on.
std::vector<Hunk> hunks_of(const Rounds& rounds, int64_t x, int64_t y, size_t skipped) {
  std::vector<Hunk> hunks;  // from the last to the first
  for (auto d = static_cast<int64_t>(rounds.farthest.size()) - 1; d > 0; --d) {
    const auto k = x - y;
    const bool insert = rounds.inserts(d, k);
    const auto before = insert ? k + 1 : k - 1;
    x = rounds.at(d - 1, before);
    y = x - before;
    const auto from_a = static_cast<size_t>(x) + skipped, from_b = static_cast<size_t>(y) + skipped;
    const auto to_a = from_a + (insert ? 0 : 1), to_b = from_b + (insert ? 1 : 0);
    if (!hunks.empty() && hunks.back().from_a == to_a && hunks.back().from_b == to_b)
      hunks.back().from_a = from_a, hunks.back().from_b = from_b;
    else
      hunks.push_back({from_a, to_a, from_b, to_b});
  }
  std::reverse(hunks.begin(), hunks.end());
  return hunks;
}

}  // namespace

std::optional<std::vector<Hunk>> align(Sequence a, Sequence b) {
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto head = static_cast<size_t>(x - a.begin());
  size_t tail = 0;
  while (tail < std::min(a.size(), b.size()) - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail])
    ++tail;
  a = a.subspan(head, a.size() - head - tail);
  b = b.subspan(head, b.size() - head - tail);
  // One insertion or one deletion of any length is no search.
  if (a.empty() && b.empty()) return std::vector<Hunk>{};
  if (a.empty() || b.empty()) return std::vector<Hunk>{{head, head + a.size(), head, head + b.size()}};
  const auto rounds = search(a, b);
  if (!rounds) return std::nullopt;
  return hunks_of(*rounds, static_cast<int64_t>(a.size()), static_cast<int64_t>(b.size()), head);
}

}  // namespace lockstep::curves
