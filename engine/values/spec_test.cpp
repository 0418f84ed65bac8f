// SPDX-License-Identifier: Apache-2.0
// Spec: validation, normal form, equality and hash by value, text.
#include "engine/values/spec.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/values/error.h"

namespace lockstep {
namespace {

using c10::ScalarType;
using Dims = std::vector<int64_t>;

Spec make(const std::string& mesh, const std::string& placements, Dims shape) {
  auto [p, order] = parse_placements_and_order(placements);
  return Spec(parse_mesh(mesh), p, shape, contiguous_strides(shape), ScalarType::Float, order);
}

// Would catch: an order that matters being dropped, or one that does not matter making two equal Specs
// differ.
TEST(Spec, OrderIsNormalised) {
  EXPECT_EQ(make("2x2", "[S0,S1]@1.0", {4, 4}), make("2x2", "[S0,S1]", {4, 4}));
  EXPECT_EQ(make("2x2", "[R,P]@1.0", {4, 4}).order(), (Dims{0, 1}));
  EXPECT_NE(make("2x2", "[S0,S0]@1.0", {4, 4}), make("2x2", "[S0,S0]", {4, 4}));
  EXPECT_EQ(make("2x2x2", "[S0,S1,S0]@2.1.0", {4, 4}).order(), (Dims{2, 1, 0}));
  EXPECT_EQ(make("2x2x2", "[S0,S1,S0]@1.2.0", {4, 4}), make("2x2x2", "[S0,S1,S0]@2.0.1", {4, 4}));
  EXPECT_EQ(make("2x2x2", "[I0x3,S0,S0]@1.2.0", {4, 4}).order(), (Dims{1, 2, 0}));
  // In three dimensions all six orders differ.
  std::set<std::string> texts;
  for (const auto* order : {"0.1.2", "0.2.1", "1.0.2", "1.2.0", "2.0.1", "2.1.0"})
    texts.insert(to_string(make("2x2x2", std::string("[S0,S0,S0]@") + order, {8})));
  EXPECT_EQ(texts.size(), 6U);
}

// Would catch: units compared before division by their gcd, or negative dimensions kept.
TEST(Spec, PlacementsAreNormalised) {
  EXPECT_EQ(make("3", "[G0:2/4/0]", {6, 2}), make("3", "[G0:1/2/0]", {6, 2}));
  EXPECT_EQ(to_string(make("3", "[G0.1:2/4/0]", {6, 2})), "f32[6x2]@[G0.1:1/2/0]");
  EXPECT_EQ(make("2", "[S-1]", {4, 4}), make("2", "[S1]", {4, 4}));
  EXPECT_EQ(make("2", "[I-2x3]", {4, 4}), make("2", "[I0x3]", {4, 4}));
}

// Would catch: an impossible placement accepted, which would fail far from its cause.
TEST(Spec, ImpossiblePlacementsAreErrors) {
  struct Bad {
    const char *mesh, *placements;
    Dims shape;
  };
  const Bad bad[] = {{"2", "[S0,R]", {4}},
                     {"2x2", "[S0]", {4}},
                     {"2", "[S1]", {4}},
                     {"2", "[S-2]", {4}},
                     {"2", "[S0]", {}},
                     {"2", "[I1x2]", {4}},
                     {"2x2", "[P,Pmax]", {4}},
                     {"2x2", "[Pmin,Pmax]", {4}},
                     {"2x2", "[Pavg,Pprod]", {4}},
                     {"2", "[G0:1]", {4}},
                     {"2", "[G0:0/0]", {4}},
                     {"2", "[G:1/2]", {3}},
                     {"2", "[G0:1/0]", {}},
                     {"2", "[G0:-1/2]", {4}},
                     {"2", "[G1:1/1]", {4, 2}},
                     {"2", "[G0:1/2]", {4}},
                     {"2x2", "[G0:1/1,G0:1/1]", {4}},
                     {"2", "[G0:4611686018427387904/4611686018427387905]", {4}},
                     {"2x2", "[S0,G0:1/1]", {6}},
                     {"2", "[S0]", {-1}}};
  for (const auto& b : bad) EXPECT_THROW(make(b.mesh, b.placements, b.shape), Error) << b.placements;
  EXPECT_THROW(make("2x2", "[S0,S0]@0", {4}), Error);
  EXPECT_THROW(make("2x2", "[S0,S0]@0.0", {4}), Error);
  EXPECT_THROW(make("2x2", "[S0,S0]@a", {4}), Error);
  EXPECT_THROW(Spec(DeviceMesh(), {}, {}, ScalarType::Float), Error);
  EXPECT_THROW(make("2", "[S0]", {int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_NO_THROW(make("2x2", "[P,Pavg]", {4}));
  EXPECT_NO_THROW(make("4", "[S0]", {0}));
  EXPECT_NO_THROW(make("2x2", "[S0,G0:1/2]", {6}));
  EXPECT_NO_THROW(make("2x2", "[G0:7/3,P]", {0, 5}));
  EXPECT_NO_THROW(make("2x2", "[G:0/3,S0]", {5}));
  EXPECT_NO_THROW(make("2", "[G:0/1]", {}));
}

// Would catch: an average of integers, which would be none of them, made or read anywhere.
TEST(Spec, AnAverageNeedsAFloatingDtype) {
  for (const auto dtype : {ScalarType::Long, ScalarType::Byte, ScalarType::Bool}) {
    try {
      Spec(DeviceMesh({2, 2}), parse_placements("[R,Pavg]"), {4}, dtype);
      ADD_FAILURE() << dtype_name(dtype);
    } catch (const Error& e) {
      for (const auto& part :
           {std::string("Pavg of ") + dtype_name(dtype), std::string("[R,Pavg]"), std::string("use P (sum)")})
        EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
    EXPECT_NO_THROW(Spec(DeviceMesh({2, 2}), parse_placements("[R,Pmax]"), {4}, dtype));
    EXPECT_THROW(make("2x2", "[R,Pavg]", {4}).with_tensor({4}, {1}, dtype), Error);
  }
  EXPECT_NO_THROW(Spec(DeviceMesh({2}), parse_placements("[Pavg]"), {4}, ScalarType::BFloat16));
}

// The rows of each rank have to be a whole number of blocks, not those of the whole tensor. Would catch: a
// message without the number that the units' sum must divide.
TEST(Spec, BlocksDivideTheRowsOfEachRank) {
  try {
    make("2x2", "[S0,G0.1:1/2]", {3, 4});
    FAIL() << "ranks hold 2 and 1 rows of 4";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("must divide 4"), std::string::npos) << e.what();
  }
  EXPECT_NO_THROW(make("2x2", "[S1,G0:1/2]", {3, 4}));
}

// Would catch: an ingredient missing from equality or hash, that is, a stale decision out of a cache.
TEST(Spec, EveryIngredientCounts) {
  const auto base = make("2x2", "[S0,R]", {4, 4});
  const Spec different[] = {
      make("2x2", "[R,S0]", {4, 4}),
      make("2x2", "[S1,R]", {4, 4}),
      make("2x2", "[I0x2,R]", {4, 4}),
      make("2x2", "[P,R]", {4, 4}),
      make("2x2", "[Pavg,R]", {4, 4}),
      make("2x2", "[G0:1/3,R]", {4, 4}),
      make("2x2", "[G0.1:1/3,R]", {4, 4}),
      make("2x2", "[G0:3/1,R]", {4, 4}),
      make("2x2", "[S0,R]", {4, 5}),
      make("2x2", "[S0,R]", {4, 4, 1}),
      make("4x1", "[S0,R]", {4, 4}),
      base.with_tensor({4, 4}, {1, 4}, ScalarType::Float),
      base.with_tensor({4, 4}, {4, 1}, ScalarType::Double),
      Spec(DeviceMesh({2, 2}, {}, {3, 2, 1, 0}), base.placements(), {4, 4}, ScalarType::Float)};
  std::set<size_t> hashes{base.hash()};
  for (const auto& other : different) {
    EXPECT_NE(base, other) << other;
    hashes.insert(other.hash());
  }
  EXPECT_EQ(hashes.size(), std::size(different) + 1);
  EXPECT_EQ(base, make("dp:2,tp:2", "[S0,R]", {4, 4}));
  EXPECT_EQ(base.hash(), make("dp:2,tp:2", "[S0,R]", {4, 4}).hash());
  EXPECT_EQ(make("2x2", "[S0,S0]@1.0", {4, 4}).with_placements(base.placements()), base);
}

// Would catch: a text form that loses the order, or prints a scalar's shape so that it does not parse.
TEST(Spec, TextForms) {
  EXPECT_EQ(to_string(make("2x2", "[S0,R]", {7, 13})), "f32[7x13]@[S0,R]");
  EXPECT_EQ(to_string(make("2x2", "[S0,S0]@1.0", {7})), "f32[7]@[S0,S0]@1.0");
  EXPECT_EQ(to_string(make("2", "[R]", {})), "f32[-]@[R]");
  for (const auto* text : {"-", "0", "7x13", "1x1x1"}) EXPECT_EQ(shape_text(parse_shape(text)), text);
  for (const auto* text : {"", "x", "7x", "-1", "a"}) EXPECT_THROW(parse_shape(text), Error) << text;
  for (const auto* text : {"f64", "f32", "bf16", "f16", "i64", "i32", "i16", "i8", "u8", "bool"})
    EXPECT_EQ(dtype_name(parse_dtype(text)), text);
  EXPECT_THROW(parse_dtype("float"), Error);
}

// Would catch: zero strides for dimensions outside of an empty one, unlike torch.
TEST(Spec, ContiguousStridesAreThoseOfTorch) {
  for (const Dims& shape : {Dims{}, Dims{3}, Dims{2, 0, 3}, Dims{0}, Dims{4, 1, 5}})
    EXPECT_EQ(contiguous_strides(shape), at::empty(shape).strides().vec());
}

}  // namespace
}  // namespace lockstep
