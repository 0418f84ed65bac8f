// SPDX-License-Identifier: Apache-2.0
#include "engine/optim/muon.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/optim/gradients.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/ragged.h"

namespace lockstep::optim {
namespace {

// The mesh dimension whose ranks share a matrix out among them: of a RaggedShard, else the first that cuts
// it; -1: each rank has all of it.
int64_t root_dim(const at::Tensor& matrix) {
  if (!is_dtensor(matrix)) return -1;
  const auto& all = placements(matrix);
  if (has_ragged(all)) return ragged_dim(all);
  const auto first = std::find_if(all.begin(), all.end(), distributes);
  return first == all.end() ? -1 : first - all.begin();
}

int64_t ranks_along(const at::Tensor& matrix, int64_t dim) {
  return dim < 0 ? 1 : spec(matrix).mesh().size(dim);
}

// Multiplications and additions: of X X^T, A A and B X in each step.
double flops(const at::Tensor& matrix, int64_t steps) {
  const auto [less, more] = std::minmax({matrix.size(0), matrix.size(1)});
  const auto n = static_cast<double>(less), m = static_cast<double>(more);
  return static_cast<double>(steps) * (4 * n * n * m + 2 * n * n * n);
}

// What one step makes of a matrix: its direction on the way to its root, and back.
struct Journey {
  size_t parameter;
  at::Tensor update;
  int64_t dim, root;
  double cost;
};

void go_to_root(Journey& j) {
  if (j.dim < 0) return;
  RaggedShard whole{up_to(2), std::vector<int64_t>(as_size(ranks_along(j.update, j.dim))), 1};
  whole.units[as_size(j.root)] = 1;
  Placements there(placements(j.update).size(), Replicate{});
  there[as_size(j.dim)] = std::move(whole);
  j.update = redistribute(j.update, there, spec(j.update).order(), /*async_op=*/true);
}

void come_back(Journey& j, const at::Tensor& parameter) {
  if (j.dim >= 0)
    j.update = redistribute(j.update, placements(parameter), spec(parameter).order(), /*async_op=*/true);
}

// Matrices of one mesh dimension share its ranks out among them.
void assign_roots(std::vector<Journey>& journeys, const Tensors& parameters) {
  std::vector<bool> done(journeys.size());
  for (size_t first = 0; first < journeys.size(); ++first) {
    if (done[first] || journeys[first].dim < 0) continue;
    const auto& parameter = parameters[journeys[first].parameter];
    std::vector<size_t> alike;
    std::vector<double> costs;
    for (size_t i = first; i < journeys.size(); ++i) {
      if (journeys[i].dim != journeys[first].dim ||
          spec(parameters[journeys[i].parameter]).mesh() != spec(parameter).mesh())
        continue;
      done[i] = true;
      alike.push_back(i);
      costs.push_back(journeys[i].cost);
    }
    const auto roots = select_roots(costs, ranks_along(parameter, journeys[first].dim));
    for (size_t i = 0; i < alike.size(); ++i) journeys[alike[i]].root = roots[i];
  }
}

}  // namespace

std::vector<int64_t> select_roots(const std::vector<double>& costs, int64_t ranks) {
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return costs[a] > costs[b]; });
  std::vector<double> load(as_size(ranks));
  std::vector<int64_t> roots(costs.size());
  for (const auto i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    roots[i] = least - load.begin();
    *least += costs[i];
  }
  return roots;
}

Muon::Muon(Tensors parameters, MuonOptions options)
    : parameters_(std::move(parameters)), momentum_(parameters_.size()), options_(options) {
  for (const auto& parameter : parameters_)
    LOCKSTEP_CHECK(parameter.dim() == 2, "[optim] Muon steps matrices, and a parameter is of shape ",
                   parameter.sizes(), "; give it to AdamW");
  LOCKSTEP_CHECK(options.ns_steps >= 0 && options.ns_steps < 100, "[optim] Muon with ns_steps of ",
                 options.ns_steps, "; from 0 to 99");
  require_cpu(parameters_, "Muon");
}

double Muon::adjusted_lr(const at::Tensor& parameter) const {
  const auto rows = static_cast<double>(parameter.size(0)), columns = static_cast<double>(parameter.size(1));
  return options_.lr * (options_.adjust_lr == AdjustLr::kOriginal ? std::sqrt(std::max(1.0, rows / columns))
                                                                  : 0.2 * std::sqrt(std::max(rows, columns)));
}

void Muon::step() {
  using Orthogonal = at::Tensor(const at::Tensor&, at::ArrayRef<double>, int64_t, double, bool);
  static const auto newton_schulz =
      c10::Dispatcher::singleton().findSchemaOrThrow("optim::newton_schulz", "").typed<Orthogonal>();
  const at::NoGradGuard no_grad;
  const auto& o = options_;
  std::vector<Journey> journeys;
  for (const auto i : with_gradient(parameters_)) {
    const auto& gradient = parameters_[i].grad();
    auto& momentum = momentum_[i];
    if (!momentum.defined()) momentum = at::zeros_like(gradient);
    momentum.lerp_(gradient, 1 - o.momentum);
    journeys.push_back({i, o.nesterov ? gradient.lerp(momentum, o.momentum) : momentum,
                        root_dim(parameters_[i]), 0, flops(parameters_[i], o.ns_steps)});
  }
  assign_roots(journeys, parameters_);
  std::stable_sort(journeys.begin(), journeys.end(), [](auto& a, auto& b) { return a.cost > b.cost; });
  // Each root's next matrix arrives while it is at work on one.
  size_t begun = 0;
  for (size_t i = 0; i < journeys.size(); ++i) {
    const auto ahead = i + 1 + as_size(ranks_along(parameters_[journeys[i].parameter], journeys[i].dim));
    for (; begun < std::min(ahead, journeys.size()); ++begun) go_to_root(journeys[begun]);
    journeys[i].update =
        newton_schulz.call(journeys[i].update, o.ns_coefficients, o.ns_steps, o.eps, o.single_precision);
    come_back(journeys[i], parameters_[journeys[i].parameter]);
  }
  for (auto& j : journeys) {
    auto& parameter = parameters_[j.parameter];
    parameter.mul_(1 - o.lr * o.weight_decay);
    parameter.add_(j.update, -adjusted_lr(parameter));
    j.update.reset();
  }
}

}  // namespace lockstep::optim
