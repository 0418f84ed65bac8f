// SPDX-License-Identifier: Apache-2.0
#include "oracle/plain/recompute.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "engine/stream/random_source.h"
#include "engine/values/error.h"
#include "oracle/ownership/compare.h"

namespace lockstep::oracle {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Kept : torch::CustomClassHolder {
  RunBlock run;
  bool restores = true;
  RandomState drawn_from;
  Tensors results;  // of the first run, copied
};
using KeptPtr = c10::intrusive_ptr<Kept>;

Tensors copies(const Tensors& tensors) {
  const at::DisableRecordFunctionGuard unseen;
  Tensors all;
  for (const at::Tensor& t : tensors) all.push_back(t.detach().clone());
  return all;
}

void check_same(const Tensors& first, const Tensors& again) {
  const at::DisableRecordFunctionGuard unseen;
  for (size_t i = 0; i < first.size(); ++i)
    if (!compare(again.at(i).detach(), first[i]).equal())
      throw Broken(concat("[checkpoint] result ", i, " of the block has other bits the second time"));
}

Tensors second_run(const Kept& kept, const Tensors& operands) {
  const at::AutoGradMode tracked(true);
  if (!kept.restores) return kept.run(operands);
  RandomState& stream = generator().state;
  const RandomState now = std::exchange(stream, kept.drawn_from);
  Tensors again = kept.run(operands);
  stream = now;
  check_same(kept.results, again);
  return again;
}

struct TwiceRun : torch::autograd::Function<TwiceRun> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx,
                                                at::TensorList operands, const KeptPtr& kept) {
    ctx->set_materialize_grads(false);
    ctx->save_for_backward(operands.vec());
    ctx->saved_data["kept"] = at::IValue::make_capsule(kept);
    kept->drawn_from = generator().state;
    Tensors results = kept->run(operands.vec());
    if (kept->restores) kept->results = copies(results);
    return results;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& seeds) {
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(ctx->saved_data["kept"].toCapsule());
    const Tensors saved = ctx->get_saved_variables();
    Tensors leaves;
    for (const at::Tensor& t : saved) leaves.push_back(t.detach().set_requires_grad(t.requires_grad()));
    const Tensors results = second_run(*kept, leaves);
    Tensors from, with, to;
    for (size_t i = 0; i < results.size(); ++i)
      if (seeds[i].defined() && results[i].requires_grad()) {
        from.push_back(results[i]);
        with.push_back(seeds[i]);
      }
    for (const at::Tensor& leaf : leaves)
      if (leaf.requires_grad()) to.push_back(leaf);
    torch::autograd::variable_list gradients(saved.size() + 1);
    auto found = torch::autograd::grad(from, to, with, false, false, true);
    for (size_t i = 0, next = 0; i < saved.size(); ++i)
      if (leaves[i].requires_grad()) gradients[i] = found[next++];
    return gradients;
  }
};

}  // namespace

Tensors recomputed(const RunBlock& run, const Tensors& operands, bool preserves_rng_state) {
  const auto kept = c10::make_intrusive<Kept>();
  kept->run = run;
  kept->restores = preserves_rng_state;
  return TwiceRun::apply(at::TensorList(operands), kept);
}

}  // namespace lockstep::oracle
