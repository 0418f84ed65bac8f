// SPDX-License-Identifier: Apache-2.0
// What the oracle keeps of a value that is moved again and again.
#include "oracle/judge/shadow.h"

#include <gtest/gtest.h>

#include "oracle/judge/judge_op.h"
#include "oracle/judge/testing.h"

namespace lockstep::oracle {
namespace {

// Would catch: a value that a loop moves, of which each move is known once more, and the moves on from there
// twice as often: a case of ten steps that takes a minute.
TEST(Shadow, KnowsAMoveThatIsRepeatedOnce) {
  HandEngine e(make_case({input({6}, 1)}, {"[P]"}, {{"aten::neg", {Ref{0}}, 1}}, {2}));
  const Held x = e.input(0);
  e.redistribute(e.redistribute(x, "[R]"), "[S0]");
  const Recording& recording = e.plain().recording;
  Shadow shadow(recording);
  const Window& window = recording.ops.at(0).inputs[0];
  shadow.set(window, shadow.rendition(window, x.locals, *slicing_of(*x.spec)));
  for (int pass = 0; pass < 4; ++pass)
    for (const TimelineEntry& entry : e.timeline) {
      judge_redistribution(entry, recording, shadow);
      EXPECT_EQ(shadow.recognise(entry.outputs[0]).size(), 1u) << "pass " << pass;
    }
}

}  // namespace
}  // namespace lockstep::oracle
