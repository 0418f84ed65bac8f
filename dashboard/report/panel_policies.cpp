// SPDX-License-Identifier: Apache-2.0
// One picture of what the random policies do to training: what follows them side by side, in one scale.
#include <map>

#include "dashboard/report/panels.h"

namespace lockstep::dashboard {
namespace {

// A column for each variant of a model's curves, in this order. In the first two only one kind of draw
// follows the policy, so the curves of the whole stream stand beside them for comparison.
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

std::string figure_of(const std::string& model, const Groups& groups, nlohmann::json& charts) {
  nlohmann::json columns = nlohmann::json::array();
  std::string losses, distances;
  for (const auto& column : kColumns) {
    const auto found = groups.find(column.variant);
    if (found == groups.end()) continue;
    const std::string id =
        "policies-" + std::to_string(charts["policies"].size()) + "-" + std::to_string(columns.size());
    nlohmann::json made = {{"id", id}, {"group", found->second}};
    if (const auto whole = groups.find(kWhole); column.beside && whole != groups.end())
      made["beside"] = whole->second;
    columns.push_back(std::move(made));
    losses += html::figure(id + "-loss", std::string(column.title) + ": loss");
    distances +=
        html::figure(id + "-distance", column.variant == kIndexed ? "Distance from its own one device"
                                                                  : "Distance from one device");
  }
  const std::string index = std::to_string(charts["policies"].size());
  const std::string style = " style=\"--columns:" + std::to_string(columns.size()) + "\"";
  charts["policies"].push_back(std::move(columns));
  return "<div class=\"group\" id=\"policies-" + index + "\"><h3>Random policies <span class=\"quiet\">" +
         html::escape(model) + "</span></h3><ul class=\"series\" id=\"policies-" + index +
         "-key\"></ul><div class=\"multiples\"" + style + ">" + losses + distances +
         "</div><p class=\"quiet\">One colour a policy, one line a mesh. Each policy's numbers are in the "
         "tables "
         "below.</p></div>";
}

}  // namespace

std::string policies_figure(nlohmann::json& charts) {
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
    if (groups.contains("init") || groups.contains("dropout")) all += figure_of(model, groups, charts);
  return all;
}

}  // namespace lockstep::dashboard
