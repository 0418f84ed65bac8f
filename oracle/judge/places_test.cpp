// SPDX-License-Identifier: Apache-2.0
// Where values lie, told apart value by value.
#include "oracle/judge/places.h"

#include <gtest/gtest.h>

#include "oracle/judge/testing.h"

namespace lockstep::oracle {
namespace {

// Would catch: a value that may not be handed in as it lies, since another value is handed in otherwise.
TEST(Places, AreHandedInValueByValue) {
  Case c;
  c.mesh = DeviceMesh({2});
  c.device = {1, 256};
  c.program.inputs.assign(2, {c10::ScalarType::Float, {6}, {}, {ValueKind::kNormal, 1, 0, 0, {}}, false});
  c.placements = {{parse_placements("[S0]"), {}}, {parse_placements("[R]"), {}}};
  const HandEngine e(c);
  const auto window = [&](size_t i) { return e.plain().recording.window(e.plain().values[i]); };
  const SpecPtr cut = e.input(0).spec, whole = e.input(1).spec;
  Places places;
  places.hand_in(window(0), cut);
  EXPECT_TRUE(places.may_become(window(0), cut));
  EXPECT_FALSE(places.may_become(window(0), whole));
  EXPECT_TRUE(places.may_become(window(1), whole));
  EXPECT_TRUE(places.may_become(window(0), nullptr));
  // A gradient may be another value, which lies otherwise.
  places.hand_in(window(0), whole);
  EXPECT_TRUE(places.may_become(window(0), cut));
  EXPECT_TRUE(places.may_become(window(0), whole));
}

}  // namespace
}  // namespace lockstep::oracle
