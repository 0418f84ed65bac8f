// SPDX-License-Identifier: Apache-2.0
// Equality as bits or as written digits; what is told of the rest; and that the store says the same.
#include "ci/curves/compare.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <cmath>

#include "ci/curves/store_curves.h"
#include "ci/curves/testing.h"
#include "dashboard/report/report.h"
#include "dashboard/store/store.h"

namespace lockstep::curves {
namespace {

using testing::f64;
using testing::Folder;
using testing::has;
using testing::noted;

Log losses(const std::vector<std::pair<int64_t, Number>>& numbers) {
  Log log{.path = "/dev/null", .format = "jsonl"};
  for (const auto& [step, n] : numbers) log.points.push_back({.step = step, .loss = n});
  return log;
}

// 100 steps in f32, of which the numbers are 1, 2, … with `change` added to the bits of step `at`.
Log run(int64_t at = 0, uint32_t change = 0) {
  std::vector<std::pair<int64_t, Number>> numbers;
  for (int64_t step = 1; step <= 100; ++step)
    numbers.emplace_back(
        step, from_f32(std::bit_cast<uint32_t>(static_cast<float>(step)) + (step == at ? change : 0)));
  return losses(numbers);
}

Log decimals(const std::vector<const char*>& texts) {
  std::vector<std::pair<int64_t, Number>> numbers;
  int64_t step = 0;
  for (const char* text : texts) numbers.emplace_back(++step, *parse_decimal(text));
  return losses(numbers);
}

std::string refusal_of(const Log& a, const Log& b) {
  try {
    paired(a, b);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// Catches: equal runs that differ; one ulp in the very last step that is rounded away.
TEST(Compare, OneUlpInTheLastStep) {
  const auto same = paired(run(), run());
  EXPECT_TRUE(equal(compare(same)));
  EXPECT_EQ(compare(same).identical_prefix, 100);
  EXPECT_TRUE(has(text_of(same, compare(same)), "equal: the same bits (f32) at all 100 steps"));
  const auto pair = paired(run(), run(100, 1));
  const auto c = compare(pair);
  EXPECT_FALSE(equal(c));
  EXPECT_EQ(c.first_difference, 100);
  EXPECT_EQ(c.identical_prefix, 99);
  EXPECT_EQ(c.different, 1);
  EXPECT_EQ(c.distances[0].max_ulp, 1u);
  EXPECT_EQ(c.first_got, "100.00001 (0x42c80001)");
}

// Catches: a comparison of values: -0.0 == 0.0, NaN payloads that are all NaN.
TEST(Compare, SignOfZeroAndNanPayload) {
  const auto zero = compare(paired(losses({{1, f64(0.0)}}), losses({{1, f64(-0.0)}})));
  EXPECT_FALSE(equal(zero));
  EXPECT_EQ(zero.distances[0].max_abs, 0);
  const auto a = losses({{1, from_f32(0x7fc00000)}, {2, from_f32(0x7fc00000)}});
  const auto b = losses({{1, from_f32(0x7fc00000)}, {2, from_f32(0x7fc00001)}});
  const auto nan = compare(paired(a, b));
  EXPECT_EQ(nan.first_difference, 2);
  EXPECT_EQ(nan.distances[0].not_comparable, 1);
  EXPECT_TRUE(std::isinf(nan.distances[0].max_abs));
  const auto text = decimals({"nan", "1.50"});
  EXPECT_TRUE(equal(compare(paired(text, text))));
  EXPECT_EQ(paired(text, text).digits, 3);
}

// Catches: printed digits that are called bits.
TEST(Compare, DigitsAreNoBits) {
  const auto pair = paired(decimals({"7.1234", "12.0001"}), decimals({"7.1234", "12.0001"}));
  EXPECT_EQ(pair.digits, 5);
  const auto words = text_of(pair, compare(pair));
  EXPECT_TRUE(
      has(words, "equal to the 5 to 6 digits that were written, at all 2 steps: no proof of equal bits"))
      << words;
  EXPECT_FALSE(has(words, "same bits"));
  EXPECT_FALSE(compare(pair).distances[0].max_ulp);
  EXPECT_FALSE(equal(compare(paired(decimals({"7.1234"}), decimals({"7.1235"})))));
  EXPECT_TRUE(noted(paired(decimals({"7.1234"}), decimals({"7.12345"})).notes, "--decimals 4"));
  EXPECT_TRUE(equal(compare(paired(decimals({"7.1234"}), decimals({"7.12341"}), 4))));
}

// Catches: bits beside decimals that are compared anyhow; dtypes brought together with loss and without a
// word.
TEST(Compare, OneForm) {
  EXPECT_TRUE(has(refusal_of(run(), decimals({"1.0"})), "holds every bit"));
  EXPECT_TRUE(has(refusal_of(run(), decimals({"1.0"})), "--round-trip"));
  const auto rounded_pair = paired(losses({{1, from_f32(0x40f40664)}}), decimals({"7.6258"}), 4);
  EXPECT_TRUE(equal(compare(rounded_pair)));
  EXPECT_EQ(rounded_pair.digits, 5);
  const auto narrow = paired(losses({{1, f64(0.1)}}), losses({{1, from_f32(std::bit_cast<uint32_t>(0.1f))}}));
  EXPECT_TRUE(equal(compare(narrow)));
  EXPECT_EQ(narrow.dtype, "f32");
  EXPECT_TRUE(noted(narrow.notes, "the reference was written as f64"));
  const auto wide = paired(losses({{1, *parse_bits("3f80", "bf16")}}), losses({{1, from_f32(0x3f800000)}}));
  EXPECT_EQ(wide.dtype, "f64");
  EXPECT_TRUE(equal(compare(wide)));
  auto mixed = losses({{1, from_f32(0x3f800001)}});
  mixed.points[0].grad_norm = f64(0.5);
  EXPECT_EQ(paired(mixed, mixed).dtype, "f32");
  mixed.points[0].grad_norm = f64(0.1);
  EXPECT_EQ(paired(mixed, mixed).dtype, "f64");
  EXPECT_EQ(
      paired(losses({{1, *parse_bits("3f80", "bf16")}}), losses({{1, *parse_bits("3f80", "bf16")}})).dtype,
      "bf16");
}

// Catches: steps of one side that vanish, quantities that are compared with nothing, an empty comparison that
// passes.
TEST(Compare, WhatOnlyOneSideHas) {
  const auto a = losses({{1, f64(1)}, {2, f64(2)}, {3, f64(3)}, {5, f64(5)}, {9, f64(9)}});
  const auto b = losses({{0, f64(0)}, {2, f64(2)}, {5, f64(5)}, {6, f64(6)}, {7, f64(7)}});
  const auto c = compare(paired(a, b));
  EXPECT_EQ(c.steps, 2);
  EXPECT_TRUE(equal(c));
  EXPECT_EQ(c.only_reference_steps, "1, 3, 9");
  EXPECT_EQ(c.only_candidate_steps, "0, 6 to 7");
  EXPECT_FALSE(equal(compare(paired(losses({{1, f64(1)}}), losses({{2, f64(1)}})))));
  EXPECT_FALSE(equal(compare(paired(Log{}, Log{}))));
  auto with_norm = a;
  for (auto& point : with_norm.points) point.grad_norm = f64(1);
  const auto pair = paired(with_norm, b);
  EXPECT_EQ(pair.fields(), "loss");
  EXPECT_TRUE(noted(pair.notes, "only the reference has a grad_norm"));
  auto some = with_norm;
  some.points[1].grad_norm.reset();
  EXPECT_TRUE(noted(paired(with_norm, some).notes, "at 1 steps only one side has a grad_norm"));
  EXPECT_TRUE(equal(compare(paired(with_norm, some))));
  some.points[2].grad_norm = f64(2);
  EXPECT_EQ(compare(paired(with_norm, some)).first_field, "grad_norm");
}

// Catches: terminal and store that count differently, wherever the difference is.
TEST(Compare, TheViewsSayTheSame) {
  const Folder folder;
  for (const auto& [at, change] :
       {std::pair{0, 0u}, {1, 1u}, {57, 3u}, {100, 0x80000000u}, {50, 0x7fffffffu}}) {
    const auto pair = paired(run(), run(at, change));
    const auto c = compare(pair);
    auto store = dashboard::Store::open_writer((folder.path / ("a" + std::to_string(at))).string());
    dashboard::Run row{.id = "r", .command = "lockstep curves import", .numerics = "imported"};
    dashboard::Recorder recorder(store, row, "import");
    record(pair, c, "r", recorder);
    recorder.finish("finished", 0);
    SQLite::Statement view(store.database(),
                           "SELECT steps, identical_prefix, coalesce(first_differing_step, 0), max_loss_abs, "
                           "not_comparable, max_loss_ulp FROM v_curve_diff");
    ASSERT_TRUE(view.executeStep());
    EXPECT_EQ(view.getColumn(0).getInt64(), c.steps);
    EXPECT_EQ(view.getColumn(1).getInt64(), c.identical_prefix);
    EXPECT_EQ(view.getColumn(2).getInt64(), c.first_difference.value_or(0));
    if (c.distances[0].not_comparable == 0) {
      EXPECT_EQ(view.getColumn(3).getDouble(), c.distances[0].max_abs);
      EXPECT_EQ(static_cast<uint64_t>(view.getColumn(5).getInt64()), c.distances[0].max_ulp);
    }
    EXPECT_EQ(view.getColumn(4).getInt64(), c.distances[0].not_comparable);
    SQLite::Statement chains(store.database(), "SELECT count(DISTINCT chain) FROM v_curves WHERE step = 100");
    ASSERT_TRUE(chains.executeStep());
    EXPECT_EQ(chains.getColumn(0).getInt() == 1, equal(c)) << "the last chain decides equality";
  }
}

// Catches: a report that calls digits bits, drops a hostile name's escape, or does not tell the environments.
TEST(Compare, TheReportSaysWhatIsProved) {
  const Folder folder;
  auto pair = paired(decimals({"7.1234"}), decimals({"7.1234"}));
  pair.reference.environment = {{"gpu", "H100"}, {"torch", "2.11"}};
  pair.candidate.environment = {{"gpu", "<script>alert(1)</script>"}, {"torch", "2.11"}};
  auto store = dashboard::Store::open_writer((folder.path / "a.db").string());
  dashboard::Recorder recorder(store, {.id = "r", .command = "c", .numerics = "imported"}, "import");
  record(pair, compare(pair), "r", recorder);
  recorder.record(
      dashboard::Divergence{"b", "a", 40, 3, 7, "aten::mm", 1, "output", "output 0: 00", "output 0: 01"});
  recorder.finish("finished", 0);
  const auto page = dashboard::render_report(store);
  EXPECT_TRUE(has(page, "equal to the 5 digits that were written"));
  EXPECT_FALSE(has(page, "<span class=\"yes\">never</span>"));
  EXPECT_TRUE(has(page, "<th scope=\"row\">gpu") || has(page, ">gpu<"));
  EXPECT_TRUE(has(page, "&lt;script&gt;alert(1)&lt;/script&gt;"));
  EXPECT_TRUE(has(page, "step 3, position 7, rank 1"));
  EXPECT_TRUE(has(page, "this op is at fault"));
  ASSERT_EQ(environment_difference(pair).size(), 1u);
  EXPECT_EQ(environment_difference(pair)[0].name, "gpu");
}

}  // namespace
}  // namespace lockstep::curves
