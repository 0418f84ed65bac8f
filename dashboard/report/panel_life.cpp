// SPDX-License-Identifier: Apache-2.0
// Buckets through the commits of the store, what the gate decided last, and where logged runs part.
#include <map>

#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

using html::grouped;
using html::plural;

namespace {

constexpr int64_t kMostBuckets = 200;
constexpr int64_t kMostFindings = 200;

// What each state means, for the pointer and for those who ask.
std::string state_words(std::string_view state) {
  static const std::map<std::string_view, std::string_view> kWords = {
      {"new", "fails at the newest commit, and never before"},
      {"regressed", "fails again, after three clean commits"},
      {"active", "fails at the newest commit"},
      {"incubating", "does not fail now; fewer than three clean commits say so"},
      {"fixed", "three clean commits or more"},
      {"muted", "the policy says not to look"}};
  const auto found = kWords.find(state);
  return found == kWords.end() ? "" : std::string(found->second);
}

std::string effect_chip(const std::string& effect) {
  const bool block = effect == "block", warn = effect == "warn";
  return std::string("<span class=\"state ") +
         (block  ? "s-new"
          : warn ? "s-active"
                 : "s-fixed") +
         "\">" +
         (block  ? "✗ blocks"
          : warn ? "! warns"
                 : "· note") +
         "</span>";
}

std::string findings(const Source& source, const std::string& judgement) {
  html::Table table("Findings",
                    {{"Rule", "key"}, {"Effect"}, {"Subject"}, {"Expected"}, {"Found"}, {"Detail"}});
  int64_t index = 0;
  source.each(
      "SELECT rule, effect, subject, expected, got, detail, code, replay FROM v_findings WHERE judgement = ? "
      "ORDER BY CASE effect WHEN 'block' THEN 0 WHEN 'warn' THEN 1 ELSE 2 END, seq LIMIT " +
          std::to_string(kMostFindings),
      [&](const Row& r) {
        const std::string id = "finding-" + judgement + "-" + std::to_string(index++);
        const std::string replay = r.text(7).empty() ? "" : html::code_block(id, "Replay", r.text(7));
        table.row({r.html(0), effect_chip(r.text(1)) + " <span class=\"quiet\">code " + r.html(6) + "</span>",
                   "<span class=\"wrap\">" + html::cut(r.text(2), 200) + "</span>", html::cut(r.text(3), 200),
                   html::cut(r.text(4), 200), html::cut(r.text(5), 400) + replay});
      },
      {judgement});
  return table.html_or("It found nothing to say.", "good");
}

std::string series_verdicts(const Source& source, const std::string& judgement) {
  const html::Table table =
      series_verdict_table(source, "Series that the gate compared", "Series",
                           "WHERE judgement = ? ORDER BY verdict IN ('same', 'faster'), series LIMIT 500",
                           judgement, [&](const Row& r) {
                             return source.link(html::cut(r.text(kSeriesColumn), 120), "series",
                                                {{"name", r.text(kSeriesColumn)}});
                           });
  return table.rows() == 0 ? "" : "<h3>Series that it compared</h3>" + table.html();
}

}  // namespace

std::string state_chip(const std::string& state) {
  const std::string words = state_words(state);
  if (words.empty()) return html::escape(state);
  return "<span class=\"state s-" + state + "\" title=\"" + words + "\">" + state + "</span>";
}

std::string bucket_table(const Source& source, const std::string& state) {
  html::Table table("Buckets", {{"Bucket", "key"},
                                {"State"},
                                {"Verdict"},
                                {"Cases", "num"},
                                {"Commits", "num"},
                                {"First seen"},
                                {"Last seen"},
                                {"Owner"}});
  const auto commit = [](const Row& r, int column) {
    return "<code>" + html::cut(r.text(column), 12) + "</code> <span class=\"quiet\">" +
           html::time(r.integer(column + 1)) + "</span>";
  };
  source.each(
      R"(SELECT b.bucket, b.state, b.verdict, b.op, b.placement, b.cases, b.commits, b.first_commit,
      b.first_time, b.last_commit, b.last_time, b.owner, b.reason, b.expires FROM v_buckets b
      WHERE ?1 = '' OR b.state = ?1
      ORDER BY CASE b.state WHEN 'new' THEN 0 WHEN 'regressed' THEN 1 WHEN 'active' THEN 2
        WHEN 'incubating' THEN 3 WHEN 'muted' THEN 4 ELSE 5 END, b.cases DESC, b.bucket LIMIT )" +
          std::to_string(kMostBuckets),
      [&](const Row& r) {
        const std::string muted = r.null(11) ? "–"
                                             : r.html(11) + "<br><span class=\"quiet\">" + r.html(12) +
                                                   ", until " + r.html(13) + "</span>";
        table.row({source.link("<code class=\"wrap\">" + html::cut(r.text(0), 160) + "</code>", "bucket",
                               {{"id", content_id(r.text(0))}}),
                   state_chip(r.text(1)), html::verdict_chip(r.text(2)), r.grouped(5), r.grouped(6),
                   commit(r, 7), commit(r, 9), muted});
      },
      {state});
  return table.html();
}

std::string render_buckets(const Source& source, nlohmann::json&) {
  std::string counts;
  int64_t all = 0;
  source.each("SELECT state, count(*) FROM v_buckets GROUP BY state ORDER BY 2 DESC, 1", [&](const Row& r) {
    all += r.integer(1);
    counts += "<li>" + source.link(state_chip(r.text(0)), "failures", {{"state", r.text(0)}}) + " " +
              r.grouped(1) + "</li>";
  });
  if (all == 0) return html::notice("No case ever failed in this store.", "good");
  return "<p>A bucket is one signature: law, verdict, op, placement, dtype. Its life runs over the commits "
         "that this store knows; a commit that did not replay its case says nothing.</p><ul "
         "class=\"legend\">" +
         counts + "</ul>" + bucket_table(source, "");
}

std::string judgement_body(const Source& source, const std::string& judgement) {
  std::string s;
  source.each(
      "SELECT time, baseline, candidate, commit_id, exit_code, codes, blocking, warnings FROM v_judgements "
      "WHERE judgement = ?",
      [&](const Row& r) {
        s += "<p>" + html::yes_no(r.integer(4) == 0, "passed", "red") + ", exit code " + r.grouped(4) +
             " <span class=\"quiet\">(all that apply: " + r.html(5) + ")</span> · " +
             plural(r.integer(6), "finding blocks", "findings block") + ", " + grouped(r.integer(7)) +
             " warn · <code>" + html::cut(r.text(2), 120) + "</code> against <code>" +
             html::cut(r.text(1), 120) + "</code> · commit <code>" + html::cut(r.text(3), 16) + "</code> · " +
             html::time(r.integer(0)) + "</p>";
      },
      {judgement});
  return s + findings(source, judgement) + series_verdicts(source, judgement);
}

std::string newest_judgement(const Source& source) {
  return source.text("SELECT judgement FROM v_judgements ORDER BY time DESC, judgement DESC LIMIT 1");
}

std::string render_judgement(const Source& source, nlohmann::json&) {
  const std::string newest = newest_judgement(source);
  if (newest.empty())
    return html::notice(
        "No judgement is stored. <code>lockstep gate --baseline main.db --candidate run.db</code> makes "
        "one.");
  return judgement_body(source, newest);
}

std::string render_divergence(const Source& source, nlohmann::json&) {
  html::Table table("Where logged runs part", {{"Run", "key"},
                                               {"Against"},
                                               {"Compared", "num"},
                                               {"Step", "num"},
                                               {"Op"},
                                               {"Rank", "num"},
                                               {"What"},
                                               {"Expected"},
                                               {"Got"}});
  source.each(
      "SELECT curve, reference, compared, step, position, op, rank, what, expected, got FROM v_divergence "
      "WHERE run_id IN shown ORDER BY step IS NULL, step, curve LIMIT 200",
      [&](const Row& r) {
        const bool nowhere = r.null(3);
        table.row({html::cut(r.text(0), 120), html::cut(r.text(1), 120), r.grouped(2),
                   nowhere ? html::yes_no(true, "nowhere", "") : r.grouped(3),
                   nowhere
                       ? "–"
                       : html::cut(r.text(5), 80) + " <span class=\"quiet\">at " + r.grouped(4) + "</span>",
                   nowhere || r.integer(6) < 0 ? "–" : r.grouped(6), html::cut(r.text(7), 40),
                   "<code class=\"wrap\">" + html::cut(r.text(8), 80) + "</code>",
                   "<code class=\"wrap\">" + html::cut(r.text(9), 80) + "</code>"});
      });
  return table.html_or(
      "No run logged the digests of its ops. <code>lockstep curves import</code> reads such logs, and says "
      "which op of which step first differs.");
}

}  // namespace lockstep::dashboard
