// SPDX-License-Identifier: Apache-2.0
// The page holds what the store holds, whatever the names; and a browser draws it without an error.
#include "dashboard/report/report.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>
#include <regex>

#include "dashboard/report/html.h"
#include "dashboard/store/testing.h"
#include "dashboard/store/testing_fill.h"
#include "dashboard/store/testing_process.h"

namespace lockstep::dashboard {
namespace {

using testing::error_of;
using testing::fill;
using testing::sample_case;
using testing::sample_run;
using testing::TemporaryFolder;
namespace fs = std::filesystem;

bool has(const std::string& page, const std::string& text) {
  return page.find(text) != std::string::npos;
}

// The page without the parts that are ours: style and scripts. Fails the test if a script element is not
// closed.
std::string without_scripts(std::string page) {
  for (const std::string tag : {"script", "style"}) {
    for (size_t from; (from = page.find("<" + tag)) != std::string::npos;) {
      const size_t to = page.find("</" + tag + ">", from);
      if (to == std::string::npos) ADD_FAILURE() << tag << " is not closed";
      page.erase(from, to == std::string::npos ? to : to - from + tag.size() + 3);
    }
  }
  return page;
}

// Catches: a panel that prints a value unescaped, or lets it end a script, an attribute or a comment.
TEST(Report, HostileNamesStayText) {
  for (const std::string& name : testing::hostile_names()) {
    const TemporaryFolder folder;
    Store store = Store::open_writer(folder / "a.db");
    fill(store, name);
    const std::string page = render_report(store), text = without_scripts(page);
    EXPECT_FALSE(has(text, "<script")) << name;
    EXPECT_FALSE(has(text, "<img")) << name;
    EXPECT_FALSE(has(text, "onmouseover='")) << name;
    EXPECT_FALSE(has(text, "<!--")) << name;
    EXPECT_EQ(page.find('\0'), std::string::npos);
    EXPECT_TRUE(has(text, html::escape(name))) << name;
    EXPECT_EQ(html::escape(html::escape(name)).find('<'), std::string::npos);
  }
}

// Catches: a page that holds every step of a long run, or thins the step away at which a curve leaves.
TEST(Report, LongCurvesAreThinnedInTheChartOnly) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  Recorder recorder(store, sample_run(), "w");
  for (bool reference : {true, false}) {
    const int64_t id = recorder.open_curve(
        {.name = reference ? "r" : "c", .model = "m", .dtype = "f32", .reference = reference});
    for (int64_t step = 0; step < 20'000; ++step)
      recorder.record(id,
                      {.step = step, .loss_bits = reference || step < 12'346 ? 0x3f800000u : 0x3f800001u});
  }
  recorder.finish("finished", 1);
  const std::string page = render_report(store);
  EXPECT_TRUE(has(page, "12,346 of 20,000"));
  EXPECT_TRUE(has(page, "\"first\":12346"));
  const size_t from = page.find("\"diffStep\":["), to = page.find(']', from);
  ASSERT_NE(from, std::string::npos);
  const std::string drawn = page.substr(from, to - from);
  EXPECT_TRUE(has(drawn, ",12346,"));
  EXPECT_EQ(std::count(drawn.begin(), drawn.end(), ','), 4000);  // of 4000 and the one
}

// One step of a model whose first values alone followed a policy, and of one with numbers of its own.
void write_policies(Store& store, bool varied) {
  Recorder recorder(store, sample_run(), "w");
  const auto add = [&](const char* model, const char* variant, const char* policy, bool reference) {
    const int64_t id = recorder.open_curve({.name = reference ? "one device" : policy,
                                            .model = model,
                                            .variant = variant,
                                            .mesh = reference ? "" : "tp:2",
                                            .policy = policy,
                                            .dtype = "f32",
                                            .reference = reference});
    recorder.record(id, {.step = 1, .loss_bits = 0x3f800000u});
  };
  add("m", "init+dropout", "single-device", true);
  add("m", "init+dropout", "single-device", false);
  if (varied) add("m", "init", "offset-based", false);
  add("m, indexed numbers", "init+dropout", "indexed", true);
  add("m, indexed numbers", "init+dropout", "indexed", false);
  recorder.finish("finished", 0);
}

// Catches: a figure without its stock curves, one that loses the indexed column to a model of its own, one
// for runs that varied nothing.
TEST(Report, PoliciesStandSideBySide) {
  const TemporaryFolder folder;
  Store same = Store::open_writer(folder / "same.db"), store = Store::open_writer(folder / "a.db");
  write_policies(same, false);
  EXPECT_FALSE(has(render_report(same), "policies-0"));
  write_policies(store, true);
  const std::string page = render_report(store);
  EXPECT_TRUE(has(page, "First values alone: loss"));
  EXPECT_FALSE(has(page, "Dropout alone"));
  EXPECT_TRUE(has(page,
                  "\"policies\":[[{\"beside\":1,\"group\":0,\"id\":\"policies-0-0\"},"
                  "{\"group\":1,\"id\":\"policies-0-1\"},{\"group\":2,\"id\":\"policies-0-2\"}]]"));
  EXPECT_TRUE(has(page, "Distance from its own one device"));
}

// Catches: a golden counted under another state, twice for two runs, or lost; a run without them that says
// so.
TEST(Report, GoldensByState) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  EXPECT_TRUE(has(render_report(store), "The suite golden did not run"));
  for (const char* id : {"one", "two"}) {
    Recorder recorder(store, sample_run(id), id);
    for (int64_t i = 0; i < 3; ++i) {
      CaseRow row = sample_case(i, Verdict::kEqual);
      row.labels = {i == 0 ? "golden published: rand f32" : "golden not recorded: <b> f32"};
      recorder.record(row);
    }
    recorder.finish("finished", 0);
  }
  const std::string page = render_report(store);
  EXPECT_TRUE(has(page, "<b>0</b> were compared with what stock libtorch drew"));
  EXPECT_TRUE(has(page, "<b>1</b> with values that others published"));
  EXPECT_TRUE(has(page, "<b>2</b> are not recorded"));
  EXPECT_TRUE(has(page, "&lt;b&gt; f32"));
  EXPECT_FALSE(has(page, "golden not recorded:"));
}

// Catches: UTF-8 that is broken by escaping, or let through where it is invalid, overlong or a surrogate.
TEST(Html, EscapeKeepsTextAndNothingElse) {
  EXPECT_EQ(html::escape("a<b>&\"'\n\t"), "a&lt;b&gt;&amp;&quot;&#39;\n\t");
  EXPECT_EQ(html::escape("\xc3\xa4\xe2\x89\xa0\xf0\x9f\x98\x80"), "\xc3\xa4\xe2\x89\xa0\xf0\x9f\x98\x80");
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(html::escape("\xc0\xbc"), bad + bad);
  EXPECT_EQ(html::escape("\xed\xa0\x80"), bad + bad + bad);
  EXPECT_EQ(html::escape("\xf4\x90\x80\x80"), bad + bad + bad + bad);
  EXPECT_EQ(html::escape("\xe2\x89"), bad + bad);
  EXPECT_EQ(html::escape(std::string_view("\0\x7f", 2)), bad + bad);
}

// Catches: a wrong separator or unit in what people read.
TEST(Html, NumbersForPeople) {
  EXPECT_EQ(html::grouped(0), "0");
  EXPECT_EQ(html::grouped(999), "999");
  EXPECT_EQ(html::grouped(1234567), "1,234,567");
  EXPECT_EQ(html::grouped(-123456), "-123,456");
  EXPECT_EQ(html::brief(0.0000620), "6.2e-05");
  EXPECT_EQ(html::brief(12345.6), "12,346");
  EXPECT_EQ(html::bytes(0), "0 B");
  EXPECT_EQ(html::bytes(1536), "1.5 KiB");
  EXPECT_EQ(html::duration(0.0014), "1.4 ms");
  EXPECT_EQ(html::duration(65), "1 min 5 s");
  EXPECT_EQ(html::duration(7265), "2 h 1 min");
  EXPECT_EQ(html::plural(1, "case", "cases"), "1 case");
  EXPECT_EQ(html::time(0), "1970-01-01 00:00 UTC");
}

// Catches: a panel that fails or lies where there is nothing.
TEST(Report, AnEmptyStoreSaysSo) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  EXPECT_TRUE(has(render_report(store), "Nothing was recorded."));
  Recorder(store, sample_run(), "w").finish("finished", 5);
  const std::string page = render_report(store);
  EXPECT_TRUE(has(page, "Not everything planned was measured."));
  EXPECT_FALSE(has(page, "Every case is equal"));
}

// Catches: a headline that hides the worst thing, older builds mixed into the numbers, a page that changes by
// itself.
TEST(Report, TheHeadlineIsTheWorstThing) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  dashboard::Run old = sample_run("old");
  old.build_hash = "old";
  old.started_ms -= 1000;
  Recorder(store, old, "w").record(sample_case(1, Verdict::kDifferent));
  dashboard::Run run = sample_run();
  run.plan = "{}";
  Recorder recorder(store, run, "w");
  recorder.record(sample_case(1));
  recorder.finish("finished", 0);
  EXPECT_TRUE(has(render_report(store), "Every case is equal or explained."));
  EXPECT_EQ(render_report(store), render_report(store));
  recorder.record(PlantedFault{.name = "f", .found = false});
  recorder.flush();
  EXPECT_TRUE(has(render_report(store), "1 planted fault survived."));
  recorder.record(sample_case(2, Verdict::kDifferent));
  const std::string page = render_report(store);
  EXPECT_TRUE(has(page, "1 case fails."));
  EXPECT_TRUE(has(page, "lockstep replay &#39;v1:case-2&#39;"));
  CaseRow blind = sample_case(4, Verdict::kDifferent);
  blind.self_check = true;
  recorder.record(blind);
  recorder.flush();
  EXPECT_TRUE(has(render_report(store), "1 self-check of the harness fails."));
  recorder.record(sample_case(3, Verdict::kBroken));
  EXPECT_TRUE(has(render_report(store), "The harness itself failed in 1 case."));
}

// Catches: the colour of a difference in a bar of self-checks that all came out as they should.
TEST(Report, WhatDidNotHappenHasNoColour) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  Recorder recorder(store, sample_run(), "w");
  CaseRow check = sample_case(1);
  check.self_check = true;
  recorder.record(check);
  recorder.flush();
  EXPECT_FALSE(has(render_report(store), "<span class=\"v-different\""));
  CaseRow blind = sample_case(2, Verdict::kDifferent);
  blind.self_check = true;
  recorder.record(blind);
  recorder.flush();
  EXPECT_TRUE(has(render_report(store), "<span class=\"v-different\""));
}

// Catches: anything that the page would load.
TEST(Report, AsksTheNetworkForNothing) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  fill(store, "plain");
  const std::string page = render_report(store), text = without_scripts(page);
  EXPECT_TRUE(has(page, "default-src 'none'"));
  EXPECT_FALSE(has(text, "src="));
  EXPECT_FALSE(has(text, "http:"));
  EXPECT_FALSE(has(text, "https:"));
  EXPECT_FALSE(has(text, "<link"));
}

// Catches: a half-written page, a temporary file left behind, a wrong kind of error.
TEST(Report, IsWrittenWholeOrNotAtAll) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  fill(store, "plain");
  write_report(store, folder / "r.html");
  EXPECT_EQ(testing::read_file(folder / "r.html"), render_report(store));
  EXPECT_EQ(error_of([&] { write_report(store, folder / "none/r.html"); }), StoreError::Kind::kUnreadable);
  EXPECT_EQ(testing::in_child([&] {
              signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{5000, 5000};
              setrlimit(RLIMIT_FSIZE, &limit);
              return error_of([&] { write_report(store, folder / "r.html"); }) == StoreError::Kind::kFull ? 0
                                                                                                          : 1;
            }),
            0);
  EXPECT_EQ(testing::read_file(folder / "r.html"), render_report(store));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()), 2);
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) text.append(buffer, n);
  pclose(pipe);
  return text;
}

// The page after its scripts; nothing without a browser.
std::optional<std::string> drawn(const TemporaryFolder& folder, const std::string& page,
                                 const std::string& options) {
  const std::string browser =
      output_of("command -v chromium || command -v chromium-browser || command -v google-chrome");
  if (browser.empty()) return std::nullopt;
  return output_of(
      browser.substr(0, browser.find('\n')) +
      " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --virtual-time-budget=3000 "
      "--user-data-dir=" +
      (folder / "profile") + " " + options + " --dump-dom 'file://" + (folder / page) + "' 2>/dev/null");
}

// Catches: a script error, a chart that is not drawn, at each width and in each colour scheme.
TEST(Report, ABrowserDrawsIt) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  fill(store, "plain </script>");
  write_report(store, folder / "r.html");
  for (const char* options :
       {"--window-size=390,800", "--window-size=1360,900 --blink-settings=preferredColorScheme=0"}) {
    const auto dom = drawn(folder, "r.html", options);
    if (!dom) GTEST_SKIP() << "no chromium here; install it to test the page in a browser";
    EXPECT_TRUE(has(*dom, "data-ready=\"1\"")) << "the script did not end";
    EXPECT_TRUE(has(*dom, "data-errors=\"0\""));
    EXPECT_TRUE(has(*dom, "data-charts=\"3\""));
  }
}

// What stands between the tags, a blank in place of each.
std::string text_of(const std::string& markup) {
  return std::regex_replace(std::regex_replace(markup, std::regex("<[^>]*>"), " "), std::regex("\\s+"), " ");
}

// Models' padding by ranks, of two runs.
void write_paddings(Store& store) {
  for (const auto& [run, more] : {std::pair("a", 0.0), std::pair("b", 5.0)}) {
    auto row = sample_run(run);
    row.started_ms += run[0];
    Recorder recorder(store, row, "x");
    for (const int ranks : {8, 64, 1024}) {
      const std::string name = " in blocks of 16 rows on " + std::to_string(ranks) + " ranks: padding";
      recorder.record(Measurement{"</script>" + name, "%", more + ranks});
      if (ranks != 8) recorder.record(Measurement{"zero" + name, "%", 0});
    }
  }
}

// Catches: a figure of padding that is not drawn, or of an older run; a number in another's column.
TEST(Report, ABrowserDrawsThePadding) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  write_paddings(store);
  write_report(store, folder / "r.html");
  const std::string page = render_report(store);
  EXPECT_TRUE(has(page, "{\"name\":\"zero\",\"values\":[null,0.0,0.0]}"));
  EXPECT_TRUE(has(page, "\"labels\":[8,64,1024]"));
  EXPECT_TRUE(has(page, "\"values\":[13.0,69.0,1029.0]"));
  const auto row = page.find("Padding of published models");
  ASSERT_NE(row, std::string::npos);
  const std::string table = text_of(page.substr(row));
  EXPECT_TRUE(has(table, " zero 16 – – – 0 – – – 0 ")) << table.substr(0, 800);
  EXPECT_TRUE(has(table, " 16 13 – – 69 – – – 1,029 ")) << table.substr(0, 800);
  EXPECT_FALSE(has(page, "No series was measured"));
  const auto dom = drawn(folder, "r.html", "");
  if (!dom) GTEST_SKIP() << "no chromium here; install it to test the page in a browser";
  EXPECT_TRUE(has(*dom, "data-errors=\"0\""));
  EXPECT_TRUE(has(*dom, "data-charts=\"1\""));  // which no series repeats
}

// Catches: a column of the policies that is not drawn, the whole page where one part was asked for.
TEST(Report, ABrowserDrawsThePolicies) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  write_policies(store, true);
  write_report(store, folder / "r.html");
  const auto dom = drawn(folder, "r.html#only=policies-0", "");
  if (!dom) GTEST_SKIP() << "no chromium here; install it to test the page in a browser";
  EXPECT_TRUE(has(*dom, "data-errors=\"0\""));
  EXPECT_TRUE(has(*dom, "data-only=\"policies-0\""));
  EXPECT_TRUE(
      has(*dom, "data-charts=\"12\""));  // two for each of three groups, two for each of three columns
}

}  // namespace
}  // namespace lockstep::dashboard
