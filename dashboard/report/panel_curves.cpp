// SPDX-License-Identifier: Apache-2.0
// Training curves against their reference, and how fast everything was.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "dashboard/report/drift.h"
#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

using html::grouped;
using html::plural;

namespace {

struct Group {
  std::string model, variant;
  std::string digits{};  // that were written, where these curves came as decimal text; "": every bit
};

std::vector<Group> groups(const Source& source) {
  std::vector<Group> list;
  // A reference alone makes a group only where its model has nothing else.
  source.each(
      R"(SELECT model, variant, min(digits) FROM v_curves WHERE run_id IN shown GROUP BY model, variant
      HAVING min(reference) = 0
      OR model NOT IN (SELECT model FROM v_curves WHERE NOT reference AND run_id IN shown)
      ORDER BY model, variant)",
      [&](const Row& r) {
        list.push_back({r.text(0), r.text(1), r.text(2)});
      });
  return list;
}

nlohmann::json number(const Row& r, int column) {
  if (r.null(column) || !std::isfinite(r.number(column))) return nullptr;
  return r.number(column);
}

// Charts draw at most so many steps of a curve, evenly spaced, and the first that differs; tables count all.
constexpr int64_t kDrawn = 4000;

int64_t every_nth(const Source& source, const Group& g) {
  int64_t most = 0;
  source.each(
      "SELECT max(n) FROM (SELECT count(*) AS n FROM v_curves WHERE run_id IN shown AND model = ? AND "
      "(variant "
      "= ? OR reference) GROUP BY curve)",
      [&](const Row& r) { most = r.integer(0); }, {g.model, g.variant});
  return 1 + (most - 1) / kDrawn;
}

// {title, model, variant, series: [{name, policy, mesh, reference, step: [], loss: [], grad: [], lossUlp: [],
// …}]}
nlohmann::json chart_of(const Source& source, const Group& g) {
  const int64_t nth = every_nth(source, g);
  std::map<std::string, int64_t> seen, compared;
  const std::string where = " WHERE run_id IN shown AND model = ? AND (variant = ?";
  std::map<std::pair<int64_t, std::string>, nlohmann::json> series;  // the reference first
  const auto of = [&](const Row& r, bool reference) -> nlohmann::json& {
    nlohmann::json& s = series[{reference ? 0 : 1, r.text(0)}];
    if (s.is_null())
      s = {{"name", r.text(0)}, {"policy", r.text(1)}, {"mesh", r.text(2)}, {"reference", reference}};
    return s;
  };
  source.each("SELECT curve, policy, mesh, reference, step, loss, grad_norm FROM v_curves" + where +
                  " OR reference) ORDER BY curve, step",
              [&](const Row& r) {
                if (seen[r.text(0)]++ % nth != 0) return;
                nlohmann::json& s = of(r, r.integer(3) != 0);
                s["step"].push_back(r.integer(4));
                s["loss"].push_back(number(r, 5));
                s["grad"].push_back(number(r, 6));
              },
              {g.model, g.variant});
  source.each(
      "SELECT curve, policy, mesh, step, loss_ulp, loss_abs, grad_norm_ulp, grad_norm_abs, identical FROM "
      "v_curve_steps" +
          where + ") ORDER BY curve, step",
      [&](const Row& r) {
        nlohmann::json& s = of(r, false);
        const bool first = r.integer(8) == 0 && !s.contains("first");
        if (compared[r.text(0)]++ % nth != 0 && !first) return;
        s["diffStep"].push_back(r.integer(3));
        int column = 4;
        for (const std::string key : {"lossUlp", "lossAbs", "gradUlp", "gradAbs"}) {
          const bool known = g.digits.empty() || key.ends_with("Abs");  // decimal text has no bits to count
          s[key].push_back(known ? number(r, column) : nlohmann::json());
          ++column;
        }
        if (first) s["first"] = r.integer(3);
      },
      {g.model, g.variant});
  nlohmann::json list = nlohmann::json::array();
  for (auto& [key, s] : series) list.push_back(std::move(s));
  return {{"title", g.model + " — " + g.variant},
          {"model", g.model},
          {"variant", g.variant},
          {"digits", g.digits},
          {"series", std::move(list)}};
}

std::string judged(const Row& r, int judged_column) {
  const int64_t steps = r.integer(judged_column), unexplained = r.integer(judged_column + 2);
  if (steps == 0) return "<span class=\"quiet\">–</span>";
  if (unexplained > 0) return "<span class=\"no\">✗ " + plural(unexplained, "step", "steps") + "</span>";
  return "<span class=\"yes\">✓ " + plural(steps, "step", "steps") + "</span>";
}

// How fast each curve leaves the reference, by its name: of |difference| of the loss, and of its ulp.
std::map<std::string, std::pair<std::string, std::string>> drifts(const Source& source, const Group& g) {
  std::map<std::string, std::array<std::vector<DriftPoint>, 2>> points;
  source.each(
      "SELECT curve, step, loss_abs, loss_ulp FROM v_curve_steps WHERE run_id IN shown AND model = ? AND "
      "variant = ? ORDER BY curve, step",
      [&](const Row& r) {
        for (const int i : {0, 1})
          if (!r.null(2 + i))
            points[r.text(0)][static_cast<size_t>(i)].push_back({r.number(1), r.number(2 + i)});
      },
      {g.model, g.variant});
  const auto text = [](const std::vector<DriftPoint>& p) {
    const auto slope = drift(p);
    return slope ? html::brief(*slope) : std::string("–");
  };
  std::map<std::string, std::pair<std::string, std::string>> found;
  for (const auto& [curve, p] : points) found[curve] = {text(p[0]), text(p[1])};
  return found;
}

// What is claimed where nothing differs: digits are no bits.
std::string never(const Group& g) {
  if (g.digits.empty()) return "<span class=\"yes\">never</span>";
  return "equal to the " + html::escape(g.digits) + " digits that were written";
}

// The closest curves first.
std::string diff_table(const Source& source, const Group& g) {
  const auto drift_of = drifts(source, g);
  const bool bits = g.digits.empty();
  html::Table table("Differences from the reference",
                    {{"Mesh", "key"},
                     {"Random policy"},
                     {bits ? "Identical steps" : "Equal steps", "num"},
                     {"First differs", "num"},
                     {"Loss: max ulp", "num"},
                     {"max |Δ|", "num"},
                     {"drift a step", "num"},
                     {"ulp a step", "num"},
                     {"Grad norm: max ulp", "num"},
                     {"max |Δ|", "num"},
                     {"Explained"}},
                    "");
  source.each(
      "SELECT curve, mesh, policy, steps, identical_prefix, first_differing_step, max_loss_ulp, "
      "max_loss_abs, "
      "max_grad_norm_ulp, max_grad_norm_abs, judged, explained, unexplained FROM v_curve_diff d WHERE run_id "
      "IN shown "
      "AND model = ? AND variant = ? ORDER BY min(max_loss_abs) OVER (PARTITION BY policy), policy, mesh, "
      "curve",
      [&](const Row& r) {
        const auto& slopes = drift_of.at(r.text(0));
        table.row(
            {"<span title=\"" + r.html(0) + "\">" + (r.text(1).empty() ? r.html(0) : r.html(1)) + "</span>",
             r.html(2), r.grouped(4) + " of " + r.grouped(3), r.null(5) ? never(g) : r.grouped(5),
             bits ? r.brief(6) : "–", r.brief(7), slopes.first, bits ? slopes.second : "–",
             bits ? r.brief(8) : "–", r.brief(9), judged(r, 10)});
      },
      {g.model, g.variant});
  if (table.rows() == 0)
    return "<p class=\"quiet\">No curve of this group is the reference, so nothing is compared.</p>";
  return table.html() +
         "<p class=\"quiet\">Drift: the median slope of the loss's |difference| between any two steps (Theil "
         "and Sen), in loss and in ulp.</p>";
}

std::string controls(size_t index, bool bits) {
  const std::string n = std::to_string(index);
  const auto choice = [&](const char* group, const char* value, const char* words, bool on) {
    return std::string("<label><input type=\"radio\" name=\"") + group + n + "\" value=\"" + value + "\"" +
           (on ? " checked" : "") + "><span>" + words + "</span></label>";
  };
  return "<div class=\"controls\" data-curve=\"" + n +
         "\"><fieldset class=\"segment\"><legend class=\"hidden\">Quantity</legend>" +
         choice("quantity", "loss", "Loss", true) + choice("quantity", "grad", "Gradient norm", false) +
         "</fieldset><fieldset class=\"segment\"><legend class=\"hidden\">Difference as</legend>" +
         choice("measure", "Ulp", "ulp", bits) + choice("measure", "Abs", "absolute", !bits) +
         "</fieldset></div>";
}

// A bar as wide as the value's share of the largest of its kind.
std::string track(double value, double largest) {
  const double share =
      largest > 0 && std::isfinite(value) ? std::clamp(100 * value / largest, 0.0, 100.0) : 0;
  return "<div class=\"track\"><span style=\"width:" + html::brief(share) + "%\"></span></div>";
}

std::string throughput_table(const Source& source, const std::string& kind, const std::string& title) {
  const std::string from = " FROM v_throughput WHERE run_id IN shown AND kind = ?";
  double largest = 0;
  source.each("SELECT max(value)" + from, [&](const Row& r) { largest = r.number(0); }, {kind});
  html::Table table(title,
                    {{"Name", "key"},
                     {"Beside the fastest", "wide"},
                     {"Rate", "num"},
                     {"Samples", "num"},
                     {"Memory", "num"}},
                    "bars");
  source.each(
      "SELECT name, worker, unit, value, samples, bytes_moved, peak_bytes" + from + " ORDER BY name, worker",
      [&](const Row& r) {
        const std::string memory = !r.null(6)   ? html::bytes(r.number(6)) + " peak"
                                   : !r.null(5) ? html::bytes(r.number(5)) + " moved"
                                                : "–";
        table.row({r.html(0) + (r.text(1).empty() ? "" : " <span class=\"quiet\">" + r.html(1) + "</span>"),
                   track(r.number(3), largest), r.brief(3) + " " + r.html(2), r.grouped(4), memory});
      },
      {kind});
  if (table.rows() == 0) return "";
  return "<h3>" + title + "</h3><div class=\"bounded\" tabindex=\"0\">" + table.html() + "</div>";
}

}  // namespace

std::string render_curves(const Source& source, nlohmann::json& charts) {
  const std::vector<Group> list = groups(source);
  const std::string compared = render_compared(source);
  if (list.empty() && !compared.empty()) return compared;
  if (list.empty())
    return "<p class=\"empty\">No training was recorded. <code>lockstep curves llama --mesh "
           "tp:1,tp:2,tp:4,tp:8</code> makes these curves.</p>";
  for (const auto& group : list) charts["curves"].push_back(chart_of(source, group));
  std::string s =
      policies_figure(charts) +
      "<p>Left: the curves over each other. Right: their distance from the curve of one device, on a "
      "logarithmic axis; zero has its own "
      "band at the bottom, since a curve that is one ulp off looks the same on the left.</p>";
  for (size_t i = 0; i < list.size(); ++i) {
    s += "<div class=\"group\"><h3>" + html::escape(list[i].model) + " <span class=\"quiet\">" +
         html::escape(list[i].variant) + "</span></h3>" + controls(i, list[i].digits.empty()) +
         "<div class=\"pair\">" +
         html::figure("curve-" + std::to_string(i) + "-value", "Curves over each other") +
         html::figure("curve-" + std::to_string(i) + "-diff", "Distance from the reference") +
         "</div><ul class=\"series\" id=\"curve-" + std::to_string(i) + "-series\"></ul>" +
         diff_table(source, list[i]) + "</div>";
  }
  return s + compared;
}

std::string render_throughput(const Source& source, nlohmann::json&) {
  const std::string s = throughput_table(source, "measurement", "Measured") +
                        throughput_table(source, "suite", "Suites, cases a second of one worker") +
                        throughput_table(source, "training", "Training, tokens a second");
  return s.empty() ? "<p class=\"empty\">Nothing was timed.</p>" : s;
}

}  // namespace lockstep::dashboard
