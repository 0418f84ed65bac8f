// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/local_map.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/values/error.h"

namespace lockstep {
namespace {

const Placements kRows = {Shard{0}}, kColumns = {Shard{1}}, kSum = {Partial{}}, kWhole = {Replicate{}};

std::vector<at::Tensor> product(const std::vector<at::Tensor>& of) {
  return {at::mm(of[0], of[1])};
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(a, b);
}

std::string error_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class LocalMap : public ::testing::Test {
 protected:
  const MeshInWorld mesh = init_device_mesh({2}, {"tp"});
  // Small whole numbers, so that sums have one value in any order.
  const at::Tensor a = at::arange(12, at::kFloat).reshape({3, 4});
  const at::Tensor b = at::arange(8, at::kFloat).reshape({4, 2});
  at::Tensor on(const at::Tensor& t, const Placements& placements) const {
    return distribute_tensor(t, mesh, placements);
  }
};

// torch's example, a row-wise linear: each rank's product is a term. Fault: a result taken for whole.
TEST_F(LocalMap, AProductOfSlicesIsATermOfTheWhole) {
  const auto mm =
      local_map(product, {{.placements = kSum}}, {{.placements = kColumns}, {.placements = kRows}});
  const auto y = mm({on(a, kColumns), on(b, kRows)})[0];
  EXPECT_EQ(placements(y), kSum);
  EXPECT_TRUE(same_bits(full_tensor(y), at::mm(a, b)));
}

// Rows of 3 over 2 ranks: the shape says which. Fault: the shape is the first local's times the ranks.
TEST_F(LocalMap, WhatIsCutUnevenlyHasItsShapeTold) {
  const auto twice = local_map(
      [](const std::vector<at::Tensor>& of) {
        return std::vector{of[0] * 2, of[0].t()};
      },
      {{.placements = kRows, .shape = {{3, 4}}}, {.placements = kColumns, .shape = {{4, 3}}}});
  const auto y = twice({on(a, kRows)});
  EXPECT_TRUE(same_bits(full_tensor(y.at(0)), a * 2));
  EXPECT_TRUE(same_bits(full_tensor(y.at(1)), a.t()));
}

// Plain inputs go to every rank as they are; inputs move only if asked to. Fault: a plain one is cut.
TEST_F(LocalMap, PlainInputsArePassedAndOthersMoveIfToldTo) {
  const auto mm =
      local_map(product, {{.placements = kRows, .shape = {{3, 2}}}}, {{.placements = kRows}, {}}, true);
  EXPECT_TRUE(same_bits(full_tensor(mm({on(a, kWhole), b})[0]), at::mm(a, b)));
}

// What a replicated input gets from each rank is a term, where grad_placements says so: w's gradient is that
// of one device. Fault: grad_placements is not passed on.
TEST_F(LocalMap, GradientsAreTermsWhereToldSo) {
  const auto w = on(b, kWhole).detach().requires_grad_(true);
  const auto mm = local_map(product, {{.placements = kRows, .shape = {{3, 2}}}},
                            {{.placements = kRows}, {.placements = kWhole, .grad_placements = kSum}});
  full_tensor(mm({on(a, kRows), w})[0]).sum().backward();
  EXPECT_TRUE(same_bits(full_tensor(w.grad()), at::mm(a.t(), at::ones({3, 2}))));
}

// Fault: a wrong call goes on and gives something.
TEST_F(LocalMap, WrongCallsSayWhatIsWrong) {
  const auto mm =
      local_map(product, {{.placements = kSum}}, {{.placements = kColumns}, {.placements = kRows}});
  EXPECT_NE(error_of([&] { mm({a, b}); }).find("none of the 2 inputs is a DTensor"), std::string::npos);
  EXPECT_NE(error_of([&] {
              mm({on(a, kRows), on(b, kRows)});
            }).find("input 0 is f32[3x4]@[S0], not placed as [S1]; redistribute it"),
            std::string::npos);
  EXPECT_NE(error_of([&] { mm({on(a, kColumns)}); }).find("with 1 inputs, and was made for 2"),
            std::string::npos);
  const auto other = init_device_mesh({2, 1}, {"dp", "tp"}, mesh.world);
  EXPECT_NE(error_of([&] {
              mm({on(a, kColumns), distribute_tensor(b, other, {Shard{0}, Replicate{}})});
            }).find("input 1 is on "),
            std::string::npos);
  const auto two = local_map(product, {{.placements = kSum}, {.placements = kSum}});
  EXPECT_NE(error_of([&] {
              two({on(a, kColumns), on(b, kRows)});
            }).find("gave 1 results on rank 0, and 2 are placed"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
