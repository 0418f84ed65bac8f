// SPDX-License-Identifier: Apache-2.0
// Faults of optimizers that look at tiles or whole matrices: what is asked of them, what they remember, and
// what comes back from where a matrix is whole.
#include <ATen/ATen.h>

#include <cmath>
#include <numeric>

#include "engine/tensor/dtensor.h"
#include "engine/values/as_size.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/faults/tables.h"
#include "suites/optim/stepped.h"

namespace lockstep::suites::plant {
namespace {

// ---- in which cases ----

using Asked = bool (*)(const Stepping& s);

template <Asked asked>
bool of_steps(const oracle::Case& c) {
  return c.suite == "optim" && asked(stepping_of(c));
}

bool is_8bit(const Stepping& s) {
  return !s.muon && s.dtype == at::kFloat;
}
bool is_8bit_again(const Stepping& s) {
  return is_8bit(s) && s.steps > 1;
}
bool has_small(const Stepping& s) {
  return is_8bit(s) && s.least > 1;
}
bool is_muon(const Stepping& s) {
  return s.muon;
}
bool is_single(const Stepping& s) {
  return s.muon && s.single == 0;
}
bool is_again(const Stepping& s) {
  return s.steps > 1;
}
bool has_none(const Stepping& s) {
  return s.skips != 0 && s.shapes.size() > 1;
}
bool is_cut(const Stepping& s) {
  for (const auto& cut : s.cuts)
    for (size_t d = 0; d < cut.size(); ++d)
      if (distributes(cut[d]) && s.mesh.shape()[d] > 1) return true;
  return false;
}
bool is_muon_cut(const Stepping& s) {
  return s.muon && is_cut(s) && s.mesh.ndim() == 1;
}
bool is_8bit_cut(const Stepping& s) {
  return is_8bit(s) && is_cut(s);
}

// ---- something else is asked of them ----

template <void (*change)(Stepping& s)>
Rewritten asked_so(const oracle::Case& c) {
  auto s = stepping_of(c);
  change(s);
  Rewritten other{case_of(s), std::vector<int64_t>(s.shapes.size() * (s.muon ? 2 : 5))};
  std::iota(other.values.begin(), other.values.end(), int64_t{0});
  return other;
}

void other_tiles(Stepping& s) {
  s.tile = s.tile == 64 ? 63 : s.tile + 1;
}
void all_in_8_bits(Stepping& s) {
  s.least = 1;
}
void other_nesterov(Stepping& s) {
  s.plain = 1 - s.plain;
}
void one_iteration_less(Stepping& s) {
  s.iterations = std::max<int64_t>(s.iterations - 1, 0);
}
void other_rate(Stepping& s) {
  s.by_rms = 1 - s.by_rms;
}
void wider(Stepping& s) {
  s.single = 1;
}
void one_step_less(Stepping& s) {
  s.steps = std::max<int64_t>(s.steps - 1, 1);
}
void never_skips(Stepping& s) {
  s.skips = 0;
}

// ---- what is remembered, and what comes back ----

class Misstepped : public LockstepEngine {
 public:
  explicit Misstepped(SteppingFault fault) : fault_(fault) {}
  EngineResult run(const oracle::Case& c, bool want_timeline) override {
    if (c.suite != "optim") return LockstepEngine::run(c, want_timeline);
    EngineResult ends;
    for (const auto& tensor :
         stepped(local_world(c.mesh.size(), c.mesh.device_type()), stepping_of(c), fault_))
      ends.values.push_back(value_of(tensor));
    return ends;
  }

 private:
  SteppingFault fault_;
};
Plant with_steps(SteppingFault fault) {
  return [=] { return std::make_unique<Misstepped>(fault); };
}

void keep_scales(SteppingScene& scene) {
  scene.kept.clear();
  for (const auto& moment : scene.adamw.exp_avg)
    scene.kept.push_back(moment.codes.defined() ? moment.scales.clone() : at::Tensor());
}
void scales_of_before(SteppingScene& scene) {
  for (size_t i = 0; i < scene.kept.size(); ++i)
    if (scene.kept[i].defined()) scene.adamw.exp_avg[i].scales = scene.kept[i];
}

void states_change_ranks(SteppingScene& scene) {
  for (auto& moment : scene.adamw.exp_avg) {
    if (!moment.codes.defined()) continue;
    const auto& locals = local_tensors(moment.codes);
    for (size_t r = 0; r + 1 < locals.size(); ++r)
      if (locals[r].sizes() == locals[r + 1].sizes()) {
        const auto first = locals[r].clone();
        at::Tensor(locals[r]).copy_(locals[r + 1]);
        at::Tensor(locals[r + 1]).copy_(first);
        break;
      }
  }
}

void moments_change_places(SteppingScene& scene) {
  std::swap(scene.adamw.exp_avg, scene.adamw.exp_avg_sq);
}

void upper_of_two(SteppingScene& scene) {
  for (auto& moment : scene.adamw.exp_avg_sq)
    if (moment.codes.defined()) moment.codes.copy_(moment.codes.add(moment.codes.gt(0)));
}

void one_scale_doubled(SteppingScene& scene) {
  for (auto& moment : scene.adamw.exp_avg_sq) {
    if (!moment.codes.defined()) continue;
    at::Tensor last = local_tensors(moment.scales).back();
    if (last.numel() > 0) last.flatten().slice(0, 0, 1).mul_(2);
  }
}

void keep_parameters(SteppingScene& scene) {
  scene.kept.clear();
  for (const auto& parameter : scene.parameters) scene.kept.push_back(parameter.detach().clone());
}
// The last rank's part of what each root has made does not come back.
void last_stays(SteppingScene& scene) {
  for (size_t i = 0; i < scene.parameters.size(); ++i) {
    at::Tensor last = local_tensors(scene.parameters[i]).back();
    last.copy_(local_tensors(scene.kept[i]).back());
  }
}

// Each rank takes its part for the matrix.
void parts_alone(SteppingScene& scene) {
  for (size_t i = 0; i < scene.parameters.size(); ++i) {
    const auto& gradient = scene.parameters[i].grad();
    if (!gradient.defined() || !is_muon_cut(scene.stepping)) continue;
    const auto& parts = local_tensors(scene.parameters[i]);
    for (size_t r = 0; r < parts.size(); ++r) {
      at::Tensor part = parts[r];
      if (part.dim() != 2 || part.numel() == 0) continue;
      const auto& momentum = local_tensors(scene.momentum[i])[r];
      const auto update = local_tensors(gradient)[r].lerp(momentum, 0.95);
      part.copy_(local_tensors(scene.kept[i])[r] * (1 - kLr * kDecay) -
                 kLr * update / update.norm().clamp(1e-7));
    }
  }
}

void momentum_normalised(SteppingScene& scene) {
  for (const auto& momentum : scene.momentum) {
    if (!momentum.defined()) continue;
    for (const auto& part : local_tensors(momentum)) at::Tensor(part).div_(3);
  }
}

void decayed_after(SteppingScene& scene) {
  for (size_t i = 0; i < scene.parameters.size(); ++i) {
    if (!scene.parameters[i].grad().defined()) continue;
    const auto update = scene.kept[i] * (1 - kLr * kDecay) - scene.parameters[i].detach();
    scene.parameters[i].add_(update, kLr * kDecay);
  }
}

// ---- what moves ----

Rows not_in_blocks(const OpCall&, Rows rows) {
  std::erase_if(rows, [](const Row& row) { return is_ragged(row.inputs[0]); });
  return rows;
}

void first_part_of_next(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    if (pieces.size() > 1 && pieces[0].sizes() == pieces[1].sizes()) pieces[0] = pieces[1];
}
void last_part_lost(Arrived& all, const Groups&) {
  for (auto& pieces : all)
    if (pieces.size() > 1) pieces.back() = at::zeros_like(pieces.back());
}

}  // namespace

Plant unharmed_steps() {
  return with_steps({});
}

std::vector<Fault> optim_faults() {
  return {
      {180, "tiles-of-another-size", "K7", "tiles have a row and a column more", "optim", 60, 0,
       of_steps<is_8bit>, with_program(asked_so<other_tiles>)},
      {181, "small-in-8-bits", "K15", "small parameters have moments of 8 bits, too", "optim", 200, 0,
       of_steps<has_small>, with_program(asked_so<all_in_8_bits>)},
      {182, "nesterov-otherwise", "K15", "Muon looks ahead where it should not, and not where it should",
       "optim", 60, 0, of_steps<is_muon>, with_program(asked_so<other_nesterov>)},
      {183, "iteration-left-out", "K15", "Newton-Schulz stops an iteration early", "optim", 60, 0,
       of_steps<is_muon>, with_program(asked_so<one_iteration_less>)},
      {184, "rate-of-another-norm", "K15", "Muon's learning rate is adjusted by the other formula", "optim",
       60, 0, of_steps<is_muon>, with_program(asked_so<other_rate>)},
      {185, "wide-newton-schulz", "K15", "Newton-Schulz runs in single precision, not in bfloat16", "optim",
       60, 0, of_steps<is_single>, with_program(asked_so<wider>)},
      {186, "last-step-left-out", "K15", "an optimizer does not take its last step", "optim", 60, 0,
       of_steps<is_again>, with_program(asked_so<one_step_less>)},
      {187, "steps-without-gradient", "K15", "a parameter without a gradient is stepped", "optim", 200, 0,
       of_steps<has_none>, with_program(asked_so<never_skips>)},
      {188, "scales-of-step-before", "K11", "codes of a moment go with the scales of the step before",
       "optim", 100, 0, of_steps<is_8bit_again>,
       with_steps({.before_step = keep_scales, .after_step = scales_of_before})},
      {189, "codes-of-another-rank", "K11", "two ranks have each other's codes of a moment", "optim", 200, 0,
       of_steps<is_8bit_cut>, with_steps({.after_step = states_change_ranks})},
      {190, "moments-swapped", "K11", "the first moment is taken for the second", "optim", 60, 0,
       of_steps<is_8bit>, with_steps({.after_step = moments_change_places})},
      {191, "upper-code", "K13", "a code is that of the next greater entry", "optim", 60, 0,
       of_steps<is_8bit>, with_steps({.after_step = upper_of_two})},
      {192, "scale-doubled", "K14", "one rank's scale of a tile is twice what it should be", "optim", 100, 0,
       of_steps<is_8bit>, with_steps({.after_step = one_scale_doubled})},
      {193, "root-answers-not-all", "K14", "what a root has made does not come back to the last rank",
       "optim", 100, 0, of_steps<is_muon>,
       with_steps({.before_step = keep_parameters, .after_step = last_stays})},
      {194, "each-part-a-matrix", "K2", "each rank takes its part of a matrix for the matrix", "optim", 100,
       0, of_steps<is_muon_cut>, with_steps({.before_step = keep_parameters, .after_step = parts_alone})},
      {195, "momentum-normalised", "K4", "the momentum is scaled with what is made of it", "optim", 60, 0,
       of_steps<is_muon>, with_steps({.after_step = momentum_normalised})},
      {196, "decay-after-update", "K15", "a parameter decays after its update", "optim", 60, 0,
       of_steps<is_muon>, with_steps({.before_step = keep_parameters, .after_step = decayed_after})},
      {197, "tiles-gathered", "K16", "tiles are gathered though each rank has whole rows of them", "optim",
       200, 0, of_steps<is_8bit_cut>, with_rows("optim::quantize_tiles", not_in_blocks)},
      {198, "every-rank-a-root", "K16", "every rank gets every matrix", "optim", 100, 0,
       of_steps<is_muon_cut>, with_rows("optim::newton_schulz", not_in_blocks)},
      {199, "parts-change-places", "K6", "what two ranks send is taken for each other's", "optim", 200, 0,
       of_steps<is_muon_cut>, with_received(first_part_of_next, first_part_of_next)},
      {200, "part-lost", "K1", "what the last rank sends does not arrive", "optim", 100, 0,
       of_steps<is_muon_cut>, with_received(last_part_lost, last_part_lost)},
  };
}

}  // namespace lockstep::suites::plant
