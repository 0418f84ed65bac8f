// SPDX-License-Identifier: Apache-2.0
// What fails, since when, and how to repeat it: all buckets, and one.
#include "dashboard/pages/pages.h"
#include "dashboard/report/frame.h"
#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

using html::grouped;
using html::plural;

namespace {

constexpr int64_t kMostCases = 50;

// The bucket with this id; "" if there is none.
std::string bucket_of(const Source& source, const std::string& id) {
  std::string found;
  source.each("SELECT bucket FROM v_buckets", [&](const Row& r) {
    if (content_id(r.text(0)) == id) found = r.text(0);
  });
  return found;
}

// Commit by commit: did it fail, did it pass its replay, or does the commit say nothing?
std::string history(const Source& source, const std::string& bucket) {
  html::Table table("History by commit",
                    {{"Commit", "key"}, {"First measured"}, {"Bucket"}, {"Cases", "num"}});
  source.each(
      R"(WITH failing AS (SELECT r.commit_id, count(DISTINCT c.key) AS cases FROM run r CROSS JOIN cases c
        ON c.run = r.id AND c.bucket = ?1 AND c.bucket <> '' AND NOT c.self_check GROUP BY r.commit_id),
      clean AS (SELECT DISTINCT r.commit_id FROM v_replayed y JOIN run r ON r.id = y.run_id
        WHERE y.bucket = ?1 AND y.now <> ?1)
      SELECT v.commit_id, v.time, coalesce(f.cases, 0), k.commit_id IS NOT NULL FROM v_commits v
      LEFT JOIN failing f ON f.commit_id = v.commit_id LEFT JOIN clean k ON k.commit_id = v.commit_id
      ORDER BY v.position DESC LIMIT 200)",
      [&](const Row& r) {
        const std::string says = r.integer(2) > 0    ? html::yes_no(false, "", "fails")
                                 : r.integer(3) != 0 ? html::yes_no(true, "passed its replay", "")
                                                     : "<span class=\"quiet\">· not replayed</span>";
        table.row(
            {"<code>" + html::cut(r.text(0), 16) + "</code>", html::time(r.integer(1)), says, r.grouped(2)});
      },
      {bucket});
  return table.html();
}

std::string cases_of(const Source& source, const std::string& bucket) {
  html::Table table("Cases of the bucket", {{"Case", "key"}, {"Run"}, {"Mesh"}, {"Dtype"}});
  source.each(
      "SELECT c.token, hex(c.key), r.name, c.mesh, c.dtype FROM run r CROSS JOIN cases c ON c.run = r.id AND "
      "c.bucket = ? AND c.bucket <> '' ORDER BY r.id DESC, length(c.token) LIMIT " +
          std::to_string(kMostCases),
      [&](const Row& r) {
        table.row({source.link("<code class=\"wrap\">" + html::cut(r.text(0), 200) + "</code>", "case",
                               {{"key", r.text(1)}}),
                   html::cut(r.text(2), 60), html::escape(r.text(3)), html::escape(r.text(4))});
      },
      {bucket});
  return table.html();
}

}  // namespace

Page page_failures(const View& view) {
  const std::string state =
      view.query.one_of("state", {"", "new", "regressed", "active", "incubating", "fixed", "muted"});
  const int64_t failing =
      view.source.integer("SELECT count(*) FROM v_buckets WHERE state IN ('new', 'regressed', 'active')");
  const int64_t waiting = view.source.integer("SELECT count(*) FROM v_buckets WHERE state = 'incubating'");
  Page page{.question = "What fails, since when, and how do I repeat it?",
            .headline = failing == 0
                            ? "Nothing fails at the newest commit."
                            : plural(failing, "bucket fails", "buckets fail") + " at the newest commit.",
            .status = failing > 0   ? "bad"
                      : waiting > 0 ? "warn"
                                    : "ok"};
  if (!state.empty()) {
    const std::string table = bucket_table(view.source, state);
    page.body = section("buckets", "Buckets in the state " + state_chip(state),
                        (table.empty() ? html::notice("None is in this state.", "good") : table) + "<p>" +
                            view.source.link("All states", "failures") + "</p>");
    return page;
  }
  page.body = section("buckets", "Buckets, and their life", render_buckets(view.source, view.charts)) +
              section("failures", "In the runs shown here", render_failures(view.source, view.charts));
  return page;
}

Page page_bucket(const View& view) {
  const std::string bucket = bucket_of(view.source, view.query.text("id"));
  if (bucket.empty()) throw NotFound("No bucket of this store has this id.");
  Page page{.question = "What is this failure, since when, and how do I repeat it?"};
  view.source.each(
      "SELECT state, verdict, op, placement, mesh, dtype, suite, law, token, program, explanation, replay, "
      "first_commit, last_commit, clean_commits, cases, owner, reason, expires, run_id FROM v_buckets WHERE "
      "bucket = ?",
      [&](const Row& r) {
        page.headline = html::verdict_words(r.text(1)) + ": " + html::cut(r.text(2), 80) + " on " +
                        html::cut(r.text(3), 60);
        page.status = r.text(0) == "fixed" || r.text(0) == "muted" ? "ok"
                      : r.text(0) == "incubating"                  ? "warn"
                                                                   : "bad";
        page.words =
            state_chip(r.text(0)) + " First seen at <code>" + html::cut(r.text(12), 16) +
            "</code>, last at <code>" + html::cut(r.text(13), 16) + "</code>; " +
            plural(r.integer(14), "clean commit", "clean commits") + " since; " +
            plural(r.integer(15), "case", "cases") + "." +
            (r.null(16) ? "" : " Muted by " + r.html(16) + " until " + r.html(18) + ": " + r.html(17));
        std::string s = "<p>" + (r.text(10).empty() ? "No explanation was recorded." : r.html(10)) +
                        "</p><p class=\"quiet\">Suite " + r.html(6) + " · law: " + r.html(7) + " · mesh " +
                        r.html(4) + " · " + r.html(5) + " · bucket <code class=\"wrap\">" +
                        html::cut(bucket, 400) + "</code></p>";
        if (!r.text(9).empty()) s += html::code_block("program", "Program", r.text(9));
        s += html::code_block("replay", "Replay", r.text(11)) + html::code_block("token", "Token", r.text(8));
        page.body += section("repeat", "How to repeat it", s);
        const std::string witness = view.source.text(
            "SELECT case_id FROM v_failures WHERE run_id = ?1 AND bucket = ?2", {r.text(19), bucket});
        if (!witness.empty())
          page.body += section("diffs", "What differs", tensor_diffs(view.source, std::stoll(witness), 20));
      },
      {bucket});
  page.body += section("history", "Commit by commit", history(view.source, bucket)) +
               section("cases", "Its cases", cases_of(view.source, bucket));
  return page;
}

}  // namespace lockstep::dashboard
