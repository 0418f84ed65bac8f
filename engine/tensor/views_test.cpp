// SPDX-License-Identifier: Apache-2.0
// Views that merge and split dimensions, on two mesh dimensions: all small shapes and placements.
#include <gtest/gtest.h>

#include "engine/tensor/dtensor.h"
#include "engine/values/refused.h"

namespace lockstep {
namespace {

using Shape = std::vector<int64_t>;

struct Count {
  int64_t kept = 0, refused = 0;
};

// A view that the engine gives has the elements of the whole one, whatever cuts the tensor; else it refuses.
void view_all(const DeviceMesh& mesh, const Shape& from, const Shape& to, Count& count) {
  const auto in_world = init_device_mesh(mesh.shape());
  const at::Tensor value = at::arange(c10::multiply_integers(from)).view(from);
  std::vector<Placement> cuts = {Replicate{}};
  for (int64_t d = 0; d < std::ssize(from); ++d)
    cuts.insert(cuts.end(), {Shard{d}, InterleavedShard{d, 2}, InterleavedShard{d, 3}});
  for (const Placement& p : cuts)
    for (const Placement& q : cuts) {
      const auto x = redistribute(distribute_tensor(value, in_world, {Replicate{}, Replicate{}}), {p, q});
      try {
        const auto viewed = x.view(to);
        ASSERT_TRUE(full_tensor(viewed).equal(value.view(to)))
            << at::IntArrayRef(from) << " " << to_string(Placements{p, q}) << " -> " << at::IntArrayRef(to)
            << " on " << at::IntArrayRef(mesh.shape());
        ++count.kept;
      } catch (const Refused&) {
        ++count.refused;
      }
    }
}

// Catches: a row for uneven pieces that another mesh dimension cuts again; pieces counted on the first rank
// and taken for those of each; a dimension of one element taken for another.
TEST(ViewsTest, HaveTheElementsOfTheWholeOrAreRefused) {
  Count count;
  for (const Shape& shape : {Shape{2, 2}, Shape{3, 2}, Shape{4, 2}, Shape{2, 3}})
    for (int64_t a = 1; a <= 9; ++a)
      for (const int64_t b : {1, 2, 3}) {
        const DeviceMesh mesh(shape);
        for (const Shape& merged : {Shape{a * b, 3}, Shape{a, b * 3}, Shape{a * b * 3}, Shape{a, 1, b, 3}}) {
          view_all(mesh, {a, b, 3}, merged, count);
          view_all(mesh, merged, {a, b, 3}, count);
        }
      }
  EXPECT_GT(count.kept, 20000);
  EXPECT_GT(count.refused, 10000);
}

// Catches: a detached tensor whose locals are copies, or whose place in its storage is lost.
TEST(Views, WhatIsDetachedIsTheSameMemory) {
  const auto x = distribute_tensor(at::arange(8, at::kFloat), init_device_mesh({2}), {Replicate{}});
  const auto later = at::narrow(x, 0, 2, 4).variable_data();
  EXPECT_TRUE(full_tensor(at::as_strided(later, {2}, {1}, 3)).equal(at::arange(3, 5, at::kFloat)));
  later.add_(10);
  EXPECT_TRUE(full_tensor(x).equal(at::tensor({0.f, 1.f, 12.f, 13.f, 14.f, 15.f, 6.f, 7.f})));
}

}  // namespace
}  // namespace lockstep
