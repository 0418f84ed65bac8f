// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/coverage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "dashboard/store/recorder.h"
#include "engine/values/error.h"
#include "generators/cases/labels.h"

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
}

// Catches: a requirement of the default plan that no case can meet, a label that the plan forgot.
TEST(Coverage, DefaultsNameEveryLabelAndNothingElse) {
  for (const auto& [name, least] : default_leasts()) {
    EXPECT_EQ(parse_least(concat(name, "=", least)), std::pair(name, least));
    EXPECT_GT(least, 0) << name;
  }
  for (const auto& label : generators::all_labels()) EXPECT_TRUE(default_leasts().contains(label)) << label;
}

// Catches: a mistyped requirement that is never met, or always.
TEST(Coverage, RefusesWhatIsNoRequirement) {
  for (const auto* text : {"", "uneven", "uneven=", "uneven=x", "uneven=-1", "=3", "nosuch=1", "aten::mm/T=1",
                           "aten::nosuch/S=1", "S/even/R=1", "/=1"})
    EXPECT_THROW(parse_least(text), Error) << text;
}

}  // namespace
}  // namespace lockstep::suites
