// SPDX-License-Identifier: Apache-2.0
// How a curve leaves its reference: how far the chain of hashes agrees, and how fast the distance grows.
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

using html::grouped;

namespace {

struct Leaving {
  std::string model, variant, mesh, policy;
  std::vector<std::pair<double, double>> points;  // step, log2 of the ulp distance; where it is not zero
  int64_t steps = 0, identical = 0, chain = 0;    // prefixes, in steps
};

// Least squares; empty with fewer than three points or one step.
std::optional<double> slope(const std::vector<std::pair<double, double>>& points) {
  if (points.size() < 3) return std::nullopt;
  const auto n = static_cast<double>(points.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [px, py] : points) x += px, y += py, xx += px * px, xy += px * py;
  const double width = n * xx - x * x;
  if (width <= 0) return std::nullopt;
  return (n * xy - x * y) / width;
}

std::map<std::string, Leaving> leaving(const Source& source) {
  std::map<std::string, Leaving> all;
  source.each(
      "SELECT curve_id, curve, model, variant, mesh, policy, step, identical, loss_ulp FROM v_curve_steps "
      "WHERE "
      "run_id IN shown ORDER BY curve_id, step",
      [&](const Row& r) {
        Leaving& l = all[r.text(0)];
        if (l.steps == 0)
          l.model = r.text(2), l.variant = r.text(3), l.mesh = r.text(4), l.policy = r.text(5);
        if (r.integer(7) != 0 && l.identical == l.steps) ++l.identical;
        ++l.steps;
        if (!r.null(8) && r.integer(8) > 0)
          l.points.emplace_back(static_cast<double>(r.integer(6)), std::log2(r.number(8)));
      });
  // The chain hashes every bit so far, so that it agrees up to one step and never again.
  source.each(
      R"(SELECT a.id, count(*) FROM curve a JOIN curve b ON b.run = a.run AND b.model = a.model
        AND b.dtype = a.dtype AND b.reference
        AND (b.variant = a.variant
             OR NOT EXISTS (SELECT 1 FROM curve c WHERE c.run = a.run AND c.model = a.model
                            AND c.dtype = a.dtype AND c.reference AND c.variant = a.variant))
      JOIN curve_point p ON p.curve = a.id JOIN curve_point q ON q.curve = b.id AND q.step = p.step
      WHERE a.run IN shown AND NOT a.reference AND p.chain = q.chain GROUP BY a.id)",
      [&](const Row& r) {
        const auto found = all.find(r.text(0));
        if (found != all.end()) found->second.chain = r.integer(1);
      });
  return all;
}

}  // namespace

std::string render_drift(const Source& source, nlohmann::json&) {
  html::Table table("Drift from the reference", {{"Curve", "key"},
                                                 {"Mesh"},
                                                 {"Random policy"},
                                                 {"Equal from the start", "num"},
                                                 {"Chain of hashes agrees", "num"},
                                                 {"Drift", "num"},
                                                 {"Doubles every", "num"}});
  for (const auto& [id, l] : leaving(source)) {
    const auto drift = slope(l.points);
    const auto prefix = [&](int64_t n) {
      return n == l.steps ? html::yes_no(true, "all " + grouped(n), "")
                          : grouped(n) + " of " + grouped(l.steps);
    };
    const bool grows = drift && *drift > 1e-4;
    table.row({html::cut(l.model, 60) + " <span class=\"quiet\">" + html::cut(l.variant, 60) + "</span>",
               html::cut(l.mesh, 40), html::cut(l.policy, 40), prefix(l.identical), prefix(l.chain),
               drift ? html::brief(*drift) + " log₂ ulp a step" : "–",
               grows              ? html::brief(1 / *drift) + " steps"
               : l.points.empty() ? "–"
                                  : "does not grow"});
  }
  return table.html_or("No curve has a reference to drift from.") +
         (table.rows() == 0
              ? ""
              : "<p class=\"quiet\">Drift is the least-squares slope of log₂ of the loss's distance "
                "in ulp, over the steps that differ. The chain hashes every bit of the run so "
                "far.</p>");
}

}  // namespace lockstep::dashboard
