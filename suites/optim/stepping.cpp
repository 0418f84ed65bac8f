// SPDX-License-Identifier: Apache-2.0
#include "suites/optim/stepping.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "generators/space/placements.h"
#include "suites/core/case_forms.h"
#include "suites/core/option_table.h"

namespace lockstep::suites {
namespace {

using Shape = std::vector<int64_t>;

const OptionTable<Stepping> kOptions = {
    "optim",
    {
        // by name
        {"by_rms", &Stepping::by_rms, 0, 1},
        {"iterations", &Stepping::iterations, 0, 8},
        {"least", &Stepping::least, 1, 4096},
        {"plain", &Stepping::plain, 0, 1},
        {"single", &Stepping::single, 0, 1},
        {"skips", &Stepping::skips, 0, 1},
        {"spread", &Stepping::spread, 0, 120},
        {"steps", &Stepping::steps, 1, 5},
        {"tile", &Stepping::tile, 1, 64},
    },
    {
        {"cuts", [](const Stepping& s) { return cuts_text(s.cuts); },
         [](Stepping& s, const std::string& text) { s.cuts = parse_cuts("optim", text); }},
        {"dtype", [](const Stepping& s) { return dtype_name(s.dtype); },
         [](Stepping& s, const std::string& text) { s.dtype = parse_dtype(text); }},
        {"optimizer", [](const Stepping& s) { return std::string(s.muon ? "muon" : "adamw-8bit"); },
         [](Stepping& s, const std::string& text) {
           LOCKSTEP_CHECK(text == "muon" || text == "adamw-8bit", "[optim] no optimizer '", text,
                          "' in this suite; there are: adamw-8bit, muon");
           s.muon = text == "muon";
         }},
        {"shapes", [](const Stepping& s) { return shapes_text(s.shapes); },
         [](Stepping& s, const std::string& text) { s.shapes = parse_shapes("optim", text, 128); }},
    }};

bool pends(const Placements& placements) {
  return std::any_of(placements.begin(), placements.end(), [](const Placement& p) { return is_partial(p); });
}

// What is wrong with it; empty: nothing.
std::string unfit(const Stepping& s) {
  if (s.mesh.size() > 16) return "it has at most 16 ranks";
  if (s.shapes.empty() || s.shapes.size() > 8) return "it has 1 to 8 parameters";
  if (s.shapes.size() != s.cuts.size()) return "there is a cut for each parameter";
  if (!c10::isFloatingType(s.dtype)) return "parameters are of floating point";
  for (size_t i = 0; i < s.shapes.size(); ++i) {
    if (s.muon && s.shapes[i].size() != 2) return "Muon steps matrices";
    if (pends(s.cuts[i])) return "parameters do not pend";
    try {
      const Spec legal(s.mesh, s.cuts[i], s.shapes[i], s.dtype);
    } catch (const Error& e) {
      return e.what();
    }
  }
  return "";
}

at::Tensor normal(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat);
}

// Each rank has whole rows of tiles, if nothing else cuts rows.
Placement by_tiles(generators::Random& draw, int64_t rows, int64_t tile, int64_t ranks) {
  std::vector<int64_t> units(as_size(ranks));
  for (int64_t row = 0; row < rows; row += tile)
    units[as_size(draw.below(ranks))] += std::min(tile, rows - row);
  // The short one, if there is one, is the last rank's that has any.
  const int64_t rest = rows % tile;
  if (rest != 0) {
    for (auto& n : units) n -= n % tile == 0 ? 0 : rest;
    const auto last = std::find_if(units.rbegin(), units.rend(), [](int64_t n) { return n > 0; });
    (last == units.rend() ? units.back() : *last) += rest;
  }
  return RaggedShard{{0}, units, 1};
}

Placements any_cut(generators::Random& draw, const Stepping& s, const Shape& shape) {
  using namespace generators;
  const bool has_rows = shape.size() == 2 && shape[0] > 0;
  const int64_t along = draw.below(s.mesh.ndim());
  Placements placements(as_size(s.mesh.ndim()), Replicate{});
  const auto kind = draw.weighted<int64_t>({{3, 0}, {3, 1}, {2, 2}, {2, 3}});
  if (kind == 0 || (kind == 1 && !has_rows)) {
    if (draw.chance(50) || shape.empty())
      return draw_target(draw, s.mesh, shape, s.dtype, kShards | kNestedShards | kInterleaved).placements;
    return with_ragged(draw, replicated(s.mesh), s.mesh, shape, along).placements;
  }
  if (kind == 1) {
    placements[as_size(along)] = by_tiles(draw, shape[0], s.muon ? 1 : s.tile, s.mesh.size(along));
    for (int64_t d = 0; d < s.mesh.ndim(); ++d)
      if (d != along && draw.chance(40)) placements[as_size(d)] = Shard{1};
  } else if (kind == 2) {
    std::vector<int64_t> units(as_size(s.mesh.size(along)));
    units[as_size(draw.below(std::ssize(units)))] = 1;
    placements[as_size(along)] = RaggedShard{{}, units, 1};
  } else if (!shape.empty()) {
    for (int64_t d = 0; d < s.mesh.ndim(); ++d)
      if (draw.chance(60)) placements[as_size(d)] = Shard{draw.below(std::ssize(shape))};
  }
  return placements;
}

}  // namespace

at::Tensor Stepping::value(size_t parameter) const {
  return normal(shapes[parameter], seed * 1009 + parameter).to(dtype);
}

at::Tensor Stepping::gradient(size_t parameter, int64_t step) const {
  if (skips != 0 && parameter % 2 == 1 && step % 2 == 1) return {};
  auto drawn =
      normal(shapes[parameter], seed * 1009 + 16 * static_cast<uint64_t>(step) + parameter + 1000003);
  if (spread > 0 && drawn.dim() >= 1 && drawn.numel() > 0) {
    const int64_t rows = drawn.size(0);
    for (int64_t r = 0; r < rows; ++r)
      drawn[r].mul_(r % 7 == 3 ? 0.0 : std::ldexp(1.0, -static_cast<int>(r * 5 % (spread + 1))));
  }
  return drawn.to(dtype);
}

Stepping stepping_of(const oracle::Case& c) {
  LOCKSTEP_CHECK(c.program.inputs.empty() && c.program.calls.empty(),
                 "[optim] the token has a program, and a case of this suite has a mesh, a seed and options");
  Stepping s;
  s.mesh = c.mesh;
  s.seed = c.program.seed;
  s.cuts = {Placements(as_size(c.mesh.ndim()), Replicate{})};
  for (const auto& [name, text] : c.options) kOptions.set(s, name, text);
  const auto why = unfit(s);
  LOCKSTEP_CHECK(why.empty(), "[optim] ", oracle::to_token(c), ": ", why);
  return s;
}

oracle::Case case_of(const Stepping& s) {
  oracle::Case c;
  c.suite = "optim";
  c.mesh = s.mesh;
  c.program.seed = s.seed;
  Stepping usual;
  usual.cuts = {Placements(as_size(s.mesh.ndim()), Replicate{})};
  c.options = kOptions.of(s, usual);
  return c;
}

Stepping any_stepping(uint64_t run_seed, int64_t index) {
  auto draw = generators::Random(run_seed).split("optim").split(static_cast<uint64_t>(index));
  Stepping s;
  std::vector<int64_t> mesh(static_cast<size_t>(draw.weighted<int64_t>({{6, 1}, {3, 2}, {1, 3}})));
  for (auto& n : mesh) n = draw.between(1, &n != mesh.data() ? 2 : mesh.size() == 3 ? 3 : 5);
  std::rotate(mesh.begin(), mesh.begin() + draw.below(std::ssize(mesh)), mesh.end());
  s.mesh = DeviceMesh(mesh);
  s.muon = draw.chance(45);
  s.tile = draw.weighted<int64_t>({{3, 2}, {2, 3}, {2, 4}, {1, 1}, {1, 32}});
  s.dtype = draw.weighted<c10::ScalarType>({{8, at::kFloat}, {1, at::kDouble}, {1, at::kBFloat16}});
  if (s.muon) {
    s.tile = 2;
    s.single = draw.chance(30) ? 1 : 0;
    s.by_rms = draw.chance(20) ? 1 : 0;
    s.plain = draw.chance(20) ? 1 : 0;
    if (draw.chance(15)) s.iterations = draw.between(0, 3);
  } else if (draw.chance(25)) {
    s.least = draw.between(2, 40);
  }
  s.skips = draw.chance(25) ? 1 : 0;
  s.spread = draw.chance(35) ? draw.between(4, 60) : 0;
  s.steps = draw.weighted<int64_t>({{2, 1}, {3, 2}, {2, 3}, {3, 5}});
  s.shapes.clear();
  s.cuts.clear();
  for (int64_t n = draw.between(1, 4); n > 0; --n) {
    auto& shape = s.shapes.emplace_back();
    const auto dims = s.muon ? 2 : draw.weighted<int64_t>({{2, 1}, {7, 2}, {2, 3}});
    for (int64_t d = 0; d < dims; ++d) {
      const int64_t most = dims == 3 && d == 0 ? 3 : s.tile == 32 && !s.muon ? 70 : 14;
      shape.push_back(draw.chance(3) ? 0 : draw.between(1, most));
    }
    s.cuts.push_back(any_cut(draw, s, shape));
    if (!unfit(s).empty()) s.cuts.back().assign(mesh.size(), Replicate{});
  }
  s.seed = run_seed * 100003 + static_cast<uint64_t>(index);
  return s;
}

namespace {

// Without the last rank along a mesh dimension, whose blocks the one before it takes.
void drop_last_rank(Stepping& s, int64_t dim) {
  auto shape = s.mesh.shape();
  --shape[as_size(dim)];
  s.mesh = DeviceMesh(shape).on(s.mesh.device_type());
  for (auto& cut : s.cuts)
    if (auto* ragged = std::get_if<RaggedShard>(&cut[as_size(dim)])) {
      const int64_t last = ragged->units.back();
      ragged->units.pop_back();
      ragged->units.back() += last;
    }
}

void drop_dim(Stepping& s, int64_t dim) {
  auto shape = s.mesh.shape();
  shape.erase(shape.begin() + dim);
  s.mesh = DeviceMesh(shape).on(s.mesh.device_type());
  for (auto& cut : s.cuts) cut.erase(cut.begin() + dim);
}

}  // namespace

std::vector<oracle::Case> simpler_steppings(const oracle::Case& c) {
  const auto from = stepping_of(c);
  std::vector<oracle::Case> all;
  const auto add = [&](const auto& change) {
    auto s = from;
    change(s);
    if (!unfit(s).empty()) return;
    if (auto made = case_of(s); made != c) all.push_back(std::move(made));
  };
  for (size_t i = 0; i < from.shapes.size(); ++i)
    add([&](Stepping& s) {
      s.shapes.erase(s.shapes.begin() + static_cast<ptrdiff_t>(i));
      s.cuts.erase(s.cuts.begin() + static_cast<ptrdiff_t>(i));
    });
  for (int64_t d = 0; d < from.mesh.ndim(); ++d) {
    if (from.mesh.ndim() > 1) add([&](Stepping& s) { drop_dim(s, d); });
    if (from.mesh.size(d) > 1) add([&](Stepping& s) { drop_last_rank(s, d); });
  }
  for (int64_t n = 1; n < from.steps; ++n) add([&](Stepping& s) { s.steps = n; });
  for (size_t i = 0; i < from.shapes.size(); ++i) {
    for (size_t d = 0; d < from.cuts[i].size(); ++d) add([&](Stepping& s) { s.cuts[i][d] = Replicate{}; });
    for (size_t d = 0; d < from.shapes[i].size(); ++d)
      for (const int64_t n : {int64_t{1}, from.shapes[i][d] / 2, from.shapes[i][d] - 1})
        if (n >= 1 && n < from.shapes[i][d]) add([&](Stepping& s) { s.shapes[i][d] = n; });
  }
  const Stepping usual;
  for (const auto& option : kOptions.numbers)
    if (from.*option.field > usual.*option.field && std::string_view(option.name) != "tile")
      add([&](Stepping& s) { s.*option.field = usual.*option.field; });
  add([](Stepping& s) { s.dtype = at::kFloat; });
  add([](Stepping& s) { s.seed = 0; });
  return all;
}

}  // namespace lockstep::suites
