// SPDX-License-Identifier: Apache-2.0
// Placements and their text form.
#include "engine/values/placement.h"

#include <gtest/gtest.h>

#include "engine/values/error.h"

namespace lockstep {
namespace {

const Placements kEach = {Replicate{},
                          Shard{0},
                          Shard{3},
                          InterleavedShard{1, 3},
                          RaggedShard{{0, 1}, {0, 1, 5, 2}},
                          RaggedShard{{}, {0, 1}},
                          RaggedShard{{0}, {64, 65, 64, 64}, 2},
                          Partial{},
                          Partial{ReduceOp::kAvg},
                          Partial{ReduceOp::kMin},
                          Partial{ReduceOp::kMax},
                          Partial{ReduceOp::kProduct}};
const std::vector<std::string> kTexts = {
    "R", "S0", "S3", "I1x3", "G0.1:0/1/5/2", "G:0/1", "G0:64/65|64/64", "P", "Pavg", "Pmin", "Pmax", "Pprod"};

// Would catch: a form printed otherwise than the documentation says, so that tokens of other versions fail to
// parse.
TEST(Placement, TextIsTheDocumentedForm) {
  for (size_t i = 0; i < kEach.size(); ++i) EXPECT_EQ(to_string(kEach[i]), kTexts[i]);
}

// Would catch: a field lost in the round trip, such as the parts of InterleavedShard or one unit of
// RaggedShard.
TEST(Placement, ParseInvertsPrint) {
  for (const auto& p : kEach) EXPECT_EQ(parse_placement(to_string(p)), p);
  EXPECT_EQ(parse_placements(to_string(kEach)), kEach);
}

// Would catch: a parser that takes a prefix of the text, or lets numbers overflow.
TEST(Placement, MalformedTextIsAnErrorThatQuotesIt) {
  for (const auto* text :
       {"",      "r",        "S",       "S 0",    "S0x",   "S+1",   "S99999999999999999999",
        "I0",    "I0x",      "I0x0",    "I0x3x3", "P2",    "Psum",  "G",
        "G0",    "G0:",      "G:",      "G0:1/",  "G0.:1", "Pmaxx", "G0:1|",
        "G0:|1", "G0:1/2|1", "G0:1|2/1"}) {
    try {
      parse_placement(text);
      ADD_FAILURE() << "parsed " << text;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(std::string("'") + text + "'"), std::string::npos) << e.what();
    }
  }
  for (const auto* text : {"", "S0", "[S0", "S0]", "[]", "[S0,]", "[S0;R]"})
    EXPECT_THROW(parse_placements(text), Error);
}

// Would catch: with_dim turning an InterleavedShard into a Shard or losing its parts.
TEST(Placement, DimensionsAreReadAndReplaced) {
  EXPECT_EQ(shard_dim(Shard{2}), 2);
  EXPECT_EQ(shard_dim(InterleavedShard{1, 3}), 1);
  EXPECT_EQ(shard_dim(Partial{}), -1);
  EXPECT_EQ(shard_dim(RaggedShard{{0}, {1, 2}}), -1);
  EXPECT_EQ(with_dim(InterleavedShard{1, 3}, 0), Placement(InterleavedShard{0, 3}));
  EXPECT_THROW(with_dim(Replicate{}, 0), Broken);
}

}  // namespace
}  // namespace lockstep
