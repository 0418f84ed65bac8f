// SPDX-License-Identifier: Apache-2.0
// The parameters of published models, in the groups that fully_shard makes of them: a layer each, and one of
// before and after the layers. Shapes as torch has them, [out, in]; the order is that in which a layer uses
// them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/fsdp/planner.h"

namespace lockstep::suites {

// What of a layer a parameter is: of its experts (shared ones too), of its MLP where there are none, or of
// the rest.
enum class Part { kRest, kMlp, kExpert };

struct ModelTensor {
  std::string name;
  std::vector<int64_t> shape;
  Part part = Part::kRest;
};

struct ModelGroup {
  std::string name;
  int64_t count = 1;  // of groups that are equal
  std::vector<ModelTensor> tensors;
};

struct ModelTable {
  std::string name;
  std::vector<ModelGroup> groups;
};

// llama3-8b, llama3-70b, mixtral-8x7b, deepseek-v3, gpt-oss-120b.
const std::vector<ModelTable>& model_tables();
// Throws Error that lists them.
const ModelTable& find_model(const std::string& name);

int64_t numel(const ModelTensor& tensor);
int64_t numel(const ModelGroup& group);

// Whose blocks are whole rows, so many: those of the experts, of a model without experts of its MLPs; and of
// the dense MLPs beside experts, if `dense_too`. The others are cut anywhere. As rows of `tiles` they begin
// anew in each of the matrices that are stacked in a tensor, at whose end they may be short.
struct Coarse {
  int64_t rows = 1;
  bool dense_too = false;
  bool tiles = false;
};
std::vector<fsdp::BlockTensor> blocks_of(const ModelTable& model, const ModelGroup& group,
                                         const Coarse& coarse);

// One group in its buffer. Elements.
struct GroupPlan {
  const ModelGroup* group = nullptr;
  int64_t elements = 0;
  fsdp::BufferPlan plan;
  int64_t least_shard_size = 0;  // fsdp::least_shard_size

  double padding() const;  // as a share of the elements
  double least_padding() const;
};

// Of every group, and of all of them together, as often as they are there.
struct ModelPlan {
  std::vector<GroupPlan> groups;
  double padding = 0, least_padding = 0;
  double planned_in_ms = 0;       // equal groups once
  double planned_each_in_ms = 0;  // and each of them
};
ModelPlan plan_model(const ModelTable& model, const Coarse& coarse, const fsdp::PlanOptions& options);

// Of a group whose padding is more than a fifth: its tensor with the largest blocks, "" if none has blocks of
// more than an element, and the most rows a block with which it is not, of those above kMostCounts only
// halves; 0: even with one row it is.
struct TooCoarse {
  std::string tensor;
  int64_t rows = 0;
};
inline constexpr double kMostPadding = 0.2;
inline constexpr int64_t kMostCounts = 4096;
TooCoarse too_coarse(const ModelTable& model, const ModelGroup& group, const Coarse& coarse,
                     const fsdp::PlanOptions& options);

}  // namespace lockstep::suites
