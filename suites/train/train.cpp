// SPDX-License-Identifier: Apache-2.0
#include "suites/train/train.h"

#include <ATen/ATen.h>

#include <bit>
#include <chrono>

#include "dashboard/hash.h"
#include "engine/dtensor.h"
#include "engine/optim/optimizer.h"
#include "engine/timeline_log.h"
#include "engine/values/error.h"
#include "engine/values/random_source.h"
#include "oracle/random_simulation.h"
#include "suites/train/llama.h"
#include "suites/train/memory.h"
#include "suites/train/text.h"

namespace lockstep::suites {
namespace {

bool has_dim(const DeviceMesh& mesh, std::string_view name) {
  return std::find(mesh.names().begin(), mesh.names().end(), name) != mesh.names().end();
}

LlamaOptions model_options(const TrainOptions& options) {
  auto model = llama_preset(options.preset);
  model.max_sequence = options.sequence;
  model.dropout = options.dropout;
  model.dtype = options.dtype;
  return model;
}

uint64_t bits_of(double value, bool wide) {
  return wide ? std::bit_cast<uint64_t>(value) : std::bit_cast<uint32_t>(static_cast<float>(value));
}

Chain extend(const Chain& chain, uint64_t loss_bits, uint64_t norm_bits) {
  return dashboard::Hasher()
      .add(std::string_view(reinterpret_cast<const char*>(chain.data()), chain.size()))
      .add(static_cast<int64_t>(loss_bits))
      .add(static_cast<int64_t>(norm_bits))
      .key();
}

// The stream starts anew after the first values, so that the policy of one does not move the other's offset.
void seed_stream(const TrainOptions& options, uint64_t part) {
  manual_seed(options.seed + part);
  generator().device = options.device;
}

// One model in training.
class Trainer {
 public:
  Trainer(const TrainOptions& options, std::string_view text)
      : options_(options), text_(text), model_(model_options(options)) {
    if (options.mesh)
      mesh_ = init_device_mesh(options.mesh->shape(), options.mesh->names());
    else
      plain_scope_.emplace(simulated_);
    if (mesh_) parallelize_llama(model_, model_options(options), *mesh_);
    seed_stream(options, 0);
    {
      const RandomPolicyScope policy(options.init);
      nn::reset_parameters(model_);
    }
    seed_stream(options, 1);
    optimizer_.emplace(model_.parameters(), optim::AdamWOptions{.lr = options.lr,
                                                                .beta2 = 0.95,
                                                                .weight_decay = options.weight_decay,
                                                                .fused = options.fused_optimizer});
  }

  TrainStep step(int64_t number) {
    const RandomPolicyScope policy(options_.drop);
    const auto began = std::chrono::steady_clock::now();
    optimizer_->zero_grad();
    const auto batch = make_batch(text_, options_.seed, number, options_.batch, options_.sequence);
    const auto loss = model_(placed(batch.tokens), placed(batch.targets));
    loss.backward();
    const auto norm = optim::clip_grad_norm_(model_.parameters(), options_.max_norm);
    optimizer_->step();
    return measured(number, loss.item().toDouble(), norm.item().toDouble(), began);
  }

 private:
  at::Tensor placed(const at::Tensor& tensor) const {
    return mesh_ ? distribute_tensor(tensor, *mesh_, batch_placements(mesh_->mesh)) : tensor;
  }

  TrainStep measured(int64_t number, double loss, double norm, std::chrono::steady_clock::time_point began) {
    TrainStep result{.step = number, .loss = loss, .norm = norm};
    const bool wide = loss_dtype(options_) == "f64";
    result.loss_bits = bits_of(loss, wide);
    result.norm_bits = bits_of(norm, wide);
    chain_ = extend(chain_, result.loss_bits, result.norm_bits);
    result.chain = chain_;
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    result.tokens_per_second = static_cast<double>(options_.batch * options_.sequence) / result.seconds;
    result.peak_bytes = memory_.take_peak_bytes();
    return result;
  }

  const TrainOptions& options_;
  std::string_view text_;
  PeakMemory memory_;
  oracle::SimulatedSource simulated_;
  std::optional<RandomScope> plain_scope_;
  std::optional<MeshInWorld> mesh_;
  Llama model_;
  std::optional<optim::AdamW> optimizer_;
  Chain chain_{};
};

void check_mesh(const TrainOptions& o) {
  for (const auto& name : o.mesh->names())
    LOCKSTEP_CHECK(name == "tp" || name == "dp", "[train] the mesh ", to_string(*o.mesh),
                   " has a dimension other than tp and dp; write tp:4, or dp:2,tp:2");
  if (!has_dim(*o.mesh, "dp")) return;
  const auto parts = o.mesh->size(o.mesh->dim_index("dp"));
  LOCKSTEP_CHECK(o.batch % parts == 0, "[train] dp:", parts, " does not divide the batch of ", o.batch,
                 "; choose --batch as a multiple of it");
}

}  // namespace

void check_options(const TrainOptions& o) {
  LOCKSTEP_CHECK(o.model == "llama", "[train] no model '", o.model, "'; there is: llama");
  llama_preset(o.preset);
  LOCKSTEP_CHECK(o.steps > 0 && o.batch > 0 && o.sequence > 0,
                 "[train] steps, batch and sequence must be above 0; got ", o.steps, ", ", o.batch, ", ",
                 o.sequence);
  LOCKSTEP_CHECK(o.dropout >= 0 && o.dropout < 1, "[train] dropout ", o.dropout, " is not in [0, 1)");
  LOCKSTEP_CHECK(c10::isFloatingType(o.dtype), "[train] dtype ", dtype_name(o.dtype),
                 "; choose f64, f32, bf16 or f16");
  if (o.mesh) check_mesh(o);
}

std::string loss_dtype(const TrainOptions& options) {
  return options.dtype == c10::ScalarType::Double ? "f64" : "f32";
}

std::vector<TrainStep> train(const TrainOptions& options, std::string_view text,
                             const TrainObserver& observer) {
  check_options(options);
  LOCKSTEP_CHECK(text.size() >= static_cast<size_t>(options.sequence), "[train] the text has ", text.size(),
                 " bytes; one example needs ", options.sequence);
  Trainer trainer(options, text);
  std::vector<TrainStep> steps;
  for (int64_t number = 1; number <= options.steps; ++number) {
    Timeline timeline;
    {
      std::optional<TimelineScope> log;
      if (options.mesh && observer.wants_timeline(number)) log.emplace(timeline);
      steps.push_back(trainer.step(number));
    }
    observer.on_step(steps.back());
    if (!timeline.empty()) observer.on_timeline(number, timeline);
  }
  return steps;
}

}  // namespace lockstep::suites
