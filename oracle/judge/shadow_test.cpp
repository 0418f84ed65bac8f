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

// Would catch: halves of one storage that the engine holds apart, each reduced by itself, of which one is
// forgotten, or found as it was, once the other is written to (a gradient that is accumulated).
TEST(Shadow, AWriteLeavesTheRestAsItWas) {
  HandEngine e(make_case({input({4}, 1)}, {"[P]"},
                         {{"aten::slice.Tensor", {Ref{0}, int64_t{0}, int64_t{0}, int64_t{2}, int64_t{1}}, 1},
                          {"aten::slice.Tensor", {Ref{0}, int64_t{0}, int64_t{2}, int64_t{4}, int64_t{1}}, 1},
                          {"aten::exp_", {Ref{1}}, 1}},
                         {2}));
  const Recording& recording = e.plain().recording;
  Window whole = recording.ops.at(0).inputs[0], first = recording.ops[0].results[0],
         second = recording.ops[1].results[0];
  const Held x = e.input(0);
  Shadow shadow(recording);
  shadow.set(whole, shadow.rendition(whole, x.locals, *slicing_of(*x.spec)));
  const auto part = [&](int64_t from) {
    Held held = e.place(x.locals[0].slice(0, from, from + 2), "[P]");
    for (size_t p = 0; p < 2; ++p) held.locals[p] = x.locals[p].slice(0, from, from + 2);
    return held;
  };
  const auto one = [&](const Window& window, const at::Tensor& value) {
    const Held held = e.place(value, "[R]");
    shadow.add(window, shadow.rendition(window, {value}, *slicing_of(*held.spec)));
    return held;
  };
  const Held p1 = part(0), p2 = part(2), r1 = one(first, at::full({2}, 5.F)),
             r2 = one(second, at::full({2}, 6.F));
  for (const auto& [window, held] : {std::pair{first, p1}, {first, r1}, {second, p2}, {second, r2}})
    ASSERT_NE(shadow.find(window, held.record()), nullptr);
  first.epoch = second.epoch = 1;
  const Held written = e.place(at::full({2}, 7.F), "[R]");
  shadow.set(first, shadow.rendition(first, {written.locals[0]}, *slicing_of(*written.spec)));
  for (const auto& [window, held] : {std::pair{first, written}, {second, p2}, {second, r2}})
    EXPECT_NE(shadow.find(window, held.record()), nullptr) << *held.spec;
  for (const auto& old : {p1, r1}) EXPECT_EQ(shadow.find(first, old.record()), nullptr) << *old.spec;
  // An op that writes to both: neither is as it was.
  const auto base1 = shadow.find(first, written.record()), base2 = shadow.find(second, r2.record());
  first.epoch = second.epoch = 2;
  const Held w1 = e.place(at::full({2}, 8.F), "[R]"), w2 = e.place(at::full({2}, 9.F), "[R]");
  const auto& whole_here = *slicing_of(*w1.spec);
  shadow.set(first, shadow.rendition(first, {w1.locals[0]}, whole_here, base1.get()));
  shadow.learn(second, shadow.set(second, shadow.rendition(second, {w2.locals[0]}, whole_here, base2.get())),
               w2.record());
  EXPECT_NE(shadow.find(first, w1.record()), nullptr);
  EXPECT_NE(shadow.find(second, w2.record()), nullptr);
  for (const auto& old : {p1, r1, written}) EXPECT_EQ(shadow.find(first, old.record()), nullptr);
  for (const auto& old : {p2, r2}) EXPECT_EQ(shadow.find(second, old.record()), nullptr);
  // What the record of the one shows has what the op wrote to the other: a later write to the one keeps it.
  const auto base3 = shadow.find(second, w2.record());
  first.epoch = second.epoch = 3;
  const Held w3 = e.place(at::full({2}, 7.F), "[R]");
  shadow.set(second, shadow.rendition(second, {w3.locals[0]}, whole_here, base3.get()));
  EXPECT_NE(shadow.find(first, w1.record()), nullptr);
  EXPECT_EQ(shadow.find(first, written.record()), nullptr);
}

}  // namespace
}  // namespace lockstep::oracle
