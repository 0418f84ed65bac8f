// SPDX-License-Identifier: Apache-2.0
// ParallelPlan: where a model's tensors are, and what moves them when, as rows of data beside the model and
// not a change of it (veScale, section 4: the Plan API and its IR). parallelize.h applies it.
//   blk1\.fc1.init:weight:shard(S0,tp)
//   blk1\.fc1.forward_pre:<in>:0:redist(->R,tp)
//   blk1\.attn\.aten::bmm#1.forward_pre:<in>:0:redist(->S0,tp)
//   blk1\.attn.run:<factory>:shard(S1,tp)
//   backward_post:*.grad:annot(P,dp)
//   backward_post:*.grad:annot(P,dp;passes:f32,ranks:bf16)
#pragma once
#include <c10/core/ScalarType.h>

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/values/placement.h"

namespace lockstep {

// When a row acts: on a parameter or buffer from the start, or while its module runs; on the inputs or the
// output of each call; on the gradient of the output before, or those of the inputs after, they pass back.
enum class PlanPhase { kInit, kRun, kForwardPre, kForwardPost, kBackwardPre, kBackwardPost };
// Whether it is one of parameters and buffers: init, run.
bool is_of_parameters(PlanPhase phase);

// In which order the terms of an element of a gradient are added up: that of ranks; neighbours in pairs, and
// so on with the sums; or the correctly rounded sum, which has none.
enum class SumOrder { kFold, kTree, kExact };

// Terms of a step are those of each of its passes (microbatches) and of each rank. One of the two sums that
// they are added up by: over passes, in their order, or over ranks, in SumOrder's.
struct SumHop {
  enum class Over { kPasses, kRanks };
  Over over = Over::kRanks;
  std::optional<c10::ScalarType> dtype = std::nullopt;  // in which it is made; not said: the gradient's

  bool operator==(const SumHop&) const = default;
};

struct PlanRow {
  std::string module;  // regular expression (ECMAScript) that a module's whole path matches; "": the model
  PlanPhase phase = PlanPhase::kInit;
  // "<in>" or "<out>"; or the name of a parameter or buffer, "*" for all parameters of the module and of
  // those within it of which no narrower row of the phase speaks; or, of the phase run, "<factory>", what
  // at::zeros, at::arange, at::rand and their like make in the module's forward. Of the phase backward_post
  // also "weight.grad", or "*.grad", the gradients of parameters.
  std::string tensor;
  int64_t index = 0;               // which of the inputs
  std::optional<Placements> from;  // where it must be; not said: anywhere
  // Negative dimensions count from the end of the tensor. Of "*" from the start, what is whole while the
  // module runs, RaggedShard{}, "G", is wherever fully_shard's planner cuts it.
  Placements to;
  // Of which `from` and `to` speak, one each. What other mesh dimensions do to the tensor is left alone; to a
  // parameter that no row cuts along them: Replicate.
  std::vector<std::string> mesh_dims;
  bool starts_early = false;  // of the output: is begun, and whoever uses it first waits
  // Of inputs of an op that the module calls itself, and no module within it: "aten::mm", each call of it, or
  // "aten::mm#1", its second one; "": of the module. Ops are those that reach the engine, below autograd.
  std::string op = "";
  SumOrder sums = SumOrder::kFold;  // of gradients that pend
  // Of these: both, in the order in which they are made. None: autograd adds up passes before ranks are, but
  // of an exact sum, which is one of all terms.
  std::vector<SumHop> hops = {};

  bool operator==(const PlanRow&) const = default;
};

class ParallelPlan {
 public:
  ParallelPlan() = default;
  // Throws Error for a row that says nothing that could be done, whatever the model.
  explicit ParallelPlan(std::vector<PlanRow> rows);

  // veScale's plan.shard. @param path of parameters or buffers: a module's, as a regular expression, a dot
  // and a name ("layers\\.\\d+\\.mlp\\.up_proj.weight"), or *
  // @param phase kInit or kRun: where they are while their module runs, and their gradients come from
  ParallelPlan& shard(std::string_view path, Placements to, std::vector<std::string> mesh_dims,
                      PlanPhase phase = PlanPhase::kInit);
  // veScale's plan.factory: where what ordinary factories make in the forward of these modules is to be. What
  // is random is the single device's. @param path of modules
  ParallelPlan& factory(std::string_view path, Placements to, std::vector<std::string> mesh_dims);
  // veScale's plan.annotate of the gradients of parameters, which are whole along these mesh dimensions:
  // they pend there until the end of a backward pass, and are then added up, many at once
  // (gradient_buckets.h). @param path of parameters, and ".grad": "layers\\.\\d+\\..*norm.weight.grad",
  // "*.grad"
  ParallelPlan& annotate(std::string_view path, Placements pending, std::vector<std::string> mesh_dims,
                         SumOrder sums = SumOrder::kFold, std::vector<SumHop> hops = {});
  // Of gradients on their way back; not said: where autograd takes them, to the placements of what they are
  // gradients of.
  struct Gradient {
    std::optional<Placements> from;
    Placements to;
  };
  // veScale's plan.redistribute. @param path of inputs or the output of a module: "layers\\.\\d+\\.mlp.<in>",
  // "…core.<in>:2" for the third input, "….<out>"; or of ops, "…core\\.aten::bmm.<in>:1", without `from` and
  // `gradient`
  ParallelPlan& redistribute(std::string_view path, std::optional<Placements> from, Placements to,
                             std::vector<std::string> mesh_dims,
                             const std::optional<Gradient>& gradient = std::nullopt);

  ParallelPlan& operator+=(const ParallelPlan& other);
  const std::vector<PlanRow>& rows() const { return rows_; }
  bool operator==(const ParallelPlan&) const = default;

 private:
  std::vector<PlanRow> rows_;
};

bool is_factory(const PlanRow& row);
bool is_annotation(const PlanRow& row);  // of a parameter's gradient
// Whether the order in which gradients are added up tells the terms of one pass from those of another.
bool tells_passes(SumOrder sums, const std::vector<SumHop>& hops);
// Without the number of a call.
std::string_view base_op(const PlanRow& row);
const char* name(PlanPhase phase);  // "init", "run", "forward_pre", "forward_post", …
// "init:weight:shard(S0,tp)", "forward_pre:<in>:0:redist(->R,tp)": without the module's path and a dot.
std::string action(const PlanRow& row);
std::string to_string(const PlanRow& row);
std::ostream& operator<<(std::ostream& out, const PlanRow& row);
// A row a line.
std::string to_string(const ParallelPlan& plan);

// @post parse_plan_row(to_string(row)) == row. Throws Error that quotes the text, says what is wrong with it
// and which word may have been meant.
PlanRow parse_plan_row(std::string_view text);
// Lines that are empty, or begin with #, say nothing. Throws Error as above, with the number of the line.
ParallelPlan parse_plan(std::string_view text);
// Throws Error for a file that cannot be read, or says no plan.
ParallelPlan load_plan(const std::string& file);
void save_plan(const std::string& file, const ParallelPlan& plan);

}  // namespace lockstep
