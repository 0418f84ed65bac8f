// SPDX-License-Identifier: Apache-2.0
// Engines made by hand that draw: each number must be the single device's.
#include "oracle/judge/testing.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::oracle {
namespace {

using Locals = std::vector<at::Tensor>;

// Would catch: a draw at another place of the stream, or of other values.
TEST(Check, RandomOpsDrawTheSingleDevicesValues) {
  for (const int mistake : {0, 1, 2}) {
    HandEngine e(
        make_case({input({6, 2}, 1)}, {"[S0]"}, {{"aten::uniform_", {Ref{0}, 0.0, 1.0, None{}}, 1}}));
    Held x = e.input(0);
    const Held drawn = e.place(e.plain().values[0], "[S0]");
    int64_t p = 0;
    e.in_place("aten::uniform_", {x}, {0.0, 1.0, c10::IValue()}, [&](const Locals& in) {
      in[0].copy_(drawn.locals[static_cast<size_t>(p++)]);
      if (mistake == 2) in[0].add_(0.5);
    });
    e.timeline[0].random_offset = mistake == 1 ? 4 : 0;
    const Judgement j = e.judge({x, x});
    if (mistake == 0) {
      EXPECT_TRUE(j.passed() && j.equal) << describe(j);
    }
    if (mistake == 1) expect_fault(j, Condition::kOp, 0, "offset 4");
    if (mistake == 2) expect_fault(j, Condition::kOp, 0, "not what the single device draws");
  }
}

// What is drawn by a mean that was added up in another order is what the single device draws by that mean.
// Would catch: a right engine called different, and any draw believed once a parameter is explained.
TEST(Check, DrawsByWhatWasReducedAreTheSingleDevices) {
  for (const bool wrong : {false, true}) {
    HandEngine e(make_case(
        {input({5, 40}, 1), input({40, 6}, 2)}, {"[S1]", "[S0]"},
        {{"aten::mm", {Ref{0}, Ref{1}}, 1}, {"aten::normal.Tensor_float", {Ref{2}, 0.5, None{}}, 1}}));
    const Held x = e.input(0), w = e.input(1);
    const Held terms = e.op("aten::mm", {x, w}, {}, e.plain().values[2], "[P]",
                            [](const Locals& in) { return at::mm(in[0], in[1]); });
    const Held mean = e.redistribute(terms, "[R]");
    ASSERT_FALSE(mean.locals[0].equal(e.plain().values[2]));
    SimulatedSource source;
    const Held drawn = e.op("aten::normal.Tensor_float", {mean}, {0.5, c10::IValue()}, e.plain().values[3],
                            "[R]", [&](const Locals& in) {
                              const ForkRng fork;
                              const RandomScope scope(source);
                              generator() = {{}, {1, 256}};
                              return at::normal(in[0], wrong ? 0.50001 : 0.5);
                            });
    e.timeline.back().random_offset = 0;
    const Judgement j = e.judge({x, w, mean, drawn});
    if (wrong) {
      expect_fault(j, Condition::kOp, 2, "not what the single device draws");
    } else {
      EXPECT_TRUE(j.passed() && !j.equal) << describe(j);
      EXPECT_TRUE(j.finals[3].equal(drawn.locals[0]));
    }
  }
}

// rrelu in evaluation reads no noise. Would catch: noise that nobody wrote, asked for as if it were a value.
TEST(Check, NoiseThatNobodyWroteIsNoValue) {
  for (const bool training : {false, true}) {
    HandEngine e(make_case(
        {input({6}, 1)}, {"[S0]"},
        {{"aten::empty_like", {Ref{0}, None{}, None{}, None{}, None{}, None{}}, 1},
         {"aten::rrelu_with_noise", {Ref{0}, Ref{1}, 0.25, 0.75, training, None{}}, 1},
         {"aten::rrelu_with_noise_backward", {Ref{2}, Ref{0}, Ref{1}, 0.25, 0.75, training, false}, 1}}));
    const Held x = e.input(0);
    const auto garbage = [](const Locals& in) { return at::full_like(in[0], 7); };
    const auto& values = e.plain().values;
    const Held noise = e.op("aten::empty_like", {x}, {{}, {}, {}, {}, {}}, values[1], "[S0]", garbage);
    const Held out = e.op("aten::rrelu_with_noise", {x, noise}, {0.25, 0.75, training, {}}, values[2], "[S0]",
                          [](const Locals& in) { return at::leaky_relu(in[0], 0.5); });
    e.timeline.back().random_offset = 0;
    const Held back =
        e.op("aten::rrelu_with_noise_backward", {out, x, noise}, {0.25, 0.75, training, false}, values[3],
             "[S0]", [](const Locals& in) { return at::leaky_relu_backward(in[0], in[1], 0.5, false); });
    EXPECT_EQ(e.judge({x, noise, out, back}).passed(), !training);
  }
}

}  // namespace
}  // namespace lockstep::oracle
