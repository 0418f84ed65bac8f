// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/experts.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <cmath>

#include "engine/tensor/dtensor.h"
#include "engine/tensor/exchange_rows.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep::nn {
namespace {

at::Tensor grouped_linear(const at::Tensor& rows, const at::Tensor& weight,
                          const std::vector<int64_t>& counts, int64_t blocks) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("experts::grouped_linear", "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, at::IntArrayRef, int64_t)>();
  return op.call(rows, weight, counts, blocks);
}

// Values and places along the last dimension, those of equal values in their order.
std::tuple<at::Tensor, at::Tensor> stably_sorted(const at::Tensor& values, bool descending) {
  return at::sort(values, std::optional<bool>(true), -1, descending);
}

// In which scores are compared.
std::optional<at::ScalarType> wide(at::ScalarType dtype) {
  return at::isReducedFloatingType(dtype) ? std::optional(at::kFloat) : std::nullopt;
}

// Along which mesh dimension the experts are cut; -1: along none.
int64_t dim_of_experts(const at::Tensor& weight) {
  int64_t found = -1;
  if (!is_dtensor(weight)) return found;
  const auto& placed = placements(weight);
  for (size_t d = 0; d < placed.size(); ++d) {
    if (placed[d] != Placement(Shard{0}) || spec(weight).mesh().size(static_cast<int64_t>(d)) == 1) continue;
    LOCKSTEP_CHECK(found < 0, "[experts] ", to_string(spec(weight)),
                   " has experts that two mesh dimensions cut; make one of the two");
    found = static_cast<int64_t>(d);
  }
  return found;
}

// The mesh dimensions but that of the experts that cut tokens, in the order in which they do.
std::vector<int64_t> dims_of_blocks(const Spec& tokens, int64_t of_experts) {
  std::vector<int64_t> dims;
  bool experts_have_cut = false;
  for (const int64_t d : tokens.order()) {
    if (tokens.placements()[as_size(d)] != Placement(Shard{0}) || tokens.mesh().size(d) == 1) continue;
    if (d == of_experts) {
      experts_have_cut = true;
      continue;
    }
    LOCKSTEP_CHECK(!experts_have_cut, "[experts] ", to_string(tokens), " has tokens that mesh dimension ", d,
                   " cuts after that of the experts, ", of_experts,
                   "; name the experts' dimension of the mesh after those of the batch");
    dims.push_back(d);
  }
  return dims;
}

void check_blocks(const at::Tensor& tokens, int64_t blocks) {
  LOCKSTEP_CHECK(tokens.size(0) % blocks == 0, "[experts] ",
                 is_dtensor(tokens) ? to_string(spec(tokens)) : concat(tokens.sizes()), " has ",
                 tokens.size(0), " along dimension 0, which ", blocks,
                 is_dtensor(tokens)
                     ? " ranks along the mesh dimensions of the batch do not divide; pad the batch"
                     : " blocks do not divide; choose other ExpertsOptions::blocks");
}

// Of each rank along `dim` the rows of its experts; a list of units for each coordinate of the other mesh
// dimensions, if there are several blocks.
Placement at_experts(const DeviceMesh& mesh, int64_t dim, const std::vector<int64_t>& dims_of_blocks,
                     const at::Tensor& counts) {
  const auto of = counts.accessor<int64_t, 2>();
  RaggedShard ragged{{0}, {}, 1};
  for (int64_t position = 0; position < mesh.size(); ++position) {
    const auto coordinate = mesh.coordinate(position);
    if (coordinate[as_size(dim)] != 0) continue;
    int64_t block = 0;
    for (const int64_t d : dims_of_blocks) block = block * mesh.size(d) + coordinate[as_size(d)];
    const int64_t most = (counts.size(1) + mesh.size(dim) - 1) / mesh.size(dim);  // of a rank: torch.chunk
    int64_t expert = 0;
    for (int64_t rank = 0; rank < mesh.size(dim); ++rank) {
      const int64_t end = std::min((rank + 1) * most, counts.size(1));
      int64_t units = 0;
      for (; expert < end; ++expert) units += of[block][expert];
      ragged.units.push_back(units);
    }
    if (dims_of_blocks.empty()) break;
  }
  ragged.lists = std::ssize(ragged.units) / mesh.size(dim);
  return ragged;
}

}  // namespace

Experts::Experts(const ExpertsOptions& o) {
  LOCKSTEP_CHECK(o.hidden > 0 && o.inner > 0 && o.experts > 0, "[experts] of ", o.hidden, " features, ",
                 o.inner, " inner ones, ", o.experts, " experts; all are above 0");
  add_parameter("gate_proj", {o.experts, o.inner, o.hidden}, o.dtype);
  add_parameter("up_proj", {o.experts, o.inner, o.hidden}, o.dtype);
  add_parameter("down_proj", {o.experts, o.hidden, o.inner}, o.dtype);
}

// Each expert's as a Linear's.
void Experts::reset_own_parameters() {
  for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
    const auto& weight = parameter(name);
    const double bound = 1 / std::sqrt(static_cast<double>(weight.size(2)));
    weight.uniform_(-bound, bound);
  }
}

at::Tensor Experts::forward(const Tensors& inputs) {
  const auto& rows = inputs.at(0);
  const auto given = inputs.at(1).contiguous();
  const std::vector<int64_t> counts(given.const_data_ptr<int64_t>(),
                                    given.const_data_ptr<int64_t>() + given.numel());
  const auto of = [&](const at::Tensor& x, const char* weight) {
    return grouped_linear(x, parameter(weight), counts, given.size(0));
  };
  return of(at::silu(of(rows, "gate_proj")) * of(rows, "up_proj"), "down_proj");
}

MixtureOfExperts::MixtureOfExperts(const ExpertsOptions& o) : top_k_(o.top_k), blocks_(o.blocks) {
  LOCKSTEP_CHECK(o.top_k > 0 && o.top_k <= o.experts && o.blocks > 0, "[experts] the best ", o.top_k, " of ",
                 o.experts, " experts, in ", o.blocks,
                 " blocks; give 1 to all of them, and a block at least");
  gate_ = add_child("gate", std::make_shared<Linear>(o.hidden, o.experts, false, o.dtype));
  experts_ = add_child("experts", std::make_shared<Experts>(o));
  add_buffer("numbers", [n = o.experts](at::Device device) {
    return at::arange(n, at::TensorOptions(at::kLong).device(device));
  });
}

// Where rows go, and how many of each block there are of each expert.
struct MixtureOfExperts::Routing {
  at::Tensor order, inverse, counts;
  int64_t mesh_dim = -1;
  Placement placement = Replicate{};
};

// @param chosen the experts of each token, [..., top_k]
MixtureOfExperts::Routing MixtureOfExperts::route(const at::Tensor& tokens, const at::Tensor& chosen) const {
  Routing routing;
  std::vector<int64_t> dims;
  Placements as_blocks;
  int64_t blocks = blocks_;
  if (is_dtensor(tokens)) {
    blocks = 1;
    routing.mesh_dim = dim_of_experts(experts_->parameter("gate_proj"));
    dims = dims_of_blocks(spec(tokens), routing.mesh_dim);
    as_blocks.assign(placements(tokens).size(), Replicate{});
    for (const int64_t d : dims) {
      as_blocks[as_size(d)] = Shard{0};
      blocks *= spec(tokens).mesh().size(d);
    }
  }
  check_blocks(tokens, blocks);
  auto known = chosen.contiguous();  // before it moves: one device copies, too
  if (is_dtensor(tokens)) known = redistribute(known, as_blocks, spec(tokens).order());
  const int64_t each = known.numel() / blocks;
  known = known.view({blocks, each});
  const auto by_expert = std::get<1>(stably_sorted(known, false));
  const auto back = std::get<1>(stably_sorted(by_expert, false));
  const auto first = (at::ones_like(known.narrow(1, 0, 1)).cumsum(0) - 1) * each;
  routing.order = (by_expert + first).reshape({-1});
  routing.inverse = (back + first).reshape({-1});
  const auto counts = known.unsqueeze(-1).eq(buffer("numbers")).sum(1);
  routing.counts = (is_dtensor(counts) ? full_tensor(counts) : counts).to(at::kCPU).contiguous();
  if (routing.mesh_dim >= 0)
    routing.placement = at_experts(spec(tokens).mesh(), routing.mesh_dim, dims, routing.counts);
  return routing;
}

at::Tensor MixtureOfExperts::forward(const Tensors& inputs) {
  const auto& x = inputs.at(0);
  LOCKSTEP_CHECK(x.dim() > 1 && x.numel() > 0, "[experts] tokens are [..., features], and some; not ",
                 x.sizes());
  const auto [scores, all] = stably_sorted(at::softmax((*gate_)(x), -1, wide(x.scalar_type())), true);
  const auto best = scores.narrow(-1, 0, top_k_);
  const auto weights = (best / best.sum(-1, /*keepdim=*/true)).to(x.scalar_type());
  auto pairs = x.sizes().vec();
  pairs.insert(pairs.end() - 1, top_k_);
  const auto rows = x.unsqueeze(-2).expand(pairs);
  const auto chosen = all.narrow(-1, 0, top_k_);
  if (keeps_choices_) chosen_ = chosen;
  const auto [order, inverse, counts, mesh_dim, at_experts] = route(x, chosen);
  const auto home = mesh_dim < 0 ? Placement(Replicate{}) : placements(x)[as_size(mesh_dim)];
  const auto sent = exchange_rows(rows, order, inverse, mesh_dim, at_experts, {order.numel()});
  pairs.pop_back();
  auto answers = (*experts_)(sent, counts);
  // Where something else cuts the experts, too, sums pend.
  if (is_dtensor(answers) && placements(answers) != placements(sent))
    answers = redistribute(answers, placements(sent), spec(sent).order());
  const auto outputs = exchange_rows(answers, inverse, order, mesh_dim, home, pairs);
  at::Tensor sum;
  for (int64_t k = 0; k < top_k_; ++k) {
    const auto term = outputs.select(-2, k) * weights.select(-1, k).unsqueeze(-1);
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

}  // namespace lockstep::nn
