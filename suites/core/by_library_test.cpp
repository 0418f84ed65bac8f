// SPDX-License-Identifier: Apache-2.0
// Who reduces is a property of the Case, and the large cases of that lane are cases still.
#include "suites/core/by_library.h"

#include <c10/core/ScalarTypeToTypeMeta.h>
#include <c10/util/accumulate.h>
#include <gtest/gtest.h>

#include "suites/core/suite.h"

namespace lockstep::suites {
namespace {

// Catches: an option that its token loses, or that a suite of Programs refuses.
TEST(ByLibrary, TheTokenSaysIt) {
  const auto& suite = find_suite("redistribute");
  auto c = suite.generate(0, 0);
  EXPECT_FALSE(is_by_library(c));
  make_by_library(c);
  const auto token = oracle::to_token(c);
  EXPECT_NE(token.find(";options=reduce:library;"), std::string::npos) << token;
  EXPECT_TRUE(is_by_library(oracle::parse_token(token)));
  check_case(suite, c);
}

// Catches: an input that is no larger than a segment of Gloo's, or that its placements cannot cut any more.
TEST(ByLibrary, ALargeCaseHasMoreThanASegment) {
  for (int64_t i = 0; i < 200; ++i) {
    const auto small = find_suite("redistribute").generate(0, i);
    const auto large = enlarged(small);
    oracle::validate(large);
    const auto& input = large.program.inputs.at(0);
    const auto bytes =
        c10::multiply_integers(input.shape) * static_cast<int64_t>(c10::elementSize(input.dtype));
    const auto before = c10::multiply_integers(small.program.inputs[0].shape);
    if (input.shape.empty() || before == 0) continue;
    EXPECT_GT(bytes, 1 << 20) << oracle::to_token(small);
  }
}

}  // namespace
}  // namespace lockstep::suites
