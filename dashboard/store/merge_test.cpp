// SPDX-License-Identifier: Apache-2.0
// The algebra of joining shards, as laws on random shards.
#include "dashboard/store/merge.h"

#include <random>

#include "dashboard/store/testing.h"
#include "dashboard/store/testing_process.h"

namespace lockstep::dashboard {
namespace {

using testing::content;
using testing::count;
using testing::error_of;
using testing::sample_case;
using testing::sample_run;
using testing::TemporaryFolder;

using Content = std::vector<std::string>;
using Random = std::mt19937_64;

// A random shard; few distinct cases, so that shards overlap and disagree.
void make_shard(const std::string& path, const std::string& worker, uint64_t seed) {
  Random random(seed);
  const auto pick = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  Store store = Store::open_writer(path);
  dashboard::Run run = sample_run(pick(2) ? "one" : "two");
  run.ended_ms = 1'760'000'000'000 + pick(3);
  Recorder recorder(store, run, worker);
  for (int64_t i = pick(20); i > 0; --i) {
    CaseRow row = sample_case(pick(10), pick(4) ? Verdict::kEqual : Verdict::kDifferent);
    row.time_ns = pick(1000);
    row.how = pick(2) ? "random" : "corpus";
    if (!row.diffs.empty()) row.diffs[0].actual_bits = static_cast<uint64_t>(pick(3));
    recorder.record(row);
    if (pick(3) == 0) recorder.record(Failure{.bucket = row.bucket, .token = row.token, .ops = pick(3)});
  }
  Curve curve{.name = "c", .dtype = "f32"};
  curve.policy = pick(2) ? "single" : "ranks";
  const int64_t id = recorder.open_curve(curve);
  for (int64_t i = pick(6); i > 0; --i) {
    const uint64_t bits = static_cast<uint64_t>(pick(2));
    CurvePoint p{.step = pick(4), .loss_bits = bits, .tokens_per_second = static_cast<double>(pick(9))};
    if (pick(2)) p.verdict = pick(2) ? Verdict::kExplained : Verdict::kDifferent;
    recorder.record(id, p);
  }
  recorder.record(PlantedFault{.name = "f", .found = pick(2) == 1, .cases = pick(5), .token = "t"});
  recorder.record(ExpectedException{"aten::pow", "f32", "own loop", pick(4)});
  recorder.record(Measurement{"rate", "1/s", static_cast<double>(pick(100))});
  recorder.record(Gate{"plan", "1", std::to_string(pick(3)), pick(2) == 1});
  recorder.expect_op(pick(2) ? "aten::mm" : "aten::bmm");
  if (pick(2)) recorder.finish(pick(2) ? "finished" : "interrupted", static_cast<int>(pick(8)));
}

Content joined(const std::string& path, const std::vector<std::string>& shards) {
  Store store = Store::open_writer(path);
  merge(store, shards);
  return content(store);
}

// Catches: a rule that depends on which shard comes first, on grouping, or on repetition; a table that is
// forgotten.
TEST(Merge, IsCommutativeAssociativeIdempotent) {
  for (uint64_t seed = 0; seed < 15; ++seed) {
    const TemporaryFolder f;
    const std::string a = f / "a", b = f / "b", c = f / "c";
    make_shard(a, "1", 3 * seed);
    make_shard(b, "2", 3 * seed + 1);
    make_shard(c, "3", 3 * seed + 2);
    const Content all = joined(f / "abc", {a, b, c});
    EXPECT_EQ(joined(f / "cba", {c, b, a}), all) << seed;
    EXPECT_EQ(joined(f / "abcab", {a, b, c, a, b}), all) << seed;
    joined(f / "bc", {b, c});
    EXPECT_EQ(joined(f / "a(bc)", {a, f / "bc"}), all) << seed;
    EXPECT_EQ(joined(f / "a(bc)c(abc)", {a, f / "bc", c, f / "abc"}), all) << seed;
    EXPECT_EQ(joined(f / "a alone", {a}), content(Store::open_reader(a))) << seed;
    EXPECT_EQ(count(Store::open_reader(f / "abc"), "pragma_foreign_key_check"), 0);
  }
}

// Catches: the later verdict overwriting the earlier, children of one outcome attached to the other.
TEST(Merge, AnotherVerdictForTheSameCaseIsAFinding) {
  const TemporaryFolder f;
  for (const auto& [file, verdict] : {std::pair{"a", Verdict::kEqual}, std::pair{"b", Verdict::kDifferent}}) {
    Store store = Store::open_writer(f / file);
    Recorder(store, sample_run(), file).record(sample_case(1, verdict));
  }
  Store store = Store::open_writer(f / "all");
  const MergeResult result = merge(store, std::vector{f / "a", f / "b", f / "a", f / "all"});
  EXPECT_EQ(result.shards, 3);
  EXPECT_EQ(result.cases_added, 2);
  EXPECT_EQ(result.cases_known, 1);
  EXPECT_EQ(result.nondeterministic, 1);
  EXPECT_EQ(count(store, "v_nondeterminism WHERE outcomes = 2"), 1);
  EXPECT_EQ(count(store, "v_diffs WHERE verdict = 'different'"), 1);
  EXPECT_EQ(count(store, "v_diffs"), 1);
  EXPECT_EQ(count(store, "v_labels WHERE hits = 2"), 1);
}

// Catches: a bad shard that spoils the good ones, or is half taken.
TEST(Merge, ABadShardIsNamedAndTheOthersStay) {
  const TemporaryFolder f;
  make_shard(f / "a", "1", 4);
  testing::write_file(f / "bad", "no database");
  Store store = Store::open_writer(f / "all");
  std::string message;
  EXPECT_EQ(error_of(
                [&] {
                  merge(store, std::vector{f / "a", f / "bad"});
                },
                &message),
            StoreError::Kind::kForeign);
  EXPECT_NE(message.find(f / "bad"), std::string::npos);
  EXPECT_EQ(content(store), content(Store::open_reader(f / "a")));
}

// Catches: a named file that is taken although a later one cannot be, a target that comes into being for
// nothing, files that cannot be joined with each other and are noticed half way.
TEST(Merge, OfNamedFilesAllOrNone) {
  const TemporaryFolder f;
  make_shard(f / "a", "1", 4);
  make_shard(f / "b", "2", 5);
  testing::write_file(f / "bad", "no database");
  const auto half_pruned = [](Store& store) {
    store.database().exec("INSERT INTO pruned SELECT id, 'ops', 0, 'equal', 3, 0, 0 FROM run");
  };
  {
    Store store = Store::open_writer(f / "pruned");
    Recorder(store, sample_run("one"), "w").record(sample_case(1));
    std::filesystem::copy_file(f / "pruned", f / "whole");
    half_pruned(store);
  }
  using Kind = StoreError::Kind;
  const std::pair<std::vector<std::string>, Kind> refused[] = {{{f / "a", f / "bad"}, Kind::kForeign},
                                                               {{f / "a", f / "none"}, Kind::kUnreadable},
                                                               {{f / "whole", f / "pruned"}, Kind::kForeign}};
  for (const auto& [from, kind] : refused) {
    EXPECT_EQ(error_of([&, &from = from] { merge_files(f / "new", from); }), kind);
    EXPECT_FALSE(std::filesystem::exists(f / "new"));
    const std::string before = testing::read_file(f / "b");
    EXPECT_EQ(error_of([&, &from = from] { merge_files(f / "b", from); }), kind);
    EXPECT_EQ(testing::read_file(f / "b"), before);
  }
  EXPECT_EQ(merge_files(f / "ab", std::vector{f / "a", f / "b", f / "a"}).shards, 3);
  EXPECT_EQ(merge_files(f / "ab", std::vector{f / "ab"}).shards, 0);
  EXPECT_EQ(content(Store::open_reader(f / "ab")), joined(f / "again", {f / "a", f / "b"}));
}

// Catches: a merge that is not one transaction a shard, or that cannot be run again.
TEST(Merge, AKilledMergeIsRunAgain) {
  const TemporaryFolder f;
  std::vector<std::string> shards;
  for (int i = 0; i < 3; ++i) {
    shards.push_back(f / ("shard" + std::to_string(i)));
    Store store = Store::open_writer(shards.back());
    Recorder recorder(store, sample_run(), shards.back());
    for (int n = 0; n < 1500; ++n) recorder.record(sample_case(n * 3 + i, Verdict::kExplained));
  }
  const Content all = joined(f / "all", shards);
  for (unsigned i = 0; i < 10; ++i) {
    const std::string target = f / ("target" + std::to_string(i));
    testing::kill_after(2000 + 9000 * i, [&] { joined(target, shards); });
    EXPECT_EQ(joined(target, shards), all);
  }
}

}  // namespace
}  // namespace lockstep::dashboard
