// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/coverage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "dashboard/store/recorder.h"
#include "engine/ops/resolve.h"
#include "engine/ops/rules/table.h"
#include "engine/values/error.h"
#include "engine/values/exit_code.h"
#include "generators/cases/labels.h"
#include "generators/cases/programs.h"
#include "generators/random/random_ops.h"
#include "oracle/program/schema.h"
#include "suites/harness/case_worker.h"
#include "suites/harness/run.h"

namespace lockstep::suites {
namespace {

struct TemporaryStore {
  std::string path = concat(std::filesystem::temp_directory_path().string(), "/coverage-", getpid(), ".db");
  dashboard::Store store = dashboard::Store::open_writer(path);
  ~TemporaryStore() { std::filesystem::remove(path); }
};

// Catches: a hit that counts for the wrong pair, a label that is never looked up, an unmet minimum that
// passes.
TEST(Coverage, CountsLabelsAndPairs) {
  TemporaryStore temporary;
  dashboard::Run run;
  run.id = "r";
  run.plan = "{}";
  {
    dashboard::Recorder recorder(temporary.store, run, "w");
    for (int i = 0; i < 3; ++i) {
      dashboard::CaseRow row;
      row.token = std::to_string(i);
      row.labels = {"uneven"};
      row.coverage = {{"aten::mm", "R+S", 2, "uneven", dashboard::Verdict::kEqual},
                      {"aten::add", "P", 1, "even", dashboard::Verdict::kEqual}};
      recorder.record(row);
    }
    recorder.flush();
  }
  const Leasts met = {{"uneven", 3},         {"aten::mm/S", 3},  {"aten::mm/R", 3}, {"S/mesh-2d", 3},
                      {"mesh-2d/uneven", 3}, {"aten::add/P", 3}, {"P/even", 3},     {"optimizer", 0}};
  EXPECT_EQ(text_of(lacking(temporary.store, "r", met)), "none");
  const Leasts unmet = {{"uneven", 4}, {"aten::mm/P", 1}, {"S/even", 1}, {"optimizer", 1}, {"aten::mm/S", 3}};
  EXPECT_EQ(text_of(lacking(temporary.store, "r", unmet)),
            "S/even 0 of 1, aten::mm/P 0 of 1, optimizer 0 of 1, uneven 3 of 4");
  EXPECT_EQ(lacking(temporary.store, "another run", met).size(), met.size() - 1);
  EXPECT_EQ(text_of(lacking(temporary.store, "r", {{"aten::mm", 3}, {"aten::add", 4}, {"aten::mv", 1}})),
            "aten::add 3 of 4, aten::mv 0 of 1");
}

// Catches: a requirement of the default plan that no case can meet, a label that the plan forgot.
TEST(Coverage, DefaultsNameEveryLabelAndNothingElse) {
  for (const auto& [name, least] : default_leasts()) {
    EXPECT_EQ(parse_least(concat(name, "=", least)), std::pair(name, least));
    EXPECT_GT(least, 0) << name;
  }
  for (const auto& label : generators::all_labels()) EXPECT_TRUE(default_leasts().contains(label)) << label;
}

// golden/coverage_search.txt: what is too rare for a default run, and how often ci/nightly's searches met it.
std::set<std::string> asked_of_searches() {
  std::ifstream in(LOCKSTEP_SEARCH_LIST);
  std::set<std::string> names;
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') names.insert(parse_least(line).first);
  return names;
}

// Catches: a label, statement, refusal or argument that no list names, so that nobody sees that no run meets
// it.
TEST(Coverage, WhatThereIsStandsInOneOfTheTwoLists) {
  const auto searched = asked_of_searches();
  for (const auto& name : all_names())
    EXPECT_NE(searched.contains(name), default_leasts().contains(name))
        << name << (searched.contains(name) ? " stands in both lists" : " stands in neither list")
        << "; `ci/coverage DB...` mends golden/coverage.txt and golden/coverage_search.txt";
  for (const auto& name : searched) EXPECT_FALSE(default_leasts().contains(name)) << name;
}

// Catches: a summary that counts what is lacking as met, or under another kind.
TEST(Coverage, TheSummaryCountsEachKind) {
  const Leasts demanded = {{"aten::mm[S0,R>S0]cheapest", 1},
                           {"aten::mm[S0,R>S0]moved", 1},
                           {"aten::mm", 1},
                           {"aten::sum(dtype)", 1},
                           {"aten::mm/S", 1},
                           {"uneven", 1},
                           {"statement item, backward", 1},
                           {"refused: due: view", 1}};
  EXPECT_EQ(
      text_of(demanded, {{"aten::mm[S0,R>S0]moved", 1, 0}, {"refused: due: view", 1, 0}}),
      "coverage: arguments 1 of 1, labels 1 of 1, ops 1 of 1, pairs 1 of 1, refusals 0 of 1, rows 1 of 2, "
      "statements 1 of 1");
}

// Catches: a rule that no run is asked for, so that nobody sees that no case calls its op.
TEST(Coverage, EveryRuleIsAskedForOrHasAReason) {
  std::set<std::string> asked;
  for (const auto& [name, least] : default_leasts()) {
    if (!is_op(name) || oracle::is_own(name)) continue;
    const auto* entry = resolve(oracle::find_operator(name).handle).entry;
    if (entry != nullptr) asked.insert(entry->name);
  }
  std::set<std::string> excused;
  for (const auto& [op, reason] : uncalled()) excused.emplace(op);
  for (const auto& entry : op_table())
    EXPECT_NE(asked.contains(entry.name), excused.contains(entry.name))
        << entry.name
        << (asked.contains(entry.name) ? " is asked for: it needs no reason"
                                       : " stands neither in golden/coverage.txt nor among the "
                                         "ops that have a reason not to (suites/harness/coverage.cpp)");
}

// Every overload that libtorch has, and to which a rule applies: its own or that of the op in place, of the
// list or of another overload. Out variants are written to by calls of the others.
std::vector<std::string> overloads_with_a_rule() {
  std::vector<std::string> found;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto handle = c10::Dispatcher::singleton().findSchema(name);
    if (!handle || !name.name.starts_with("aten::")) continue;
    const auto& resolved = resolve(*handle);
    if (resolved.entry != nullptr && !resolved.composite && resolved.variant != Variant::kOut)
      found.push_back(c10::toString(name));
  }
  return found;
}

// Catches: an overload of an op with a rule that no case calls, because another overload of it is called; a
// reason that holds no longer.
TEST(Coverage, EveryOverloadWithARuleIsGeneratedOrHasAReason) {
  std::set<std::string> made;
  for (const auto& op : generators::op_templates()) made.insert(op.op);
  for (const auto& op : generators::random_ops()) made.insert(op.name);
  for (const std::string op : {"aten::_fused_adam_", "aten::_fused_adamw_", "aten::_fused_sgd_"})
    made.insert({op, op + ".tensor_lr"});
  for (const auto& [name, least] : default_leasts())
    if (is_op(name)) made.insert(name);  // of a backward, or what a composite op is made of
  const auto overloads = overloads_with_a_rule();
  EXPECT_GT(overloads.size(), 700u);
  for (const auto& overload : overloads)
    EXPECT_NE(made.contains(overload), !why_not_generated(overload).empty())
        << overload
        << (made.contains(overload) ? " is generated: it needs no reason"
                                    : " has neither a template in generators/ops nor a reason in "
                                      "suites/harness/coverage.cpp");
}

// One case of the suite program that calls an op which no stock rule knows.
std::string renorm_corpus(const std::string& file) {
  oracle::Case c;
  c.mesh = DeviceMesh({2});
  c.program.inputs.push_back({.shape = {4, 4}, .values = {}});
  c.placements.push_back({{Shard{0}}, {}});
  c.program.calls.push_back({"aten::renorm", {oracle::Ref{0}, 2.0, int64_t{0}, 1.0}});
  std::ofstream(file) << oracle::to_token(c) << "\n";
  return file;
}

// Not tests: workers of an engine with a rule for renorm, and of one without.
TEST(Coverage, DISABLED_WorkerWithoutRule) {
  if (!called_to_pool()) GTEST_SKIP() << "not started as a worker";
  work_on(read_job(join_pool()));
}
TEST(Coverage, DISABLED_WorkerWithRule) {
  if (!called_to_pool()) GTEST_SKIP() << "not started as a worker";
  register_sharding("aten::renorm", [](const OpCall&) { return Rows{}; });
  work_on(read_job(join_pool()));
}

// Catches: an op whose rule was deleted, and which is then no longer asked for.
TEST(Coverage, AnOpThatLosesItsRuleIsLost) {
  TemporaryStore temporary;
  RunOptions options;
  options.suites = {"program"};
  options.cases = options.jobs = 1;
  options.db = temporary.path;
  options.corpus = {renorm_corpus(temporary.path + ".txt")};
  options.required = {{"aten::renorm", 1}};
  const RunListener quiet{[](auto&...) {}, [](int64_t, int64_t, double) {}, [](const std::string&) {}};
  const auto run_by = [&](const std::string& worker) {
    options.worker = {kThisProgram, "--gtest_filter=Coverage.DISABLED_" + worker,
                      "--gtest_also_run_disabled_tests"};
    return run(options, quiet);
  };
  const auto with = run_by("WorkerWithRule"), without = run_by("WorkerWithoutRule");
  std::filesystem::remove(options.corpus[0]);
  EXPECT_TRUE(with.codes.empty()) << (with.lacking.empty() ? "" : with.lacking[0]);
  EXPECT_TRUE(without.codes.contains(kNotMeasured));
  EXPECT_EQ(without.lacking, std::vector<std::string>{"aten::renorm 0 of 1"});
}

// Catches: an engine that stops refusing, or a generator of whose programs none is refused: nothing would
// lack.
TEST(Coverage, RefusalsAreMet) {
  TemporaryStore temporary;
  RunOptions options;
  options.suites = {"program"};
  options.cases = 300;
  options.jobs = 1;
  options.db = temporary.path;
  options.replay_kept = false;
  options.required = {{"refused: due: in place", 1}, {"refused: not built", 1}};
  options.worker = {kThisProgram, "--gtest_filter=Coverage.DISABLED_WorkerWithoutRule",
                    "--gtest_also_run_disabled_tests"};
  const RunListener quiet{[](auto&...) {}, [](int64_t, int64_t, double) {}, [](const std::string&) {}};
  EXPECT_EQ(run(options, quiet).lacking, std::vector<std::string>{"refused: not built 0 of 1"});
}

// Catches: a mistyped requirement that is never met, or always.
TEST(Coverage, RefusesWhatIsNoRequirement) {
  for (const auto* text :
       {"", "uneven", "uneven=", "uneven=x", "uneven=-1", "=3", "nosuch=1", "aten::mm/T=1",
        "aten::nosuch/S=1", "aten::nosuch=1", "aten::mm(self)=1", "aten::sum(nosuch)=1", "S/even/R=1", "/=1",
        "refused: left out=1", "statement nosuch=1", "aten::mm[S0,R>S0]never=1"})
    EXPECT_THROW(parse_least(text), Error) << text;
}

}  // namespace
}  // namespace lockstep::suites
