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

// An expert and its rows, each product by itself.
struct Expert {
  Tensor places, rows, gate, up, inner, answers;  // leaves, but for the first two
};

Expert one_expert(const Tensor& pairs, const Tensor& places, const MixtureWeights& w, int64_t e) {
  Expert made{places, pairs.index_select(0, places), {}, {}, {}, {}};
  made.gate = leaf(made.rows.mm(w.gate_proj[e].t()));
  made.up = leaf(made.rows.mm(w.up_proj[e].t()));
  made.inner = leaf(at::silu(made.gate) * made.up);
  made.answers = leaf(made.inner.mm(w.down_proj[e].t()));
  return made;
}

// Writes the gradients of its weights and of its rows. @pre there is one of its answers
void back_through(const Expert& expert, const MixtureWeights& w, int64_t e, MixtureWeights& grads,
                  Tensor& pairs) {
  const Tensor grad = expert.answers.grad();
  grads.down_proj[e].copy_(grad.t().mm(expert.inner.detach()));
  (at::silu(expert.gate) * expert.up).backward(grad.mm(w.down_proj[e]));
  grads.gate_proj[e].copy_(expert.gate.grad().t().mm(expert.rows));
  grads.up_proj[e].copy_(expert.up.grad().t().mm(expert.rows));
  pairs.index_copy_(0, expert.places,
                    expert.gate.grad().mm(w.gate_proj[e]) + expert.up.grad().mm(w.up_proj[e]));
}

Block one_block(const Tensor& x, const Tensor& grad, const MixtureWeights& w, int64_t top_k) {
  const bool narrow = c10::elementSize(x.scalar_type()) == 2;
  const Tensor logits = leaf(x.mm(w.gate.t()));
  const Tensor scores = (narrow ? logits.to(at::kFloat) : logits).softmax(-1), best = best_of(scores, top_k);
  const Tensor chosen = scores.gather(1, best);
  const Tensor shares = (chosen / chosen.sum(1, /*keepdim=*/true)).to(x.scalar_type());
  const Tensor pairs = x.unsqueeze(1).expand({-1, top_k, -1}).reshape({-1, x.size(1)});
  std::vector<std::pair<int64_t, Expert>> experts;
  std::vector<Tensor> places, answers;
  for (int64_t e = 0; e < w.gate.size(0); ++e) {
    const Tensor mine = best.flatten().eq(e).nonzero().flatten();
    if (mine.numel() == 0) continue;
    experts.emplace_back(e, one_expert(pairs, mine, w, e));
    places.push_back(mine);
    answers.push_back(experts.back().second.answers);
  }
  const Tensor outputs =
      at::cat(answers).index_select(0, at::cat(places).argsort()).view({-1, top_k, x.size(1)});
  Tensor sum = outputs.select(1, 0) * shares.select(1, 0).unsqueeze(1);
  for (int64_t k = 1; k < top_k; ++k) sum = sum + outputs.select(1, k) * shares.select(1, k).unsqueeze(1);
  sum.backward(grad);
  MixtureWeights grads{
      {}, at::zeros_like(w.gate_proj), at::zeros_like(w.up_proj), at::zeros_like(w.down_proj)};
  Tensor of_pairs = at::zeros_like(pairs);
  for (const auto& [e, expert] : experts) back_through(expert, w, e, grads, of_pairs);
  const Tensor of_tokens = of_pairs.view({-1, top_k, x.size(1)}).sum(1);
  return {sum.detach(), of_tokens + logits.grad().mm(w.gate), logits.grad(), grads};
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
      // Who has no token adds nothing: what is zero keeps its sign.
      gates.push_back(parts[i] == 0 ? at::full_like(weights.gate, -0.0)
                                    : own(block.logits).t().mm(own(x.narrow(0, start, tokens))));
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
