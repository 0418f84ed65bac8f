// SPDX-License-Identifier: Apache-2.0
#include "suites/fsdp/model_table.h"

#include <algorithm>
#include <chrono>

#include "engine/values/error.h"
#include "engine/values/text.h"

namespace lockstep::suites {
namespace {

using Tensors = std::vector<ModelTensor>;

void append(Tensors& tensors, const Tensors& more) {
  tensors.insert(tensors.end(), more.begin(), more.end());
}

// Grouped-query attention without biases.
Tensors attention(int64_t hidden, int64_t heads, int64_t kv_heads, int64_t head) {
  return {{"q", {heads * head, hidden}},
          {"k", {kv_heads * head, hidden}},
          {"v", {kv_heads * head, hidden}},
          {"o", {hidden, heads * head}}};
}

Tensors mlp(const std::string& prefix, int64_t hidden, int64_t inner, Part part) {
  return {{prefix + "gate", {inner, hidden}, part},
          {prefix + "up", {inner, hidden}, part},
          {prefix + "down", {hidden, inner}, part}};
}

Tensors experts(int64_t count, int64_t hidden, int64_t inner) {
  Tensors all;
  for (int64_t i = 0; i < count; ++i)
    append(all, mlp(concat("experts.", i, "."), hidden, inner, Part::kExpert));
  return all;
}

Tensors norms(int64_t hidden) {
  return {{"attention_norm", {hidden}}, {"ffn_norm", {hidden}}};
}

// What is before and after the layers.
ModelGroup ends(int64_t hidden, int64_t vocabulary) {
  return {"embedding, norm, head",
          1,
          {{"embedding", {vocabulary, hidden}}, {"norm", {hidden}}, {"head", {vocabulary, hidden}}}};
}

ModelGroup layers(const std::string& name, int64_t count, std::initializer_list<Tensors> parts) {
  ModelGroup group{name, count, {}};
  for (const auto& part : parts) append(group.tensors, part);
  return group;
}

ModelTable llama(const std::string& name, int64_t hidden, int64_t count, int64_t heads, int64_t inner) {
  return {name,
          {layers("layer", count,
                  {attention(hidden, heads, 8, 128), mlp("", hidden, inner, Part::kMlp), norms(hidden)}),
           ends(hidden, 128256)}};
}

ModelTable mixtral() {
  constexpr int64_t kHidden = 4096, kExperts = 8;
  return {"mixtral-8x7b",
          {layers("layer", 32,
                  {attention(kHidden, 32, 8, 128),
                   {{"router", {kExperts, kHidden}}},
                   experts(kExperts, kHidden, 14336),
                   norms(kHidden)}),
           ends(kHidden, 32000)}};
}

// Latent attention: queries and keys go through narrow matrices (q_a, kv_a); a head has 128 features and 64
// turned.
ModelTable deepseek() {
  constexpr int64_t kHidden = 7168, kHeads = 128, kQueries = 1536, kLatent = 512, kTurned = 64, kHead = 128;
  constexpr int64_t kExperts = 256, kInner = 2048, kDense = 18432;
  const Tensors latent = {{"q_a", {kQueries, kHidden}},
                          {"q_a_norm", {kQueries}},
                          {"q_b", {kHeads * (kHead + kTurned), kQueries}},
                          {"kv_a", {kLatent + kTurned, kHidden}},
                          {"kv_a_norm", {kLatent}},
                          {"kv_b", {kHeads * 2 * kHead, kLatent}},
                          {"o", {kHidden, kHeads * kHead}}};
  const Tensors router = {{"router", {kExperts, kHidden}}, {"router_bias", {kExperts}}};
  return {"deepseek-v3",
          {layers("dense layer", 3, {latent, mlp("", kHidden, kDense, Part::kMlp), norms(kHidden)}),
           layers("layer", 58,
                  {latent, router, experts(kExperts, kHidden, kInner),
                   mlp("shared.", kHidden, kInner, Part::kExpert), norms(kHidden)}),
           ends(kHidden, 129280)}};
}

// Experts stacked in one tensor each: blocks of rows go on from one expert to the next, tiles do not.
ModelTable gpt_oss() {
  constexpr int64_t kHidden = 2880, kQueries = 4096, kKeys = 512, kExperts = 128;
  const Tensors biased = {{"q", {kQueries, kHidden}}, {"q_bias", {kQueries}},  {"k", {kKeys, kHidden}},
                          {"k_bias", {kKeys}},        {"v", {kKeys, kHidden}}, {"v_bias", {kKeys}},
                          {"o", {kHidden, kQueries}}, {"o_bias", {kHidden}},   {"sinks", {64}}};
  const Tensors stacked = {{"router", {kExperts, kHidden}},
                           {"router_bias", {kExperts}},
                           {"gate_up", {kExperts, kHidden, 2 * kHidden}, Part::kExpert},
                           {"gate_up_bias", {kExperts, 2 * kHidden}},
                           {"down", {kExperts, kHidden, kHidden}, Part::kExpert},
                           {"down_bias", {kExperts, kHidden}}};
  return {"gpt-oss-120b", {layers("layer", 36, {biased, stacked, norms(kHidden)}), ends(kHidden, 201088)}};
}

bool has_experts(const ModelTable& model) {
  for (const auto& group : model.groups)
    for (const auto& t : group.tensors)
      if (t.part == Part::kExpert) return true;
  return false;
}

double share(int64_t shards, int64_t shard_size, int64_t elements) {
  return static_cast<double>(shards * shard_size - elements) / static_cast<double>(elements);
}

template <class F>
double milliseconds(const F& run) {
  const auto began = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace

const std::vector<ModelTable>& model_tables() {
  static const std::vector<ModelTable> all = {llama("llama3-8b", 4096, 32, 32, 14336),
                                              llama("llama3-70b", 8192, 80, 64, 28672), mixtral(), deepseek(),
                                              gpt_oss()};
  return all;
}

const ModelTable& find_model(const std::string& name) {
  std::string names;
  for (const auto& model : model_tables()) {
    if (model.name == name) return model;
    names += concat(names.empty() ? "" : ", ", model.name);
  }
  throw Error(concat("[planner] no model is called '", name, "'; there are ", names));
}

int64_t numel(const ModelTensor& tensor) {
  int64_t n = 1;
  for (const int64_t size : tensor.shape) n *= size;
  return n;
}

int64_t numel(const ModelGroup& group) {
  int64_t n = 0;
  for (const auto& t : group.tensors) n += numel(t);
  return n;
}

std::vector<fsdp::BlockTensor> blocks_of(const ModelTable& model, const ModelGroup& group,
                                         const Coarse& coarse) {
  constexpr int64_t kMostRows = int64_t{1} << 20;
  LOCKSTEP_CHECK(coarse.rows >= 1 && coarse.rows <= kMostRows, "[planner] blocks of ", coarse.rows,
                 " rows: give 1 to ", kMostRows);
  const bool mlps = coarse.dense_too || !has_experts(model);
  std::vector<fsdp::BlockTensor> blocks;
  for (const auto& t : group.tensors) {
    const bool in_rows = t.part == Part::kExpert || (t.part == Part::kMlp && mlps);
    blocks.push_back({numel(t), in_rows ? coarse.rows * t.shape.back() : 1});
    if (in_rows && coarse.tiles && t.shape.size() > 2)
      blocks.back().period = t.shape.end()[-2] * t.shape.back();
  }
  return blocks;
}

double GroupPlan::padding() const {
  return share(plan.shards, plan.shard_size, elements);
}

double GroupPlan::least_padding() const {
  return share(plan.shards, least_shard_size, elements);
}

ModelPlan plan_model(const ModelTable& model, const Coarse& coarse, const fsdp::PlanOptions& options) {
  ModelPlan made;
  std::vector<std::vector<fsdp::BlockTensor>> blocks;
  for (const auto& group : model.groups) blocks.push_back(blocks_of(model, group, coarse));
  made.planned_in_ms = milliseconds([&] {
    for (size_t i = 0; i < blocks.size(); ++i)
      made.groups.push_back({&model.groups[i], numel(model.groups[i]), fsdp::plan(blocks[i], options)});
  });
  made.planned_each_in_ms = milliseconds([&] {
    for (size_t i = 0; i < blocks.size(); ++i)
      for (int64_t k = 0; k < model.groups[i].count; ++k) fsdp::plan(blocks[i], options);
  });
  double elements = 0, padding = 0, least = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    auto& g = made.groups[i];
    g.least_shard_size = fsdp::least_shard_size(blocks[i], options);
    const double all = static_cast<double>(g.elements * g.group->count);
    elements += all, padding += all * g.padding(), least += all * g.least_padding();
  }
  made.padding = padding / elements, made.least_padding = least / elements;
  return made;
}

TooCoarse too_coarse(const ModelTable& model, const ModelGroup& group, const Coarse& coarse,
                     const fsdp::PlanOptions& options) {
  const auto blocks = blocks_of(model, group, coarse);
  const auto largest = std::max_element(blocks.begin(), blocks.end(),
                                        [](auto& a, auto& b) { return a.granularity < b.granularity; });
  if (largest->granularity == 1) return {};
  const auto& tensor = group.tensors[static_cast<size_t>(largest - blocks.begin())];
  TooCoarse said{tensor.name};
  const auto fewer = [](int64_t rows) {
    return rows > kMostCounts ? std::max(rows / 2, kMostCounts) : rows - 1;
  };
  for (int64_t rows = std::min(coarse.rows - 1, numel(tensor) / tensor.shape.back());
       rows > 0 && said.rows == 0; rows = fewer(rows)) {
    const auto finer = fsdp::plan(blocks_of(model, group, {rows, coarse.dense_too, coarse.tiles}), options);
    if (share(options.shards, finer.shard_size, numel(group)) <= kMostPadding) said.rows = rows;
  }
  return said;
}

}  // namespace lockstep::suites
