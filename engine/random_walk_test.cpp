// SPDX-License-Identifier: Apache-2.0
// The runs of a shard cover its elements exactly once, and are as few as memory allows.
#include "engine/random_walk.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/values/spec.h"

namespace lockstep {
namespace {

std::vector<StreamRun> runs(const std::vector<IndexList>& owned, const std::vector<int64_t>& shape,
                            const std::vector<int64_t>& rank_stride,
                            const std::vector<int64_t>& local_stride) {
  std::vector<StreamRun> result;
  for_each_run(owned, shape, rank_stride, local_stride, [&](const StreamRun& run) { result.push_back(run); });
  return result;
}

// Local offset -> stream index, element by element.
std::map<int64_t, int64_t> expected(const std::vector<IndexList>& owned,
                                    const std::vector<int64_t>& rank_stride,
                                    const std::vector<int64_t>& local_stride) {
  std::map<int64_t, int64_t> at{{0, 0}};
  for (size_t d = 0; d < owned.size(); ++d) {
    std::map<int64_t, int64_t> next;
    for (const auto& [offset, index] : at)
      for (int64_t i = 0; i < length(owned[d]); ++i)
        next[offset + i * local_stride[d]] = index + global_index(owned[d], i) * rank_stride[d];
    at = next;
  }
  return at;
}

void check(const std::vector<IndexList>& owned, const std::vector<int64_t>& shape,
           const std::vector<int64_t>& rank_stride, const std::vector<int64_t>& local_stride) {
  std::map<int64_t, int64_t> covered;
  for (const StreamRun& run : runs(owned, shape, rank_stride, local_stride))
    for (int64_t i = 0; i < run.last - run.first; ++i) {
      const bool fresh = covered.emplace(run.offset + i * run.stride, run.first + i).second;
      ASSERT_TRUE(fresh) << "written twice";
    }
  ASSERT_EQ(covered, expected(owned, rank_stride, local_stride));
}

// All sublists of up to two intervals of n indices.
std::vector<IndexList> index_lists(int64_t n) {
  std::vector<IndexList> lists{{}};
  for (int64_t a = 0; a < n; ++a)
    for (int64_t b = a + 1; b <= n; ++b) {
      lists.push_back({{a, b - a}});
      for (int64_t c = b + 1; c < n; ++c) lists.push_back({{a, b - a}, {c, n - c}});
    }
  return lists;
}

// Exhaustive on 3 x 4 in both orders, and with padded local memory. Catches: a wrong join of dimensions, an
// interval's local position lost, empty lists.
TEST(ForEachRun, CoversEachElementOnce) {
  for (const IndexList& rows : index_lists(3))
    for (const IndexList& columns : index_lists(4)) {
      const int64_t m = length(rows), n = length(columns);
      check({rows, columns}, {3, 4}, {4, 1}, {n, 1});
      check({rows, columns}, {3, 4}, {1, 3}, {1, m});
      check({rows, columns}, {3, 4}, {1, 3}, {n, 1});
      check({rows, columns}, {3, 4}, {4, 1}, {2 * n + 1, 2});
      check({rows, {{0, 1}}, columns, rows}, {3, 1, 4, 3}, {4, 0, 1, 12}, {n, 7, 1, m * n});
    }
  check({}, {}, {}, {});
}

// A dimension of size 1 that the rank does not hold. Catches: an empty rank that writes.
TEST(ForEachRun, NothingOwnedOfAnUnitDimension) {
  EXPECT_TRUE(runs({{}, {{0, 4}}}, {1, 4}, {0, 1}, {4, 1}).empty());
}

// Catches: work per row or element where a shard is one piece of memory.
TEST(ForEachRun, ContiguousShardsAreOneRun) {
  EXPECT_EQ(runs({{{250, 500}}, {{0, 1000}}}, {1000, 1000}, {1000, 1}, {1000, 1}).size(), 1u);
  EXPECT_EQ(runs({{{0, 1000}}, {{250, 500}}}, {1000, 1000}, {1, 1000}, {1, 1000}).size(), 1u);
  EXPECT_EQ(runs({{{0, 1000}}, {{250, 500}}}, {1000, 1000}, {1000, 1}, {500, 1}).size(), 1000u);
}

}  // namespace
}  // namespace lockstep
