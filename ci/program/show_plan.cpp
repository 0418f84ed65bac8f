// SPDX-License-Identifier: Apache-2.0
// lockstep show plan
#include "ci/program/show.h"
#include "engine/plan/parallelize.h"
#include "engine/values/error.h"
#include "suites/train/model_plan.h"

namespace lockstep::program {
namespace {

constexpr const char* kSums[] = {"fold", "tree", "exact"};

nlohmann::json hops_of(const PlanRow& row) {
  auto hops = nlohmann::json::array();
  for (const auto& hop : row.hops)
    hops.push_back({{"over", hop.over == SumHop::Over::kPasses ? "passes" : "ranks"},
                    {"dtype", hop.dtype ? nlohmann::json(dtype_name(*hop.dtype)) : nlohmann::json()}});
  return hops;
}

nlohmann::json json_of(const PlanRow& row) {
  return {
      {"row", to_string(row)},
      {"module", row.module},
      {"phase", name(row.phase)},
      {"tensor", row.tensor},
      {"input", row.tensor == "<in>" ? nlohmann::json(row.index) : nlohmann::json()},
      {"from", row.from ? nlohmann::json(to_string(*row.from)) : nlohmann::json()},
      {"to", to_string(row.to)},
      {"mesh_dims", row.mesh_dims},
      {"starts_early", row.starts_early},
      {"op", row.op.empty() ? nlohmann::json() : nlohmann::json(row.op)},
      {"sums", is_annotation(row) ? nlohmann::json(kSums[static_cast<size_t>(row.sums)]) : nlohmann::json()},
      {"hops", hops_of(row)}};
}

}  // namespace

// On one rank of the mesh, without values: what is applied is what is printed.
Shown show_plan(const ShowRequest& request) {
  const auto options = suites::model_preset(request.model, request.preset);
  const auto mesh = parse_mesh(request.mesh);
  const auto plan = request.path.empty() ? suites::model_plan(options, mesh) : load_plan(request.path);
  auto text = to_string(plan);
  const auto model = suites::make_model(options);
  parallelize(*model, init_device_mesh(mesh.shape(), mesh.names(), lone_world(mesh.size(), 0)), plan);
  auto rows = nlohmann::json::array(), hooks = nlohmann::json::array();
  for (const auto& row : plan.rows()) rows.push_back(json_of(row));
  for (const auto& [path, when, what] : model->hooks())
    hooks.push_back({{"module", path}, {"when", when}, {"what", what}});
  if (request.hooks) text += (text.empty() ? "" : "\n") + nn::to_string(model->hooks());
  if (!text.empty()) text.pop_back();
  return {std::move(text),
          {{"model", request.model},
           {"preset", request.preset},
           {"mesh", to_string(mesh)},
           {"rows", std::move(rows)},
           {"hooks", std::move(hooks)}}};
}

}  // namespace lockstep::program
