// SPDX-License-Identifier: Apache-2.0
// Changes of level on the page of a series.
#include "dashboard/report/panels.h"
#include "dashboard/store/testing.h"

namespace lockstep::dashboard {
namespace {

using testing::sample_run;
using testing::TemporaryFolder;

// One run a minute: `values` on one machine, and between them another one's, ten times as slow.
// `shown` renders the store.
template <class Shown>
std::string levels_of(const std::vector<double>& values, Shown shown) {
  const TemporaryFolder f;
  Store store = Store::open_writer(f / "a.db");
  for (size_t i = 0; i < values.size(); ++i) {
    for (const bool other : {true, false}) {
      Run run = sample_run("run " + std::to_string(i) + (other ? " other" : ""));
      run.commit = "<commit " + std::to_string(i) + ">";
      run.cores = other ? 64 : 2;
      run.started_ms += 60'000 * static_cast<int64_t>(i) + (other ? 0 : 1000);
      Recorder recorder(store, run, "w");
      recorder.record(Measurement{"<step>", "<us>", other && i > 8 ? 1000 : values[i]});
      recorder.record(Measurement{"calm", "us", 7});
      if (i > 20) recorder.record(Measurement{"young", "us", values[i]});
      recorder.finish("finished", 0);
    }
  }
  return shown(Source(store.database()));
}

std::string levels_of(const std::vector<double>& values) {
  return levels_of(values, [](const Source& source) {
    nlohmann::json charts;
    return body(panel("one-series-levels"), source, charts, {"<step>"});
  });
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

// The report finds what the page of a series finds, for every series. Catches: a change of one series under
// the name of another, names that are markup, and series too short to say anything counted as calm.
TEST(Levels, TheReportHasThoseOfEverySeries) {
  std::vector<double> values;
  for (int i = 0; i < 24; ++i) values.push_back((i < 12 ? 100 : 115) + i % 3);
  const std::string html = levels_of(values, [](const Source& source) {
    nlohmann::json charts;
    return body(panel("levels"), source, charts);
  });
  EXPECT_NE(html.find("&lt;step&gt;"), std::string::npos) << html;
  EXPECT_EQ(html.find("<step>"), std::string::npos) << html;
  EXPECT_NE(html.find("<code>&lt;commit 12&gt;</code>"), std::string::npos) << html;
  EXPECT_NE(html.find("+14.9 %"), std::string::npos) << html;
  EXPECT_EQ(html.find("calm"), std::string::npos) << html;
  EXPECT_NE(html.find("2 series were looked at; 1 has fewer than 10 runs"), std::string::npos) << html;
}

}  // namespace
}  // namespace lockstep::dashboard
