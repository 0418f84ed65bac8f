// SPDX-License-Identifier: Apache-2.0
// The runs of a shard cover its elements exactly once, and are as few as memory allows.
#include "engine/random/random_walk.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/values/spec.h"

namespace lockstep {
namespace {

using IndexLists = std::vector<IndexList>;

std::vector<StreamRun> runs(const Owned& owned, const std::vector<int64_t>& shape,
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

// Every interval of a box with gaps, as a flat local, in both orders of the stream and with a stride.
// Catches: a row that goes to the place of another, a flat local walked as if it had the box's strides.
TEST(ForEachRun, FlatIntervalsCoverEachElementOnce) {
  const std::vector<IndexList> box = {{{0, 1}, {2, 1}}, {{1, 3}}, {{0, 2}}};
  const std::vector<int64_t> shape{3, 4, 2};
  for (const std::vector<int64_t>& rank_stride : {std::vector<int64_t>{8, 2, 1}, {1, 6, 3}})
    for (int64_t begin = 0; begin <= 12; ++begin)
      for (int64_t end = begin; end <= 12; ++end)
        for (const int64_t step : {1, 3}) {
          std::map<int64_t, int64_t> covered, wanted;
          const Owned owned(box, Interval{begin, end - begin});
          for (const StreamRun& run : runs(owned, shape, rank_stride, {step}))
            for (int64_t i = 0; i < run.last - run.first; ++i)
              EXPECT_TRUE(covered.emplace(run.offset + i * run.stride, run.first + i).second);
          for (int64_t i = begin; i < end; ++i)
            wanted[(i - begin) * step] = global_index(box[0], i / 6) * rank_stride[0] +
                                         global_index(box[1], i / 2 % 3) * rank_stride[1] +
                                         global_index(box[2], i % 2) * rank_stride[2];
          ASSERT_EQ(covered, wanted) << begin << " to " << end;
        }
}

// A dimension of size 1 that the rank does not hold. Catches: an empty rank that writes.
TEST(ForEachRun, NothingOwnedOfAnUnitDimension) {
  EXPECT_TRUE(runs(IndexLists{{}, {{0, 4}}}, {1, 4}, {0, 1}, {4, 1}).empty());
}

// Catches: work per row or element where a shard is one piece of memory.
TEST(ForEachRun, ContiguousShardsAreOneRun) {
  EXPECT_EQ(runs(IndexLists{{{250, 500}}, {{0, 1000}}}, {1000, 1000}, {1000, 1}, {1000, 1}).size(), 1u);
  EXPECT_EQ(runs(IndexLists{{{0, 1000}}, {{250, 500}}}, {1000, 1000}, {1, 1000}, {1, 1000}).size(), 1u);
  EXPECT_EQ(runs(IndexLists{{{0, 1000}}, {{250, 500}}}, {1000, 1000}, {1000, 1}, {500, 1}).size(), 1000u);
  const Owned flat(IndexLists{{{0, 1000}}, {{0, 1000}}}, Interval{1500, 500000});
  EXPECT_EQ(runs(flat, {1000, 1000}, {1000, 1}, {1}).size(), 3u);
}

}  // namespace
}  // namespace lockstep
