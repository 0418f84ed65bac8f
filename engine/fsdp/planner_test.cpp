// SPDX-License-Identifier: Apache-2.0
// The planner against the definition, tried start by start. Each test says which fault it would catch.
#include "engine/fsdp/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "engine/values/error.h"

namespace lockstep::fsdp {
namespace {

using Tensors = std::vector<BlockTensor>;

std::string text(const Tensors& tensors, const PlanOptions& o) {
  std::string all;
  for (const auto& [e, g, p] : tensors) all += concat(all.empty() ? "" : ",", e, ":", g, ":", p);
  return concat("--tensors ", all, " --ranks ", o.shards, " --align ", o.alignment, " --start-align ",
                o.start_align, " --order ", name(o.order));
}

// Whether a block begins there, found from block to block.
bool begins(const BlockTensor& t, int64_t at) {
  int64_t begin = 0;
  while (begin < at) {
    int64_t next = begin + t.granularity;
    if (t.period > 0) next = std::min(next, (begin / t.period + 1) * t.period);
    begin = next;
  }
  return begin == at;
}

// The definition, word by word.
bool is_legal(const BlockTensor& t, int64_t start, int64_t size, const PlanOptions& o) {
  const int64_t end = start + t.elements;
  if (start % o.start_align != 0 || end > o.shards * size) return false;
  for (int64_t b = 0; b <= o.shards * size; b += size)
    if (!(b <= start || b >= end || begins(t, b - start))) return false;
  return true;
}

// Whether tensors i.. fit from `from` on: every start is tried, not only the first.
bool fits(const Tensors& tensors, size_t i, int64_t from, int64_t size, const PlanOptions& o) {
  if (i == tensors.size()) return true;
  for (int64_t start = from; start + tensors[i].elements <= o.shards * size; ++start)
    if (is_legal(tensors[i], start, size, o) && fits(tensors, i + 1, start + tensors[i].elements, size, o))
      return true;
  return false;
}

// The first legal start of each, tried one by one; -1: they do not fit.
int64_t end_of_first_starts(const Tensors& tensors, int64_t size, const PlanOptions& o) {
  int64_t from = 0;
  for (const auto& t : tensors) {
    while (from + t.elements <= o.shards * size && !is_legal(t, from, size, o)) ++from;
    if (from + t.elements > o.shards * size) return -1;
    from += t.elements;
  }
  return from;
}

int64_t blocks(const BlockTensor& t) {
  int64_t count = 0;
  for (int64_t at = 0; at < t.elements; ++at) count += begins(t, at);
  return count;
}

int64_t exact(const Tensors& tensors, const PlanOptions& o) {
  const int64_t align = std::lcm(o.alignment, o.start_align);
  int64_t sum = 0;
  for (const auto& t : tensors) sum += t.elements;
  if (sum == 0) return 0;
  for (int64_t size = align;; size += align)
    if (end_of_first_starts(tensors, size, o) >= 0) return size;
}

int64_t exact_of_all_orders(Tensors tensors, const PlanOptions& o) {
  const auto less = [](auto& a, auto& b) {
    return std::pair(a.elements, a.granularity) < std::pair(b.elements, b.granularity);
  };
  std::sort(tensors.begin(), tensors.end(), less);
  int64_t best = exact(tensors, o);
  while (std::next_permutation(tensors.begin(), tensors.end(), less))
    best = std::min(best, exact(tensors, o));
  return best;
}

struct Drawn {
  Tensors tensors;
  PlanOptions options;
};

// @param anew blocks of some tensors begin anew, mostly so that some are short in between
Drawn draw(std::mt19937& random, bool whole_blocks, int64_t most, bool anew = false) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); };
  Drawn d;
  for (int64_t n = 1 + below(5); n > 0; --n) {
    const int64_t g = 1 + below(7);
    d.tensors.push_back({whole_blocks ? g * below(most / g + 1) : below(most + 1), g});
  }
  for (auto& t : d.tensors)
    if (anew && below(3) != 0) t.period = 1 + below(4 * t.granularity);
  d.options.shards = 1 + below(6);
  d.options.alignment = std::array<int64_t, 4>{1, 2, 4, 8}[static_cast<size_t>(below(4))];
  if (below(4) == 0) d.options.start_align = std::array<int64_t, 3>{2, 3, 4}[static_cast<size_t>(below(3))];
  return d;
}

void check_law(const Drawn& d, const BufferPlan& p) {
  const auto say = [&] { return text(d.tensors, d.options); };
  ASSERT_EQ(p.shard_size % d.options.alignment, 0) << say();
  std::vector<Interval> sorted = p.intervals;
  std::sort(sorted.begin(), sorted.end(),
            [](auto& a, auto& b) { return std::pair(a.start, a.end) < std::pair(b.start, b.end); });
  for (size_t i = 0; i < d.tensors.size(); ++i) {
    const auto& [start, end] = p.intervals[i];
    ASSERT_EQ(end - start, d.tensors[i].elements) << say();
    if (p.shard_size == 0) continue;
    ASSERT_TRUE(start >= 0 && is_legal(d.tensors[i], start, p.shard_size, d.options)) << say();
    const auto counts = units(d.tensors[i], p.intervals[i], p);
    ASSERT_EQ(std::ssize(counts), d.options.shards);
    ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), blocks(d.tensors[i])) << say();
  }
  for (size_t i = 1; i < sorted.size(); ++i) ASSERT_LE(sorted[i - 1].end, sorted[i].start) << say();
  ASSERT_GE(p.padding(), 0) << say();
}

// Catches: a start that is skipped though it is legal, a boundary within a block, a start beyond its
// alignment: whatever of the first legal starts is not the first, or does not decide for all.
TEST(Planner, FirstStartsDecideForAllStarts) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    auto [tensors, o] = draw(random, i % 2 == 0, 9, i % 4 >= 2);
    const int64_t align = std::lcm(o.alignment, o.start_align);
    for (int64_t size = align; size <= 3 * align; size += align) {
      const auto placed = place(tensors, size, size, o);
      ASSERT_EQ(placed.has_value(), fits(tensors, 0, 0, size, o)) << text(tensors, o) << " in " << size;
      if (placed) {
        ASSERT_EQ(placed->back().end, end_of_first_starts(tensors, size, o))
            << text(tensors, o) << " in " << size;
      }
    }
  }
}

// Catches: a shard size below that of the definition, a bisection where it is not sound, sizes that are
// multiples of a tensor's blocks and are not tried, or only up to too small a one.
TEST(Planner, IsTheOptimumOfItsOrder) {
  std::mt19937 random(2);
  int64_t padded = 0;
  for (int i = 0; i < 100000; ++i) {
    const auto d = draw(random, i % 4 != 0, 30, i % 8 >= 5);
    const auto p = plan(d.tensors, d.options);
    check_law(d, p);
    if (HasFatalFailure()) return;
    ASSERT_EQ(p.shard_size, exact(d.tensors, d.options)) << text(d.tensors, d.options);
    ASSERT_TRUE(p.is_least);
    padded += p.padding() > 0;
  }
  EXPECT_GT(padded, 50000);
}

// The law of place(). Catches: a regime in which a larger shard size does not hold what a smaller one does,
// so that a bisection goes astray.
TEST(Planner, InARegimeWhatFitsFitsInMore) {
  std::mt19937 random(6);
  int64_t fits = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto [tensors, o] = draw(random, i % 2 == 0, 30, i % 4 >= 2);
    int64_t regime = std::lcm(o.alignment, o.start_align);
    if (i % 3 != 0) regime = std::lcm(regime, tensors[0].granularity);
    if (i % 3 == 1 && tensors[0].period > 0) regime = std::lcm(regime, tensors[0].period);
    bool before = false;
    for (int64_t size = 2 * regime; size <= 13 * regime; size += regime) {
      const bool now = place(tensors, size, regime, o).has_value();
      ASSERT_TRUE(now || !before) << text(tensors, o) << " in " << size << ", a multiple of " << regime;
      fits += now;
      before = now;
    }
  }
  EXPECT_GT(fits, 20000);
}

// What the regimes give by themselves, where nothing is tried. Catches: regimes by another order of the
// tensors than by elements, the alignment alone left out, an end of the bisection that does not fit, a size
// that is not the least and does not say so.
TEST(Planner, RegimesAloneAreNearTheOptimum) {
  std::mt19937 random(3);
  int64_t worse = 0;
  for (int i = 0; i < 30000; ++i) {
    auto d = draw(random, true, 30);
    d.options.tries = 0;
    const auto p = plan(d.tensors, d.options);
    check_law(d, p);
    if (HasFatalFailure()) return;
    const int64_t best = exact(d.tensors, d.options);
    ASSERT_LE(p.shard_size, 2 * best) << text(d.tensors, d.options);
    if (p.shard_size > best) {
      ASSERT_FALSE(p.is_least) << text(d.tensors, d.options);
    }
    worse += p.shard_size > best;
  }
  EXPECT_GT(worse, 0);
  EXPECT_LT(worse, 300) << "of 30000";
}

// Both have too many multiples of the alignment to try each, and no regime holds the least. Catches: tries
// that go by another step than the blocks of a tensor.
TEST(Planner, TriesTheMultiplesOfBlocks) {
  const Tensors five = {
      {16777216, 4194304}, {26214400, 5242880}, {8388608, 8388608}, {14680064, 2097152}, {8388608, 8388608}};
  EXPECT_EQ(plan(five, {8, 1, 1, Order::kDefault}).shard_size, 10485760);
  const Tensors others = {
      {16777216, 8388608}, {12582912, 6291456}, {15728640, 3145728}, {1048576, 1048576}, {5242880, 5242880}};
  EXPECT_EQ(plan(others, {6, 8, 1, Order::kDefault}).shard_size, 9437184);
}

// Blocks that begin anew after so many that not every size and start can be tried. Catches: a search that
// does not end, a plan that is none where it was given up, or that is said to be the least.
TEST(Planner, GivesUpWhereBlocksBeginAnewTooOften) {
  for (const auto& [tensor, shards] :
       {std::pair(BlockTensor{400000, 2, 65535}, 8), std::pair(BlockTensor{13107100, 20, 1310701}, 64),
        std::pair(BlockTensor{100000000000, 2, 3}, 7), std::pair(BlockTensor{1000000000, 7, 48}, 8)}) {
    const PlanOptions o{shards, 8, 1, Order::kDefault};
    const auto p = plan({tensor}, o);
    for (int64_t at = p.shard_size - p.intervals[0].start; at < tensor.elements; at += p.shard_size)
      ASSERT_EQ(at % tensor.period % tensor.granularity, 0) << text({tensor}, o);
    EXPECT_GE(p.shard_size * shards, p.intervals[0].end);
    EXPECT_GE(p.shard_size, least_shard_size({tensor}, o));
  }
  EXPECT_FALSE(plan({{400000, 2, 65535}}, {8, 8, 1, Order::kDefault}).is_least);
}

// Catches: sorted orders that ascend, or lose the order of ties; a best that is not.
TEST(Planner, OrdersAreDescendingAndTiesAsGiven) {
  const Tensors tensors = {{2, 2}, {4, 1}, {4, 2}, {6, 3}};
  const auto starts = [&](Order order) {
    std::vector<int64_t> all;
    for (const auto& interval : plan(tensors, {1, 1, 1, order}).intervals) all.push_back(interval.start);
    return all;
  };
  EXPECT_EQ(starts(Order::kDefault), (std::vector<int64_t>{0, 2, 6, 10}));
  EXPECT_EQ(starts(Order::kBlock), (std::vector<int64_t>{6, 12, 8, 0}));
  EXPECT_EQ(starts(Order::kShape), (std::vector<int64_t>{14, 6, 10, 0}));
  std::mt19937 random(4);
  for (int i = 0; i < 2000; ++i) {
    auto [drawn, o] = draw(random, true, 30);
    std::optional<BufferPlan> best;
    for (const auto order : {Order::kDefault, Order::kBlock, Order::kShape}) {
      o.order = order;
      ASSERT_EQ(plan(drawn, o).order, order);
      if (auto made = plan(drawn, o); !best || made.shard_size < best->shard_size) best = std::move(made);
    }
    o.order = Order::kBest;
    ASSERT_EQ(plan(drawn, o).intervals, best->intervals) << text(drawn, o);
    ASSERT_EQ(plan(drawn, o).order, best->order) << text(drawn, o);
  }
  // Many, so that a sort that loses the order of ties does.
  const Tensors alike(60, {4, 2});
  for (const auto order : {Order::kBlock, Order::kShape}) {
    const auto intervals = plan(alike, {1, 1, 1, order}).intervals;
    for (size_t i = 0; i < intervals.size(); ++i) EXPECT_EQ(intervals[i].start, 4 * static_cast<int64_t>(i));
  }
}

// Catches: a bound that counts no blocks, or not in what shards hold; one that forgets whose shards are whole
// blocks.
TEST(Planner, BoundsAreReached) {
  EXPECT_EQ(least_shard_size({{8, 4}, {8, 4}}, {3, 1, 1, Order::kDefault}), 8);
  EXPECT_EQ(least_shard_size({{100, 7}}, {10, 8, 1, Order::kDefault}), 56);
  EXPECT_EQ(plan({{100, 7}}, {10, 8, 1, Order::kDefault}).shard_size, 56);
  EXPECT_EQ(least_shard_size({{0, 5}}, {2, 8, 1, Order::kDefault}), 0);
  EXPECT_EQ(least_shard_size({{1, 1}}, {8, 1, 1, Order::kDefault}), 1);
  std::mt19937 random(7);
  int64_t reached = 0;
  for (int i = 0; i < 5000; ++i) {
    const auto [tensors, o] = draw(random, true, 24);
    reached += least_shard_size(tensors, o) == exact_of_all_orders(tensors, o);
  }
  EXPECT_GT(reached, 3500) << "of 5000";
}

// Against the optimum of all orders the paper claims less than twice. Catches: a plan that is further off.
// The last, which the search below found, is exactly twice, and no planner that keeps the order can do
// better.
TEST(Planner, IsWithinTwiceTheOptimumOfAllOrders) {
  std::mt19937 random(5);
  for (int i = 0; i < 30000; ++i) {
    auto [tensors, o] = draw(random, true, 24);
    const int64_t best = exact_of_all_orders(tensors, o), size = plan(tensors, o).shard_size;
    ASSERT_LE(size, 2 * best) << text(tensors, o) << ": " << size << ", of all orders " << best;
    ASSERT_GE(best, least_shard_size(tensors, o)) << text(tensors, o);
  }
  const Tensors twice = {{20, 2}, {6, 6}, {11, 1}};
  const PlanOptions o{5, 8, 1, Order::kDefault};
  EXPECT_EQ(plan(twice, o).shard_size, 16);
  EXPECT_EQ(exact(twice, o), 16);
  EXPECT_EQ(exact_of_all_orders(twice, o), 8);
}

// Catches: a short last block that counts as none, units of shards that hold nothing, a tensor that ends on a
// boundary.
TEST(Planner, UnitsAreBlocks) {
  const Tensors tensors = {{7, 2}, {0, 5}, {6, 3}};
  const auto p = plan(tensors, {3, 2, 1, Order::kDefault});
  EXPECT_EQ(p.shard_size, 6);
  EXPECT_EQ(units(tensors[0], p.intervals[0], p), (std::vector<int64_t>{3, 1, 0}));
  EXPECT_EQ(units(tensors[1], p.intervals[1], p), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(units(tensors[2], p.intervals[2], p), (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(p.padding(), 5);
}

// Catches: nothing to place that takes room, numbers that are none.
TEST(Planner, SaysWhatIsWrong) {
  EXPECT_EQ(plan({}, {4, 8, 1, Order::kBest}).shard_size, 0);
  EXPECT_EQ(plan({{0, 3}}, {4, 8, 1, Order::kDefault}).shard_size, 0);
  EXPECT_THROW(plan({{-1, 1}}, {}), Error);
  EXPECT_THROW(plan({{1, 0}}, {}), Error);
  EXPECT_THROW(plan({{1, 1}}, {0, 8, 1, Order::kDefault}), Error);
  constexpr int64_t kMost = int64_t{1} << 38;
  EXPECT_THROW(plan({{1, 1}, {kMost, 1}}, {}), Error);
  EXPECT_EQ(plan({{kMost, kMost}}, {1 << 24, 1, 1, Order::kDefault}).shard_size, kMost);
  EXPECT_THROW(place({{1, 1}}, 4, 4, {}), Error);
  EXPECT_THROW(place({{1, 1}}, 24, 16, {}), Error);
  EXPECT_THROW(parse_order("size"), Error);
  for (const auto order : {Order::kDefault, Order::kBlock, Order::kShape, Order::kBest})
    EXPECT_EQ(parse_order(name(order)), order);
}

}  // namespace
}  // namespace lockstep::fsdp
