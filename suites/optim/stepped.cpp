// SPDX-License-Identifier: Apache-2.0
#include "suites/optim/stepped.h"

#include "engine/optim/adamw8bit.h"
#include "engine/optim/muon.h"
#include "engine/tensor/dtensor.h"
#include "engine/world/comm.h"
#include "oracle/ownership/in_host.h"
#include "oracle/ownership/ownership.h"

namespace lockstep::suites {
namespace {

using at::Tensor;

// Each rank cuts its part out of the whole: nothing moves.
Tensor placed(const Tensor& whole, const MeshInWorld& mesh, const Placements& placements) {
  const Spec spec(mesh.mesh, placements, whole.sizes().vec(), whole.scalar_type());
  PerRank<Tensor> locals;
  for (const int64_t position : mesh.comm->positions)
    locals.push_back(oracle::on_mesh(mesh.mesh, oracle::slice(whole, spec, position)));
  return from_local(locals, mesh, placements, spec.shape(), std::nullopt, /*run_check=*/false);
}

class Ranks {
 public:
  Ranks(const WorldPtr& world, const Stepping& s, const SteppingFault& fault)
      : stepping_(s),
        fault_(fault),
        mesh_(init_device_mesh(s.mesh.device_type(), s.mesh.shape(), s.mesh.names(), world)) {
    for (size_t i = 0; i < s.shapes.size(); ++i)
      parameters_.push_back(parameter(placed(s.value(i), mesh_, s.cuts[i])));
  }

  const std::vector<Tensor>& parameters() const { return parameters_; }

  template <class Optimizer>
  void run(Optimizer& optimizer) {
    for (int64_t step = 1; step <= stepping_.steps; ++step) {
      for (size_t i = 0; i < parameters_.size(); ++i) {
        const auto gradient = stepping_.gradient(i, step);
        parameters_[i].mutable_grad() =
            gradient.defined() ? placed(gradient, mesh_, stepping_.cuts[i]) : gradient;
      }
      spoil(fault_.before_step, optimizer, step);
      optimizer.step();
      spoil(fault_.after_step, optimizer, step);
    }
  }

 private:
  template <class Optimizer>
  void spoil(void (*how)(SteppingScene&), Optimizer& optimizer, int64_t step) {
    if (how == nullptr) return;
    const at::NoGradGuard no_grad;
    optim::AdamW8bitState adamw;
    std::vector<Tensor> momentum;
    SteppingScene scene{stepping_, step, parameters_, adamw, momentum, kept_};
    if constexpr (std::is_same_v<Optimizer, optim::Muon>) {
      momentum = optimizer.momentum();
      how(scene);
      optimizer.load_momentum(momentum);
    } else {
      adamw = optimizer.state();
      how(scene);
      optimizer.load_state(adamw);
    }
  }

  const Stepping& stepping_;
  const SteppingFault& fault_;
  const MeshInWorld mesh_;
  std::vector<Tensor> parameters_, kept_;
};

}  // namespace

std::vector<Tensor> stepped(const WorldPtr& world, const Stepping& s, const SteppingFault& fault) {
  Ranks ranks(world, s, fault);
  std::vector<Tensor> ends;
  if (s.muon) {
    optim::Muon muon(ranks.parameters(), {.lr = kLr,
                                          .weight_decay = kDecay,
                                          .nesterov = s.plain == 0,
                                          .ns_steps = s.iterations,
                                          .adjust_lr = s.by_rms == 0 ? optim::AdjustLr::kOriginal
                                                                     : optim::AdjustLr::kMatchRmsAdamW,
                                          .single_precision = s.single != 0});
    ranks.run(muon);
    for (size_t i = 0; i < ranks.parameters().size(); ++i)
      ends.insert(ends.end(), {ranks.parameters()[i], muon.momentum()[i]});
  } else {
    optim::AdamW8bit adamw(
        ranks.parameters(),
        {.lr = kLr, .beta2 = kBeta2, .weight_decay = kDecay, .block_size = s.tile, .min_8bit_size = s.least});
    ranks.run(adamw);
    const auto& state = adamw.state();
    for (size_t i = 0; i < ranks.parameters().size(); ++i)
      ends.insert(ends.end(), {ranks.parameters()[i], state.exp_avg[i].codes, state.exp_avg[i].scales,
                               state.exp_avg_sq[i].codes, state.exp_avg_sq[i].scales});
  }
  return ends;
}

}  // namespace lockstep::suites
