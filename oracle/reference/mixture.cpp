// SPDX-License-Identifier: Apache-2.0
#include "oracle/reference/mixture.h"

#include <ATen/ATen.h>

#include <limits>

#include "engine/values/as_size.h"

namespace lockstep::oracle {
namespace {

using at::Tensor;

// [coordinates..., of one part...]: along the first dimension, then along the next.
Tensor folded(std::vector<Tensor> parts, const std::vector<int64_t>& along) {
  for (const int64_t ranks : along) {
    const size_t rest = parts.size() / as_size(ranks);
    std::vector<Tensor> sums(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(rest));
    for (size_t i = rest; i < parts.size(); ++i) sums[i % rest] = sums[i % rest] + parts[i];
    parts = std::move(sums);
  }
  return parts.at(0);
}

Tensor leaf(const Tensor& value) {
  return value.detach().clone().requires_grad_();
}

// What one block of tokens comes to, with the gradients of the experts.
struct Block {
  Tensor output, x, logits;
  MixtureWeights weights;
};

Block one_block(const Tensor& x, const Tensor& grad, const MixtureWeights& given, int64_t top_k) {
  const Tensor in = leaf(x), logits = leaf(x.mm(given.gate.t()));
  const MixtureWeights w{{}, leaf(given.gate_proj), leaf(given.up_proj), leaf(given.down_proj)};
  const bool narrow = c10::elementSize(x.scalar_type()) == 2;
  const Tensor scores = (narrow ? logits.to(at::kFloat) : logits).softmax(-1), best = best_of(scores, top_k);
  const Tensor chosen = scores.gather(1, best);
  const Tensor shares = (chosen / chosen.sum(1, /*keepdim=*/true)).to(x.scalar_type());
  const Tensor pairs = in.unsqueeze(1).expand({-1, top_k, -1}).reshape({-1, x.size(1)});
  std::vector<Tensor> places, answers;
  for (int64_t e = 0; e < given.gate.size(0); ++e) {
    const Tensor mine = best.flatten().eq(e).nonzero().flatten();
    if (mine.numel() == 0) continue;
    const Tensor rows = pairs.index_select(0, mine);
    const Tensor inner = at::silu(rows.mm(w.gate_proj[e].t())) * rows.mm(w.up_proj[e].t());
    places.push_back(mine);
    answers.push_back(inner.mm(w.down_proj[e].t()));
  }
  const Tensor outputs =
      at::cat(answers).index_select(0, at::cat(places).argsort()).view({-1, top_k, x.size(1)});
  Tensor sum = outputs.select(1, 0) * shares.select(1, 0).unsqueeze(1);
  for (int64_t k = 1; k < top_k; ++k) sum = sum + outputs.select(1, k) * shares.select(1, k).unsqueeze(1);
  sum.backward(grad);
  const auto grad_of = [](const Tensor& t) { return t.grad().defined() ? t.grad() : at::zeros_like(t); };
  return {sum.detach(),
          in.grad() + logits.grad().mm(given.gate),
          logits.grad(),
          {{}, grad_of(w.gate_proj), grad_of(w.up_proj), grad_of(w.down_proj)}};
}

}  // namespace

Tensor best_of(const Tensor& scores, int64_t k) {
  auto left = scores.detach().clone();
  const Tensor numbers = at::arange(scores.size(-1), at::kLong);
  std::vector<Tensor> best;
  for (int64_t i = 0; i < k; ++i) {
    const Tensor is_greatest = left.eq(left.amax(-1, /*keepdim=*/true));
    const Tensor first =
        numbers.masked_fill(is_greatest.logical_not(), std::numeric_limits<int64_t>::max()).amin(-1, true);
    best.push_back(first);
    left = left.masked_fill(numbers.eq(first), -std::numeric_limits<double>::infinity());
  }
  return at::cat(best, -1);
}

MixtureEnds mixture(const Tensor& x, const Tensor& grad, const MixtureWeights& weights, int64_t top_k,
                    const std::vector<int64_t>& parts, const std::vector<int64_t>& along,
                    bool last_has_experts) {
  const auto each = last_has_experts ? as_size(along.back()) : 1;  // parts of a block
  auto dims_of_blocks = along;
  if (last_has_experts) dims_of_blocks.pop_back();
  std::vector<Tensor> outputs, xs, gates, gate_proj, up_proj, down_proj;
  int64_t start = 0;
  for (size_t first = 0; first < parts.size(); first += each) {
    int64_t tokens = 0;
    for (size_t i = first; i < first + each; ++i) tokens += parts[i];
    const auto block = one_block(x.narrow(0, start, tokens), grad.narrow(0, start, tokens), weights, top_k);
    for (size_t i = first, at = 0; i < first + each; ++i) {
      const auto own = [&](const Tensor& t) { return t.narrow(0, static_cast<int64_t>(at), parts[i]); };
      gates.push_back(own(block.logits).t().mm(own(x.narrow(0, start, tokens))));
      at += as_size(parts[i]);
    }
    outputs.push_back(block.output);
    xs.push_back(block.x);
    gate_proj.push_back(block.weights.gate_proj);
    up_proj.push_back(block.weights.up_proj);
    down_proj.push_back(block.weights.down_proj);
    start += tokens;
  }
  return {at::cat(outputs),
          at::cat(xs),
          {folded(gates, along), folded(gate_proj, dims_of_blocks), folded(up_proj, dims_of_blocks),
           folded(down_proj, dims_of_blocks)}};
}

}  // namespace lockstep::oracle
