// SPDX-License-Identifier: Apache-2.0
// lockstep show rules: rows depend on an op's arguments, so they are shown for a sample call of the
// generators.
#include "ci/program/show.h"
#include "engine/ops/decide.h"
#include "engine/values/error.h"
#include "suites/laws/sample_call.h"

namespace lockstep::program {
namespace {

using Json = nlohmann::json;

Json texts(const Placements& placements) {
  Json all = Json::array();
  for (const auto& p : placements) all.push_back(to_string(p));
  return all;
}

std::string meta_text(const TensorMeta& meta) {
  if (!meta.defined) return "none";
  return concat(dtype_name(meta.dtype), "[", shape_text(meta.shape), "]");
}

template <class Each>
std::string joined(const std::vector<TensorMeta>& metas, Each each) {
  std::string text;
  for (const auto& m : metas) text += (text.empty() ? "" : ", ") + each(m);
  return text;
}

}  // namespace

Shown show_rules(const ShowRequest& request) {
  const auto sample = suites::sample_call(request.op);
  const auto rows = legal_rows(*sample.entry, sample.call);
  Shown shown{concat(request.op, "(", joined(sample.call.inputs, meta_text), ") -> ",
                     joined(sample.call.outputs, meta_text), "   over one mesh dimension"),
              {}};
  Json inputs = Json::array(), outputs = Json::array();
  for (const auto& m : sample.call.inputs) inputs.push_back(meta_text(m));
  for (const auto& m : sample.call.outputs) outputs.push_back(meta_text(m));
  shown.json = {{"op", request.op},
                {"sample", {{"inputs", inputs}, {"outputs", outputs}, {"token", sample.token}}},
                {"rows", Json::array()}};
  for (const auto& row : rows) {
    shown.text += concat("\n  ", to_string(row.inputs), " -> ", to_string(row.outputs));
    Json even = Json::array();
    for (const auto& [input, dim] : row.even) even.push_back({{"input", input}, {"dim", dim}});
    if (!row.even.empty() || !row.even_outputs.empty()) shown.text += "   if it divides evenly";
    shown.json["rows"].push_back(
        {{"inputs", texts(row.inputs)}, {"outputs", texts(row.outputs)}, {"even", even}});
  }
  return shown;
}

}  // namespace lockstep::program
