// SPDX-License-Identifier: Apache-2.0
// One model in training: what a step computes, and all that a step reads, so that any step can be run again
// elsewhere.
#pragma once
#include <memory>
#include <optional>
#include <string_view>

#include "engine/checkpoint/checkpoint.h"
#include "engine/static_eager/static_eager.h"
#include "engine/stream/random_source.h"
#include "engine/tensor/dtensor.h"
#include "oracle/plain/hosted_source.h"
#include "oracle/random/random_simulation.h"
#include "suites/train/language_model.h"
#include "suites/train/optimizer.h"
#include "suites/train/plain_unit.h"
#include "suites/train/text.h"
#include "suites/train/train.h"

namespace lockstep {}

namespace lockstep::suites {

// What one device would hold between two steps: plain tensors, copies.
struct TrainState {
  RandomState random;
  nn::Tensors parameters;  // in the order of named_parameters()
  OptimizerState optimizer;
  // Not empty: replicas that hold other bits than their fellows, or locals that do not fit, and where.
  std::string disagreement;
};

class Trainer {
 public:
  // The model is placed and has no values: init() or load() gives them.
  explicit Trainer(const TrainOptions& options);

  // First values from the stream, which then starts anew for dropout: so a policy for one of the two does not
  // move the other's offset.
  void init();
  void load(const TrainState& state);
  // Of the thread that leads (team.h); all that host ranks call it alike.
  TrainState state() const;
  // The same as it is placed, in a checkpoint. All that host ranks call it alike. Throw Error.
  void save(const std::string& folder, const dcp::Metadata& metadata) const;
  // @pre init() was called. @returns what was saved beside it
  dcp::Metadata resume(const std::string& folder);

  // The global batch of a step, placed; tokens that a small vocabulary lacks are those of the same remainder.
  Batch batch(std::string_view text, int64_t step) const;

  struct Result {
    at::Tensor loss, norm;
  };
  // Forward, backward, clipping, update.
  Result step(const Batch& batch);
  // While what is returned lives, forward and backward passes run statically, as they have on such a batch.
  // On a mesh alone. Throws Error. @pre init() or load() was called
  std::unique_ptr<StaticEager> static_passes(const Batch& batch);
  // The loss in evaluation: nothing is dropped, nothing changes.
  at::Tensor evaluate(const Batch& batch);

  // Which experts each token of the last step had, layer by layer, in the order of their numbers; empty
  // without options.keeps_choices. The same in all that host ranks, which call it alike.
  std::vector<int32_t> choices() const;

  const nn::Module& model() const { return *model_; }
  OptimizerState optimizer() const { return optimizer_->state(); }

 private:
  at::Tensor placed(const at::Tensor& tensor) const;
  at::Tensor placed_like(const at::Tensor& value, const at::Tensor& parameter) const;
  void seed_stream(uint64_t part) const;
  void make_optimizer();
  std::vector<dcp::NamedTensor> named(const OptimizerState& optimizer) const;
  void parallelize();
  void stay_plain();

  // Of one device: draws for `policy` while the scope that is returned lives; nothing on a mesh. A baseline
  // has no one device of its own, so its reference draws the stock stream.
  std::optional<RandomScope> plain_draws(RandomPolicy policy);

  const TrainOptions options_;  // with the fault's
  oracle::SimulatedSource simulated_;
  oracle::HostedSource hosted_{simulated_};
  IndexedSource indexed_;
  std::optional<MeshInWorld> mesh_;
  std::shared_ptr<LanguageModel> model_;
  std::unique_ptr<StaticEager> static_;  // of the model; null: steps run eagerly, or none has been seen
  PlainUnits units_;                     // of one device
  std::optional<Optimizer> optimizer_;
};

}  // namespace lockstep::suites
