// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/parallelize.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <regex>

#include "engine/context/context.h"
#include "engine/nn/checkpoint.h"
#include "engine/nn/distribute.h"
#include "engine/plan/claims.h"
#include "engine/plan/inner_rows.h"
#include "engine/plan/sum_path.h"
#include "engine/plan/trace.h"
#include "engine/tensor/redistribute.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using enum PlanPhase;

// The buffer of a module's parameters: two of its rows say that all of them are cut along one mesh dimension
// from the start, and whole while it runs.
struct Buffer {
  const Target* target = nullptr;  // null: none
  size_t dim = 0;
  const Located *init = nullptr, *run = nullptr;
};

Buffer buffer_of(const Target& target) {
  for (const auto& run : target.rows)
    for (const auto& init : target.rows)
      if (run.row.phase == kRun && init.row.phase == kInit && run.row.tensor == "*" &&
          init.row.tensor == "*" && run.dims == init.dims && run.row.to == Placements{Replicate{}} &&
          (init.row.to == Placements{Shard{0}} || init.row.to == Placements{kPlanned}))
        return {&target, run.dims[0], &init, &run};
  return {};
}

// A parameter that is elsewhere while a module runs.
struct Shown {
  const Target* target = nullptr;
  std::vector<std::string> paths = {};  // from that module
  std::vector<std::pair<size_t, Placement>> along = {};
};

// What becomes of one parameter or buffer.
struct Fate {
  Placements first;  // from the start, but for what a buffer does to it
  Buffer buffer;
  std::vector<Shown> shown = {};
  const PlanRow* annotation = nullptr;  // of its gradient; null: none
};

class Fates {
 public:
  Fates(nn::Module& model, const std::vector<Target>& targets, const MeshInWorld& mesh,
        const ParallelizeOptions& options)
      : mesh_(mesh),
        options_(options),
        init_(targets, kInit, mesh.mesh),
        run_(targets, kRun, mesh.mesh),
        after_(targets, kBackwardPost, mesh.mesh) {
    for (const auto& tensor : model.parameters_with_paths()) parameters_.push_back(fate_of(tensor, true));
    for (const auto& tensor : model.buffers_with_paths()) buffers_.push_back(fate_of(tensor, false));
  }
  const std::vector<Fate>& parameters() const { return parameters_; }
  const std::vector<Fate>& buffers() const { return buffers_; }

 private:
  Fate fate_of(const nn::Module::WithPaths& tensor, bool is_parameter) const {
    Fate fate{Placements(as_size(mesh_.mesh.ndim()), Replicate{}), {}};
    const auto init = init_.of(tensor.paths, is_parameter), run = run_.of(tensor.paths, is_parameter);
    for (size_t d = 0; d < init.size(); ++d) {
      if (options_.in_buffers && init[d] && run[d] && init[d]->target == run[d]->target)
        if (const auto buffer = buffer_of(*init[d]->target);
            buffer.init == init[d]->located && buffer.run == run[d]->located) {
          check_buffer(fate, buffer, tensor);
          fate.buffer = buffer;
          continue;
        }
      if (init[d]) fate.first[d] = first_along(*init[d], d, tensor);
    }
    for (size_t d = 0; d < run.size(); ++d) {
      if (!run[d] || fate.buffer.run == run[d]->located) continue;
      const auto to = said_along(*run[d]->located, d, tensor.value);
      if (to != fate.first[d]) show_along(fate, *run[d], {d, to}, tensor.paths);
    }
    if (is_parameter) annotate(fate, tensor);
    return fate;
  }

  // Of one row: what it says of several mesh dimensions is added up at once.
  void annotate(Fate& fate, const nn::Module::WithPaths& tensor) const {
    for (const auto& claim : after_.of(tensor.paths, true, ".grad")) {
      if (!claim) continue;
      const auto& row = claim->located->row;
      LOCKSTEP_CHECK(fate.annotation == nullptr || fate.annotation == &row, "[plan] ", *fate.annotation,
                     " and ", row, " speak of the gradient of '", tensor.paths.front(),
                     "'; write one row with all its mesh dimensions");
      LOCKSTEP_CHECK(row.sums != SumOrder::kExact || mesh_.mesh.device_type() == c10::kCPU, "[plan] ", row,
                     ": exact sums are made on the CPU, and the mesh is on ", mesh_.mesh.device_type(),
                     "; write annot or annot_tree");
      LOCKSTEP_CHECK(
          fate.shown.empty(), "[plan] ", row, ": '", tensor.paths.front(),
          "' is elsewhere while its module runs, from where its gradient comes reduced; leave out the "
          "row of that phase, or this one");
      path_of(row.sums, row.hops, tensor.value.scalar_type());
      fate.annotation = &row;
      for (const auto d : claim->located->dims)
        LOCKSTEP_CHECK(fate.buffer.target == nullptr && is_replicate(fate.first[d]), "[plan] ", row, ": '",
                       tensor.paths.front(), "' is ",
                       fate.buffer.target != nullptr
                           ? "in a buffer, which reduces its gradient"
                           : concat(fate.first[d], " along '", mesh_.mesh.names()[d], "'"),
                       "; only what is whole on each rank has terms on each");
    }
  }

  void check_buffer(const Fate& fate, const Buffer& buffer, const nn::Module::WithPaths& tensor) const {
    const auto& [value, paths] = tensor;
    LOCKSTEP_CHECK(fate.buffer.target == nullptr, "[plan] ", buffer.init->row, " of '", paths.front(),
                   "', which lies in the buffer of ", fate.buffer.target->name(),
                   " already; cut it along one mesh dimension, or pass in_buffers = false");
    for (const auto& path : paths)
      LOCKSTEP_CHECK(!paths_within(*buffer.target, {path}).empty(), "[plan] ", buffer.init->row, ": '", path,
                     "' is '", paths.front(), "' of ", buffer.target->name(),
                     ", and is not within it; write the row of a module that has both");
  }

  Placement first_along(const Claim& claim, size_t d, const nn::Module::WithPaths& tensor) const {
    const auto to = said_along(*claim.located, d, tensor.value);
    LOCKSTEP_CHECK(to != kPlanned, "[plan] ", claim.located->row, " of '", tensor.paths.front(),
                   "': G is of what is whole while that module runs, run:*:shard(R,…), and lies in a buffer; "
                   "name another placement");
    return to;
  }

  static void show_along(Fate& fate, const Claim& claim, std::pair<size_t, Placement> to,
                         const std::vector<std::string>& paths) {
    LOCKSTEP_CHECK(fate.buffer.target == nullptr, "[plan] ", claim.located->row, " of '", paths.front(),
                   "', which is gathered in the buffer of ", fate.buffer.target->name(),
                   "; leave the row out, or pass in_buffers = false");
    auto shown = std::find_if(fate.shown.begin(), fate.shown.end(),
                              [&](const auto& s) { return s.target == claim.target; });
    if (shown == fate.shown.end())
      shown = fate.shown.insert(shown, {claim.target, paths_within(*claim.target, paths)});
    shown->along.push_back(std::move(to));
  }

  const MeshInWorld& mesh_;
  const ParallelizeOptions& options_;
  const Claims init_, run_, after_;
  std::vector<Fate> parameters_, buffers_;
};

// What is cut in a buffer stays whole until then, and plain where nothing else cuts it.
void place(nn::Module& model, const MeshInWorld& mesh, const Fates& fates) {
  size_t parameter = 0, buffer = 0;
  nn::distribute_each(model, mesh, [&](auto&, bool is_parameter) -> std::optional<Placements> {
    const auto& fate = is_parameter ? fates.parameters()[parameter++] : fates.buffers()[buffer++];
    const bool stays_plain =
        fate.buffer.target != nullptr && std::all_of(fate.first.begin(), fate.first.end(), is_replicate);
    return stays_plain ? std::nullopt : std::optional(fate.first);
  });
}

// The modules within others first.
void put_in_buffers(nn::Module& model, const std::vector<Target>& targets, const MeshInWorld& mesh,
                    const Fates& fates, const FullyShardOptions& asked) {
  for (const auto* target : inner_first(targets)) {
    const auto buffer = buffer_of(*target);
    if (buffer.target == nullptr) continue;
    auto options = asked;
    options.mesh_dim = mesh.mesh.names()[buffer.dim];
    options.ignored_params.clear();
    options.shard_placement_fn = nullptr;
    if (buffer.init->row.to != Placements{kPlanned})
      options.shard_placement_fn = [](const at::Tensor& parameter) {
        return parameter.dim() > 0 ? std::optional<Placement>(Shard{0}) : std::nullopt;
      };
    size_t i = 0;
    for (const auto& [value, paths] : model.parameters_with_paths())
      if (fates.parameters()[i++].buffer.target != target) options.ignored_params.push_back(value);
    fully_shard(*target->module, mesh, std::move(options));
  }
}

void put_in_buckets(nn::Module& model, const MeshInWorld& mesh, const Fates& fates, int64_t bucket_bytes) {
  // Rows that say the same, and the parameters of each.
  std::vector<std::pair<const PlanRow*, std::vector<std::string>>> kinds;
  size_t i = 0;
  for (const auto& [value, paths] : model.parameters_with_paths()) {
    const auto* row = fates.parameters()[i++].annotation;
    if (row == nullptr) continue;
    auto found = std::find_if(kinds.begin(), kinds.end(), [&](const auto& other) {
      const auto& its = *other.first;
      return its.mesh_dims == row->mesh_dims && its.sums == row->sums && its.hops == row->hops;
    });
    if (found == kinds.end()) found = kinds.insert(found, {row, {}});
    found->second.push_back(paths.front());
  }
  if (kinds.empty()) return;
  auto gradients = std::make_shared<PlannedGradients>();
  for (const auto& [its, paths] : kinds)
    gradients->buckets.emplace_back(model, mesh, paths,
                                    BucketOptions{its->mesh_dims, its->sums, bucket_bytes, its->hops});
  model.attach(std::move(gradients));
}

// In each call of the module they are redistributed, and set back.
void show_while_it_runs(nn::Module& module, std::vector<Shown> all, const std::string& what) {
  module.call_around(
      [&module, all = std::move(all)](nn::Tensors inputs, const nn::Module::Forward& forward) {
        StandIns shown_now(module);
        for (const auto& shown : all) {
          const auto& cut = module.parameter(shown.paths.front());
          auto to = placements(cut);
          for (const auto& [d, placement] : shown.along) to[d] = placement;
          if (to != placements(cut)) shown_now.set(shown.paths, redistribute(cut, to));
        }
        return forward(std::move(inputs));
      },
      what);
}

void show_others(const std::vector<Target>& targets, const Fates& fates) {
  for (const auto& target : targets) {
    std::vector<Shown> all;
    for (const auto& fate : fates.parameters())
      for (const auto& shown : fate.shown)
        if (shown.target == &target) all.push_back(shown);
    if (all.empty()) continue;
    std::string what;
    for (const auto& located : target.rows)
      if (located.row.phase == kRun && !is_factory(located.row))
        what += (what.empty() ? "" : ", ") + action(located.row);
    show_while_it_runs(*target.module, std::move(all), what);
  }
}

// What one row does to a tensor that passes.
at::Tensor moved(const std::string& where, const Located& located, const at::Tensor& tensor) {
  const auto& [row, dims] = located;
  LOCKSTEP_CHECK(is_dtensor(tensor), "[plan] ", row, " of ", where, ": the tensor is a plain one of shape ",
                 tensor.sizes(), "; pass distribute_tensor(…)");
  const auto& now = placements(tensor);
  Along along;
  for (size_t i = 0; i < dims.size(); ++i) {
    LOCKSTEP_CHECK(!row.from || resolved((*row.from)[i], tensor, row) == now[dims[i]], "[plan] ", row, " of ",
                   where, ": the tensor is ", spec(tensor), ", ", now[dims[i]], " along '", row.mesh_dims[i],
                   "'; correct the row, or what comes before it");
    along.emplace_back(dims[i], resolved(row.to[i], tensor, row));
  }
  // Of a block that runs again nobody uses the result.
  return redistribute_along(tensor, along, row.starts_early && !is_recomputing());
}

// The same, which whoever traces the model is told.
at::Tensor traced_move(const Target& target, const Located& located, const at::Tensor& tensor) {
  auto* trace = current_context()->plan_trace;
  if (trace == nullptr) return moved(target.name(), located, tensor);
  const size_t first = trace->given.size();
  auto left = moved(target.name(), located, tensor);
  auto gradient = std::make_shared<std::optional<Placements>>();
  if (left.requires_grad() && !left.is_same(tensor))
    left.register_hook([gradient](const at::Tensor& grad) {
      if (grad.defined() && is_dtensor(grad)) *gradient = placements(grad);
    });
  trace->moves.push_back(
      {located.row, target.paths.front(), tensor, left, std::move(gradient), {first, trace->given.size()}});
  return left;
}

void add_hook(const Target& target, const Located& located) {
  auto& module = *target.module;
  const auto& row = located.row;
  if (!row.op.empty() || is_annotation(row)) return;
  const auto move = [target, located](const at::Tensor& tensor) {
    return tensor.defined() ? traced_move(target, located, tensor) : tensor;
  };
  const auto move_one_of = [move, where = target.name(), row](nn::Tensors& tensors) {
    LOCKSTEP_CHECK(row.index < std::ssize(tensors), "[plan] ", row, " of ", where, ": a call has ",
                   tensors.size(), " inputs");
    auto& tensor = tensors[as_size(row.index)];
    tensor = move(tensor);
  };
  const auto what = action(row);
  if (row.phase == kForwardPre)
    module.register_forward_pre_hook([=](nn::Module&, nn::Tensors& inputs) { move_one_of(inputs); }, what);
  else if (row.phase == kForwardPost)
    module.register_forward_hook(
        [=](nn::Module&, const nn::Tensors&, at::Tensor& output) { output = move(output); }, what);
  else if (row.phase == kBackwardPre)
    module.register_full_backward_pre_hook(
        [=](nn::Module&, at::Tensor& gradient) { gradient = move(gradient); }, what);
  else if (row.phase == kBackwardPost)
    module.register_full_backward_hook(
        [=](nn::Module&, nn::Tensors& gradients, const at::Tensor&) { move_one_of(gradients); }, what);
}

}  // namespace

void parallelize(nn::Module& model, const MeshInWorld& mesh, const ParallelPlan& plan,
                 const ParallelizeOptions& options) {
  const auto& policy = options.buffers.mp_policy;
  LOCKSTEP_CHECK(options.in_buffers || !(policy.param_dtype || policy.reduce_dtype || policy.output_dtype),
                 "[plan] mp_policy is of what lies in buffers; leave out in_buffers = false");
  const auto targets = find_targets(model, mesh.mesh, plan);
  for (const auto& target : targets) check_ops(target);
  const Fates fates(model, targets, mesh, options);
  place(model, mesh, fates);
  if (options.in_buffers) put_in_buffers(model, targets, mesh, fates, options.buffers);
  put_in_buckets(model, mesh, fates, options.bucket_bytes);
  show_others(targets, fates);
  for (const auto& target : targets) {
    place_factories(target, mesh);
    move_op_inputs(target, targets, mesh);
    for (const auto& row : target.rows) add_hook(target, row);
  }
}

}  // namespace lockstep
