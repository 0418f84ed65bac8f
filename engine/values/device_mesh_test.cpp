// SPDX-License-Identifier: Apache-2.0
// DeviceMesh: coordinates, sub-meshes and text.
#include "engine/values/device_mesh.h"

#include <gtest/gtest.h>

#include "engine/values/error.h"

namespace lockstep {
namespace {

// Would catch: column-major numbering, or a position that does not invert coordinate.
TEST(DeviceMesh, PositionsAreRowMajor) {
  const DeviceMesh mesh({2, 3, 4});
  EXPECT_EQ(mesh.coordinate(23), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(mesh.coordinate(4), (std::vector<int64_t>{0, 1, 0}));
  for (int64_t p = 0; p < mesh.size(); ++p) EXPECT_EQ(mesh.position(mesh.coordinate(p)), p);
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// Would catch: a number that is folded into the mesh, or an error that is not ours and names nothing.
TEST(DeviceMesh, NumbersOutsideAreErrorsThatNameTheRange) {
  const DeviceMesh mesh({2, 3}, {"dp", "tp"});
  const auto says = [](const std::string& message, std::initializer_list<const char*> parts) {
    for (const auto* part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  for (const int64_t p : {int64_t{-1}, int64_t{6}, int64_t{99}})
    says(error_of([&] { mesh.coordinate(p); }), {std::to_string(p).c_str(), "dp:2,tp:3", "0 to 5"});
  says(error_of([&] { mesh.position({7}); }), {"(7)", "dp:2,tp:3"});
  says(error_of([&] { mesh.position({1, 3}); }), {"(1,3)"});
  says(error_of([&] { mesh.position({-1, 0}); }), {"(-1,0)"});
  says(error_of([&] { mesh.size(9); }), {"9", "0 to 1"});
  says(error_of([&] { mesh.size(-1); }), {"-1"});
  says(error_of([&] { mesh.line(0, 2); }), {"2", "0 to 1"});
}

// Would catch: a line along the wrong dimension, or not in the order of the coordinate.
TEST(DeviceMesh, LineVariesOneCoordinate) {
  const DeviceMesh mesh({2, 3});
  EXPECT_EQ(mesh.line(4, 0), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(mesh.line(4, 1), (std::vector<int64_t>{3, 4, 5}));
}

// Would catch: a sub-mesh of the wrong replica, or in the wrong order of ranks.
TEST(DeviceMesh, SubMeshHoldsTheRank) {
  const DeviceMesh mesh({2, 3, 2}, {"pp", "dp", "tp"});
  EXPECT_EQ(mesh.sub_mesh({"dp"}, 7).ranks(), (std::vector<int64_t>{7, 9, 11}));
  EXPECT_EQ(mesh.sub_mesh({"pp", "tp"}, 2).ranks(), (std::vector<int64_t>{2, 3, 8, 9}));
  EXPECT_EQ(to_string(mesh.sub_mesh({"pp", "tp"})), "pp:2,tp:2");
  EXPECT_EQ(mesh.sub_mesh({"pp", "dp", "tp"}), mesh);
  EXPECT_THROW(mesh.sub_mesh({"tp", "dp"}), Error);
  EXPECT_THROW(mesh.sub_mesh({"tp", "tp"}), Error);
  EXPECT_THROW(mesh.sub_mesh({"ep"}), Error);
  EXPECT_THROW(mesh.sub_mesh({"tp"}, 12), Error);
}

// Would catch: flattening that renumbers ranks of a mesh that does not start at 0.
TEST(DeviceMesh, FlattenKeepsRanks) {
  const DeviceMesh mesh({2, 2}, {"dp", "tp"}, {7, 5, 3, 1});
  EXPECT_EQ(mesh.flatten().ranks(), mesh.ranks());
  EXPECT_EQ(to_string(mesh.flatten()), "dp_tp:4");
  EXPECT_EQ(to_string(mesh.flatten("all")), "all:4");
  EXPECT_EQ(to_string(DeviceMesh({2, 2}).flatten()), "4");
}

// Would catch: names or sizes lost in the text form.
TEST(DeviceMesh, ParseInvertsPrint) {
  for (const auto* text : {"1", "2x4", "16", "2x3x2", "1x1x1x1", "dp:2,tp:4", "x:1"}) {
    EXPECT_EQ(to_string(parse_mesh(text)), text);
    EXPECT_EQ(parse_mesh(text).names().size(), parse_mesh(text).shape().size());
  }
  for (const auto* text : {"", "2x", "x2", "0", "2x0", "-1", "2x2x2x2x2", "dp:2,dp:2", "dp:", ":2", "dp:2,4",
                           "d p:2", "2:2", "1048577", "4611686018427387904x4"})
    EXPECT_THROW(parse_mesh(text), Error) << text;
}

// Would catch: names taking part in equality, so that two equal grids never share a cached decision.
TEST(DeviceMesh, EqualityIsOfShapeAndRanks) {
  EXPECT_EQ(parse_mesh("dp:2,tp:4"), parse_mesh("2x4"));
  EXPECT_NE(parse_mesh("2x4"), parse_mesh("4x2"));
  EXPECT_NE(DeviceMesh({2}, {}, {1, 0}), DeviceMesh({2}));
  EXPECT_THROW(DeviceMesh({2}, {}, {1, 1}), Error);
  EXPECT_THROW(DeviceMesh({2}, {}, {1}), Error);
  EXPECT_THROW(DeviceMesh({2}, {"a", "b"}), Error);
  EXPECT_EQ(DeviceMesh(), DeviceMesh());
  EXPECT_EQ(DeviceMesh().size(), 0);
}

// Would catch: copies that each have the ranks, in every Spec of a large mesh.
TEST(DeviceMesh, CopiesShareTheRanks) {
  const DeviceMesh mesh({128, 1024});
  const auto copy = mesh.on(c10::DeviceType::Meta);
  EXPECT_EQ(&copy.ranks(), &mesh.ranks());
  EXPECT_NE(&DeviceMesh({128, 1024}).ranks(), &mesh.ranks());
}

}  // namespace
}  // namespace lockstep
