// SPDX-License-Identifier: Apache-2.0
// Training curves against their reference, and the random policies side by side.
#include <map>

#include "dashboard/report/html.h"
#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

namespace {

// Charts draw at most so many steps of a curve, evenly spaced, and the first that differs; tables count all.
constexpr int64_t kDrawn = 4000;

// The steps of one curve that are drawn, and of its distance from the reference.
nlohmann::json drawn_steps(const Source& source, const Texts& group, const std::string& curve, bool bits,
                           int64_t nth) {
  const std::string where = " WHERE run_id IN shown AND model = ?1 AND (variant = ?2",
                    named = " AND curve = ?3";
  const std::string thinned = ") WHERE i % " + std::to_string(nth) + " = 0",
                    numbered = "row_number() OVER (ORDER BY step) - 1 AS i FROM ";
  const Texts texts = {group[0], group[1], curve};
  nlohmann::json steps =
      source.columns("SELECT step, loss, grad FROM (SELECT step, loss, grad_norm AS grad, " + numbered +
                         "v_curves" + where + " OR reference)" + named + thinned,
                     texts);
  const std::string compared = "v_curve_steps" + where + ")" + named;
  const std::string ulp =
      bits ? "loss_ulp AS lossUlp, grad_norm_ulp AS gradUlp, " : "NULL AS lossUlp, NULL AS gradUlp, ";
  nlohmann::json distances = source.columns(
      "SELECT step AS diffStep, lossUlp, lossAbs, gradUlp, gradAbs FROM (SELECT step, identical, " + ulp +
          "loss_abs AS lossAbs, grad_norm_abs AS gradAbs, min(iif(identical, NULL, step)) OVER () AS "
          "first, " +
          numbered + compared + thinned + " OR step = first ORDER BY step",
      texts);
  if (distances["diffStep"].empty()) return steps;
  steps.update(distances);
  const auto first =
      source.columns("SELECT min(step) AS step FROM " + compared + " AND NOT identical", texts)["step"][0];
  if (!first.is_null()) steps["first"] = first;
  return steps;
}

// {title, model, variant, digits, series: [{name, policy, mesh, reference, step: [], loss: [], grad: [],
// diffStep: [], lossUlp: [], …}]}, the reference first.
nlohmann::json chart_of(const Source& source, const Texts& group) {
  const std::string from =
      " FROM v_curves WHERE run_id IN shown AND model = ?1 AND (variant = ?2 OR reference)";
  const int64_t most =
      source.integer("SELECT max(n) FROM (SELECT count(*) AS n" + from + " GROUP BY curve)", group);
  nlohmann::json series = nlohmann::json::array();
  source.each(
      "SELECT DISTINCT curve, policy, mesh, reference" + from + " ORDER BY reference DESC, curve",
      [&](const Row& r) {
        series.push_back(drawn_steps(source, group, r.text(0), group[2].empty(), 1 + (most - 1) / kDrawn));
        series.back().update({{"name", r.text(0)},
                              {"policy", r.text(1)},
                              {"mesh", r.text(2)},
                              {"reference", r.integer(3) != 0}});
      },
      group);
  return {{"title", group[0] + " — " + group[1]},
          {"model", group[0]},
          {"variant", group[1]},
          {"digits", group[2]},
          {"series", std::move(series)}};
}

std::string choice(const std::string& name, const char* value, const char* words, bool on) {
  return "<label><input type=\"radio\" name=\"" + name + "\" value=\"" + value +
         (on ? "\" checked>" : "\">") + html::element("span", words) + "</label>";
}

std::string controls(const std::string& n, bool bits) {
  const std::string quantity =
      choice("quantity" + n, "loss", "Loss", true) + choice("quantity" + n, "grad", "Gradient norm", false);
  const std::string measure =
      choice("measure" + n, "Ulp", "ulp", bits) + choice("measure" + n, "Abs", "absolute", !bits);
  return html::element(
      "div.controls data-curve=\"" + n + "\"",
      html::element("fieldset.segment", html::element("legend.hidden", "Quantity") + quantity) +
          html::element("fieldset.segment", html::element("legend.hidden", "Difference as") + measure));
}

// A column of policies for each variant of a model's curves, in this order. In the first two only one kind of
// draw follows the policy, so the curves of the whole stream stand beside them for comparison.
struct Column {
  const char* variant;
  const char* title;
  bool beside;
};
constexpr const char* kWhole = "init+dropout";
constexpr const char* kIndexed = "indexed";
constexpr Column kColumns[] = {{"init", "First values alone", true},
                               {"dropout", "Dropout alone", true},
                               {kWhole, "Both", false},
                               {kIndexed, "Both, indexed numbers", false}};
// Numbers of their own have a reference of their own, and so a model of their own.
constexpr std::string_view kOwnNumbers = ", indexed numbers";

using Groups = std::map<std::string, size_t>;  // of one model, by variant: places in charts["curves"]

std::string policies_of(const std::string& model, const Groups& groups, nlohmann::json& charts) {
  nlohmann::json columns = nlohmann::json::array();
  const std::string figure = "policies-" + std::to_string(charts["policies"].size());
  std::string losses, distances;
  for (const auto& column : kColumns) {
    const auto found = groups.find(column.variant);
    if (found == groups.end()) continue;
    const std::string id = figure + "-" + std::to_string(columns.size());
    columns.push_back({{"id", id}, {"group", found->second}});
    if (const auto whole = groups.find(kWhole); column.beside && whole != groups.end())
      columns.back()["beside"] = whole->second;
    losses += html::figure(id + "-loss", std::string(column.title) + ": loss");
    distances +=
        html::figure(id + "-distance", column.variant == kIndexed ? "Distance from its own one device"
                                                                  : "Distance from one device");
  }
  const std::string wide = std::to_string(columns.size());
  charts["policies"].push_back(std::move(columns));
  return "<div class=\"group\" id=\"" + figure + "\"><h3>Random policies " +
         html::element("span.quiet", html::escape(model)) + "</h3><ul class=\"series\" id=\"" + figure +
         "-key\"></ul>" +
         html::element("div.multiples style=\"--columns:" + wide + "\"", losses + distances) +
         "<p class=\"quiet\">One colour a policy, one line a mesh. Each policy's numbers are in the tables "
         "below.</p></div>";
}

// The random policies side by side; "" if no run trained with a policy for one kind of draw alone.
std::string policies(nlohmann::json& charts) {
  std::map<std::string, Groups> models;
  for (size_t i = 0; i < charts["curves"].size(); ++i) {
    std::string model = charts["curves"][i]["model"], variant = charts["curves"][i]["variant"];
    if (model.ends_with(kOwnNumbers)) {
      model.resize(model.size() - kOwnNumbers.size());
      variant = kIndexed;
    }
    models[model][variant] = i;
  }
  std::string all;
  for (const auto& [model, groups] : models)
    if (groups.contains("init") || groups.contains("dropout")) all += policies_of(model, groups, charts);
  return all;
}

}  // namespace

std::string draw_curves(const Source& source, nlohmann::json& charts, const Texts&) {
  std::string groups;
  size_t index = 0;
  // A reference alone makes a group only where its model has nothing else.
  source.each(R"(SELECT model, variant, coalesce(min(digits), '') FROM v_curves WHERE run_id IN shown
                 GROUP BY model, variant HAVING min(reference) = 0
                   OR model NOT IN (SELECT model FROM v_curves WHERE NOT reference AND run_id IN shown)
                 ORDER BY model, variant)",
              [&](const Row& r) {
                const Texts group = {r.text(0), r.text(1), r.text(2)};
                const std::string n = std::to_string(index++), id = "curve-" + n;
                charts["curves"].push_back(chart_of(source, group));
                groups += "<div class=\"group\"><h3>" + r.cell(0) + " " +
                          html::element("span.quiet", r.cell(1)) + "</h3>" + controls(n, group[2].empty()) +
                          "<div class=\"pair\">" + html::figure(id + "-value", "Curves over each other") +
                          html::figure(id + "-diff", "Distance from the reference") +
                          "</div><ul class=\"series\" id=\"" + id + "-series\"></ul>" +
                          body(panel("curve-differences"), source, charts, group) + "</div>";
              });
  if (groups.empty())
    return source.integer("SELECT count(*) FROM v_divergence WHERE run_id IN shown") > 0
               ? ""
               : html::notice(
                     "No training was recorded. <code>lockstep curves llama --mesh "
                     "tp:1,tp:2,tp:4,tp:8</code> "
                     "makes these curves.");
  return policies(charts) +
         "<p>Left: the curves over each other. Right: their distance from the curve of one device, on a "
         "logarithmic "
         "axis; zero has its own band at the bottom, since a curve that is one ulp off looks the same on the "
         "left.</p>" +
         groups;
}

}  // namespace lockstep::dashboard
