// SPDX-License-Identifier: Apache-2.0
// Training of a small language model on real text: on one device by plain libtorch, or on a mesh by the
// engine, from the same code, the same first values, the same batches and the same random stream.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/fsdp/mixed_precision.h"
#include "engine/lane/numerics.h"
#include "engine/random/random_policy.h"
#include "engine/values/device_mesh.h"
#include "engine/values/timeline.h"
#include "engine/world/world.h"
#include "suites/train/model_options.h"

namespace lockstep::suites {

// AdamW with betas of 0.9 and 0.95 and eps of 1e-8, SGD with a momentum of 0.9: over the _foreach_ ops, or as
// one fused op; AdamW with moments of 8 bits; Muon of the layers' matrices, and AdamW of the rest.
enum class OptimizerKind { kAdamW, kFusedAdamW, kSgd, kFusedSgd, kAdamW8bit, kMuon };
inline constexpr std::array kOptimizers = {OptimizerKind::kAdamW,     OptimizerKind::kFusedAdamW,
                                           OptimizerKind::kSgd,       OptimizerKind::kFusedSgd,
                                           OptimizerKind::kAdamW8bit, OptimizerKind::kMuon};
// "adamw", "adamw-fused", "sgd", "sgd-fused", "adamw-8bit", "muon"
const char* name(OptimizerKind kind);
constexpr bool is_sgd(OptimizerKind kind) {
  return kind == OptimizerKind::kSgd || kind == OptimizerKind::kFusedSgd;
}
constexpr bool is_fused(OptimizerKind kind) {
  return kind == OptimizerKind::kFusedAdamW || kind == OptimizerKind::kFusedSgd;
}
// Its operators have kernels there.
constexpr bool runs_on(OptimizerKind kind, c10::DeviceType type) {
  return type == c10::kCPU || (kind != OptimizerKind::kAdamW8bit && kind != OptimizerKind::kMuon);
}
// Throws Error that lists the names.
OptimizerKind parse_optimizer(std::string_view name);

// What a training on a mesh may do without, in an ablation (veScale-FSDP, Table 2): fully_shard's buffer, so
// that what it moves is copied in and out; blocks that no rank cuts, so that adamw-8bit gathers gradients and
// parameters whose tiles ranks share; or overlap of what is moved and what is computed (ablated_world.h).
enum class Without { kNothing, kDBuffer, kPlanning, kOverlap };
// "nothing", "dbuffer", "planning", "overlap"
const char* name(Without what);
// Throws Error that lists the names.
Without parse_without(std::string_view name);

struct TrainFault;

// Names of mesh dimensions, outermost first: along all but sp and tp ranks have examples of their own, along
// dp_replicate and dp the same parameters, along fsdp parts of them (fully_shard), along ep experts of their
// own; sp cuts sequences, tp tensors, and sequences where there is no sp (model_plan.h).
inline constexpr std::array<std::string_view, 6> kMeshDims = {"dp_replicate", "dp", "fsdp", "sp", "ep", "tp"};
// In how many blocks a mesh counts the tokens of a batch for its experts.
int64_t token_blocks(const DeviceMesh& mesh);

struct TrainOptions {
  std::string model = "llama", preset = "tiny";  // or "mixtral", "gpt2"
  std::optional<ModelOptions> sizes;  // none: the preset's; dropout, sequence and dtype are those below
  int64_t steps = 200;
  int64_t batch = 8, sequence = 128;
  double dropout = 0.1;
  double lr = 1e-3, weight_decay = 0.1, max_norm = 1.0;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  int64_t block_size = 32, min_8bit_size = 4096;  // of adamw-8bit
  Without without = Without::kNothing;            // of a mesh alone
  bool set_to_none = true;                        // gradients before a step; else zeros are written to them
  c10::ScalarType dtype = c10::ScalarType::Float;
  // Of fully_shard, along the mesh's dimension fsdp; one device casts at the same places.
  MixedPrecisionPolicy precision = {};
  uint64_t seed = 0;
  DeviceModel device;
  c10::DeviceType on = c10::kCPU;  // where parameters and batches are; that of the mesh, if there is one
  // None: the reference, plain libtorch whose random operators are the oracle's simulation of the one stream;
  // under the indexed policy they are the indexed numbers of whole tensors.
  // Else dimensions of kMeshDims.
  std::optional<DeviceMesh> mesh;
  int64_t token_blocks = 1;      // of one device: as many as a mesh whose step it judges
  WorldPtr world;                // of the mesh; null: this process hosts every rank
  Lane numerics = Lane::kExact;  // in which a step is judged; the process is in it
  std::string resume;            // folder of a checkpoint from which it goes on; "": from the first values
  std::string save;              // folder of the checkpoint that it leaves when it ends; "": none
  int64_t save_every = 0;        // steps, also then; 0: never
  bool statically = false;       // steps run on plain tensors where they can (engine/static_eager)
  std::string trace;             // file for what the engine does in the first steps of the run; "": none
  int64_t trace_steps = 3;       // so many of them
  std::string break_at;          // path of a module before whose calls all ranks stop; "": none
  bool keeps_choices = false;    // each step tells which experts its tokens have had
  // Asked in every process after each step, where a checkpoint is left: whether it is the last.
  bool (*asked_to_stop)() = nullptr;
  RandomPolicy init = RandomPolicy::kSingleDevice, drop = RandomPolicy::kSingleDevice;
  const TrainFault* fault = nullptr;  // planted, in every run of these options
};

// Hash over the bits of all losses and norms so far; equal chains mean equal runs.
using Chain = std::array<uint8_t, 16>;

struct TrainStep {
  int64_t step = 0;                       // from 1
  uint64_t loss_bits = 0, norm_bits = 0;  // in the dtype of the loss: f64 for f64 models, else f32
  double loss = 0, norm = 0;
  Chain chain{};
  double seconds = 0, tokens_per_second = 0;
  int64_t peak_bytes = 0;          // of all hosted ranks together
  std::vector<int32_t> choices{};  // Trainer::choices()
};
// Whether loss and norm are; a step after one that is not trains nothing.
bool finite(const TrainStep& step);

struct TrainState;
struct Team;

// What a caller may watch.
struct TrainObserver {
  // Asked first; false: nothing is trained.
  std::function<bool()> begins = [] { return true; };
  std::function<void(const TrainStep&)> on_step = [](const TrainStep&) {};
  // A checkpoint has been put in place.
  std::function<void(const TrainStep&)> on_save = [](const TrainStep&) {};
  // Asked after a step; false: it was the last.
  std::function<bool(const TrainStep&)> goes_on = [](const TrainStep&) { return true; };
  // The state before a step, for the steps that it is wanted for, told after the step.
  std::function<bool(int64_t step)> wants_state = [](int64_t) { return false; };
  std::function<void(const TrainState& before, const TrainStep&)> on_state = [](const TrainState&,
                                                                                const TrainStep&) {};
  // What the engine did in a step, with the digests of all that it read and wrote, told before on_step;
  // step 0 draws the first values. Null: nothing is recorded, which costs nothing. On one device without a
  // mesh no engine runs, and the timelines are empty.
  std::function<void(int64_t step, const Timeline&)> on_timeline = nullptr;
};

// Throws Error for options that do not fit: an unknown model or preset, or one that is not for training, a
// learning rate that is no number, a module to break at that is none, a trace of one device, mesh dimensions
// other than kMeshDims, more ranks than one process hosts, a batch that those of them that cut it do not
// divide. Runs in the calling thread; random stream, seed and offset are the thread's. Whoever hosts ranks of
// options.world trains alike; the observer is that of the thread which leads (team.h), the others' is not
// asked. A step whose loss or norm is not finite is never saved.
std::vector<TrainStep> train(const TrainOptions& options, std::string_view text,
                             const TrainObserver& observer = {});

// The same by a team, all of which call it. @returns the steps where this process leads
std::vector<TrainStep> train(const Team& team, const TrainOptions& options, std::string_view text,
                             const TrainObserver& observer = {});

// Throws what train would throw for these options, before anything runs.
void check_options(const TrainOptions& options);
// In which the model computes; and the one of least precision of its, and of what gradients are added up in.
c10::ScalarType compute_dtype(const TrainOptions& options);
c10::ScalarType coarsest_dtype(const TrainOptions& options);
// Of the model that is trained.
ModelOptions model_options(const TrainOptions& options);

// Loss and norm as bits; the other fields are left.
TrainStep measure(const TrainOptions& options, const at::Tensor& loss, const at::Tensor& norm);

// "f32" or "f64".
std::string loss_dtype(const TrainOptions& options);

}  // namespace lockstep::suites
