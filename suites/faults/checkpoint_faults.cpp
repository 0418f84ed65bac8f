// SPDX-License-Identifier: Apache-2.0
// Faults of checkpoints: what is saved, what files have, what is loaded.
#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>

#include "engine/tensor/dtensor.h"
#include "suites/checkpoint/saved.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/faults/tables.h"

namespace lockstep::suites::plant {
namespace {

using at::Tensor;

// ---- in which cases ----

using Asked = bool (*)(const Saving& s);

template <Asked asked>
bool of_savings(const oracle::Case& c) {
  return c.suite == "checkpoint" && asked(saving_of(c));
}

bool any(const Saving&) {
  return true;
}
bool is_unharmed(const Saving& s) {
  return s.harm == Harm::kNone;
}
bool is_harmed(const Saving& s) {
  return s.harm != Harm::kNone;
}
bool is_cut(const Saving& s) {
  for (size_t i = 0; i < s.from.size(); ++i)
    for (size_t d = 0; d < s.from[i].size(); ++d)
      if (!s.is_plain(i) && distributes(s.from[i][d]) && s.mesh.shape()[d] > 1) return true;
  return false;
}
bool has_several(const Saving& s) {
  return s.shapes.size() > 1;
}
bool has_floats(const Saving& s) {
  return std::any_of(s.dtypes.begin(), s.dtypes.end(), [](auto dtype) { return dtype == at::kFloat; });
}

// ---- what is saved, and loaded ----

class Missaved : public LockstepEngine {
 public:
  explicit Missaved(SavingFault fault) : fault_(fault) {}
  EngineResult run(const oracle::Case& c, bool want_timeline) override {
    if (c.suite != "checkpoint") return LockstepEngine::run(c, want_timeline);
    EngineResult ends;
    const auto world = local_world(c.mesh.size(), c.mesh.device_type());
    for (const auto& tensor : saved_and_loaded(world, saving_of(c), fault_))
      ends.values.push_back(value_of(tensor));
    return ends;
  }

 private:
  SavingFault fault_;
};
Plant with_savings(SavingFault fault) {
  return [=] { return std::make_unique<Missaved>(fault); };
}

template <class F>
void each_distributed(SavingScene& scene, const F& change) {
  for (auto& [name, value] : scene.state)
    if (is_dtensor(value)) change(value);
}

void ranks_change_places(SavingScene& scene) {
  each_distributed(scene, [](const Tensor& value) {
    const auto& locals = local_tensors(value);
    for (size_t r = 0; r + 1 < locals.size(); ++r) {
      Tensor one = locals[r], other = locals[r + 1];
      if (one.sizes() != other.sizes() || one.equal(other)) continue;
      const auto kept = one.clone();
      one.copy_(other);
      other.copy_(kept);
      return;
    }
  });
}

void last_rank_lost(SavingScene& scene) {
  each_distributed(scene, [](const Tensor& value) { Tensor(local_tensors(value).back()).zero_(); });
}

void narrowed(SavingScene& scene) {
  for (auto& [name, value] : scene.state)
    if (value.scalar_type() == at::kFloat) value = value.to(at::kBFloat16).to(at::kFloat);
}

void names_change_places(SavingScene& scene) {
  if (scene.state.size() > 1) std::swap(scene.state[0].name, scene.state[1].name);
}

void gathered_first(SavingScene& scene) {
  each_distributed(scene, [](Tensor& value) {
    value = redistribute(value, Placements(placements(value).size(), Replicate{}));
  });
}

void one_bit_flipped(SavingScene& scene) {
  each_distributed(scene, [](const Tensor& value) {
    Tensor last = local_tensors(value).back();
    if (last.numel() == 0) return;
    auto first = last.flatten().slice(0, 0, 1);
    if (last.scalar_type() == at::kBool)
      first.logical_not_();
    else
      first.view(at::kByte).bitwise_xor_(1);
  });
}

// ---- what files have ----

void saved_twice(SavingScene& scene) {
  for (const auto& file : std::filesystem::directory_iterator(scene.folder))
    if (file.path().extension() == ".safetensors") {
      std::filesystem::copy(file.path(), scene.folder + "/model-g1-00017-of-00017.safetensors");
      return;
    }
}

}  // namespace

Plant unharmed_savings() {
  return with_savings({});
}

std::vector<Fault> checkpoint_faults() {
  return {
      {201, "saved-for-another-rank", "K11", "two ranks save each other's part", "checkpoint", 100, 0,
       of_savings<is_cut>, with_savings({.before_save = ranks_change_places})},
      {202, "part-unsaved", "K1", "the last rank's part is saved as zeros", "checkpoint", 60, 0,
       of_savings<is_cut>, with_savings({.before_save = last_rank_lost})},
      {203, "saved-in-16-bits", "K13", "single precision is saved in 16 bits", "checkpoint", 60, 0,
       of_savings<has_floats>, with_savings({.before_save = narrowed})},
      {204, "names-exchanged", "K11", "two tensors are saved under each other's name", "checkpoint", 60, 0,
       of_savings<has_several>, with_savings({.before_save = names_change_places})},
      {205, "gathered-to-save", "K16", "every rank has all of a tensor before it is saved", "checkpoint", 60,
       0, of_savings<is_cut>, with_savings({.before_save = gathered_first})},
      {206, "replica-saved-twice", "K1", "two files have what one rank is to save", "checkpoint", 60, 0,
       of_savings<is_unharmed>, with_savings({.after_save = saved_twice})},
      {207, "loaded-for-another-rank", "K6", "two ranks load each other's part", "checkpoint", 200, 0,
       of_savings<is_unharmed>, with_savings({.after_load = ranks_change_places})},
      {208, "replicas-apart", "K14", "the last rank has another bit than what was loaded", "checkpoint", 60,
       0, of_savings<any>, with_savings({.after_load = one_bit_flipped})},
      {209, "refused-and-written", "K4", "a load that is refused has written", "checkpoint", 60, 0,
       of_savings<is_harmed>, with_savings({.after_load = last_rank_lost})},
  };
}

}  // namespace lockstep::suites::plant
