// SPDX-License-Identifier: Apache-2.0
#include "engine/debug/activity_text.h"

#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep::debug {
namespace {

using Json = nlohmann::ordered_json;

std::string list(const std::vector<SpecPtr>& specs) {
  std::string text;
  for (const auto& spec : specs) text += concat(text.empty() ? "" : ", ", spec ? to_string(*spec) : "-");
  return text;
}

Json json_of(const std::vector<SpecPtr>& specs) {
  auto all = Json::array();
  for (const auto& spec : specs) all.push_back(spec ? Json(to_string(*spec)) : Json());
  return all;
}

bool same(const std::vector<SpecPtr>& a, const std::vector<SpecPtr>& b) {
  return list(a) == list(b);
}

// The mesh of its DTensors; null: it has none.
const DeviceMesh* mesh_of(const Activity& activity) {
  for (const auto* specs : {&activity.given, &activity.outputs})
    for (const auto& spec : *specs)
      if (spec != nullptr) return &spec->mesh();
  return nullptr;
}

std::string dim_name(const Activity& activity, int64_t mesh_dim) {
  const auto* mesh = mesh_of(activity);
  if (mesh_dim < 0 || mesh == nullptr) return "all mesh dimensions";
  return mesh->has_names() ? mesh->names()[as_size(mesh_dim)] : concat("mesh dimension ", mesh_dim);
}

std::string moved_text(const Activity& activity) {
  std::string text;
  for (const auto& step : activity.moved)
    text +=
        concat(text.empty() ? "" : ", ", step.collective, " along ", step.along, " ", step.bytes, " bytes");
  return text;
}

std::string op_text(const Activity& activity) {
  auto text = concat(activity.name, " ", list(activity.given));
  if (!same(activity.given, activity.placed)) text += concat(" as ", list(activity.placed));
  return activity.outputs.empty() ? text : concat(text, " -> ", list(activity.outputs));
}

}  // namespace

std::string to_text(const Activity& a) {
  switch (a.kind) {
    case ActivityKind::kModule:
      return concat(a.name, " (", a.what, ")");
    case ActivityKind::kOp:
      return op_text(a);
    case ActivityKind::kRedistribution:
      return concat(a.name, a.implicit ? " (implicit) " : " ", list(a.given), " -> ", list(a.outputs), ": ",
                    moved_text(a));
    case ActivityKind::kCollective:
      break;
  }
  return concat(a.name, ", ", a.bytes, " bytes", a.what.empty() ? "" : ", for ", a.what);
}

std::string why(const Activity& activity) {
  std::string text;
  int64_t rows = 0;
  const auto& all = *activity.candidates;
  const Candidate* chosen = nullptr;
  for (size_t i = 0; i < all.size(); ++i) {
    ++rows;
    if (all[i].chosen) chosen = &all[i];
    const int64_t element = all[i].element, mesh_dim = all[i].mesh_dim;
    if (i + 1 < all.size() && all[i + 1].mesh_dim == mesh_dim && all[i + 1].element == element) continue;
    text += concat(text.empty() ? "" : "; ", element < 0 ? "" : concat("element ", element, " "), "along ",
                   dim_name(activity, mesh_dim), ": ");
    if (chosen != nullptr)
      text += concat(chosen->inputs, " -> ", chosen->outputs, ", the cheapest of ", rows, ", ", chosen->bytes,
                     " bytes");
    rows = 0;
    chosen = nullptr;
  }
  return text;
}

Json to_json(const Activity& a) {
  Json json = {{"kind", name(a.kind)},
               {"name", a.name},
               {"module", a.module},
               {"phase", a.backward ? "backward" : "forward"}};
  switch (a.kind) {
    case ActivityKind::kModule:
      json["module_type"] = a.what;
      break;
    case ActivityKind::kOp:
      json["given"] = json_of(a.given);
      json["ran_on"] = json_of(a.placed);
      json["outputs"] = json_of(a.outputs);
      if (a.candidates == nullptr || a.candidates->empty()) break;
      json["why"] = why(a);
      json["candidates"] = Json::array();
      for (const auto& c : *a.candidates)
        json["candidates"].push_back({{"element", c.element < 0 ? Json() : Json(c.element)},
                                      {"along", dim_name(a, c.mesh_dim)},
                                      {"inputs", to_string(c.inputs)},
                                      {"outputs", to_string(c.outputs)},
                                      {"bytes", c.bytes},
                                      {"chosen", c.chosen}});
      break;
    case ActivityKind::kRedistribution:
      json["from"] = json_of(a.given)[0];
      json["to"] = json_of(a.outputs)[0];
      json["implicit"] = a.implicit;
      json["moved"] = Json::array();
      for (const auto& step : a.moved)
        json["moved"].push_back(
            {{"collective", step.collective}, {"along", step.along}, {"bytes", step.bytes}});
      break;
    case ActivityKind::kCollective:
      json["bytes"] = a.bytes;
      json["asked_by"] = a.what;
      break;
  }
  return json;
}

}  // namespace lockstep::debug
