// SPDX-License-Identifier: Apache-2.0
// Changes of level on the page of a series.
#include "dashboard/panels.h"
#include "dashboard/testing.h"

namespace lockstep::dashboard {
namespace {

using testing::sample_run;
using testing::TemporaryFolder;

// One run a minute: `values` on one machine, and between them another one's, ten times as slow.
std::string levels_of(const std::vector<double>& values) {
  const TemporaryFolder f;
  Store store = Store::open_writer(f / "a.db");
  for (size_t i = 0; i < values.size(); ++i) {
    for (const bool other : {true, false}) {
      Run run = sample_run("run " + std::to_string(i) + (other ? " other" : ""));
      run.commit = "<commit " + std::to_string(i) + ">";
      run.cores = other ? 64 : 2;
      run.started_ms += 60'000 * static_cast<int64_t>(i) + (other ? 0 : 1000);
      Recorder recorder(store, run, "w");
      recorder.record(Measurement{"step", "<us>", other && i > 8 ? 1000 : values[i]});
      recorder.finish("finished", 0);
    }
  }
  return series_levels(Source(store.database()), "step", "<us>");
}

// Catches: a change under the wrong commit, of another machine, or with names that are markup.
TEST(Levels, NameTheCommitThatTheyBeginWith) {
  std::vector<double> values;
  for (int i = 0; i < 24; ++i) values.push_back((i < 12 ? 100 : 115) + i % 3);
  const std::string html = levels_of(values);
  EXPECT_NE(html.find("<code>&lt;commit 12&gt;</code>"), std::string::npos) << html;
  EXPECT_NE(html.find("+14.9 %"), std::string::npos) << html;
  EXPECT_EQ(html.find("commit 9&"), std::string::npos) << html;
  EXPECT_EQ(html.find("<us>"), std::string::npos) << html;
}

// Catches: a level seen in noise, and silence about what is too new.
TEST(Levels, SayWhatTheyCannotSee) {
  std::vector<double> values;
  for (int i = 0; i < 24; ++i) values.push_back(100 + i % 3);
  const std::string html = levels_of(values);
  EXPECT_NE(html.find("No change of level"), std::string::npos) << html;
  EXPECT_NE(html.find("newest 4 is not seen yet"), std::string::npos) << html;
}

}  // namespace
}  // namespace lockstep::dashboard
