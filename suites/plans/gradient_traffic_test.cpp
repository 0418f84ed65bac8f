// SPDX-License-Identifier: Apache-2.0
// What ranks send of gradients that lie in buckets, against the formula.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/nn/distribute.h"
#include "engine/nn/layers.h"
#include "engine/plan/gradient_buckets.h"
#include "engine/values/as_size.h"
#include "suites/engines/counting_world.h"

namespace lockstep::suites {
namespace {

constexpr int64_t kElements = 7 * 5 + 7;  // of a linear's weight and bias: no number of ranks divides them

// A backward pass for each of `passes`, of which the last one adds up. @returns what was sent in all of them
TrafficByOp traffic_of(const std::vector<int64_t>& shape, BucketOptions options, int64_t passes,
                       c10::ScalarType dtype = c10::ScalarType::Float) {
  TrafficByOp traffic;
  std::vector<std::string> names;
  int64_t ranks = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    names.emplace_back(1, static_cast<char>('a' + d));
    ranks *= shape[d];
  }
  const auto mesh = init_device_mesh(c10::kCPU, shape, names, counting(local_world(ranks), traffic));
  nn::Linear linear(5, 7, true, dtype);
  nn::distribute_module(linear, mesh, {});
  nn::reset_parameters(linear);
  options.mesh_dims = names;
  GradientBuckets buckets(linear, mesh, {"weight", "bias"}, options);
  TrafficByOp all;
  for (int64_t pass = 0; pass < passes; ++pass) {
    buckets.set_requires_gradient_sync(pass + 1 == passes);
    const auto x = at::ones({2 * ranks, 5}, at::TensorOptions(dtype));
    const auto loss = linear(distribute_tensor(x, mesh, Placements(shape.size(), Shard{0}))).sum();
    traffic.clear();
    loss.backward();
    for (const auto& [op, its] : traffic) all[op] += its;
  }
  return all;
}

void expect_sent(const TrafficByOp& traffic, const char* op, int64_t calls, int64_t bytes) {
  const auto found = traffic.find(op);
  const Traffic its = found == traffic.end() ? Traffic() : found->second;
  EXPECT_EQ(its.calls, calls) << op;
  EXPECT_EQ(its.bytes, bytes) << op;
}

// Ranks together send S (n - 1) bytes in each of two exchanges, whatever the shape of the mesh: each
// 2 S (n - 1) / n on average, once, and not once for each mesh dimension. Catches: an exchange a parameter or
// a mesh dimension; whole gradients that are sent where parts would do; a sum in a wider dtype that is
// gathered in it.
TEST(GradientTraffic, IsThatOfOneFlatMesh) {
  for (const auto& shape :
       std::vector<std::vector<int64_t>>{{2}, {4}, {5}, {2, 2}, {3, 2}, {2, 2, 2}, {1, 3, 1}}) {
    SCOPED_TRACE(testing::PrintToString(shape));
    const auto n = c10::multiply_integers(shape);
    const int64_t bytes = 4 * kElements * (n - 1);
    const auto folded = traffic_of(shape, {}, 1);
    expect_sent(folded, "reduce_scatter", 1, bytes);
    expect_sent(folded, "all_gather", 1, bytes);
    EXPECT_EQ(folded.size(), 2);
    for (const auto order : {SumOrder::kTree, SumOrder::kExact}) {
      const auto other = traffic_of(shape, {{}, order}, 1);
      expect_sent(other, "all_to_all", 1, bytes);
      expect_sent(other, "all_gather", 1, bytes);
      EXPECT_EQ(other.size(), 2);
    }
  }
}

// No rank sends more than its part of each, rounded up. Catches: a rank that does the work of others.
TEST(GradientTraffic, IsSpreadOverRanks) {
  const auto traffic = traffic_of({2, 3}, {}, 1);
  const int64_t part = (kElements + 5) / 6;
  for (const auto& [op, its] : traffic)
    for (const auto sent : its.sent) EXPECT_LE(sent, 4 * part * 5) << op;
}

// Catches: an exchange more for a bucket that is full; one bucket for all where there are to be several.
TEST(GradientTraffic, IsTwoExchangesABucket) {
  const auto traffic = traffic_of({2, 2}, {{}, SumOrder::kFold, 1}, 1);
  expect_sent(traffic, "reduce_scatter", 2, 4 * kElements * 3);
  expect_sent(traffic, "all_gather", 2, 4 * kElements * 3);
}

// Catches: passes that are exchanged where a rank adds them up first; gathered where that is to be done once;
// not exchanged where they are to go first; a hop that is sent in another dtype.
TEST(GradientTraffic, OfPassesIsAsTheSumsAsk) {
  using enum SumHop::Over;
  const int64_t elements = kElements * 3, bf16 = 2 * elements;
  const std::vector<SumHop> passes_first = {{kPasses, at::kFloat}, {kRanks, at::kFloat}},
                            narrow_ranks = {{kPasses, at::kFloat}, {kRanks}},
                            ranks_first = {{kRanks, at::kFloat}, {kPasses, at::kFloat}};
  const auto sent = [](std::vector<SumHop> hops, SumOrder order = SumOrder::kFold) {
    return traffic_of({2, 2}, {{}, order, 1000, std::move(hops)}, 3, at::kBFloat16);
  };
  expect_sent(sent({}), "reduce_scatter", 1, bf16);
  expect_sent(sent(narrow_ranks), "reduce_scatter", 1, bf16);
  expect_sent(sent(passes_first), "reduce_scatter", 1, 2 * bf16);
  expect_sent(sent(ranks_first), "reduce_scatter", 3, 3 * 2 * bf16);
  expect_sent(sent({}, SumOrder::kExact), "all_to_all", 3, 3 * bf16);
  for (const auto& hops : {passes_first, narrow_ranks, ranks_first})
    expect_sent(sent(hops), "all_gather", 1, bf16);
}

}  // namespace
}  // namespace lockstep::suites
