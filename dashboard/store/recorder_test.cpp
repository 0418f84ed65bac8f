// SPDX-License-Identifier: Apache-2.0
// What is recorded comes back, bit for bit, and the views say so.
#include "dashboard/store/recorder.h"

#include <bit>
#include <cmath>
#include <limits>

#include "dashboard/store/bits.h"
#include "dashboard/store/read_back.h"
#include "dashboard/store/run_row.h"
#include "dashboard/store/testing.h"

namespace lockstep::dashboard {
namespace {

using testing::count;
using testing::sample_case;
using testing::sample_run;
using testing::TemporaryFolder;

const std::vector<uint64_t>& hard_patterns() {
  static const std::vector<uint64_t> list = {std::bit_cast<uint64_t>(-0.0),
                                             std::bit_cast<uint64_t>(std::nan("")),
                                             0xfff8000000000123,  // a payload
                                             0x7ff0000000000000,
                                             0xfff0000000000000,
                                             1,  // smallest denormal
                                             0x8000000000000000,
                                             0x7fffffffffffffff,
                                             0xffffffffffffffff,
                                             0,
                                             std::bit_cast<uint64_t>(0.1)};
  return list;
}

// Catches: a comparand stored as REAL, a signed conversion that loses the top bit, a payload normalised away.
TEST(Recorder, ComparandsKeepEveryBit) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  Recorder recorder(store, sample_run(), "w");
  CaseRow row = sample_case(1, Verdict::kDifferent);
  const TensorDiff base = row.diffs[0];
  row.diffs.clear();
  for (uint64_t bits : hard_patterns()) {
    TensorDiff d = base;
    d.dtype = "f64";
    d.expected_bits = bits;
    d.actual_bits = ~bits;
    d.float64_bits = d.bound_bits = d.max_abs_bits = bits;
    row.diffs.push_back(d);
  }
  recorder.record(row);
  SQLite::Statement rows(store.database(),
                         "SELECT expected_bits, actual_bits, float64_bits, bound_bits, max_abs_bits "
                         "FROM v_diffs ORDER BY seq");
  for (uint64_t bits : hard_patterns()) {
    ASSERT_TRUE(rows.executeStep());
    EXPECT_EQ(from_column(rows.getColumn(0).getInt64()), bits);
    EXPECT_EQ(from_column(rows.getColumn(1).getInt64()), ~bits);
    for (int i = 2; i < 5; ++i) EXPECT_EQ(from_column(rows.getColumn(i).getInt64()), bits);
  }
  EXPECT_FALSE(rows.executeStep());
}

// Catches: NaN that breaks the NOT NULL of a curve or a sample, a display column that is wrong for its dtype.
TEST(Recorder, CurvesAndSamplesKeepEveryBit) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  Recorder recorder(store, sample_run(), "w");
  Curve curve;
  curve.name = "tp:2";
  curve.dtype = "f64";
  const int64_t id = recorder.open_curve(curve);
  EXPECT_EQ(recorder.open_curve(curve), id);
  int64_t step = 0;
  for (uint64_t bits : hard_patterns()) {
    recorder.record(id,
                    {.step = step++, .loss_bits = bits, .grad_norm_bits = ~bits, .tokens_per_second = NAN});
    recorder.record(Measurement{"series", "1/s", std::bit_cast<double>(bits)});
  }
  recorder.flush();
  SQLite::Statement points(store.database(),
                           "SELECT loss_bits, grad_norm_bits, loss FROM v_curves ORDER BY step");
  SQLite::Statement samples(store.database(), "SELECT value_bits FROM measurement ORDER BY seq");
  for (uint64_t bits : hard_patterns()) {
    ASSERT_TRUE(points.executeStep() && samples.executeStep());
    EXPECT_EQ(from_column(points.getColumn(0).getInt64()), bits);
    EXPECT_EQ(from_column(points.getColumn(1).getInt64()), ~bits);
    EXPECT_EQ(from_column(samples.getColumn(0).getInt64()), bits);
    const double value = std::bit_cast<double>(bits);
    EXPECT_EQ(points.getColumn(2).isNull(), std::isnan(value));
    if (!std::isnan(value)) {
      EXPECT_EQ(points.getColumn(2).getDouble(), value);
    }
  }
}

// Catches: a wrong exponent bias or sign in the decoding that the report shows.
TEST(Bits, ValuesOfEveryDtype) {
  const struct {
    uint64_t bits;
    const char* dtype;
    double value;
    const char* hex;
  } table[] = {{0x3ff0000000000000, "f64", 1.0, "0x3ff0000000000000"},
               {0x3f800000, "f32", 1.0, "0x3f800000"},
               {0x3f80, "bf16", 1.0, "0x3f80"},
               {0x3c00, "f16", 1.0, "0x3c00"},
               {0x0001, "f16", 0x1p-24, "0x0001"},
               {0x7bff, "f16", 65504, "0x7bff"},
               {0xfc00, "f16", -INFINITY, "0xfc00"},
               {0x8000, "f16", -0.0, "0x8000"},
               {0xff, "i8", -1, "0xff"},
               {0xffffffffffffffff, "i8", -1, "0xff"},
               {0xff, "u8", 255, "0xff"},
               {1, "bool", 1, "0x01"},
               {0x8000000000000000, "i64", -0x1p63, "0x8000000000000000"},
               {0xfffffffe, "i32", -2, "0xfffffffe"},
               {0xfffe, "i16", -2, "0xfffe"}};
  for (const auto& row : table) {
    EXPECT_EQ(std::bit_cast<uint64_t>(value_of(row.bits, row.dtype)), std::bit_cast<uint64_t>(row.value))
        << row.hex;
    EXPECT_EQ(hex(row.bits, row.dtype), row.hex);
  }
  EXPECT_TRUE(std::isnan(value_of(0x7e01, "f16")));
  EXPECT_EQ(shortest(0x80000000, "f32"), "-0");
  EXPECT_EQ(shortest(0x3dcccccd, "f32"), "0.1");
  EXPECT_EQ(shortest(0x3fb999999999999a, "f64"), "0.1");
  EXPECT_EQ(shortest(0xfff8000000000001, "f64"), "nan");
  EXPECT_EQ(shortest(0x7fffffffffffffff, "i64"), "9223372036854775807");
  EXPECT_EQ(shortest(0xffffffff, "i32"), "-1");
}

// Catches: text cut at NUL, or changed because it is not UTF-8.
TEST(Recorder, TextIsKeptByteForByte) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  Recorder recorder(store, sample_run(), "w");
  CaseRow row = sample_case(1);
  row.token = std::string("a\0b'\"; DROP TABLE cases; \xff\xfe", 28);
  row.explanation = std::string(1 << 20, 'x');
  recorder.record(row);
  recorder.flush();
  SQLite::Statement read(store.database(), "SELECT token, explanation FROM cases");
  ASSERT_TRUE(read.executeStep());
  EXPECT_EQ(read.getColumn(0).getString(), row.token);
  EXPECT_EQ(read.getColumn(1).getString(), row.explanation);
}

CaseRow refused_case(int number, const std::string& how) {
  CaseRow row = sample_case(number);
  row.how = how;
  row.refusal = {"aten::t", "view"};
  return row;
}

// Catches: a gate that says that more is refused, where a run replays a kept case that refuses.
TEST(Recorder, RefusalsOfKeptCasesAreNotCounted) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  Recorder recorder(store, sample_run(), "w");
  for (const auto* how : {"random", "corpus"}) recorder.record(refused_case(how[0], how));
  recorder.flush();
  EXPECT_EQ(count(store, "cases"), 2);
  EXPECT_EQ(count(store, "v_refusals WHERE hits = 1"), 1);
}

// Catches: a refusal that is counted or not by which worker replays the kept case first.
TEST(Recorder, RefusalOfACaseKeptAndDrawnIsCountedOnce) {
  for (const std::vector<std::string>& order :
       {std::vector<std::string>{"random", "corpus", "random"}, {"corpus", "random", "random", "corpus"}}) {
    const TemporaryFolder folder;
    Store store = Store::open_writer(folder / "a.db");
    Recorder recorder(store, sample_run(), "w");
    for (const auto& how : order) recorder.record(refused_case(1, how));
    recorder.flush();
    EXPECT_EQ(count(store, "cases WHERE how = 'random'"), 1);
    EXPECT_EQ(count(store, "v_refusals WHERE hits = 1"), 1);
  }
}

// Catches: a second row for the same outcome, a lost row for another outcome, coverage counted twice.
TEST(Recorder, SameOutcomeIsOneRowAnotherOutcomeIsAFinding) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  Recorder recorder(store, sample_run(), "w");
  CaseRow row = sample_case(1);
  row.refusal = {"aten::t", "view"};
  row.forgiven = {{"silent", "aten::detach", "it moves nothing", 3}};
  EXPECT_EQ(recorder.record(row), 1);
  row.time_ns = 5;
  EXPECT_EQ(recorder.record(row), 1);
  recorder.flush();
  EXPECT_EQ(count(store, "cases WHERE time_ns = 5"), 1);
  EXPECT_EQ(count(store, "v_coverage WHERE hits = 1"), 1);
  EXPECT_EQ(count(store, "v_refusals WHERE suite = 'ops' AND op = 'aten::t' AND hits = 1"), 1);
  EXPECT_EQ(count(store, "v_forgiven WHERE op = 'aten::detach' AND hits = 3"), 1);
  EXPECT_EQ(count(store, "v_nondeterminism"), 0);
  EXPECT_EQ(recorder.record(sample_case(1, Verdict::kDifferent)), 2);
  EXPECT_EQ(count(store, "v_nondeterminism WHERE outcomes = 2 AND replay LIKE 'lockstep replay %'"), 1);
}

// Catches: a field of a run that is not read back, so that a resumed run becomes another one; a finished run
// taken for one to resume.
TEST(Recorder, AnUnfinishedRunReadsBackWhole) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  EXPECT_FALSE(unfinished_run(store));
  dashboard::Run of_another = sample_run();
  of_another.engine = "other";
  of_another.version = "2.11";
  of_another.replay = " --engine other";
  Recorder recorder(store, of_another, "w");
  recorder.record(sample_case(1));
  recorder.flush();
  const auto run = unfinished_run(store);
  ASSERT_TRUE(run);
  EXPECT_EQ(key_of(*run), key_of(of_another));
  EXPECT_EQ(run->started_ms, sample_run().started_ms);
  EXPECT_EQ(run->replay, of_another.replay);
  EXPECT_EQ(outcomes(store, run->id).size(), 1u);
  EXPECT_TRUE(outcomes(store, "another").empty());
  recorder.finish("finished", 0);
  EXPECT_FALSE(unfinished_run(store));
}

// Catches: a key that forgets one of its ingredients, so that two cases become one.
TEST(Recorder, EveryIngredientMakesAnotherCase) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  Recorder recorder(store, sample_run(), "w");
  std::vector<CaseRow> rows(5, sample_case(1));
  rows[1].token += "x";
  rows[2].suite = "program";
  rows[3].law = "another";
  rows[4].variant = "fault";
  for (const CaseRow& row : rows) EXPECT_EQ(recorder.record(row), 1);
  recorder.flush();
  dashboard::Run lane = sample_run(), build = lane, seed = lane;
  lane.numerics = "fast";
  build.build_hash = "other";
  seed.seed = 8;
  dashboard::Run engine = sample_run(), newer = engine, own = engine;
  engine.engine = newer.engine = "other";
  newer.version = own.version = "2";  // of its own engine the build is the version
  for (const dashboard::Run& run : {lane, build, seed, engine, newer, own})
    Recorder(store, run, "w").record(rows[0]);
  EXPECT_EQ(store.database().execAndGet("SELECT count(DISTINCT key) FROM cases").getInt(), 10);
}

// Catches: a failure that waits for its batch, a batch that never ends, a self-check counted as a
// failure.
TEST(Recorder, BatchesByCountAndFailuresAtOnce) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db"), reader = Store::open_reader(folder / "a.db");
  Recorder recorder(store, sample_run(), "w");
  recorder.record(sample_case(0));
  EXPECT_EQ(count(reader, "cases"), 0);
  recorder.record(sample_case(1, Verdict::kCrashed));
  EXPECT_EQ(count(reader, "cases"), 2);
  CaseRow wished = sample_case(2, Verdict::kDifferent);
  wished.self_check = true;
  recorder.record(wished);
  EXPECT_EQ(count(reader, "cases"), 2);
  for (int i = 3; i < 300; ++i) recorder.record(sample_case(i));
  EXPECT_GE(count(reader, "cases"), 258);
  recorder.finish("finished", 1);
  EXPECT_EQ(count(reader, "v_summary WHERE failures = 1 AND cases = 299 AND self_checks = 1 AND crashed = 1"),
            1);
  EXPECT_EQ(count(reader, "v_failures"), 1);
  EXPECT_EQ(count(reader, "v_summary WHERE exit_code = 1 AND state = 'finished' AND seconds = 90"), 1);
}

// Catches: a resumed run that repeats what it has, or skips what it has not.
TEST(Recorder, AResumedRunKnowsItsNumbers) {
  const TemporaryFolder folder;
  for (int64_t first : {0, 5}) {
    Store store = Store::open_writer(folder / "a.db");
    Recorder recorder(store, sample_run(), "w");
    std::vector<int64_t> before;
    for (int64_t i = 0; i < first; ++i) before.push_back(i);
    EXPECT_EQ(recorder.recorded_numbers("ops"), before);
    EXPECT_TRUE(recorder.recorded_numbers("other").empty());
    for (int64_t i = first; i < first + 5; ++i) recorder.record(sample_case(i));
    recorder.finish("finished", 0);
  }
  const Store store = Store::open_reader(folder / "a.db");
  EXPECT_EQ(count(store, "run"), 1);
  EXPECT_EQ(count(store, "cases"), 10);
  EXPECT_EQ(count(store, "v_labels WHERE hits = 10"), 1);
}

// Catches: a replay line that leaves out where the case ran, or which fault was planted.
TEST(Recorder, EachReplayLineSaysHow) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  dashboard::Run run = sample_run();
  run.replay = " --world gloo --ranks 4";
  Recorder recorder(store, run, "w");
  CaseRow plain = sample_case(1, Verdict::kDifferent), planted = sample_case(2, Verdict::kDifferent);
  plain.token = planted.token = "v1:a";
  planted.variant = "term-lost", planted.bucket += " of a fault";
  for (const auto& row : {plain, planted}) recorder.record(row);
  recorder.record(Replayed{"v1:a", plain.bucket, Verdict::kEqual, ""});
  recorder.flush();
  const std::string line = "replay = 'lockstep replay ''v1:a'' --world gloo --ranks 4";
  for (const std::string view : {"v_cases", "v_failures"}) {
    EXPECT_EQ(count(store, view + " WHERE variant = '' AND " + line + "'"), 1) << view;
    EXPECT_EQ(count(store, view + " WHERE variant <> '' AND " + line + " --fault term-lost'"), 1) << view;
  }
  EXPECT_EQ(count(store, "v_replayed WHERE " + line + "'"), 1);
}

// Catches: a larger minimal case that replaces a smaller one, a fault that is lost once found.
TEST(Recorder, TheBetterFailureAndFaultStay) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  Recorder recorder(store, sample_run(), "w");
  const CaseRow row = sample_case(1, Verdict::kDifferent);
  recorder.record(row);
  Failure big{.bucket = row.bucket, .token = "v1:big", .ops = 5},
      small{.bucket = row.bucket, .token = "v1:it's", .ops = 2};
  for (const Failure& f : {big, small, big}) recorder.record(f);
  recorder.record(PlantedFault{.name = "f", .klass = "K3", .found = true, .cases = 9});
  recorder.record(PlantedFault{.name = "f", .klass = "K3", .found = false, .cases = 2});
  recorder.flush();
  EXPECT_EQ(count(store, "v_failures WHERE ops = 2 AND token = 'v1:it''s'"), 1);
  EXPECT_EQ(count(store, R"(v_failures WHERE replay = 'lockstep replay ''v1:it''\''''s''')"), 1);
  EXPECT_EQ(count(store, "v_faults WHERE found AND cases = 9"), 1);
}

// The views of curves: which reference, where the curves part, and by how much, in each dtype and across
// zero. Catches: an ulp distance that is wrong below zero or at the sign of zero, a pairing with another
// variant's reference.
TEST(Recorder, CurvesAreComparedWithTheirReference) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  Recorder recorder(store, sample_run(), "w");
  const auto curve = [&](const std::string& name, const std::string& variant, const std::string& dtype,
                         bool reference, const std::vector<uint64_t>& bits) {
    const int64_t id = recorder.open_curve(
        {.name = name, .model = "m " + dtype, .variant = variant, .dtype = dtype, .reference = reference});
    for (size_t i = 0; i < bits.size(); ++i) {
      recorder.record(id, {.step = static_cast<int64_t>(i) + 1, .loss_bits = bits[i], .grad_norm_bits = 7});
    }
  };
  curve("one", "both", "f32", true, {0x3f800000, 0x3f800000, 0x00000001, 0x7fc00000});
  curve("own", "own", "f32", true, {1, 1, 1, 1});
  curve("a", "both", "f32", false, {0x3f800000, 0x3f800003, 0x80000001, 0x7fc00001});
  curve("b", "init", "f32", false, {0x3f800000, 0x3f800000, 0x00000001, 0x7fc00000});
  curve("c", "own", "f32", false, {1, 1, 1, 2});
  curve("one", "both", "f64", true, {0x8000000000000000, 0x3ff0000000000000});
  curve("d", "both", "f64", false, {0, 0x3ff0000000000005});
  curve("one", "both", "bf16", true, {0x3f80});
  curve("e", "both", "bf16", false, {0x3f82});
  recorder.flush();
  const auto diff = [&](const std::string& where) { return count(store, "v_curve_diff WHERE " + where); };
  EXPECT_EQ(diff("curve = 'a' AND reference = 'one' AND steps = 4 AND identical_prefix = 1 AND "
                 "first_differing_step = 2 "
                 "AND max_loss_ulp = 3 AND not_comparable = 1"),
            1);
  EXPECT_EQ(
      diff("curve = 'b' AND reference = 'one' AND identical_prefix = 4 AND first_differing_step IS NULL"), 1);
  EXPECT_EQ(diff("curve = 'b'"), 2) << "its variant has no reference: it is compared with each of its model";
  EXPECT_EQ(diff("curve = 'c' AND reference = 'own' AND first_differing_step = 4 AND max_loss_ulp = 1"), 1);
  EXPECT_EQ(diff("curve = 'd' AND first_differing_step = 1 AND max_loss_ulp = 5"), 1);
  EXPECT_EQ(diff("curve = 'e' AND max_loss_ulp = 2 AND max_loss_abs = 0.015625"), 1);
  EXPECT_EQ(count(store, "v_curve_steps WHERE curve = 'a' AND step = 3 AND loss_ulp = 2"), 1)
      << "-tiny to +tiny";
  EXPECT_EQ(count(store, "v_curve_steps WHERE curve = 'd' AND step = 1 AND loss_ulp = 0 AND NOT identical"),
            1);
}

// Catches: a plan that cannot be judged later.
TEST(Recorder, ThePlanIsJsonAndIsJudged) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  dashboard::Run run = sample_run();
  for (const char* bad : {"", "{", "[]", R"({"suites":[1]})", R"({"suites":[{"name":"ops"}]})"}) {
    run.plan = bad;
    EXPECT_THROW(Recorder(store, run, "w"), std::invalid_argument) << bad;
  }
  EXPECT_EQ(count(store, "run"), 0);
  Recorder recorder(store, sample_run(), "w");
  recorder.record(sample_case(1));
  recorder.expect_op("aten::mm");
  recorder.expect_op("aten::relu");
  recorder.flush();
  EXPECT_EQ(count(store, "v_plan WHERE kind = 'suite' AND got = 1 AND NOT met"), 1);
  EXPECT_EQ(count(store, "v_plan WHERE kind = 'label' AND got = 1 AND met"), 1);
  EXPECT_EQ(count(store, "v_coverage_gaps WHERE kind = 'op' AND op = 'aten::relu'"), 1);
  EXPECT_EQ(count(store, "v_coverage_gaps WHERE kind = 'op'"), 1);
}

}  // namespace
}  // namespace lockstep::dashboard
