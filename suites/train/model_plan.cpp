// SPDX-License-Identifier: Apache-2.0
#include "suites/train/model_plan.h"

#include <algorithm>

#include "engine/plan/parallelize.h"
#include "engine/plan/styles.h"
#include "engine/values/error.h"

namespace lockstep::suites {
namespace {

struct PlanTexts {
  const char* cut;        // along tp
  const char* pieces;     // what lies between, on pieces of the sequence
  const char* whole;      // or whole; the gradients of what each rank has used are then added up
  const char* uneven;     // heads that are not shards of a view's: whole wherever views fold them
  const char* sequences;  // along sp
};

// Of Mixtral, too, whose experts have no linears within `mlp`.
constexpr PlanTexts kLlama = {.cut = R"(
embed_tokens.init:weight:shard(S0,tp)
embed_tokens.forward_pre:<in>:0:redist(->R,tp)
lm_head.init:weight:shard(S0,tp)
loss.init:classes:shard(S0,tp)
layers\.\d+\.(self_attn\.[qkv]_proj|mlp\.(gate|up)_proj).init:weight:shard(S0,tp)
layers\.\d+\.self_attn\.core.forward_pre:<in>:0:redist(->S1,tp)
layers\.\d+\.self_attn\.core.forward_pre:<in>:1:redist(->S1,tp)
layers\.\d+\.self_attn\.core.forward_pre:<in>:2:redist(->S1,tp)
layers\.\d+\.(self_attn\.o_proj|mlp\.down_proj).init:weight:shard(S1,tp)
layers\.\d+\.(self_attn\.o_proj|mlp\.down_proj).forward_pre:<in>:0:redist(->S-1,tp)
)",
                              .pieces = R"(
embed_tokens.forward_post:<out>:redist(->S1,tp)
(layers\.\d+\..*)?norm.forward_pre:<in>:0:redist(->S1,tp)
lm_head.forward_pre:<in>:0:redist(->R,tp)
layers\.\d+\.(self_attn|mlp).forward_pre:<in>:0:redist(->R,tp)
layers\.\d+\.(self_attn\.o_proj|mlp\.down_proj).forward_post:<out>:redist(->S1,tp)
)",
                              .whole = R"(
embed_tokens.forward_post:<out>:redist(->R,tp)
lm_head.backward_post:<in>:0:redist(->R,tp)
layers\.\d+\.(self_attn|mlp).backward_post:<in>:0:redist(->R,tp)
layers\.\d+\.(self_attn\.o_proj|mlp\.down_proj).forward_post:<out>:redist(->R,tp)
)",
                              .uneven = R"(
layers\.\d+\.self_attn\.([qkv]_proj|core).forward_post:<out>:redist(->R,tp)
)",
                              .sequences = R"(
layers\.\d+\.self_attn\.core.forward_pre:<in>:1:redist(->R,sp)
layers\.\d+\.self_attn\.core.forward_pre:<in>:2:redist(->R,sp)
)"};

// A mixture takes examples, and cuts them by nothing else.
constexpr const char* kMixtureBesideSequences = R"(
layers\.\d+\.mlp.forward_pre:<in>:0:redist(->S0,sp)
layers\.\d+\.mlp.forward_post:<out>:redist(->S1,sp)
)";

// The head is the table of tokens. Of c_attn, queries, keys and values are each cut by heads.
constexpr PlanTexts kGpt2 = {.cut = R"(
wte.init:weight:shard(S0,tp)
wte.forward_pre:<in>:0:redist(->R,tp)
loss.init:classes:shard(S0,tp)
h\.\d+\.attn\.c_attn.init:weight:shard(I0x3,tp)
h\.\d+\.attn\.c_attn.init:bias:shard(I0x3,tp)
h\.\d+\.attn\.core.forward_pre:<in>:0:redist(->S1,tp)
h\.\d+\.attn\.core.forward_pre:<in>:1:redist(->S1,tp)
h\.\d+\.attn\.core.forward_pre:<in>:2:redist(->S1,tp)
h\.\d+\.mlp\.c_fc.init:weight:shard(S0,tp)
h\.\d+\.mlp\.c_fc.init:bias:shard(S0,tp)
h\.\d+\.(attn|mlp)\.c_proj.init:weight:shard(S1,tp)
h\.\d+\.(attn|mlp)\.c_proj.forward_pre:<in>:0:redist(->S-1,tp)
)",
                             .pieces = R"(
wte.forward_post:<out>:redist(->S1,tp)
wpe.forward_pre:<in>:0:redist(->S0,tp)
(h\.\d+\.ln_[12]|ln_f).forward_pre:<in>:0:redist(->S1,tp)
lm_head.forward_pre:<in>:0:redist(->R,tp)
h\.\d+\.(attn|mlp).forward_pre:<in>:0:redist(->R,tp)
h\.\d+\.(attn|mlp)\.c_proj.forward_post:<out>:redist(->S1,tp)
)",
                             .whole = R"(
wte.forward_post:<out>:redist(->R,tp)
lm_head.backward_post:<in>:0:redist(->R,tp)
h\.\d+\.(attn|mlp).backward_post:<in>:0:redist(->R,tp)
h\.\d+\.(attn|mlp)\.c_proj.forward_post:<out>:redist(->R,tp)
)",
                             .uneven = R"(
h\.\d+\.attn\.(c_attn|core).forward_post:<out>:redist(->R,tp)
)",
                             .sequences = R"(
wpe.forward_pre:<in>:0:redist(->S0,sp)
h\.\d+\.attn\.core.forward_pre:<in>:1:redist(->R,sp)
h\.\d+\.attn\.core.forward_pre:<in>:2:redist(->R,sp)
)"};

bool has_dim(const DeviceMesh& mesh, std::string_view name) {
  return std::find(mesh.names().begin(), mesh.names().end(), name) != mesh.names().end();
}

// Without the rows of layers, of which the model has none.
ParallelPlan without_layers(const ParallelPlan& plan, const std::string& layers) {
  auto rows = plan.rows();
  std::erase_if(rows, [&](const PlanRow& row) { return row.module.starts_with(layers); });
  return ParallelPlan(std::move(rows));
}

// One rank's pieces of c_attn are what a view takes for shards of the three.
bool heads_are_shards(const ModelOptions& o, int64_t ranks) {
  return o.heads % ranks == 0 && o.kv_heads % ranks == 0 &&
         (ranks > 1 || o.architecture != Architecture::kGpt2);
}

// Whether a mesh dimension cuts sequences.
bool cuts_sequences(const DeviceMesh& mesh, size_t dim) {
  return mesh.names()[dim] == "sp" && mesh.shape()[dim] > 1;
}

ParallelPlan tensor_plan(const PlanTexts& texts, const ModelOptions& o, const DeviceMesh& mesh) {
  const int64_t ranks = mesh.size(mesh.dim_index("tp"));
  auto plan = parse_plan(texts.cut);
  plan += parse_plan(has_dim(mesh, "sp") ? texts.whole : texts.pieces);
  if (!heads_are_shards(o, ranks)) plan += parse_plan(texts.uneven);
  return plan;
}

}  // namespace

ParallelPlan model_plan(const ModelOptions& o, const DeviceMesh& mesh) {
  const auto& texts = o.architecture == Architecture::kGpt2 ? kGpt2 : kLlama;
  const auto layers = concat(layers_path(o), "\\.");
  ParallelPlan plan;
  if (has_dim(mesh, "tp")) plan += tensor_plan(texts, o, mesh);
  for (size_t d = 0; d < mesh.names().size(); ++d) {
    if (!cuts_sequences(mesh, d)) continue;
    plan += parse_plan(texts.sequences);
    if (o.experts > 0) plan += parse_plan(kMixtureBesideSequences);
  }
  if (has_dim(mesh, "ep")) plan += expert_parallel(concat(layers, "\\d+\\.mlp\\.experts"), "ep");
  if (has_dim(mesh, "fsdp")) {
    plan += fully_sharded(concat(layers, "\\d+"), "fsdp");
    plan += fully_sharded("", "fsdp");
  }
  return o.layers > 0 ? plan : without_layers(plan, layers);
}

void parallelize_model(nn::Module& model, const ModelOptions& options, const MeshInWorld& mesh,
                       const MixedPrecisionPolicy& precision, int64_t block_rows) {
  FullyShardOptions buffers{.mp_policy = precision};
  if (block_rows > 0)
    buffers.orig_param_policy = [block_rows](std::string_view, const at::Tensor& parameter) {
      if (parameter.dim() < 2) return int64_t{1};
      // Of stacked matrices, one that such blocks do not divide is a block.
      const bool divides = parameter.dim() == 2 || parameter.size(-2) % block_rows == 0;
      return (divides ? block_rows : parameter.size(-2)) * parameter.size(-1);
    };
  parallelize(model, mesh, model_plan(options, mesh.mesh), {.buffers = std::move(buffers)});
}

Placements batch_placements(const DeviceMesh& mesh) {
  Placements result(static_cast<size_t>(mesh.ndim()), Shard{0});
  for (size_t d = 0; d < result.size(); ++d) {
    if (mesh.names()[d] == "tp" || mesh.names()[d] == "sp") result[d] = Replicate{};
    if (cuts_sequences(mesh, d)) result[d] = Shard{1};
  }
  return result;
}

}  // namespace lockstep::suites
