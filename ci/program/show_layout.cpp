// SPDX-License-Identifier: Apache-2.0
// lockstep show layout, lockstep show route
#include <chrono>
#include <cstdio>
#include <numeric>

#include "ci/program/show.h"
#include "engine/layout/layout.h"
#include "engine/layout/route.h"
#include "engine/layout/sharding_table.h"
#include "engine/values/error.h"

namespace lockstep::program {
namespace {

using Json = nlohmann::json;

Spec spec_of(const ShowRequest& r, const std::string& mesh, const std::string& placements) {
  const auto shape = parse_shape(r.shape);
  const auto [list, order] = parse_placements_and_order(placements);
  return Spec(parse_mesh(mesh), list, shape, contiguous_strides(shape),
              parse_dtype(r.dtype.empty() ? "f32" : r.dtype), order);
}

std::string list_text(const std::vector<int64_t>& list) {
  std::string text;
  for (const auto n : list) text += (text.empty() ? "" : ",") + std::to_string(n);
  return "(" + text + ")";
}

// A rank's part as boxes: of each piece the product of the intervals of each dimension. In a flat local the
// offset is one number, that of the box's first element.
struct Box {
  std::vector<int64_t> global_offset, local_offset, shape;
};

std::vector<Box> boxes_of(const std::vector<IndexList>& lists) {
  std::vector<Box> boxes{{}};
  for (const auto& list : lists) {
    std::vector<Box> grown;
    for (const auto& box : boxes) {
      int64_t local = 0;
      for (const auto& interval : list) {
        auto next = box;
        next.global_offset.push_back(interval.start);
        next.local_offset.push_back(local);
        next.shape.push_back(interval.length);
        local += interval.length;
        grown.push_back(std::move(next));
      }
    }
    boxes = std::move(grown);
  }
  return boxes;
}

std::vector<Box> boxes_of(const Owned& owned) {
  if (!owned.flat.has_value()) return boxes_of(owned.lists);
  std::vector<Box> boxes;
  for (const auto& piece : pieces(owned)) {
    const auto stride = contiguous_strides(piece.shape());
    for (auto& box : boxes_of(piece.lists)) {
      const int64_t at =
          std::inner_product(stride.begin(), stride.end(), box.local_offset.begin(), piece.start);
      box.local_offset = {at};
      boxes.push_back(std::move(box));
    }
  }
  return boxes;
}

}  // namespace

Shown show_layout(const ShowRequest& request) {
  const auto spec = spec_of(request, request.mesh, request.placements);
  Shown shown{to_string(spec) + " on " + to_string(spec.mesh()), {}};
  shown.json = {{"spec", to_string(spec)},
                {"mesh", to_string(spec.mesh())},
                {"placements", to_string(spec.placements())},
                {"order", spec.order()},
                {"shape", spec.shape()},
                {"dtype", dtype_name(spec.dtype())},
                {"ranks", Json::array()}};
  for (int64_t position = 0; position < spec.mesh().size(); ++position) {
    const auto local = local_shape(spec, position);
    Json boxes = Json::array();
    std::string where;
    for (const auto& box : boxes_of(owned_by(spec, position))) {
      boxes.push_back(
          {{"global_offset", box.global_offset}, {"local_offset", box.local_offset}, {"shape", box.shape}});
      where +=
          concat(where.empty() ? "" : ", ", shape_text(box.shape), " from ", list_text(box.global_offset));
    }
    const auto rank = spec.mesh().ranks()[static_cast<size_t>(position)];
    const auto coordinate = spec.mesh().coordinate(position);
    shown.text += concat("\nrank ", rank, " at ", list_text(coordinate), ": local ", shape_text(local), "; ",
                         where.empty() ? "nothing" : where);
    shown.json["ranks"].push_back(
        {{"rank", rank}, {"coordinate", coordinate}, {"local_shape", local}, {"boxes", boxes}});
  }
  if (request.table) shown.text += "\n" + visualize_sharding(spec);
  if (request.table) shown.text.pop_back();
  return shown;
}

Shown show_route(const ShowRequest& request) {
  const auto from = std::make_shared<const Spec>(spec_of(request, request.mesh, request.placements));
  const auto& mesh = request.to_mesh.empty() ? request.mesh : request.to_mesh;
  const auto to = std::make_shared<const Spec>(spec_of(request, mesh, request.to));
  const auto start = std::chrono::steady_clock::now();
  const auto way = route(from, to);
  const std::chrono::duration<double, std::milli> planning = std::chrono::steady_clock::now() - start;
  Shown shown{to_string(*from) + " -> " + to_string(*to), {}};
  if (from->mesh() != to->mesh()) shown.text += concat(", from mesh ", from->mesh(), " to ", to->mesh());
  shown.json = {{"from", to_string(*from)},
                {"to", to_string(*to)},
                {"mesh", to_string(from->mesh())},
                {"to_mesh", to_string(to->mesh())},
                {"bytes", way.bytes()},
                {"planned_in_ms", planning.count()},
                {"steps", Json::array()}};
  for (const auto& step : way.steps) {
    shown.text += "\n  " + to_string(step);
    shown.json["steps"].push_back({{"collective", name(step.kind)},
                                   {"mesh_dim", step.mesh_dim},
                                   {"from", to_string(*step.from)},
                                   {"to", to_string(*step.to)},
                                   {"bytes", step.bytes}});
  }
  if (way.steps.empty()) shown.text += "\n  nothing to do";
  char took[32];
  std::snprintf(took, sizeof took, "%.3f", planning.count());
  shown.text += concat("\n", way.bytes(), " bytes between ranks, planned in ", took, " ms");
  return shown;
}

}  // namespace lockstep::program
