// SPDX-License-Identifier: Apache-2.0
// Is everything equal, and since when?
#include "dashboard/pages/pages.h"
#include "dashboard/report/frame.h"
#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

using html::grouped;
using html::plural;

namespace {

constexpr int64_t kMostCommits = 60;

struct Commit {
  std::string id, codes;
  int64_t time = 0, cases = 0, failures = 0, unstable = 0, runs = 0;
  bool unfinished = false;
  bool equal() const { return failures == 0 && unstable == 0 && cases > 0; }
};

// The newest first.
std::vector<Commit> commits(const Source& source) {
  std::vector<Commit> list;
  source.each(
      "SELECT commit_id, time, cases, failures, nondeterministic, unfinished, coalesce(exit_codes, ''), runs "
      "FROM v_commits ORDER BY position DESC",
      [&](const Row& r) {
        list.push_back({.id = r.text(0),
                        .codes = r.text(6),
                        .time = r.integer(1),
                        .cases = r.integer(2),
                        .failures = r.integer(3),
                        .unstable = r.integer(4),
                        .runs = r.integer(7),
                        .unfinished = r.integer(5) != 0});
      });
  return list;
}

// "since commit c0ffee (2026-01-02), for 4 commits": as long as it has been as it is now.
std::string since(const std::vector<Commit>& list) {
  size_t n = 1;
  while (n < list.size() && list[n].equal() == list[0].equal()) ++n;
  const Commit& first = list[n - 1];
  const std::string whole = n == list.size() ? ", as far back as this store goes" : "";
  return "since commit <code>" + html::cut(first.id, 16) + "</code> of " + html::time(first.time) + ", for " +
         plural(static_cast<int64_t>(n), "commit", "commits") + whole;
}

nlohmann::json trend_plot(const std::vector<Commit>& list) {
  nlohmann::json plot = {{"id", "trend"}, {"kind", "trend"}};
  for (const char* key : {"labels", "failures", "unstable", "cases"}) plot[key] = nlohmann::json::array();
  for (size_t i = std::min<size_t>(list.size(), kMostCommits); i-- > 0;) {
    plot["labels"].push_back(list[i].id.substr(0, 12));
    plot["failures"].push_back(list[i].failures);
    plot["unstable"].push_back(list[i].unstable);
    plot["cases"].push_back(list[i].cases);
  }
  return plot;
}

std::string commit_table(const Source& source, const std::vector<Commit>& list) {
  html::Table table("Commits, the newest first", {{"Commit", "key"},
                                                  {"First measured"},
                                                  {"Outcome"},
                                                  {"Cases", "num"},
                                                  {"Failures", "num"},
                                                  {"Not repeatable", "num"},
                                                  {"Exit codes"},
                                                  {"Runs", "num"}});
  for (size_t i = 0; i < list.size() && i < kMostCommits; ++i) {
    const Commit& c = list[i];
    const std::string outcome = c.cases == 0 ? "<span class=\"quiet\">no case</span>"
                                             : html::yes_no(c.equal(), "equal or explained", "red");
    table.row({"<code>" + html::cut(c.id, 16) + "</code>", html::time(c.time),
               outcome + (c.unfinished ? " <span class=\"quiet\">unfinished</span>" : ""), grouped(c.cases),
               grouped(c.failures), grouped(c.unstable), html::escape(c.codes),
               source.link(grouped(c.runs), "runs", {{"commit", c.id}})});
  }
  const auto left = static_cast<int64_t>(list.size()) - table.rows();
  return table.html() +
         (left > 0 ? "<p class=\"quiet\">" + grouped(left) + " older commits are in the view v_commits.</p>"
                   : "");
}

std::string headline(const std::vector<Commit>& list) {
  if (list.empty()) return "Nothing was recorded.";
  const Commit& newest = list[0];
  if (newest.failures > 0) return "No: " + plural(newest.failures, "case fails.", "cases fail.");
  if (newest.unstable > 0)
    return "No: " +
           plural(newest.unstable, "case does not repeat itself.", "cases do not repeat themselves.");
  if (newest.cases == 0) return "Not measured: the newest commit has no case.";
  return newest.unfinished ? "Yes, so far: every case is equal or explained."
                           : "Yes: every case is equal or explained.";
}

std::string status(const std::vector<Commit>& list) {
  if (list.empty() || list[0].cases == 0) return "warn";
  if (!list[0].equal()) return "bad";
  return list[0].unfinished ? "warn" : "ok";
}

}  // namespace

Page page_overview(const View& view) {
  const std::vector<Commit> list = commits(view.source);
  Page page{.question = "Is it equal, and since when?",
            .headline = headline(list),
            .status = status(list),
            .words = list.empty() ? "<code>lockstep run --db …</code> fills this store."
                                  : "It has been so " + since(list) + "."};
  if (list.empty()) return page;
  view.charts["plots"].push_back(trend_plot(list));
  const std::string newest = newest_judgement(view.source);
  page.body = render_hero(view.source, false);
  page.body +=
      section("judgement", "What the gate decided last",
              render_judgement(view.source, view.charts) +
                  (newest.empty() ? "" : "<p>" + view.source.link("All judgements", "gate") + "</p>"));
  page.body +=
      section("verdicts", "What ran, and how it came out", render_verdicts(view.source, view.charts));
  page.body += section("buckets", "Failures by bucket", render_buckets(view.source, view.charts));
  page.body +=
      section("commits", "Commit by commit",
              html::figure("trend", "Failures and cases by commit") + commit_table(view.source, list));
  return page;
}

}  // namespace lockstep::dashboard
