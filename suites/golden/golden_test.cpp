// SPDX-License-Identifier: Apache-2.0
// Goldens: their text form, what a comparison finds, the matrix, and recording. The device here is the CPU
// with the closed form in its place: what it draws is never written to golden/.
#include "suites/golden/golden.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "engine/random/random.h"
#include "engine/values/error.h"
#include "oracle/random/random_simulation.h"
#include "suites/golden/compare_golden.h"

namespace lockstep::suites {
namespace {

const DeviceModel kTiny{1, 256};

class GoldenTest : public testing::Test {
 protected:
  ~GoldenTest() override { generator() = {}; }

  Golden recorded(const RandomCell& cell) {
    const RandomScope scope(closed_form_);
    return record_golden(cell, {plain_maker(), cell.device,
                                [&](const RandomState& state) {
                                  generator() = {state, cell.device};
                                },
                                [] { return generator().state.offset; }});
  }
  GoldenVerdict judged(const Golden& golden) {
    return compare_golden(golden, draw_plain(golden.cell, simulation_));
  }
  Golden of(const std::string& op) {
    for (const auto& cell : golden_matrix(kTiny))
      if (cell.op == op) return recorded(cell);
    throw Broken("no such cell");
  }

  ClosedFormSource closed_form_;
  oracle::SimulatedSource simulation_;
};

// Every cell of a tiny device, recorded and read again. Catches: a cell that stock refuses, a key or element
// that the text form loses, bits of another width.
TEST_F(GoldenTest, WhatIsRecordedIsWhatTheSimulationDraws) {
  std::vector<Golden> goldens;
  for (const auto& cell : golden_matrix(kTiny)) goldens.push_back(recorded(cell));
  const auto text = goldens_text(Origin::kRecorded, {{"device", "a \"test\""}, {"date", "-"}}, goldens);
  EXPECT_EQ(parse_goldens(text, "test"), goldens);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<int64_t>(goldens.size()) + 10);
  for (const auto& golden : goldens) {
    EXPECT_GE(golden.at.size(), 1u);
    EXPECT_EQ(golden.bits.size(), golden.at.size());
    EXPECT_EQ(golden.printed.size(), golden.at.size());
    const auto verdict = judged(golden);
    EXPECT_EQ(verdict.difference, "") << to_string(golden.cell);
    EXPECT_FALSE(verdict.same_to_digits) << to_string(golden.cell);
  }
}

// Catches: a cell twice, an operator without a cell, sizes that stay below the second block of a thread.
TEST_F(GoldenTest, TheMatrixHasEveryOperator) {
  std::set<std::string> cells, ops;
  int64_t longest = 0;
  for (const auto& cell : golden_matrix({})) {
    EXPECT_TRUE(cells.insert(to_string(cell)).second) << to_string(cell);
    ops.insert(cell.op);
    longest = std::max(longest, cell.form.shape[0]);
  }
  // Composites that are one of the others with a bound, a standard deviation or a product of it.
  const std::set<std::string> composite = {"dropout", "kaiming_normal_", "xavier_normal_", "trunc_normal_",
                                           "orthogonal_"};
  for (const auto& op : stock_ops()) EXPECT_NE(ops.contains(op.name), composite.contains(op.name)) << op.name;
  EXPECT_EQ(longest, 4 * 132 * 2048 + 1);
}

// One wrong bit, digit or digest each. Catches: a comparison that looks away.
TEST_F(GoldenTest, FindsACorruptedValue) {
  const auto found = [&](Golden golden, const auto& corrupt) {
    EXPECT_EQ(judged(golden).difference, "");
    corrupt(golden);
    return judged(golden).difference;
  };
  for (const std::string op : {"rand", "randint", "native_dropout", "randn", "randperm", "bernoulli_"}) {
    const auto g = of(op);
    EXPECT_NE(found(g, [](Golden& x) { x.offset_after = *x.offset_after + 4; }), "") << op;
    EXPECT_NE(found(g, [](Golden& x) { x.bits[0][2] ^= 4; }), "") << op;
    if (op != "randn") {
      EXPECT_NE(found(g, [](Golden& x) { x.bits[0].back() ^= 1; }), "") << op;
      EXPECT_NE(found(g, [](Golden& x) { x.fnv1a64 = *x.fnv1a64 ^ 1; }), "") << op;
    }
  }
  Golden published{Origin::kPublished, "", of("rand").cell, {}, {}, "", {}, {}, {}};
  published.cell.form = {{6}, {1}, at::kFloat};
  published.cell.state = {0, 0};
  published.at = {0, 5};
  published.printed = {"0.39904648", "0.7967"};
  EXPECT_NE(found(published, [](Golden& x) { x.printed[0] = "0.39904649"; }), "");
  EXPECT_NE(found(published, [](Golden& x) { x.printed[1] = "0.7968"; }), "");
  EXPECT_NE(found(published, [](Golden& x) { x.at[1] = 4; }), "");
  EXPECT_NE(found(published, [](Golden& x) { x.at[1] = 6; }), "");
  EXPECT_NE(found(published, [](Golden& x) { x.sum = "3.6241"; }), "");
  EXPECT_NE(found(published, [](Golden& x) { x.cell.state.seed = 1; }), "");
}

// Of an operator on the GPU's approximate functions the last bit may differ, and is told. Catches: that
// latitude for others, or for the fourth digit.
TEST_F(GoldenTest, ApproximateOperatorsAgreeToFourDigits) {
  auto g = of("randn");
  g.bits[0].back() ^= 1;
  EXPECT_EQ(judged(g).difference, "");
  EXPECT_TRUE(judged(g).same_to_digits);
  g = of("randn");
  g.fnv1a64 = *g.fnv1a64 ^ 1;
  EXPECT_TRUE(judged(g).same_to_digits);
  g = of("cauchy_");
  g.bits[0][g.bits[0].size() - 4] ^= 15;  // 2^-12 of the value
  EXPECT_NE(judged(g).difference, "");
}

// Samples are the elements of the whole tensor; beyond 2 GiB closed form and simulation agree on them, and a
// wrong one is found. Catches: samples of another launch, a tensor that is held after all, a sample not
// compared.
TEST_F(GoldenTest, GiantsAreKnownBySamples) {
  RandomCell cell = of("rand").cell;
  cell.form = {{5000}, {1}, at::kFloat};
  const std::vector<int64_t> at = {0, 255, 256, 1024, 4999};
  const auto whole = draw_plain(cell, simulation_);
  for (const auto& drawn : {draw_samples(cell, at), simulate_samples(cell, at)}) {
    EXPECT_TRUE(drawn.values.equal(whole.values.index({at::tensor(at)})));
    EXPECT_EQ(drawn.offset_after, whole.offset_after);
  }
  for (const auto& giant : golden_giants({})) {
    ASSERT_TRUE(is_giant(giant));
    const auto samples = samples_of(giant);
    const auto ours = draw_samples(giant, samples), simulated = simulate_samples(giant, samples);
    EXPECT_TRUE(ours.values.equal(simulated.values)) << to_string(giant);
    EXPECT_EQ(ours.offset_after, simulated.offset_after);
    Golden golden{Origin::kRecorded, "", giant, ours.offset_after, {}, "", samples, {}, {}};
    for (size_t k = 0; k < samples.size(); ++k)
      golden.bits.push_back(element_bits(ours.values, static_cast<int64_t>(k)));
    EXPECT_EQ(compare_golden(golden, simulated).difference, "");
    golden.bits.back()[2] ^= 4;
    EXPECT_NE(compare_golden(golden, simulated).difference, "");
  }
}

// Catches: a file that is cut short or edited by hand and taken for an empty or another one.
TEST_F(GoldenTest, RefusesTextsThatAreNoGoldens) {
  const auto good = goldens_text(Origin::kPublished, {}, {of("rand")});
  EXPECT_EQ(parse_goldens(good, "f").size(), 1u);
  const auto refused = [&](const std::string& from, const std::string& to) -> std::string {
    auto text = good;
    const auto where = text.find(from);
    EXPECT_NE(where, std::string::npos) << from;
    text.replace(where, from.size(), to);
    try {
      parse_goldens(text, "some.json");
    } catch (const Broken& e) {
      EXPECT_NE(std::string(e.what()).find("some.json"), std::string::npos);
      EXPECT_NE(std::string(e.what()).find("restore the file"), std::string::npos);
      return e.what();
    }
    return "accepted";
  };
  const auto says = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says(refused("]\n}", ""), "parse error");
  says(refused("goldens 1", "goldens 2"), "format");
  says(refused("published", "invented"), "none of recorded, published, computed");
  says(refused("\"seed\"", "\"sead\""), "golden 0: there is no key 'sead'");
  says(refused("\"rand\"", "\"rant\""), "no random operator is called 'rant'");
  says(refused("\"fnv1a64\":\"", "\"fnv1a64\":\"x"), "is not a number");
  says(refused("\"at\":[0", "\"at\":[0,0"), "values for");
  says(refused("\"f32\"", "\"f31\""), "f31");
}

// Catches: an unreadable file or folder that passes for one without goldens.
TEST_F(GoldenTest, RefusesFilesThatCannotBeRead) {
  namespace fs = std::filesystem;
  const auto folder = fs::temp_directory_path() / ("golden-" + std::to_string(getpid()));
  EXPECT_THROW(read_goldens(folder), Broken);
  fs::create_directories(folder / "a.json");
  EXPECT_THROW(read_goldens(folder), Broken);
  fs::remove(folder / "a.json");
  std::ofstream(folder / "a.json") << goldens_text(Origin::kPublished, {}, {of("rand")});
  std::ofstream(folder / "README") << "not a golden";
  EXPECT_EQ(read_goldens(folder).size(), 1u);
  fs::remove_all(folder);
}

// Catches: a shipped file that this version cannot read, or that lost what it held.
TEST_F(GoldenTest, TheShippedOnesAreRead) {
  std::map<Origin, int64_t> counts;
  for (const auto& golden : read_goldens(golden_folder())) ++counts[golden.origin];
  EXPECT_GE(counts[Origin::kPublished], 16);
  EXPECT_GE(counts[Origin::kComputed], 18);
}

}  // namespace
}  // namespace lockstep::suites
