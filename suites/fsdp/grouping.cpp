// SPDX-License-Identifier: Apache-2.0
#include "suites/fsdp/grouping.h"

#include <algorithm>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "generators/space/random.h"
#include "suites/core/case_forms.h"
#include "suites/core/option_table.h"

namespace lockstep::suites {
namespace {

c10::ScalarType floating(const std::string& text) {
  const auto dtype = parse_dtype(text);
  LOCKSTEP_CHECK(c10::isFloatingType(dtype), "[dbuffer] gradients of ", text, " do not pend");
  return dtype;
}
const OptionTable<Grouping> kOptions = {
    "dbuffer",
    {{"among", &Grouping::among, 0, 8},
     {"dim", &Grouping::dim, 0, 2},
     {"pends", &Grouping::pends, 0, 7},
     {"rows", &Grouping::rows, 0, 64}},
    {
        {"cut", [](const Grouping& g) { return cut_text(g.placements); },
         [](Grouping& g, const std::string& text) { g.placements = parse_cut("dbuffer", text); }},
        {"dtype", [](const Grouping& g) { return dtype_name(g.dtype); },
         [](Grouping& g, const std::string& text) { g.dtype = floating(text); }},
        {"gathered", [](const Grouping& g) { return dtype_name(g.gathered); },
         [](Grouping& g, const std::string& text) { g.gathered = floating(text); }},
        {"order", [](const Grouping& g) { return std::string(fsdp::name(g.order)); },
         [](Grouping& g, const std::string& text) { g.order = fsdp::parse_order(text); }},
        {"shapes", [](const Grouping& g) { return shapes_text(g.shapes); },
         [](Grouping& g, const std::string& text) { g.shapes = parse_shapes("dbuffer", text, 64); }},
    }};

bool divides(int64_t among, int64_t ranks) {
  return among == 0 || (among > 1 && among < ranks && ranks % among == 0);
}

// What is wrong with it; empty: nothing.
std::string unfit(const Grouping& g) {
  if (g.mesh.size() > 16) return "it has at most 16 ranks";
  if (g.dim >= g.mesh.ndim()) return "dim is a dimension of the mesh";
  if (std::ssize(g.placements) != g.mesh.ndim()) return "cut has a placement for each dimension of the mesh";
  for (int64_t d = 0; d < g.mesh.ndim(); ++d) {
    const auto& p = g.placements[as_size(d)];
    const auto* shard = std::get_if<Shard>(&p);
    if (!is_replicate(p) && (d == g.dim || shard == nullptr || shard->dim < 0 || shard->dim > 1))
      return "cut is R, or S0 or S1 along another dimension than dim";
  }
  if (!divides(g.among, g.mesh.size(g.dim))) return "among divides the ranks along dim";
  return g.shapes.empty() || g.shapes.size() > 8 ? "it has 1 to 8 tensors" : "";
}

}  // namespace

Placements Grouping::placements_of(size_t i) const {
  return shapes[i].size() >= 2 ? placements : Placements(placements.size(), Replicate{});
}

Grouping grouping_of(const oracle::Case& c) {
  LOCKSTEP_CHECK(
      c.program.inputs.empty() && c.program.calls.empty(),
      "[dbuffer] the token has a program, and a case of this suite has a mesh, a seed and options");
  Grouping g;
  g.mesh = c.mesh;
  g.seed = c.program.seed;
  g.placements.assign(as_size(c.mesh.ndim()), Replicate{});
  for (const auto& [name, text] : c.options) kOptions.set(g, name, text);
  const auto why = unfit(g);
  LOCKSTEP_CHECK(why.empty(), "[dbuffer] ", oracle::to_token(c), ": ", why);
  return g;
}

oracle::Case case_of(const Grouping& g) {
  oracle::Case c;
  c.suite = "dbuffer";
  c.mesh = g.mesh;
  c.program.seed = g.seed;
  Grouping usual;
  usual.placements.assign(g.placements.size(), Replicate{});
  c.options = kOptions.of(g, usual);
  return c;
}

Grouping any_grouping(uint64_t run_seed, int64_t index) {
  auto draw = generators::Random(run_seed).split("dbuffer").split(static_cast<uint64_t>(index));
  Grouping g;
  std::vector<int64_t> mesh(static_cast<size_t>(draw.weighted<int64_t>({{5, 1}, {4, 2}, {1, 3}})), 0);
  for (auto& n : mesh) n = draw.between(1, &n != mesh.data() ? 2 : mesh.size() == 3 ? 4 : 6);
  std::rotate(mesh.begin(), mesh.begin() + draw.below(std::ssize(mesh)), mesh.end());
  g.mesh = DeviceMesh(mesh);
  g.dim = draw.below(g.mesh.ndim());
  g.placements.assign(mesh.size(), Replicate{});
  for (int64_t d = 0; d < g.mesh.ndim(); ++d)
    if (d != g.dim && draw.chance(50)) g.placements[as_size(d)] = Shard{draw.below(2)};
  g.pends = draw.between(0, (int64_t{1} << mesh.size()) - 1);
  g.shapes.clear();
  for (int64_t n = draw.between(1, 5); n > 0; --n) {
    auto& shape = g.shapes.emplace_back();
    for (int64_t dims = draw.weighted<int64_t>({{1, 0}, {3, 1}, {6, 2}, {1, 3}}); dims > 0; --dims)
      shape.push_back(draw.chance(4) ? 0 : draw.between(1, shape.size() == 2 ? 4 : 16));
  }
  g.rows = draw.chance(33) ? draw.between(1, 4) : 0;
  const auto any_dtype = [&] {
    return draw.weighted<c10::ScalarType>(
        {{3, at::kFloat}, {1, at::kDouble}, {2, at::kBFloat16}, {1, at::kHalf}});
  };
  g.dtype = any_dtype();
  g.gathered = draw.chance(50) ? g.dtype : any_dtype();
  g.order = static_cast<fsdp::Order>(draw.between(0, 3));
  if (draw.chance(50))
    for (int64_t n = 2; n < g.mesh.size(g.dim); ++n)
      if (divides(n, g.mesh.size(g.dim))) g.among = n;
  g.seed = run_seed * 100003 + static_cast<uint64_t>(index);
  return g;
}

std::vector<oracle::Case> simpler_groupings(const oracle::Case& c) {
  const auto from = grouping_of(c);
  std::vector<oracle::Case> all;
  const auto add = [&](const auto& change) {
    auto g = from;
    change(g);
    if (!divides(g.among, g.mesh.size(std::min(g.dim, g.mesh.ndim() - 1)))) g.among = 0;
    if (auto made = case_of(g); unfit(g).empty() && made != c) all.push_back(std::move(made));
  };
  for (size_t i = 0; i < from.shapes.size(); ++i)
    add([&](Grouping& g) { g.shapes.erase(g.shapes.begin() + static_cast<ptrdiff_t>(i)); });
  for (int64_t d = 0; d < from.mesh.ndim(); ++d) {
    if (d != from.dim)
      add([&](Grouping& g) {
        auto shape = g.mesh.shape();
        shape.erase(shape.begin() + d);
        g.mesh = DeviceMesh(shape).on(from.mesh.device_type());
        g.placements.erase(g.placements.begin() + d);
        if (d < g.dim) --g.dim;
        g.pends = 0;
      });
    for (int64_t n = 1; n < from.mesh.size(d); ++n)
      add([&](Grouping& g) {
        auto shape = g.mesh.shape();
        shape[as_size(d)] = n;
        g.mesh = DeviceMesh(shape).on(from.mesh.device_type());
      });
    add([&](Grouping& g) { g.placements[as_size(d)] = Replicate{}; });
  }
  for (size_t i = 0; i < from.shapes.size(); ++i)
    for (size_t d = 0; d < from.shapes[i].size(); ++d)
      for (const int64_t n : {int64_t{1}, from.shapes[i][d] / 2, from.shapes[i][d] - 1})
        if (n >= 1 && n < from.shapes[i][d]) add([&](Grouping& g) { g.shapes[i][d] = n; });
  for (const auto which : {&Grouping::among, &Grouping::pends, &Grouping::rows})
    add([&](Grouping& g) { g.*which = 0; });
  add([](Grouping& g) { g.gathered = g.dtype; });
  add([](Grouping& g) { g.dtype = g.gathered = at::kFloat; });
  add([](Grouping& g) { g.order = fsdp::Order::kDefault; });
  add([](Grouping& g) { g.seed = 0; });
  return all;
}

}  // namespace lockstep::suites
