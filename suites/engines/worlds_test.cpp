// SPDX-License-Identifier: Apache-2.0
// The Worlds that suites put around the engine's: each conforms as the World within does, and the one that
// counts bytes counts what routes promise.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "engine/layout/route.h"
#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"
#include "engine/world/testing_conformance.h"
#include "suites/engines/counting_world.h"
#include "suites/faults/wrap.h"

namespace lockstep::suites {
namespace {

// Catches: a decorator that forwards to the wrong collective, or touches what it should only count or pass
// on.
TEST(Worlds, DecoratorsConform) {
  for (const auto& shape : {std::vector<int64_t>{1}, {4}, {2, 3}, {2, 2, 2}}) {
    const DeviceMesh mesh(shape);
    Traffic traffic;
    EXPECT_EQ(world_conformance(counting(local_world(mesh.size()), traffic), mesh), "");
    EXPECT_GT(traffic.calls, 0);
    EXPECT_EQ(world_conformance(spoilt_world(local_world(mesh.size()), {}), mesh), "");
    EXPECT_EQ(world_conformance(counting(spoilt_world(local_world(mesh.size()), {}), traffic), mesh), "");
  }
}

// Catches: a check of Worlds that no World fails.
TEST(Worlds, FaultsDoNotConform) {
  const auto conformance = [](WorldFault fault) {
    return world_conformance(spoilt_world(local_world(6), std::move(fault)), DeviceMesh({2, 3}));
  };
  const auto swap = [](PerRank<Received>& all, const std::vector<Group>&) {
    for (auto& pieces : all)
      if (pieces.front().sizes() == pieces.back().sizes()) std::swap(pieces.front(), pieces.back());
  };
  const auto lose = [](PerRank<Received>& all, const std::vector<Group>&) {
    all.back().back() = at::zeros_like(all.back().back());
  };
  WorldFault swapped, turned, crossed, lost, zeros, nans;
  swapped.gathered = turned.exchanged = swap;
  crossed.exchanged = [swap](PerRank<Received>& all, const std::vector<Group>& groups) {
    if (all.front().front().is_floating_point()) swap(all, groups);  // terms of reductions
  };
  lost.gathered = lose;
  zeros.sent = [](const at::Tensor& t) { return at::where(t.eq(0), at::zeros_like(t), t); };
  nans.sent = [](const at::Tensor& t) {
    return t.is_floating_point() ? at::where(t.isnan(), at::full_like(t, NAN), t) : t;
  };
  EXPECT_NE(conformance(swapped).find("all_gather"), std::string::npos);
  EXPECT_NE(conformance(crossed).find("reduce_scatter"), std::string::npos);
  EXPECT_NE(conformance(turned).find("an exchange from the last"), std::string::npos);
  EXPECT_NE(conformance(lost).find("all_gather"), std::string::npos);
  EXPECT_NE(conformance(zeros), "");
  EXPECT_NE(conformance(nans), "");
}

// Every pair of placements of an uneven tensor, pending sums included. Catches: a route whose price is not
// what the collectives move, so that the cheapest by bytes is not; traffic that counts what a rank sends
// itself.
TEST(Worlds, BytesReceivedAreTheRoutes) {
  Traffic traffic;
  const auto mesh = init_device_mesh({2, 3}, {}, counting(local_world(6), traffic));
  const auto value = at::arange(35, at::kFloat).reshape({5, 7});
  const auto choices = placement_choices(2);
  int64_t pairs = 0, moved = 0;
  for (const auto& a : choices)
    for (const auto& b : choices) {
      const auto from = distribute_tensor(value, mesh, {a, b});
      for (const auto& c : choices)
        for (const auto& d : choices) {
          const auto to = std::make_shared<const Spec>(spec(from).with_placements({c, d}));
          const auto planned = route(std::make_shared<const Spec>(spec(from)), to).bytes();
          traffic = {};
          redistribute(from, {c, d});
          EXPECT_EQ(traffic.bytes, planned) << spec(from) << " -> " << *to;
          EXPECT_EQ(std::accumulate(traffic.sent.begin(), traffic.sent.end(), int64_t{0}), planned);
          ++pairs;
          moved += planned > 0 ? 1 : 0;
        }
    }
  EXPECT_EQ(pairs, 36 * 36);
  EXPECT_GT(moved, pairs / 2);
}

}  // namespace
}  // namespace lockstep::suites
