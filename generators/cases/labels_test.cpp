// SPDX-License-Identifier: Apache-2.0
#include "generators/cases/labels.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/values/error.h"
#include "oracle/program/statements.h"

namespace lockstep::generators {
namespace {

using oracle::Call;
using oracle::Ref;

std::vector<std::string> statements_of(std::vector<Call> calls) {
  oracle::Case c;
  c.mesh = DeviceMesh({2});
  c.program.inputs.push_back({.shape = {4}, .values = {}, .requires_grad = true});
  c.placements.push_back({{Replicate{}}, {}});
  c.program.calls = std::move(calls);
  auto all = labels(c);
  std::erase_if(all, [](const auto& label) { return !label.starts_with("statement "); });
  return all;
}

Call of(std::string_view op, std::vector<oracle::Arg> args, int64_t results = 1) {
  return {std::string(op), std::move(args), results};
}

Call backward(int64_t root) {
  return of(oracle::kBackward, {std::vector<Ref>{{root}}, std::vector<Ref>{}});
}

// Catches: a statement that nothing differentiates and that counts as if a backward ran through it, one whose
// result reaches the root through other ops and does not count.
TEST(Labels, TellStatementsWithABackwardBehindThem) {
  using Names = std::vector<std::string>;
  const auto whole = of(oracle::kFullTensor, {Ref{0}});
  EXPECT_EQ(statements_of({whole}), Names{"statement full_tensor"});
  EXPECT_EQ(statements_of({whole, backward(1)}),
            (Names{"statement backward", "statement full_tensor", "statement full_tensor, backward"}));
  EXPECT_EQ(statements_of({whole, of("aten::relu", {Ref{1}}), backward(2)}).size(), 3u);
  EXPECT_EQ(statements_of({whole, of("aten::relu", {Ref{0}}), backward(2)}),
            (Names{"statement backward", "statement full_tensor"}));
  EXPECT_EQ(statements_of({backward(0), whole}), (Names{"statement backward", "statement full_tensor"}));
  EXPECT_EQ(
      statements_of({of("aten::relu", {Ref{0}}), of(oracle::kSetGradEnabled, {false}, 0), backward(1)}),
      (Names{"statement backward", "statement set_grad_enabled", "statement set_grad_enabled, backward"}));
}

// Catches: a statement that no list of what runs must cover can name.
TEST(Labels, NameEveryStatementTwice) {
  const auto all = statement_labels();
  EXPECT_EQ(all.size(), 2 * oracle::statements().size());
  for (const auto* name : {"statement full_tensor", "statement accumulate, backward"})
    EXPECT_NE(std::find(all.begin(), all.end(), name), all.end()) << name;
}

}  // namespace
}  // namespace lockstep::generators
