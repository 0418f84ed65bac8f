// SPDX-License-Identifier: Apache-2.0
// Routes that are kept.
#include "engine/tensor/cache.h"

#include <gtest/gtest.h>

#include "engine/tensor/testing.h"

namespace lockstep {
namespace {

struct Key {
  std::string mesh = "2x4", placements = "[S0,S0]", to = "[R,S1]";
  std::vector<int64_t> shape{8, 12}, stride{12, 1};
  c10::ScalarType dtype = at::kFloat;

  SpecPtr spec(const std::string& text) const {
    auto [placed, order] = parse_placements_and_order(text);
    return std::make_shared<const Spec>(parse_mesh(mesh), placed, shape, stride, dtype, order);
  }
};

std::shared_ptr<const Route> known(Context& context, const Key& key) {
  return known_route(context, key.spec(key.placements), key.spec(key.to));
}

void expect_same(const Route& a, const Route& b) {
  EXPECT_EQ(*a.from, *b.from);
  EXPECT_EQ(*a.to, *b.to);
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_EQ(*a.steps[i].from, *b.steps[i].from);
    EXPECT_EQ(*a.steps[i].to, *b.steps[i].to);
    EXPECT_EQ(to_string(a.steps[i]), to_string(b.steps[i]));
  }
}

// A kept route is the planned one, and whatever changes in the key is planned for itself. Catches: a key that
// lacks one of these, a hash that stands for what it hashes.
TEST(KnownRoutes, AreThePlannedOnes) {
  const Key keys[] = {{},
                      {.placements = "[S0,S0]@1.0"},
                      {.to = "[R,R]"},
                      {.to = "[S0,S0]@1.0"},
                      {.placements = "[S0,P]"},
                      {.placements = "[S0,Pavg]"},
                      {.mesh = "4x2"},
                      {.mesh = "dp:2,tp:4"},
                      {.shape = {12, 8}, .stride = {8, 1}},
                      {.stride = {1, 8}},
                      {.dtype = at::kDouble}};
  Context context;
  std::vector<std::shared_ptr<const Route>> first;
  for (const auto& key : keys) {
    first.push_back(known(context, key));
    expect_same(*first.back(), route(key.spec(key.placements), key.spec(key.to)));
    for (size_t i = 0; i + 1 < first.size(); ++i) EXPECT_NE(first[i], first.back()) << i;
  }
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(known(context, keys[i]), first[i]) << i;
}

// Catches: routes of another Context, which another thread may use.
TEST(KnownRoutes, AreThoseOfTheirContext) {
  Context mine, other;
  EXPECT_NE(known(mine, {}), known(other, {}));
}

}  // namespace
}  // namespace lockstep
