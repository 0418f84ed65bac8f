// SPDX-License-Identifier: Apache-2.0
// The head of the page in plain words, and the verdicts of each suite beside its plan.
#include <algorithm>
#include <map>
#include <vector>

#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

using html::grouped;
using html::plural;

namespace {

struct Totals {
  int64_t runs, cases, equal, explained, exceptions, gave_up, failures, broken, buckets, unfinished;
  int64_t ops, tuples, faults, found, unmet, red_gates, unstable, missed;
  double seconds;
};

Totals totals(const Source& source) {
  Totals t{};
  source.each(
      R"(SELECT count(*), coalesce(sum(cases), 0), coalesce(sum(equal), 0), coalesce(sum(explained), 0),
      coalesce(sum(expected_exceptions), 0), coalesce(sum(gave_up), 0), coalesce(sum(failures), 0),
      coalesce(sum(broken), 0), coalesce(sum(buckets), 0), coalesce(sum(state <> 'finished'), 0)
      FROM v_summary WHERE run_id IN shown)",
      [&](const Row& r) {
        int64_t* const fields[] = {&t.runs,    &t.cases,    &t.equal,  &t.explained, &t.exceptions,
                                   &t.gave_up, &t.failures, &t.broken, &t.buckets,   &t.unfinished};
        for (int i = 0; i < 10; ++i) *fields[i] = r.integer(i);
      });
  t.ops = source.integer("SELECT count(DISTINCT op) FROM v_coverage WHERE run_id IN shown");
  t.tuples = source.integer(
      "SELECT count(*) FROM (SELECT DISTINCT op, placement FROM v_coverage WHERE run_id IN shown)");
  t.faults = source.integer("SELECT count(*) FROM v_faults WHERE run_id IN shown");
  t.found = source.integer("SELECT count(*) FROM v_faults WHERE found AND run_id IN shown");
  t.unmet = source.integer("SELECT count(*) FROM v_plan WHERE NOT met AND run_id IN shown");
  t.red_gates = source.integer("SELECT count(*) FROM v_gates WHERE NOT passed AND run_id IN shown");
  t.unstable = source.integer("SELECT count(*) FROM v_nondeterminism WHERE run_id IN shown");
  t.missed = source.integer(
      "SELECT coalesce(sum(cases), 0) FROM v_verdicts WHERE self_check AND failure AND run_id IN shown");
  return t;
}

struct Headline {
  const char* status;  // ok, warn, bad
  std::string text;
};

// The worst thing first.
Headline headline(const Totals& t) {
  if (t.runs == 0) return {"warn", "Nothing was recorded."};
  if (t.broken > 0) return {"bad", "The harness itself failed in " + plural(t.broken, "case.", "cases.")};
  if (t.missed > 0) {
    return {"bad", plural(t.missed, "self-check of the harness fails.", "self-checks of the harness fail.")};
  }
  if (t.failures > 0) return {"bad", plural(t.failures, "case fails.", "cases fail.")};
  if (t.unstable > 0)
    return {"bad", plural(t.unstable, "case does not repeat itself.", "cases do not repeat themselves.")};
  if (t.found < t.faults)
    return {"bad", plural(t.faults - t.found, "planted fault survived.", "planted faults survived.")};
  if (t.unmet > 0) return {"warn", "Not everything planned was measured."};
  if (t.red_gates > 0) return {"bad", plural(t.red_gates, "gate is red.", "gates are red.")};
  if (t.unfinished > 0) return {"warn", "All equal or explained so far: the run has not finished."};
  if (t.cases == 0) return {"ok", "No case was planned, none failed."};
  return {"ok", "Every case is equal or explained."};
}

std::string percent(int64_t part, int64_t whole) {
  if (whole == 0) return "–";
  // Never rounds up to 100 or down to 0: what remains is what one looks for.
  const double value = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  if (part != whole && value > 99.9) return "> 99.9 %";
  if (part != 0 && value < 0.1) return "< 0.1 %";
  return html::brief(value) + " %";
}

std::string in_words(const Totals& t) {
  if (t.runs == 0) return "This store holds no run yet. Type <code>lockstep run --db …</code> to fill it.";
  std::string s =
      plural(t.cases, "generated case", "generated cases") +
      " ran sharded on several ranks and again on one device, and every tensor was compared bit by bit. ";
  s += "<b>" + grouped(t.equal) + "</b> (" + percent(t.equal, t.cases) + ") came out equal in every bit. ";
  if (t.explained > 0) {
    s += "<b>" + grouped(t.explained) +
         "</b> differ from one device, and are explained: replaying the declared order of arithmetic gives "
         "the same "
         "bits, and the distance is within the bound. ";
  }
  if (t.failures > 0) {
    s += "<b>" + grouped(t.failures) + "</b> have no explanation; they fall into " +
         plural(t.buckets, "bucket", "buckets") + ", each with a token that replays it. ";
  }
  if (t.exceptions > 0) s += plural(t.exceptions, "case falls", "cases fall") + " under a listed exception. ";
  if (t.gave_up > 0)
    s += plural(t.gave_up, "case was", "cases were") + " given up, which counts as neither. ";
  if (t.unstable > 0) s += plural(t.unstable, "result", "results") + " did not come out the same twice. ";
  if (t.unmet > 0) s += plural(t.unmet, "demand", "demands") + " of the plan found too few cases. ";
  return s;
}

std::string tile(const std::string& value, const std::string& label, const std::string& note,
                 const char* kind = "") {
  return std::string("<div class=\"tile ") + kind + "\"><span class=\"label\">" + label +
         "</span><span class=\"value\">" + value + "</span><span class=\"note\">" + note + "</span></div>";
}

std::string tiles(const Source& source, const Totals& t) {
  std::string s = "<div class=\"tiles\">";
  s += tile(grouped(t.cases), "Cases", plural(t.runs, "run", "runs") + " of this build");
  s += tile(percent(t.equal, t.cases), "Equal", grouped(t.equal) + " in every bit");
  s += tile(grouped(t.explained), "Explained", percent(t.explained, t.cases) + " of cases, with proofs");
  s += tile(grouped(t.failures), "Failures", plural(t.buckets, "bucket", "buckets"),
            t.failures ? "bad" : "good");
  s += tile(grouped(t.ops), "Ops", grouped(t.tuples) + " op × placement pairs");
  if (t.faults > 0) {
    s += tile(grouped(t.found) + "/" + grouped(t.faults), "Planted faults", "found",
              t.found < t.faults ? "bad" : "good");
  }
  // Of several random policies the closest one speaks; the others are there to be far away.
  source.each(
      R"(SELECT policy, max(max_loss_abs) AS far, count(*) FROM v_curve_diff WHERE run_id IN shown
      GROUP BY policy ORDER BY far LIMIT 1)",
      [&](const Row& r) {
        s += tile(r.brief(1), "Training, |Δ loss|",
                  "at most, in " + plural(r.integer(2), "curve", "curves") +
                      (r.text(0).empty() ? "" : ", " + r.html(0)));
      });
  return s + "</div>";
}

// Widths in proportion; a class with few cases stays visible, one without any is not there.
std::string bar(const std::vector<std::pair<std::string, int64_t>>& parts) {
  std::string s = "<div class=\"bar-stack\" aria-hidden=\"true\">";
  for (const auto& [verdict, n] : parts) {
    if (n == 0) continue;
    s += "<span class=\"v-" + html::escape(verdict) + "\" style=\"flex:" + std::to_string(n) +
         " 0 4px\" title=\"" + grouped(n) + " " + html::verdict_words(verdict) + "\"></span>";
  }
  return s + "</div>";
}

std::string legend(const std::vector<std::pair<std::string, int64_t>>& parts) {
  std::string s = "<ul class=\"legend\">";
  for (const auto& [verdict, n] : parts)
    s += "<li>" + html::verdict_chip(verdict) + " " + grouped(n) + "</li>";
  return s + "</ul>";
}

struct SuiteRow {
  std::vector<std::pair<std::string, int64_t>> verdicts;
  int64_t cases = 0, failures = 0, missed = 0;
  double seconds = 0;
  bool self_check = false;
  std::string plan;
};

std::map<std::string, SuiteRow> suites(const Source& source) {
  std::map<std::string, SuiteRow> rows;
  source.each(
      R"(SELECT suite, verdict, sum(cases), sum(seconds), max(failure), max(self_check) FROM v_verdicts
      WHERE run_id IN shown GROUP BY suite, verdict ORDER BY suite, severity)",
      [&](const Row& r) {
        SuiteRow& row = rows[r.text(0)];
        row.verdicts.emplace_back(r.text(1), r.integer(2));
        row.cases += r.integer(2);
        row.seconds += r.number(3);
        row.self_check |= r.integer(5) != 0;
        if (r.integer(4)) (r.integer(5) ? row.missed : row.failures) += r.integer(2);
      });
  source.each(
      R"(SELECT name, sum(least), sum(got), min(met) FROM v_plan WHERE kind = 'suite' AND run_id IN shown
      GROUP BY name)",
      [&](const Row& r) {
        rows[r.text(0)].plan = html::yes_no(r.integer(3), "", "") + "at least " + r.grouped(1);
      });
  return rows;
}

std::string verdict_cell(const SuiteRow& row) {
  if (row.self_check) {
    return bar({{"equal", row.cases - row.missed}, {"different", row.missed}}) +
           "<span class=\"quiet\">the harness checks itself: " + grouped(row.cases - row.missed) + " of " +
           plural(row.cases, "case", "cases") + " came out as they should</span>";
  }
  std::string counts;
  for (const auto& [verdict, n] : row.verdicts) {
    counts += (counts.empty() ? "" : " · ") + grouped(n) + " " + html::verdict_words(verdict);
  }
  return bar(row.verdicts) + "<span class=\"quiet\">" + counts + "</span>";
}

std::string suite_table(const Source& source) {
  html::Table table("Verdicts by suite", {{"Suite", "key"},
                                          {"Cases", "num"},
                                          {"Plan"},
                                          {"Verdicts", "wide"},
                                          {"Failures", "num"},
                                          {"Time", "num"}});
  for (const auto& [name, row] : suites(source)) {
    const std::string failures =
        row.failures ? "<span class=\"no\">" + grouped(row.failures) + "</span>" : "0";
    table.row({html::escape(name), grouped(row.cases), row.plan.empty() ? "–" : row.plan, verdict_cell(row),
               row.self_check ? "–" : failures, html::duration(row.seconds)});
  }
  return table.html();
}

std::string gate_table(const Source& source) {
  html::Table table("Rules that decide the exit code",
                    {{"Rule", "key"}, {"Outcome"}, {"Required"}, {"Found"}});
  source.each("SELECT rule, required, got, passed FROM v_gates WHERE run_id IN shown ORDER BY passed, rule",
              [&](const Row& r) {
                table.row({r.html(0), html::yes_no(r.integer(3), "passed", "red"), r.html(1), r.html(2)});
              });
  return (table.rows() ? "<h3>Gates</h3>" : "") + table.html();
}

}  // namespace

std::string render_hero(const Source& source, bool first_of_page) {
  const Totals t = totals(source);
  const Headline h = headline(t);
  std::vector<std::pair<std::string, int64_t>> parts;
  source.each(R"(SELECT verdict, sum(cases) FROM v_verdicts WHERE NOT self_check AND run_id IN shown
      GROUP BY verdict ORDER BY severity)",
              [&](const Row& r) { parts.emplace_back(r.text(0), r.integer(1)); });
  std::string s = std::string("<section class=\"hero ") + h.status +
                  (first_of_page ? "\" id=\"top\">" : "\">") + "<p class=\"eyebrow\">";
  source.each(R"(SELECT max(time), commit_id, build_hash FROM v_summary WHERE run_id IN shown)",
              [&](const Row& r) {
                if (!r.null(0)) s += html::time(r.integer(0)) + " · commit " + html::cut(r.text(1), 60);
              });
  const std::string level = first_of_page ? "h1" : "h2";
  s += "</p><" + level + " class=\"said\"><span class=\"mark\" aria-hidden=\"true\"></span><span>" + h.text +
       "</span></" + level + "><p class=\"words\">" + in_words(t) + "</p>";
  if (!parts.empty()) s += bar(parts) + legend(parts);
  return s + tiles(source, t) + "</section>\n";
}

std::string render_verdicts(const Source& source, nlohmann::json&) {
  if (source.integer("SELECT count(*) FROM v_verdicts WHERE run_id IN shown") == 0) {
    return "<p class=\"empty\">No case was recorded.</p>" + gate_table(source);
  }
  return suite_table(source) + gate_table(source);
}

}  // namespace lockstep::dashboard
