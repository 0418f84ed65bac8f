// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/padded.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "engine/tensor/testing.h"
#include "engine/world/bits.h"

namespace lockstep {
namespace {

class PaddedTest : public testing::Test {
 protected:
  const MeshInWorld mesh_ = init_device_mesh({2, 3});

  // Every pair of placements of a matrix; some leave ranks with nothing.
  std::vector<Placements> everywhere() const {
    std::vector<Placements> result;
    for (const auto& a : placement_choices(2))
      for (const auto& b : placement_choices(2)) result.push_back({a, b});
    for (const auto& a : {Placement(Replicate{}), Placement(Partial{}), Placement(Shard{1})})
      result.push_back({a, RaggedShard{{0}, {0, 1, 2}}});
    return result;
  }
  // Whatever stands beyond what a rank holds.
  PerRank<at::Tensor> spoilt(const PerRank<at::Tensor>& locals, const at::Tensor& of) const {
    PerRank<at::Tensor> result;
    for (size_t i = 0; i < locals.size(); ++i) {
      auto inside = at::full_like(locals[i], std::numeric_limits<double>::quiet_NaN());
      auto part = inside;
      for (int64_t d = 0; d < part.dim(); ++d) part = part.narrow(d, 0, local_tensors(of)[i].size(d));
      part.copy_(local_tensors(of)[i]);
      result.push_back(inside);
    }
    return result;
  }
};

// All locals have one shape, in which each rank's own stands first and zeros behind it, and back they are the
// tensor, whatever has been written behind. Catches: a rank's padding that another one's data is read from,
// locals that are as large as the first rank's, which is not the largest under a RaggedShard, padding before
// the data.
TEST_F(PaddedTest, PaddedIsUnpadded) {
  for (const auto& shape : {std::vector<int64_t>{6, 4}, {3, 7}, {6, 1}})
    for (const auto& p : everywhere()) {
      const auto x = distribute_tensor(ramp(shape), mesh_, p);
      const auto locals = to_local(x, {}, true);
      ASSERT_EQ(locals.size(), 6U);
      for (int64_t d = 0; d < locals[0].dim(); ++d) {
        int64_t most = 0;
        for (const auto& own : local_tensors(x)) most = std::max(most, own.size(d));
        EXPECT_EQ(locals[0].size(d), most) << spec(x);
      }
      for (size_t i = 0; i < 6; ++i) {
        const auto& own = local_tensors(x)[i];
        ASSERT_EQ(locals[i].sizes(), locals[0].sizes()) << spec(x);
        auto rest = locals[i].clone();
        auto part = rest;
        for (int64_t d = 0; d < own.dim(); ++d) part = part.narrow(d, 0, own.size(d));
        EXPECT_TRUE(same_bits(part.contiguous(), own.contiguous())) << spec(x) << ", " << i;
        part.zero_();
        EXPECT_EQ(rest.count_nonzero().item<int64_t>(), 0) << spec(x) << ", " << i;
      }
      for (const auto& back : {locals, spoilt(locals, x)}) {
        const auto y = from_local(back, mesh_, p, shape, std::nullopt, true, spec(x).order(), true);
        ASSERT_EQ(spec(y), spec(x));
        for (size_t i = 0; i < 6; ++i)
          EXPECT_TRUE(same_bits(local_tensors(y)[i], local_tensors(x)[i])) << spec(x) << ", " << i;
      }
    }
}

// Gradients go through what is no padding. Catches: the padding's gradient, which is nobody's, added to data.
TEST_F(PaddedTest, PaddingHasNoGradient) {
  const auto value = ramp({5, 4});
  for (const auto& p : everywhere()) {
    if (is_ragged(p[1])) continue;  // which cuts blocks of 5 rows otherwise
    const auto x = parameter(distribute_tensor(value, mesh_, p));
    auto locals = to_local(x, {}, true);
    for (auto& local : locals) local = local * 3 + 7;
    const auto y =
        from_local(locals, mesh_, placements(x), value.sizes().vec(), std::nullopt, false, {}, true);
    full_tensor(y * y.detach()).sum().backward();
    EXPECT_TRUE(same_bits(full_tensor(x.grad()), 3 * full_tensor(y))) << to_string(p);
  }
}

// Catches: a shape that is guessed from padded locals, a local that is not padded and taken for one that is.
TEST_F(PaddedTest, SaysWhatIsNotPadded) {
  const Placements p{Shard{0}, Replicate{}};
  const auto x = distribute_tensor(ramp({5, 4}), mesh_, p);
  EXPECT_TRUE(says(error_of([&] {
                     from_local(to_local(x, {}, true), mesh_, p, std::nullopt, std::nullopt, true, {}, true);
                   }),
                   {"[from_local]", "nothing of the global shape"}));
  EXPECT_TRUE(
      says(error_of([&] {
             from_local(to_local(x), mesh_, p, std::vector<int64_t>{5, 4}, std::nullopt, true, {}, true);
           }),
           {"[from_local] rank 3 gave [2, 4]", "is [3, 4]", "pad it"}));
}

}  // namespace
}  // namespace lockstep
