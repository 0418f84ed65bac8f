// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/twin.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "oracle/plain/evaluate.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::oracle {
namespace {

using Refs = std::vector<Ref>;

Case of(std::vector<Input> inputs, std::vector<Call> calls) {
  Case c;
  c.mesh = DeviceMesh({1});
  c.device = {1, 256};
  for (size_t i = 0; i < inputs.size(); ++i) c.placements.push_back({parse_placements("[R]"), {}});
  c.program.inputs = std::move(inputs);
  c.program.calls = std::move(calls);
  return c;
}

std::vector<at::Tensor> evaluated(const Case& c) {
  SimulatedSource source;
  return evaluate(c, source);
}

Input numbers(c10::ScalarType dtype, std::vector<int64_t> shape, uint64_t seed) {
  return {dtype, std::move(shape), {}, {ValueKind::kNormal, seed, 0, 0, {}}, false};
}
Input ones(c10::ScalarType dtype) {
  return {dtype, {1}, {}, {ValueKind::kIntegers, 1, 1, 1, {}}, false};
}

// The fused optimizers read scale and flag as float, whatever dtype their parameters have. Catches: a twin in
// which these are double, so that libtorch refuses the step and nothing is judged.
TEST(Twin, ScaleAndFlagOfAFusedStepStayFloat) {
  const std::vector<Arg> step = {Refs{{0}}, Refs{{1}}, Refs{}, 0.0,  0.0,    0.1,
                                 0.0,       false,     false,  true, Ref{2}, None{}};
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto c =
        of({numbers(dtype, {5}, 1), numbers(dtype, {5}, 2), ones(at::kFloat), ones(at::kFloat)},
           {{"aten::_fused_sgd_", step, 0}, {"aten::add.Tensor", {Ref{3}, Ref{2}, int64_t{1}}, 1}});
    const auto twin = float64_twin(c);
    EXPECT_EQ(twin.program.inputs[0].dtype, at::kDouble);
    EXPECT_EQ(twin.program.inputs[2].dtype, at::kFloat);
    EXPECT_EQ(twin.program.inputs[3].dtype, at::kDouble) << "nothing reads it as float";
    const auto plain = evaluated(twin);
    const auto reach = reach_of(c, evaluated(c));
    ASSERT_TRUE(reach.values[0].reach.defined());
    EXPECT_TRUE(at::le(at::sub(plain[0], reach.values[0].answer).abs(), 0.1).all().item<bool>());
  }
}

}  // namespace
}  // namespace lockstep::oracle
