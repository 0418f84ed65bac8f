// SPDX-License-Identifier: Apache-2.0
// Faults of mixtures of experts: which experts a token has, where its rows go, what comes back.
#include <ATen/ATen.h>

#include <numeric>

#include "engine/tensor/dtensor.h"
#include "engine/values/as_size.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/experts/mixed.h"
#include "suites/faults/tables.h"

namespace lockstep::suites::plant {
namespace {

using at::Tensor;
using nn::MixtureOfExperts;

// ---- in which cases ----

using Asked = bool (*)(const Mixing& m);

template <Asked asked>
bool of_mixtures(const oracle::Case& c) {
  return c.suite == "experts" && asked(mixing_of(c));
}

bool any(const Mixing&) {
  return true;
}
bool has_choice(const Mixing& m) {
  return m.top_k < m.experts;
}
bool is_tied(const Mixing& m) {
  return has_choice(m) && m.route == 1;
}
bool has_second(const Mixing& m) {
  return m.top_k > 1;
}
bool has_several(const Mixing& m) {
  return m.experts > 1 && m.route != 3;
}
bool is_dealt_out(const Mixing& m) {
  return m.along >= 0 && m.mesh.size(m.along) > 1 && m.experts > 1 && m.tokens > 1 &&
         !is_replicate(m.cut[as_size(m.along)]);
}

// ---- what is planted ----

template <void (*change)(Mixing& m)>
Rewritten asked_so(const oracle::Case& c) {
  auto m = mixing_of(c);
  change(m);
  Rewritten other{case_of(m), std::vector<int64_t>(6)};
  std::iota(other.values.begin(), other.values.end(), int64_t{0});
  return other;
}

void one_expert_less(Mixing& m) {
  --m.top_k;
}

class Mismixed : public LockstepEngine {
 public:
  explicit Mismixed(MixingFault fault) : fault_(fault) {}
  EngineResult run(const oracle::Case& c, bool want_timeline) override {
    if (c.suite != "experts") return LockstepEngine::run(c, want_timeline);
    EngineResult ends;
    for (const auto& tensor : mixed(local_world(c.mesh.size(), c.mesh.device_type()), mixing_of(c), fault_))
      ends.values.push_back(value_of(tensor));
    return ends;
  }

 private:
  MixingFault fault_;
};
Plant with_mixture(MixingFault fault) {
  return [=] { return std::make_unique<Mismixed>(fault); };
}

constexpr const char* kOfExperts[] = {"experts.gate_proj", "experts.up_proj", "experts.down_proj"};

void last_expert_lost(const Mixing&, MixtureOfExperts& mixture) {
  const at::NoGradGuard no_grad;
  auto weight = mixture.parameter("experts.down_proj");
  for (const auto& local : local_tensors(weight))
    if (local.size(0) > 0) {
      local[local.size(0) - 1].zero_();
      return;
    }
}

// The experts in reverse order: the same function, but for ties.
Tensor turned(const Tensor& of_experts) {
  return distribute_tensor(full_tensor(of_experts.detach()).flip(0), device_mesh(of_experts),
                           placements(of_experts), {}, std::nullopt);
}
void numbers_turned(const Mixing&, MixtureOfExperts& mixture) {
  for (const char* name : {"gate.weight", "experts.gate_proj", "experts.up_proj", "experts.down_proj"})
    mixture.set_parameter(name, parameter(turned(mixture.parameter(name))));
}
void gradients_turned(const Mixing&, MixtureOfExperts& mixture) {
  for (const char* name : {"gate.weight", "experts.gate_proj", "experts.up_proj", "experts.down_proj"})
    mixture.parameter(name).mutable_grad() = turned(mixture.parameter(name).grad());
}

void gradients_of_neighbours(const Mixing&, MixtureOfExperts& mixture) {
  for (const char* name : kOfExperts) {
    const auto& grad = mixture.parameter(name).grad();
    const auto mixed_up = full_tensor(grad.detach()).roll(1, 0);
    mixture.parameter(name).mutable_grad() =
        distribute_tensor(mixed_up, device_mesh(grad), placements(grad), {}, std::nullopt);
  }
}

void gate_left_out(const Mixing&, MixtureOfExperts& mixture) {
  mixture.parameter("gate.weight").grad().zero_();
}

void up_and_gate_exchanged(const Mixing&, MixtureOfExperts& mixture) {
  const auto gate = mixture.parameter(kOfExperts[0]), up = mixture.parameter(kOfExperts[1]);
  mixture.set_parameter(kOfExperts[0], up);
  mixture.set_parameter(kOfExperts[1], gate);
}

void rows_turned(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    for (auto& piece : pieces)
      if (piece.dim() == 2 && piece.size(0) > 1) piece = piece.roll(1, 0);
}

}  // namespace

Plant unharmed_mixtures() {
  return with_mixture({});
}

std::vector<Fault> expert_faults() {
  return {
      {210, "expert-lost", "K1", "the last expert of a rank answers nothing", "experts", 60, 0,
       of_mixtures<any>, with_mixture({.before = last_expert_lost})},
      {211, "tie-to-higher-number", "K15", "of equal scores the expert with the higher number is taken",
       "experts", 200, 0, of_mixtures<is_tied>,
       with_mixture({.before = numbers_turned, .after = gradients_turned})},
      {212, "gradients-of-neighbours", "K11", "an expert has its neighbour's gradients", "experts", 60, 0,
       of_mixtures<has_several>, with_mixture({.after = gradients_of_neighbours})},
      {213, "one-expert-less", "K15", "a token has one expert less than it should", "experts", 60, 0,
       of_mixtures<has_second>, with_program(asked_so<one_expert_less>)},
      {214, "gate-without-gradient", "K1", "the router has no gradient", "experts", 100, 0,
       of_mixtures<has_second>, with_mixture({.after = gate_left_out})},
      {215, "gate-and-up-exchanged", "K15", "the gated product is the other one", "experts", 60, 0,
       of_mixtures<any>, with_mixture({.before = up_and_gate_exchanged, .after = up_and_gate_exchanged})},
      {216, "rows-out-of-order", "K6", "rows that come from another rank stand in another order", "experts",
       200, 0, of_mixtures<is_dealt_out>, with_received(rows_turned, rows_turned)},
  };
}

}  // namespace lockstep::suites::plant
