// SPDX-License-Identifier: Apache-2.0
// Laws of the text forms, on drawn input: what is printed reads back, and what reads prints the same again.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "engine/values/text.h"

namespace lockstep {
namespace {

using rc::gen::inRange;

Placement any_placement() {
  const auto dim = *inRange<int64_t>(0, 12), parts = *inRange<int64_t>(1, 40);
  switch (*inRange(0, 5)) {
    case 0:
      return Replicate{};
    case 1:
      return Shard{dim};
    case 2:
      return InterleavedShard{dim, parts};
    case 3:
      return Partial{static_cast<ReduceOp>(*inRange(0, 5))};
    default: {
      RaggedShard ragged{{0}, {}, *inRange<int64_t>(1, 4)};
      for (auto n = *inRange<int64_t>(1, 6) * ragged.lists; n > 0; --n)
        ragged.units.push_back(*inRange<int64_t>(0, 1000));
      return ragged;
    }
  }
}

// Up to four of them, as many as a mesh has dimensions.
Placements any_placements() {
  Placements list;
  for (auto n = *inRange(1, 5); n > 0; --n) list.push_back(any_placement());
  return list;
}

DeviceMesh any_mesh() {
  static const std::vector<std::string> kNames = {"pp", "dp", "cp", "tp"};
  const auto shape = *rc::gen::resize(
      4, rc::gen::nonEmpty(rc::gen::container<std::vector<int64_t>>(inRange<int64_t>(1, 5))));
  std::vector<int64_t> cut(shape.begin(), shape.begin() + std::min<ptrdiff_t>(4, std::ssize(shape)));
  const bool named = *rc::gen::arbitrary<bool>();
  return DeviceMesh(cut, named ? std::vector<std::string>(kNames.begin(), kNames.begin() + std::ssize(cut))
                               : std::vector<std::string>());
}

// Catches: a number that is cut off, a separator that two forms share, a name that is lost.
TEST(TextProperty, WhatIsPrintedReadsBack) {
  EXPECT_TRUE(rc::check("placements", [] {
    const auto p = any_placements();
    RC_ASSERT(parse_placements(to_string(p)) == p);
  }));
  EXPECT_TRUE(rc::check("meshes", [] {
    const auto mesh = any_mesh();
    const auto back = parse_mesh(to_string(mesh));
    RC_ASSERT(back == mesh);
    RC_ASSERT(back.names() == mesh.names());
  }));
  EXPECT_TRUE(rc::check("shapes", [](const std::vector<uint32_t>& sizes) {
    const std::vector<int64_t> shape(sizes.begin(), sizes.end());
    RC_ASSERT(parse_shape(shape_text(shape)) == shape);
  }));
}

// The text with some of its characters replaced by others that forms are made of.
std::string edited(std::string text) {
  const std::string letters = "RSIGPxavgminprod0123456789,:./@[]-";
  const auto at = *inRange<size_t>(0, text.size() + 1), length = *inRange<size_t>(0, 3);
  return text.replace(at, length,
                      *rc::gen::resize(3, rc::gen::container<std::string>(rc::gen::elementOf(letters))));
}

// A text is refused with an Error, or means what its printed form means. Catches: a parser that takes a
// prefix, reads two numbers as one, or fails otherwise than it says.
template <class Any, class Parse>
bool stable(const char* what, Any any, Parse parse) {
  return rc::check(what, [&] {
    const auto text = edited(to_string(any()));
    RC_LOG() << text << "\n";
    std::string printed;
    try {
      printed = to_string(parse(text));
    } catch (const Error&) {
      RC_TAG("refused");
      return;
    }
    RC_TAG("read");
    RC_ASSERT(to_string(parse(printed)) == printed);
  });
}

TEST(TextProperty, WhatReadsPrintsTheSameAgain) {
  EXPECT_TRUE(stable("edited placement", any_placement, parse_placement));
  EXPECT_TRUE(stable("edited placements", any_placements, parse_placements));
  EXPECT_TRUE(stable("edited mesh", any_mesh, parse_mesh));
}

// Catches: a far word that is proposed for a near one, an order of candidates that decides, and a list
// without end.
TEST(Text, TheNearestWordIsMeant) {
  EXPECT_EQ(did_you_mean("mehs_dims", {"seed", "mesh_dims"}), " (did you mean 'mesh_dims'?)");
  EXPECT_EQ(did_you_mean("meshes", {"mesh", "meshed"}), " (did you mean 'meshed'?)");
  EXPECT_EQ(did_you_mean("q_proj", {"k_proj", "o_norm"}), " (did you mean 'k_proj'?)");
  EXPECT_EQ(did_you_mean("wait", {"weight"}), " (there are: weight)");
  EXPECT_EQ(did_you_mean("", {"a", "b"}), " (there are: a, b)");
  EXPECT_EQ(did_you_mean("x", {}), "");
  const auto many = did_you_mean("none", std::vector<std::string>(14, "something"));
  EXPECT_TRUE(many.ends_with(", something, and 2 more)")) << many;
}

}  // namespace
}  // namespace lockstep
