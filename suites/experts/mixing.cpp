// SPDX-License-Identifier: Apache-2.0
#include "suites/experts/mixing.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "generators/space/random.h"
#include "suites/core/case_forms.h"
#include "suites/core/option_table.h"

namespace lockstep::suites {
namespace {

const OptionTable<Mixing> kOptions = {
    "experts",
    {
        // by name
        {"along", &Mixing::along, -1, 3},
        {"experts", &Mixing::experts, 1, 16},
        {"hidden", &Mixing::hidden, 1, 64},
        {"inner", &Mixing::inner, 1, 64},
        {"route", &Mixing::route, 0, 3},
        {"sequence", &Mixing::sequence, 0, 16},
        {"tokens", &Mixing::tokens, 1, 64},
        {"top_k", &Mixing::top_k, 1, 16},
    },
    {
        {"cut", [](const Mixing& m) { return cut_text(m.cut); },
         [](Mixing& m, const std::string& text) { m.cut = parse_cut("experts", text); }},
        {"dtype", [](const Mixing& m) { return dtype_name(m.dtype); },
         [](Mixing& m, const std::string& text) { m.dtype = parse_dtype(text); }},
    }};

// What is wrong with it; empty: nothing.
std::string unfit(const Mixing& m) {
  if (m.mesh.size() > 16) return "it has at most 16 ranks";
  if (std::ssize(m.cut) != m.mesh.ndim()) return "there is a cut for each mesh dimension";
  if (m.along >= m.mesh.ndim()) return concat("there is no mesh dimension ", m.along);
  if (m.top_k > m.experts) return "there are fewer experts than a token has";
  if (!c10::isFloatingType(m.dtype)) return "tokens are of floating point";
  int64_t blocks = 1;
  for (int64_t d = 0; d < m.mesh.ndim(); ++d) {
    const auto& p = m.cut[as_size(d)];
    if (!is_replicate(p) && p != Placement(Shard{0})) return "tokens are R or S0";
    if (d == m.along || is_replicate(p)) continue;
    if (m.along >= 0 && d > m.along && !is_replicate(m.cut[as_size(m.along)]))
      return "the experts' mesh dimension is the last that cuts tokens";
    blocks *= m.mesh.size(d);
  }
  if (m.tokens % blocks != 0) return concat(blocks, " blocks do not divide ", m.tokens, " tokens");
  // Else the gate's product is of other rows than the ranks have.
  if (m.along >= 0 && !is_replicate(m.cut[as_size(m.along)])) blocks *= m.mesh.size(m.along);
  return m.sequence == 0 || m.tokens % blocks == 0 ? "" : "tokens of a sequence are cut evenly";
}

at::Tensor normal(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat);
}

}  // namespace

std::vector<int64_t> Mixing::shape() const {
  if (sequence == 0) return {tokens, hidden};
  return {tokens, sequence, hidden};
}

at::Tensor Mixing::x() const {
  auto drawn = normal(shape(), seed * 1009);
  // All scores of the last expert are then above the others'.
  return (route == 3 ? drawn.abs().add(0.5) : drawn).to(dtype);
}

at::Tensor Mixing::grad() const {
  return normal(shape(), seed * 1009 + 1).to(dtype);
}

at::Tensor Mixing::weight(size_t which) const {
  std::vector<int64_t> shape{experts, inner, hidden};
  if (which == 0) shape = {experts, hidden};
  if (which == 3) std::swap(shape[1], shape[2]);
  auto drawn = normal(shape, seed * 1009 + 2 + which);
  if (which == 0 && route == 1) drawn = drawn.narrow(0, 0, 1).expand(shape).clone();
  if (which == 0 && route == 2)
    for (int64_t e = 1; e < experts; e += 2) drawn[e].copy_(drawn[e - 1]);
  if (which == 0 && route == 3) {
    drawn.abs_().neg_();
    drawn[experts - 1].neg_();
  }
  return drawn.to(dtype);
}

Mixing mixing_of(const oracle::Case& c) {
  LOCKSTEP_CHECK(
      c.program.inputs.empty() && c.program.calls.empty(),
      "[experts] the token has a program, and a case of this suite has a mesh, a seed and options");
  Mixing m;
  m.mesh = c.mesh;
  m.seed = c.program.seed;
  m.cut = Placements(as_size(c.mesh.ndim()), Replicate{});
  for (const auto& [name, text] : c.options) kOptions.set(m, name, text);
  const auto why = unfit(m);
  LOCKSTEP_CHECK(why.empty(), "[experts] ", oracle::to_token(c), ": ", why);
  return m;
}

oracle::Case case_of(const Mixing& m) {
  oracle::Case c;
  c.suite = "experts";
  c.mesh = m.mesh;
  c.program.seed = m.seed;
  Mixing usual;
  usual.cut = Placements(as_size(m.mesh.ndim()), Replicate{});
  c.options = kOptions.of(m, usual);
  return c;
}

Mixing any_mixing(uint64_t run_seed, int64_t index) {
  auto draw = generators::Random(run_seed).split("experts").split(static_cast<uint64_t>(index));
  Mixing m;
  std::vector<int64_t> mesh(as_size(draw.weighted<int64_t>({{4, 1}, {5, 2}, {2, 3}, {1, 4}})));
  for (auto& n : mesh) n = draw.between(1, mesh.size() == 1 ? 6 : mesh.size() == 2 ? 4 : 2);
  m.mesh = DeviceMesh(mesh);
  m.along = draw.chance(85) ? draw.below(m.mesh.ndim()) : -1;
  m.cut.assign(mesh.size(), Replicate{});
  int64_t blocks = 1;
  for (int64_t d = 0; d < m.mesh.ndim(); ++d) {
    if (!draw.chance(80)) continue;
    m.cut[as_size(d)] = Shard{0};
    if (d != m.along) blocks *= m.mesh.size(d);
  }
  m.tokens = blocks * draw.between(1, std::max<int64_t>(1, 24 / blocks));
  m.sequence = draw.chance(45) ? draw.between(1, 3) : 0;
  m.hidden = draw.between(1, 9);
  m.inner = draw.between(1, 9);
  m.experts = draw.between(1, 7);
  m.top_k = draw.between(1, draw.chance(20) ? m.experts : std::min<int64_t>(m.experts, 3));
  m.route = draw.weighted<int64_t>({{5, 0}, {2, 1}, {2, 2}, {2, 3}});
  m.dtype =
      draw.weighted<c10::ScalarType>({{6, at::kFloat}, {2, at::kDouble}, {1, at::kBFloat16}, {1, at::kHalf}});
  m.seed = run_seed * 100003 + static_cast<uint64_t>(index);
  if (!unfit(m).empty()) m.sequence = 0;
  for (int64_t d = m.along + 1; d < m.mesh.ndim() && !unfit(m).empty(); ++d) m.cut[as_size(d)] = Replicate{};
  return m;
}

std::vector<oracle::Case> simpler_mixings(const oracle::Case& c) {
  const auto from = mixing_of(c);
  std::vector<oracle::Case> all;
  const auto add = [&](const auto& change) {
    auto m = from;
    change(m);
    if (!unfit(m).empty()) return;
    if (auto made = case_of(m); made != c) all.push_back(std::move(made));
  };
  for (int64_t d = 0; d < from.mesh.ndim(); ++d) {
    const auto resized = [&](Mixing& m, std::vector<int64_t> shape) {
      m.mesh = DeviceMesh(std::move(shape)).on(from.mesh.device_type());
    };
    if (from.mesh.ndim() > 1)
      add([&](Mixing& m) {
        auto shape = from.mesh.shape();
        shape.erase(shape.begin() + d);
        m.cut.erase(m.cut.begin() + d);
        if (m.along >= d) m.along = m.along == d ? -1 : m.along - 1;
        resized(m, shape);
      });
    if (from.mesh.size(d) > 1)
      add([&](Mixing& m) {
        auto shape = from.mesh.shape();
        --shape[as_size(d)];
        resized(m, shape);
      });
    add([&](Mixing& m) { m.cut[as_size(d)] = Replicate{}; });
  }
  const Mixing usual;
  for (const auto& option : kOptions.numbers)
    for (const int64_t n :
         {option.least, usual.*option.field, from.*option.field / 2, from.*option.field - 1})
      if (n >= option.least && n < from.*option.field && std::string_view(option.name) != "along")
        add([&](Mixing& m) { m.*option.field = n; });
  add([](Mixing& m) { m.dtype = at::kFloat; });
  add([](Mixing& m) { m.seed = 0; });
  return all;
}

}  // namespace lockstep::suites
