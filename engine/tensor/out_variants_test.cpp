// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/ops/resolve.h"
#include "engine/tensor/dtensor.h"

namespace lockstep {
namespace {

std::string functional_of(const char* name, const char* overload) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const auto& functional = resolve(op).functional;
  return functional.has_value() ? c10::toString(functional->operator_name()) : "none";
}

// Catches: an out variant that runs another overload than its own; add.Scalar takes as many arguments as
// add.Tensor, and the names of overloads with and without out need not agree.
TEST(OutVariantsTest, KnowTheirFunctionalOverloads) {
  EXPECT_EQ(functional_of("aten::add", "out"), "aten::add.Tensor");
  EXPECT_EQ(functional_of("aten::add", "Scalar_out"), "aten::add.Scalar");
  EXPECT_EQ(functional_of("aten::sum", "IntList_out"), "aten::sum.dim_IntList");
  EXPECT_EQ(functional_of("aten::mm", "out"), "aten::mm");
  EXPECT_EQ(functional_of("aten::add", "Tensor"), "none");
}

// Catches: an out whose memory is replaced instead of written, so that its views keep the old values; a copy
// into other placements, or into another dtype, that takes the result's memory as it lies.
TEST(OutVariantsTest, WriteTheMemoryOfOut) {
  const auto mesh = init_device_mesh({2});
  const auto value = at::arange(12, at::kFloat).view({3, 4});
  const auto x = distribute_tensor(value, mesh, {Shard{0}});
  for (const Placement& p : {Placement(Shard{0}), Placement(Shard{1}), Placement(Replicate{})})
    for (const auto dtype : {at::kFloat, at::kDouble}) {
      auto out = distribute_tensor(at::zeros({3, 4}, dtype), mesh, {p});
      const auto view = out.t();
      EXPECT_TRUE(at::add_out(out, x, x).is_same(out));
      EXPECT_TRUE(full_tensor(view).equal((value + value).t().to(dtype))) << to_string(p) << dtype;
    }
}

}  // namespace
}  // namespace lockstep
