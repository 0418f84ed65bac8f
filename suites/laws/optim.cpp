// SPDX-License-Identifier: Apache-2.0
// The law: steps of AdamW in 8 bits and of Muon leave the parameters, and what the optimizers remember, as
// the oracle's own do on one device, bit for bit, however the parameters are cut; and nothing moves but tiles
// that are cut, and what a root lacks of its matrix, there and back. stepping.h says what a case is.
#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/ownership.h"
#include "oracle/reference/update.h"
#include "suites/core/judge.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/laws/laws.h"
#include "suites/optim/stepped.h"

namespace lockstep::suites {
namespace {

using at::Tensor;

// ---- what one device does ----

oracle::UpdateRule rule_of(const Stepping& s) {
  oracle::UpdateRule rule{.lr = kLr, .weight_decay = kDecay};
  if (s.muon) {
    rule.update = oracle::Update::kMuon;
    rule.eps = 1e-7;
    rule.momentum = 0.95;
    rule.nesterov = s.plain == 0;
    rule.coefficients = {3.4445, -4.7750, 2.0315};
    rule.iterations = s.iterations;
    rule.by_rms = s.by_rms != 0;
    rule.in_float = s.single != 0;
    return rule;
  }
  rule.update = oracle::Update::kAdamW8bit;
  rule.beta1 = 0.9;
  rule.beta2 = kBeta2;
  rule.eps = 1e-8;
  rule.tile = s.tile;
  rule.least = s.least;
  return rule;
}

std::vector<Tensor> expected_of(const Stepping& s) {
  std::vector<Tensor> parameters, ends;
  for (size_t i = 0; i < s.shapes.size(); ++i) parameters.push_back(s.value(i));
  oracle::ReferenceOptimizer reference(parameters, rule_of(s));
  for (int64_t step = 1; step <= s.steps; ++step) {
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad() = s.gradient(i, step);
    reference.step();
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    ends.push_back(parameters[i]);
    auto memory = reference.memory(i);
    memory.resize(s.muon ? 1 : 4);
    ends.insert(ends.end(), memory.begin(), memory.end());
  }
  return ends;
}

// ---- the law ----

const char* const kOfAdamW[] = {"the parameter", "the codes of the first moment", "the first moment's scales",
                                "the codes of the second moment", "the second moment's scales"};
const char* const kOfMuon[] = {"the parameter", "the momentum"};

std::string unlike(const Stepping& s, const EngineResult& result) {
  const auto expected = expected_of(s);
  const size_t each = s.muon ? std::size(kOfMuon) : std::size(kOfAdamW);
  if (result.values.size() != expected.size())
    return concat(result.values.size(), " values come of it, not ", expected.size());
  for (size_t v = 0; v < expected.size(); ++v) {
    const auto what = concat(s.muon ? kOfMuon[v % each] : kOfAdamW[v % each], " of number ", v / each);
    const auto& value = result.values[v];
    if (value.defined() != expected[v].defined())
      return concat(what, value.defined() ? " is there" : " is not there");
    if (!value.defined()) continue;
    // Codes are of a parameter's shape and may be gathered with it; parameter and momentum stay where they
    // are.
    const auto cut = Spec(s.mesh, s.cuts[v / each], s.shapes[v / each], s.dtype).placements();
    if ((v % each == 0 || s.muon) && value.spec->placements() != cut)
      return concat(what, " is ", *value.spec, " and was cut ", cut);
    const auto whole = oracle::assemble(value.locals, *value.spec);
    if (whole.disagreement) return concat(what, ": ", whole.disagreement->text);
    const auto difference = oracle::compare(expected[v], whole.global);
    if (!difference.equal())
      return concat(what, ": ", oracle::describe(difference, expected[v].scalar_type()));
  }
  return "";
}

// For each element of the matrices the number of its row of tiles, or of its tile.
Tensor tile_numbers(const Stepping& s, const std::vector<int64_t>& shape, bool of_rows) {
  const int64_t across = of_rows ? 1 : shape.back() / s.tile + 1;
  const auto rows = at::arange(shape[shape.size() - 2]).div(s.tile, "floor").unsqueeze(1);
  const auto columns = at::arange(shape.back()).div(of_rows ? shape.back() + 1 : s.tile, "floor");
  auto numbers = (rows * across + columns).expand(shape).clone();
  if (shape.size() == 3)
    numbers.add_(at::arange(shape[0]).view({-1, 1, 1}) * ((shape[1] / s.tile + 1) * across));
  return numbers;
}

// Whether of some number `mine` has a part, and not all that `whole` has.
bool has_parts(const Tensor& mine, const Tensor& whole) {
  const auto all = at::bincount(whole.flatten());
  const auto some = at::bincount(mine.flatten(), {}, all.numel());
  return !at::logical_or(some.eq(0), some.eq(all)).all().item<bool>();
}

// Whether some rank has a part of a tile, or of a row of tiles where a RaggedShard cuts what the others
// leave.
bool cuts_tiles(const Stepping& s, size_t parameter) {
  const auto& shape = s.shapes[parameter];
  auto others = s.cuts[parameter];
  std::replace_if(others.begin(), others.end(), is_ragged, Placement(Replicate{}));
  const Spec spec(s.mesh, s.cuts[parameter], shape, at::kLong), box(s.mesh, others, shape, at::kLong);
  const auto tiles = tile_numbers(s, shape, false), rows = tile_numbers(s, shape, true);
  for (int64_t position = 0; position < s.mesh.size(); ++position)
    if (has_parts(oracle::slice(tiles, box, position), tiles) ||
        has_parts(oracle::slice(rows, spec, position), oracle::slice(rows, box, position)))
      return true;
  return false;
}

// What several mesh dimensions cut, and not evenly, or in interleaved parts, may be gathered though no tile
// is cut.
bool may_gather(const Stepping& s, size_t parameter) {
  const auto& shape = s.shapes[parameter];
  bool even = shape[shape.size() - 2] % s.tile == 0;
  int64_t cut = 0;
  for (int64_t d = 0; d < s.mesh.ndim(); ++d) {
    const auto& p = s.cuts[parameter][as_size(d)];
    if (is_scattered(p)) return true;
    cut += distributes(p) && s.mesh.size(d) > 1;
    even &= shard_dim(p) < 0 || shape[as_size(shard_dim(p))] % s.mesh.size() == 0;
  }
  return cut > 1 && !even;
}

// Elements that this rank of a mesh of one dimension lacks of a matrix.
int64_t lacks(const Stepping& s, size_t parameter, int64_t rank) {
  const Spec spec(s.mesh, s.cuts[parameter], s.shapes[parameter], s.dtype);
  return spec.numel() - c10::multiply_integers(oracle::local_shape(spec, rank));
}

// To and from the roots: the rank with the least to do takes the largest of those that are left.
int64_t bytes_of_muon(const Stepping& s, int64_t step) {
  struct Left {
    size_t parameter;
    double cost;
  };
  std::vector<Left> left;
  for (size_t i = 0; i < s.shapes.size(); ++i) {
    if (!s.gradient(i, step).defined() || !distributes(s.cuts[i][0])) continue;
    const auto n = static_cast<double>(std::min(s.shapes[i][0], s.shapes[i][1]));
    const auto m = static_cast<double>(std::max(s.shapes[i][0], s.shapes[i][1]));
    left.push_back({i, static_cast<double>(s.iterations) * (2 * n * n * m + 2 * n * n * n + 2 * n * n * m)});
  }
  std::vector<double> load(as_size(s.mesh.size()));
  const auto there = static_cast<int64_t>(c10::elementSize(s.dtype)), back = int64_t{s.single != 0 ? 4 : 2};
  int64_t bytes = 0;
  while (!left.empty()) {
    const auto next =
        std::max_element(left.begin(), left.end(), [](auto& a, auto& b) { return a.cost < b.cost; });
    const auto root = std::min_element(load.begin(), load.end());
    bytes += lacks(s, next->parameter, root - load.begin()) * (there + back);
    *root += next->cost;
    left.erase(next);
  }
  return bytes;
}

// What need not move; empty: nothing did, or nobody knows what must.
std::string moved_needlessly(const Stepping& s, int64_t bytes) {
  int64_t most = 0;
  if (s.muon) {
    if (s.mesh.ndim() > 1) return "";
    for (int64_t step = 1; step <= s.steps; ++step) most += bytes_of_muon(s, step);
  } else {
    for (size_t i = 0; i < s.shapes.size(); ++i) {
      const auto& shape = s.shapes[i];
      const bool is_8bit =
          shape.size() >= 2 && s.dtype == at::kFloat && c10::multiply_integers(shape) >= s.least;
      if (is_8bit && (cuts_tiles(s, i) || may_gather(s, i))) return "";
    }
  }
  return bytes <= most ? "" : concat(bytes, " bytes have moved, and ", most, " need to");
}

}  // namespace

oracle::Case optim_case(uint64_t run_seed, int64_t index) {
  return case_of(any_stepping(run_seed, index));
}

void check_optim(const oracle::Case& c) {
  stepping_of(c);
}

std::vector<oracle::Case> simpler_optim(const oracle::Case& c) {
  return simpler_steppings(c);
}

EngineResult run_optim(const WorldPtr& world, const oracle::Case& c) {
  const auto stepping = stepping_of(c);
  EngineResult ends;
  for (const auto& tensor : stepped(world, stepping)) ends.values.push_back(value_of(tensor));
  return ends;
}

Outcome judge_optim(const oracle::Case& c, EngineUnderTest& engine) {
  const auto stepping = stepping_of(c);
  if (c.mesh.device_type() != c10::kCPU)
    return not_judged("no kernel of the device", "these optimizers run on the CPU");
  EngineResult result;
  if (auto failure = fails_to_run(c, engine, result)) return *std::move(failure);
  auto why = unlike(stepping, result);
  if (why.empty()) why = moved_needlessly(stepping, result.bytes_moved);
  if (!why.empty()) return failed("optim", "different", "", "-", dtype_name(stepping.dtype), why);
  return Passed{};
}

}  // namespace lockstep::suites
