// SPDX-License-Identifier: Apache-2.0
// The integer lane: whatever the order of its sums, the bits are the same.
#include <gtest/gtest.h>

#include "generators/cases/programs.h"
#include "generators/program/magnitude.h"
#include "generators/program/trial.h"
#include "oracle/plain/evaluate.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::generators {
namespace {

// Would catch: a fraction counted wrongly, a limit that is not the dtype's.
TEST(Magnitude, arithmetic) {
  EXPECT_TRUE(exact({255, 0}, c10::ScalarType::BFloat16));
  EXPECT_FALSE(exact({256, 0}, c10::ScalarType::BFloat16));
  EXPECT_FALSE(exact({200, 1}, c10::ScalarType::BFloat16));
  EXPECT_EQ(magnitude_of(0.25).fraction, 2);
  EXPECT_EQ(magnitude_of(-3.0).bound, 3);
  EXPECT_EQ((Magnitude{3, 1} * Magnitude{5, 2}).fraction, 3);
  EXPECT_EQ((Magnitude{3, 1} + Magnitude{5, 2}).bound, 8);
  EXPECT_EQ(over_power_of_two({8, 0}, 8).fraction, 3);
}

// Would catch: a template that claims to be exact and is not, a bound that forgets a factor. A value beyond
// its dtype's limit, or rounded on the way, differs from its float64 twin.
TEST(IntegerLane, values_are_those_of_float64) {
  oracle::SimulatedSource source;
  int64_t cases = 0, values = 0, with_backward = 0;
  for (const char* suite : {"program", "ops", "gradient", "redistribute", "metamorphic", "cache"})
    for (uint64_t i = 0; i < 1500; ++i) {
      auto c = generate(suite, 21, i);
      if (!c.integer_lane) continue;
      c.device = {1, 256};
      const auto plain = oracle::evaluate(c, source);
      const auto wide = oracle::evaluate_f64(c, source, plain);
      ++cases;
      with_backward += c.program.calls.back().op == "lockstep::backward" ? 1 : 0;
      for (size_t v = 0; v < plain.size(); ++v) {
        if (!plain[v].defined() || !c10::isFloatingType(plain[v].scalar_type()) || plain[v].numel() == 0)
          continue;
        ++values;
        EXPECT_LE(plain[v].abs().max().item<double>(), integer_limit(plain[v].scalar_type()));
        ASSERT_TRUE(at::equal(plain[v].to(at::kDouble), wide[v])) << "value " << v << "\n"
                                                                  << oracle::describe(c);
      }
    }
  EXPECT_GT(cases, 1500);
  EXPECT_GT(values, 5000);
  EXPECT_GT(with_backward, 150);
}

// Would catch: an op that makes -0.0 and does not say so. An op that orders zeros must then be given none:
// its result would depend on which operand, lane or rank is asked first.
TEST(IntegerLane, ops_that_order_zeros_see_no_negative_ones) {
  oracle::SimulatedSource source;
  int64_t operands = 0;
  for (const char* suite : {"program", "ops", "gradient", "cache"})
    for (uint64_t i = 0; i < 1500; ++i) {
      auto c = generate(suite, 23, i);
      if (!c.integer_lane) continue;
      c.device = {1, 256};
      for (size_t k = 0; k < c.program.calls.size(); ++k) {
        const auto& call = c.program.calls[k];
        const auto& table = op_templates();
        const auto known =
            std::find_if(table.begin(), table.end(), [&](const auto& op) { return call.op == op.op; });
        if (known == table.end() || !known->orders_zeros() || known->in_place()) continue;
        // What the call sees: calls after it may write to its operands.
        auto until = c;
        until.program.calls.resize(k + 1);
        const auto values = oracle::evaluate(until, source);
        for (const auto ref : references(call)) {
          const auto& x = values[static_cast<size_t>(ref.id)];
          if (!x.defined() || !c10::isFloatingType(x.scalar_type())) continue;
          ++operands;
          ASSERT_FALSE((x.eq(0) & x.signbit()).any().item<bool>()) << call.op << "\n" << oracle::describe(c);
        }
      }
    }
  EXPECT_GT(operands, 200);
}

// Would catch: NaN, infinities or fractions among the inputs, which no bound covers.
TEST(IntegerLane, inputs_are_small_integers) {
  for (uint64_t i = 0; i < 1000; ++i) {
    const auto c = generate("program", 22, i);
    if (!c.integer_lane) continue;
    for (const auto& input : c.program.inputs) {
      const auto kind = input.values.kind;
      EXPECT_TRUE(kind == oracle::ValueKind::kIntegers || kind == oracle::ValueKind::kIndex);
      EXPECT_LE(std::max(std::abs(input.values.low), std::abs(input.values.high)), 100);
    }
  }
}

}  // namespace
}  // namespace lockstep::generators
