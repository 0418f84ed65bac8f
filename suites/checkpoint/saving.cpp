// SPDX-License-Identifier: Apache-2.0
#include "suites/checkpoint/saving.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"
#include "generators/space/placements.h"
#include "suites/core/case_forms.h"
#include "suites/core/option_table.h"

namespace lockstep::suites {
namespace {

using Shape = std::vector<int64_t>;

constexpr std::array kHarms = {"none", "byte", "cut", "longer", "gone", "exchanged"};
constexpr std::array kDtypes = {at::kFloat, at::kBFloat16, at::kDouble, at::kHalf, at::kLong,
                                at::kInt,   at::kShort,    at::kChar,   at::kByte, at::kBool};

std::string dtypes_text(const std::vector<c10::ScalarType>& dtypes) {
  std::string text;
  for (const auto dtype : dtypes) text += concat(text.empty() ? "" : "-", dtype_name(dtype));
  return text;
}

std::vector<c10::ScalarType> parse_dtypes(const std::string& text) {
  std::vector<c10::ScalarType> dtypes;
  for (const auto part : split(text, '-')) dtypes.push_back(parse_dtype(std::string(part)));
  return dtypes;
}

Harm parse_harm(const std::string& text) {
  const auto found = std::find(kHarms.begin(), kHarms.end(), text);
  LOCKSTEP_CHECK(found != kHarms.end(), "[checkpoint] no harm '", text,
                 "'; there are: none, byte, cut, longer, gone, exchanged");
  return static_cast<Harm>(found - kHarms.begin());
}

const OptionTable<Saving> kOptions = {
    "checkpoint",
    {{"at", &Saving::at, 0, 1'000'000},
     {"older", &Saving::older, 0, 1},
     {"one_by_one", &Saving::one_by_one, 0, 1},
     {"plain", &Saving::plain, 0, 8}},
    {{"dtypes", [](const Saving& s) { return dtypes_text(s.dtypes); },
      [](Saving& s, const std::string& text) { s.dtypes = parse_dtypes(text); }},
     {"from", [](const Saving& s) { return cuts_text(s.from); },
      [](Saving& s, const std::string& text) { s.from = parse_cuts("checkpoint", text); }},
     {"harm", [](const Saving& s) { return std::string(kHarms.at(static_cast<size_t>(s.harm))); },
      [](Saving& s, const std::string& text) { s.harm = parse_harm(text); }},
     {"into", [](const Saving& s) { return cuts_text(s.into); },
      [](Saving& s, const std::string& text) { s.into = parse_cuts("checkpoint", text); }},
     {"onto", [](const Saving& s) { return to_string(s.onto); },
      [](Saving& s, const std::string& text) { s.onto = parse_mesh(text); }},
     {"shapes", [](const Saving& s) { return shapes_text(s.shapes); },
      [](Saving& s, const std::string& text) { s.shapes = parse_shapes("checkpoint", text, 64); }}}};

// Why no tensor lies so; empty: it may.
std::string illegal(const DeviceMesh& mesh, const Placements& placements, const Shape& shape,
                    c10::ScalarType dtype) {
  try {
    const Spec legal(mesh, placements, shape, dtype);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

// What is wrong with it; empty: nothing.
std::string unfit(const Saving& s) {
  const size_t n = s.shapes.size();
  if (s.mesh.size() > 16 || s.onto.size() > s.mesh.size()) return "it has at most 16 ranks, and onto as many";
  if (n == 0 || n > 8) return "it has 1 to 8 tensors";
  if (s.dtypes.size() != n || s.from.size() != n || s.into.size() != n)
    return "there is a dtype, a from and an into for each tensor";
  if (s.plain > std::ssize(s.shapes)) return "plain is at most the number of tensors";
  for (size_t i = 0; i < n; ++i) {
    for (const auto& [mesh, placements] : {std::pair(&s.mesh, &s.from[i]), std::pair(&s.onto, &s.into[i])}) {
      const auto pends = [](const Placement& p) { return is_partial(p); };
      if (std::any_of(placements->begin(), placements->end(), pends)) return "what is saved does not pend";
      if (auto why = illegal(*mesh, *placements, s.shapes[i], s.dtypes[i]); !why.empty()) return why;
    }
  }
  return "";
}

Saving usual_on(const DeviceMesh& mesh, const DeviceMesh& onto, size_t tensors) {
  Saving usual;
  usual.mesh = mesh;
  usual.onto = onto;
  usual.from.assign(tensors, Placements(as_size(mesh.ndim()), Replicate{}));
  usual.into.assign(tensors, Placements(as_size(onto.ndim()), Replicate{}));
  return usual;
}

DeviceMesh any_mesh(generators::Random& draw, int64_t most) {
  std::vector<int64_t> mesh(static_cast<size_t>(draw.weighted<int64_t>({{5, 1}, {4, 2}, {1, 3}})), 1);
  for (auto& n : mesh) {
    n = draw.between(1, std::min<int64_t>(most, mesh.size() == 1 ? 6 : 3));
    most /= n;
  }
  return DeviceMesh(mesh);
}

Placements any_cut(generators::Random& draw, const DeviceMesh& mesh, const Shape& shape,
                   c10::ScalarType dtype) {
  using namespace generators;
  auto target = draw_target(draw, mesh, shape, dtype, kShards | kNestedShards | kInterleaved);
  if (draw.chance(40) && !shape.empty())
    target = with_ragged(draw, std::move(target), mesh, shape, draw.below(mesh.ndim()));
  const bool fits = illegal(mesh, target.placements, shape, dtype).empty();
  return fits ? target.placements : replicated(mesh).placements;
}

}  // namespace

std::string Saving::name(size_t tensor) const {
  return concat("layers.", tensor, is_plain(tensor) ? ".step" : ".weight");
}

at::Tensor Saving::value(size_t tensor, uint64_t age) const {
  const auto random = at::detail::createCPUGenerator((seed * 3 + age) * 1009 + tensor);
  if (dtypes[tensor] == at::kBool) return at::randint(0, 2, shapes[tensor], random, at::kBool);
  auto bits = shapes[tensor];
  bits.push_back(static_cast<int64_t>(c10::elementSize(dtypes[tensor])));
  return at::randint(0, 256, bits, random, at::kByte).view(dtypes[tensor]).view(shapes[tensor]);
}

Saving saving_of(const oracle::Case& c) {
  LOCKSTEP_CHECK(
      c.program.inputs.empty() && c.program.calls.empty(),
      "[checkpoint] the token has a program, and a case of this suite has a mesh, a seed and options");
  auto s = usual_on(c.mesh, DeviceMesh({1}), 1);
  s.seed = c.program.seed;
  for (const auto& [name, text] : c.options) kOptions.set(s, name, text);
  const auto why = unfit(s);
  LOCKSTEP_CHECK(why.empty(), "[checkpoint] ", oracle::to_token(c), ": ", why);
  return s;
}

oracle::Case case_of(const Saving& s) {
  oracle::Case c;
  c.suite = "checkpoint";
  c.mesh = s.mesh;
  c.program.seed = s.seed;
  c.options = kOptions.of(s, usual_on(s.mesh, DeviceMesh({1}), 1));
  return c;
}

Saving any_saving(uint64_t run_seed, int64_t index) {
  auto draw = generators::Random(run_seed).split("checkpoint").split(static_cast<uint64_t>(index));
  const auto mesh = any_mesh(draw, 8), onto = any_mesh(draw, mesh.size());
  auto s = usual_on(mesh, onto, 0);
  s.shapes.clear(), s.dtypes.clear();
  for (int64_t n = draw.between(1, 4); n > 0; --n) {
    auto& shape = s.shapes.emplace_back();
    for (int64_t d = draw.weighted<int64_t>({{1, 0}, {3, 1}, {5, 2}, {2, 3}}); d > 0; --d)
      shape.push_back(draw.chance(4) ? 0 : draw.between(1, 9));
    s.dtypes.push_back(draw.chance(50) ? at::kFloat : kDtypes.at(as_size(draw.below(std::ssize(kDtypes)))));
    s.from.push_back(any_cut(draw, mesh, shape, s.dtypes.back()));
    s.into.push_back(any_cut(draw, onto, shape, s.dtypes.back()));
  }
  s.plain = draw.chance(30) ? draw.between(1, std::ssize(s.shapes)) : 0;
  s.older = draw.chance(40) ? 1 : 0;
  s.one_by_one = draw.chance(25) ? 1 : 0;
  s.harm = draw.weighted<Harm>({{6, Harm::kNone},
                                {5, Harm::kByte},
                                {1, Harm::kCut},
                                {1, Harm::kLonger},
                                {1, Harm::kGone},
                                {1, Harm::kExchanged}});
  s.at = s.harm == Harm::kNone ? 0 : draw.below(1'000'000);
  s.seed = run_seed * 100003 + static_cast<uint64_t>(index);
  return s;
}

std::vector<oracle::Case> simpler_savings(const oracle::Case& c) {
  const auto from = saving_of(c);
  std::vector<oracle::Case> all;
  const auto add = [&](const auto& change) {
    auto s = from;
    change(s);
    if (!unfit(s).empty()) return;
    if (auto made = case_of(s); made != c) all.push_back(std::move(made));
  };
  const auto erase = [](auto& list, size_t i) { list.erase(list.begin() + static_cast<ptrdiff_t>(i)); };
  for (size_t i = 0; i < from.shapes.size(); ++i)
    add([&](Saving& s) {
      s.plain -= s.is_plain(i) ? 1 : 0;
      erase(s.shapes, i), erase(s.dtypes, i), erase(s.from, i), erase(s.into, i);
    });
  add([](Saving& s) {
    const auto usual = usual_on(s.mesh, DeviceMesh({1}), s.shapes.size());
    s.onto = usual.onto, s.into = usual.into;
  });
  add([](Saving& s) { s.harm = Harm::kNone, s.at = 0; });
  for (const auto field : {&Saving::older, &Saving::one_by_one, &Saving::plain})
    if (from.*field > 0) add([&](Saving& s) { --(s.*field); });
  for (size_t i = 0; i < from.shapes.size(); ++i) {
    for (size_t d = 0; d < from.from[i].size(); ++d) add([&](Saving& s) { s.from[i][d] = Replicate{}; });
    for (size_t d = 0; d < from.into[i].size(); ++d) add([&](Saving& s) { s.into[i][d] = Replicate{}; });
    for (size_t d = 0; d < from.shapes[i].size(); ++d)
      for (const int64_t n : {int64_t{1}, from.shapes[i][d] / 2, from.shapes[i][d] - 1})
        if (n >= 1 && n < from.shapes[i][d]) add([&](Saving& s) { s.shapes[i][d] = n; });
    if (from.dtypes[i] != at::kFloat) add([&](Saving& s) { s.dtypes[i] = at::kFloat; });
  }
  add([](Saving& s) { s.seed = 0; });
  return all;
}

}  // namespace lockstep::suites
