// SPDX-License-Identifier: Apache-2.0
// Orders as values: what is printed reads back, what is malformed is refused, and the builders say rank
// order.
#include "engine/values/reduction_order.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "engine/values/error.h"
#include "engine/values/testing_orders.h"

namespace lockstep {
namespace {

using rc::gen::inRange;
using Kind = ReductionOrder::Kind;
using Node = ReductionOrder::Node;

Node any_node(int depth) {
  Node n;
  if (depth > 3 || (depth > 0 && *rc::gen::arbitrary<bool>())) {
    n.rank = *inRange<int64_t>(0, 40);
    n.microbatch = *inRange<int64_t>(0, 3);
    return n;
  }
  n.kind = static_cast<Kind>(*inRange(1, 5));
  n.op = *rc::gen::element(ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct);
  n.dtype = *rc::gen::element(c10::ScalarType::Float, c10::ScalarType::BFloat16, c10::ScalarType::Long);
  n.divisor = *rc::gen::element<int64_t>(1, 1, 3, 4096);
  for (int c = *inRange(1, 4); c > 0; --c) n.children.push_back(any_node(depth + 1));
  return n;
}

ReductionOrder any_order() {
  ReductionOrder order;
  for (int64_t d = 0; d < 3; ++d)
    if (*rc::gen::arbitrary<bool>()) order.mesh_dims.push_back(d);
  for (int64_t begin = 0, n = *inRange(1, 4); n > 0; --n, begin += *inRange<int64_t>(1, 100))
    order.slices.push_back({begin, any_node(0)});
  return order;
}

// Catches: a head that a child takes from its parent and should not, a divisor, a microbatch or a slice's
// begin that is lost.
TEST(ReductionOrderText, WhatIsPrintedReadsBack) {
  EXPECT_TRUE(rc::check("orders", [] {
    const auto order = any_order();
    RC_ASSERT(parse_reduction_order(to_string(order)) == order);
  }));
  EXPECT_EQ(parse_reduction_order("none"), ReductionOrder());
}

// Catches: a text that is changed in reading, or ends the process.
TEST(ReductionOrderText, WhatReadsPrintsTheSameAgain) {
  const std::string letters = "over sumfoldtreexacing0123.:m/(); []=";
  EXPECT_TRUE(rc::check("edited texts", [&] {
    auto text = to_string(any_order());
    const auto at = *inRange<size_t>(0, text.size() + 1), length = *inRange<size_t>(0, 3);
    text.replace(at, length, 1, letters[*inRange<size_t>(0, letters.size())]);
    try {
      RC_ASSERT(to_string(parse_reduction_order(text)) == text);
    } catch (const Error& e) {
      RC_ASSERT(std::string(e.what()).find(text) != std::string::npos ||
                std::string(e.what()).find("dtype") != std::string::npos);
    }
  }));
  std::string deep = "sum:f32(fold";
  for (int i = 0; i < 100000; ++i) deep += " (fold";
  deep += " 0" + std::string(100001, ')');
  EXPECT_THROW(parse_reduction_order(deep), Error);
}

std::string refusal(const std::string& text, int64_t ranks = 3, int64_t microbatches = 1,
                    int64_t elements = 30) {
  try {
    validate(parse_reduction_order(text), ranks, microbatches, elements);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// Catches: a term that is lost, doubled or of nobody; a slice out of the tensor; an op that a dtype has not.
TEST(ReductionOrderValues, MalformedOrdersAreRefused) {
  for (const auto* good :
       {"over 0: sum:f32(fold 2 0 1)", "over 0.2: sum/3:bf16(exact 0 1 2)", "max:i64(tree 0 (fold 1 2))",
        "over 0: [0:29]=sum:f32(fold 0 1 2); [29:]=sum:f32(fold 1 2 0)"})
    EXPECT_EQ(refusal(good), "") << good;
  EXPECT_EQ(refusal("sum:f32(fold sum:bf16(tree 0 0.m1) (fold 1.m1 1))", 2, 2), "");
  const std::pair<const char*, const char*> bad[] = {
      {"sum:f32(fold 0 1)", "each of the 3 terms once"},
      {"sum:f32(fold 0 1 2 1)", "each of the 3 terms once"},
      {"sum:f32(fold 0 1 3)", "each of the 3 terms once"},
      {"sum:f32(fold 0 1 2.m1)", "each of the 3 terms once"},
      {"[0:8]=sum:f32(fold 0 1 2); [8:]=sum:f32(fold 0 1)", "each of the 3 terms once"},
      {"[0:30]=sum:f32(fold 0 1 2); [30:]=sum:f32(fold 0 1 2)", "begins at element 30"},
      {"[0:4]=sum:f32(fold 0 1 2); [4:4]=sum:f32(fold 0 1 2); [4:]=sum:f32(fold 0 1 2)", "element 4"},
      {"[1:4]=sum:f32(fold 0 1 2); [4:]=sum:f32(fold 0 1 2)", "does not begin at element 0"},
      {"over 1.0: sum:f32(fold 0 1 2)", "do not ascend"},
      {"sum:f32(fold 0 max:f32(fold 1 2))", "reduces by max and by sum"},
      {"sum:f32(fold (fold) 0 1 2)", "without terms"},
      {"max:f32(exact 0 1 2)", "only sums of a floating dtype round once"},
      {"sum:i64(exact 0 1 2)", "only sums of a floating dtype round once"},
      {"sum/2:i64(fold 0 1 2)", "only sums of a floating dtype are divided"},
      {"max/2:f32(fold 0 1 2)", "only sums of a floating dtype are divided"},
      {"sum/0:f32(fold 0 1 2)", "divides"},
  };
  for (const auto& [text, said] : bad)
    EXPECT_NE(refusal(text).find(said), std::string::npos) << refusal(text);
}

// Catches: a builder that leaves the order of ranks, folds the dimensions the other way round or divides
// twice.
TEST(ReductionOrderValues, FoldsAlongMeshDimensions) {
  const Spec spec(parse_mesh("2x3x2"), parse_placements("[P,S0,Pavg]"), {6}, c10::ScalarType::BFloat16);
  EXPECT_EQ(to_string(fold_over(spec)), "over 0.2: sum/2:bf16(fold (fold 0 2) (fold 1 3))");
  EXPECT_EQ(to_string(fold_over(spec, {2, 0})),
            "over 0.2: sum:bf16(fold sum/2:bf16(fold 0 1) sum/2:bf16(fold 2 3))");
  EXPECT_EQ(to_string(fold_over(spec, {2})), "over 2: sum/2:bf16(fold 0 1)");
  EXPECT_EQ(to_string(fold_over(spec, {})), "none");
  EXPECT_THROW(fold_over(spec, {1}), Error);
  validate(fold_over(spec), 4, 1, 6);
}

}  // namespace
}  // namespace lockstep
