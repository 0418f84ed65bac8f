// SPDX-License-Identifier: Apache-2.0
// The law: a mixture of experts that is dealt out over a mesh gives the output and the gradients of the
// oracle's own on one device, bit for bit, for any routing; ranks' terms are added up in their order. The
// output lies where the tokens do, and gradients where what they are of does. suites/experts/mixing.h says
// what a case is.
#include <ATen/ATen.h>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/ownership/compare.h"
#include "oracle/ownership/ownership.h"
#include "oracle/reference/mixture.h"
#include "suites/core/judge.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/experts/mixed.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

using at::Tensor;

std::vector<Tensor> expected_of(const Mixing& m) {
  std::vector<int64_t> along, parts{m.tokens};
  bool last_has_experts = false;
  for (int64_t d = 0; d < m.mesh.ndim(); ++d) {
    if (is_replicate(m.cut[as_size(d)])) continue;
    along.push_back(m.mesh.size(d));
    last_has_experts = d == m.along;
    std::vector<int64_t> finer;
    for (const int64_t n : parts) {
      const int64_t most = (n + m.mesh.size(d) - 1) / m.mesh.size(d);
      for (int64_t r = 0; r < m.mesh.size(d); ++r)
        finer.push_back(std::clamp<int64_t>(n - r * most, 0, most));
    }
    parts = std::move(finer);
  }
  const int64_t each = std::max<int64_t>(m.sequence, 1);
  for (auto& n : parts) n *= each;
  const auto flat = [&](const Tensor& t) { return t.reshape({m.tokens * each, m.hidden}); };
  const auto ends =
      oracle::mixture(flat(m.x()), flat(m.grad()), {m.weight(0), m.weight(1), m.weight(2), m.weight(3)},
                      m.top_k, parts, along, last_has_experts);
  return {ends.output.view(m.shape()), ends.x.view(m.shape()), ends.weights.gate,
          ends.weights.gate_proj,      ends.weights.up_proj,   ends.weights.down_proj};
}

constexpr const char* kWhat[] = {"the output",
                                 "the gradient of the tokens",
                                 "the gradient of the gate",
                                 "the gradient of gate_proj",
                                 "the gradient of up_proj",
                                 "the gradient of down_proj"};

std::string unlike(const Mixing& m, const EngineResult& result) {
  const auto expected = expected_of(m);
  if (result.values.size() != expected.size())
    return concat(result.values.size(), " values come of it, not ", expected.size());
  for (size_t v = 0; v < expected.size(); ++v) {
    const auto& value = result.values[v];
    if (!value.defined()) return concat(kWhat[v], " is not there");
    const auto weights = [&](bool of_experts) {
      Placements cut(as_size(m.mesh.ndim()), Replicate{});
      if (of_experts && m.along >= 0) cut[as_size(m.along)] = Shard{0};
      return cut;
    };
    if (const auto cut = v < 2 ? m.cut : weights(v > 2); value.spec->placements() != cut)
      return concat(kWhat[v], " is ", *value.spec, ", not cut ", cut);
    const auto whole = oracle::assemble(value.locals, *value.spec);
    if (whole.disagreement) return concat(kWhat[v], ": ", whole.disagreement->text);
    const auto difference = oracle::compare(expected[v], whole.global);
    if (!difference.equal()) return concat(kWhat[v], ": ", oracle::describe(difference, m.dtype));
  }
  return "";
}

}  // namespace

oracle::Case experts_case(uint64_t run_seed, int64_t index) {
  return case_of(any_mixing(run_seed, index));
}

void check_experts(const oracle::Case& c) {
  mixing_of(c);
}

std::vector<oracle::Case> simpler_experts(const oracle::Case& c) {
  return simpler_mixings(c);
}

EngineResult run_experts(const WorldPtr& world, const oracle::Case& c) {
  EngineResult ends;
  for (const auto& tensor : mixed(world, mixing_of(c))) ends.values.push_back(value_of(tensor));
  return ends;
}

Outcome judge_experts(const oracle::Case& c, EngineUnderTest& engine) {
  const auto mixing = mixing_of(c);
  if (c.mesh.device_type() != c10::kCPU)
    return not_judged("no kernel of the device", "grouped products run on the CPU");
  EngineResult result;
  if (auto failure = fails_to_run(c, engine, result)) return *std::move(failure);
  const auto why = unlike(mixing, result);
  if (!why.empty()) return failed("experts", "different", "", "-", dtype_name(mixing.dtype), why);
  return Passed{};
}

}  // namespace lockstep::suites
