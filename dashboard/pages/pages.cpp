// SPDX-License-Identifier: Apache-2.0
// The one list of pages, and those that are a panel with a question on top.
#include "dashboard/pages/pages.h"

#include "dashboard/report/frame.h"
#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

std::vector<int64_t> View::shown_runs() const {
  std::vector<int64_t> runs;
  source.each("SELECT id FROM shown ORDER BY id", [&](const Row& r) { runs.push_back(r.integer(0)); });
  return runs;
}

std::span<const PageDefinition> pages() {
  static constexpr PageDefinition kPages[] = {
      {"", "Overview", true, page_overview},
      {"failures", "Failures", true, page_failures},
      {"bucket", "Bucket", false, page_bucket},
      {"matrix", "Matrix", true, page_matrix},
      {"cases", "Cases", true, page_cases},
      {"case", "Case", false, page_case},
      {"curves", "Curves", true, page_curves},
      {"performance", "Performance", true, page_performance},
      {"series", "Series", false, page_series},
      {"coverage", "Coverage", true, page_coverage},
      {"checks", "Self-checks", true, page_checks},
      {"gate", "Gate", true, page_judgements},
      {"judgement", "Judgement", false, page_judgement},
      {"runs", "Runs", true, page_runs},
      {"environment", "Environment", true, page_environment},
  };
  return kPages;
}

Page page_coverage(const View& view) {
  const int64_t gaps =
      view.source.integer("SELECT count(*) FROM v_coverage_gaps WHERE run_id IN shown AND kind = 'op'");
  const int64_t ops = view.source.integer("SELECT count(DISTINCT op) FROM v_coverage WHERE run_id IN shown");
  return {.question = "What was covered, and what was never seen?",
          .headline = ops == 0   ? "Nothing was covered."
                      : gaps > 0 ? html::plural(gaps, "op was never reached.", "ops were never reached.")
                                 : html::plural(ops, "op was reached, none is missing.",
                                                "ops were reached, none is missing."),
          .status = ops == 0 || gaps > 0 ? "warn" : "ok",
          .body = section("coverage", "Coverage and its gaps", render_coverage(view.source, view.charts))};
}

Page page_checks(const View& view) {
  const int64_t all = view.source.integer("SELECT count(*) FROM v_faults WHERE run_id IN shown");
  const int64_t found = view.source.integer("SELECT count(*) FROM v_faults WHERE found AND run_id IN shown");
  return {
      .question = "Would this harness notice a bug?",
      .headline = all == 0 ? "Not measured: no fault was planted."
                           : html::grouped(found) + " of " +
                                 html::plural(all, "planted fault was found.", "planted faults were found."),
      .status = all == 0       ? "warn"
                : found == all ? "ok"
                               : "bad",
      .body = section("faults", "Planted faults", render_faults(view.source, view.charts)) +
              section("goldens", "Goldens of the random stream", render_goldens(view.source, view.charts)) +
              section("exceptions", "Expected exceptions", render_exceptions(view.source, view.charts)) +
              section("refusals", "What gave up, and what is forgiven",
                      render_refusals(view.source, view.charts))};
}

Page page_environment(const View& view) {
  const int64_t mixed = view.source.integer(
      "SELECT count(*) FROM (SELECT name FROM v_environment WHERE run_id IN shown GROUP BY name HAVING "
      "count(DISTINCT value) > 1)");
  return {.question = "Where did this run, and with what?",
          .headline = mixed == 0 ? "The runs shown here had one environment."
                                 : html::plural(mixed, "fact differs between these runs.",
                                                "facts differ between these runs."),
          .status = mixed == 0 ? "ok" : "warn",
          .body = section("environment", "Environment", render_environment(view.source, view.charts))};
}

}  // namespace lockstep::dashboard
