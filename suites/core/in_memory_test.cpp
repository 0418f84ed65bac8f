// SPDX-License-Identifier: Apache-2.0
// How values lie in memory, by hand: as on one device, and against each law.
#include "suites/core/in_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace lockstep::suites {
namespace {

// Two values on two ranks, each of which has both whole.
struct Two {
  oracle::Case c;
  std::vector<at::Tensor> plain;
  std::vector<EngineValue> values;
  Storages outside;

  // @param parts of a rank's memory of 24 elements: the two values
  template <class Parts>
  explicit Two(Parts parts) {
    const std::vector<int64_t> shape = {2, 3};
    const oracle::Input input = {at::kFloat, shape, {}, {oracle::ValueKind::kOnes, 0, 0, 0, {}}, false};
    c.mesh = DeviceMesh({2});
    c.program.inputs = {input, input};
    c.placements = {{{Replicate{}}, {}}, {{Replicate{}}, {}}};
    plain = parts(at::ones({24}));
    values.resize(2);
    for (size_t v = 0; v < 2; ++v)
      values[v].spec = std::make_shared<const Spec>(c.mesh, Placements{Replicate{}}, plain[v].sizes().vec(),
                                                    plain[v].strides().vec(), at::kFloat);
    for (int rank = 0; rank < 2; ++rank) {
      const auto mine = parts(at::ones({24}));
      for (size_t v = 0; v < 2; ++v) values[v].locals.push_back(mine[v]);
    }
  }
  at::Tensor& last() { return values[1].locals[1]; }
  std::string verdict() const {
    const auto elsewhere = lies_elsewhere(c, plain, values, outside);
    return elsewhere ? elsewhere->verdict : "";
  }
};

std::vector<at::Tensor> one_twice(const at::Tensor& memory) {
  return {memory.narrow(0, 0, 6).view({2, 3}), memory.narrow(0, 0, 6).view({2, 3})};
}
std::vector<at::Tensor> side_by_side(const at::Tensor& memory) {
  return {memory.narrow(0, 0, 6).view({2, 3}), memory.narrow(0, 12, 6).view({2, 3})};
}
std::vector<at::Tensor> apart(const at::Tensor& memory) {
  return {memory.narrow(0, 0, 6).view({2, 3}), at::ones({2, 3})};
}

// Catches: a law that fails what is right.
TEST(InMemory, AsOnOneDevice) {
  EXPECT_EQ(Two(one_twice).verdict(), "");
  EXPECT_EQ(Two(side_by_side).verdict(), "");
  EXPECT_EQ(Two(apart).verdict(), "");
}

// Catches: a plain tensor, as an op may make of plain operands beside a DTensor, called memory that ranks
// share; ranks' own tensors there that nobody looks at.
TEST(InMemory, OfAPlainTensorThereIsOne) {
  Two one(apart);
  one.last() = one.values[1].locals[0];
  one.outside = {one.plain[1].storage().unsafeGetStorageImpl()};
  EXPECT_EQ(one.verdict(), "");
  one.last() = at::ones({3, 2}).t();
  EXPECT_EQ(one.verdict(), "stride");
  one.last() = one.values[1].locals[0];
  one.outside = {one.plain[0].storage().unsafeGetStorageImpl()};
  EXPECT_EQ(one.verdict(), "memory");
}

// Catches: each way in which equal values lie elsewhere.
TEST(InMemory, SeesWhatLiesElsewhere) {
  Two turned(apart);
  turned.last() = at::ones({3, 2}).t();
  EXPECT_EQ(turned.verdict(), "stride");
  Two of_one_rank(apart);
  of_one_rank.last() = of_one_rank.values[1].locals[0];
  EXPECT_EQ(of_one_rank.verdict(), "memory");
  Two view(apart);
  view.last() = view.values[0].locals[1];
  EXPECT_EQ(view.verdict(), "memory");
  Two copy(one_twice);
  copy.last() = copy.last().clone();
  EXPECT_EQ(copy.verdict(), "memory");
  Two moved(one_twice);
  moved.last() = moved.last().as_strided({2, 3}, {3, 1}, 1);
  EXPECT_EQ(moved.verdict(), "memory");
  Two overlapping(side_by_side);
  overlapping.last() = overlapping.last().as_strided({2, 3}, {3, 1}, 3);
  EXPECT_EQ(overlapping.verdict(), "memory");
  Two exchanged(side_by_side);
  std::swap(exchanged.values[0].locals[1], exchanged.last());
  EXPECT_EQ(exchanged.verdict(), "memory");
}

}  // namespace
}  // namespace lockstep::suites
