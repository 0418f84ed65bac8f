// SPDX-License-Identifier: Apache-2.0
// The out variants of the Builder's calls.
#include <algorithm>
#include <array>

#include "generators/program/builder.h"
#include "generators/program/trial.h"
#include "oracle/program/schema.h"

namespace lockstep::generators {

using oracle::Call;
using oracle::Ref;

namespace {

// The overload that writes its results to tensors that it is given; null where there is none. A draw goes to
// the memory of an out in orders that the suite `random` asks for.
const oracle::Operator* out_variant(const Call& call) {
  if (!call.op.starts_with("aten::")) return nullptr;
  const auto& op = oracle::find_operator(call.op);
  return op.random ? nullptr : oracle::out_variant_of(op);
}

// Whose kernels take an out for contiguous, and fill other elements than its strides say.
bool ignores_strides(const Call& call) {
  static constexpr std::array kOps = {"aten::_softmax", "aten::_log_softmax", "aten::_softmax_backward_data",
                                      "aten::_log_softmax_backward_data"};
  return std::find(kOps.begin(), kOps.end(), call.op) != kOps.end();
}

}  // namespace

// An empty tensor, which becomes the result, or one of the result's shape, placed anyhow.
Ref Builder::draw_out(const at::Tensor& result, std::vector<Ref> apart) {
  Want want{.dtypes = bit_of(result.scalar_type()),
            .shape = result.sizes().vec(),
            .writable = true,
            .grad = false,
            .apart = std::move(apart)};
  if (random_.chance(20)) {
    want.shape = Shape{0};
    return fresh(want);
  }
  if (random_.chance(15)) want.dtypes = kNumbers;
  return target(want);
}

void Builder::write_to_outs(Call& made, std::vector<at::Tensor>& results, const Growth& growth) {
  const auto* variant = settings_.outs > 0 && random_.chance(settings_.outs) ? out_variant(made) : nullptr;
  // Autograd knows no outs.
  const auto has_history = [](const at::Tensor& t) { return !t.defined() || t.requires_grad(); };
  if (variant == nullptr || std::any_of(results.begin(), results.end(), has_history)) return;
  Call writing{variant->name, made.args, made.results};
  auto apart = references(made);
  std::vector<at::Tensor> outs;
  for (const auto& result : results) {
    apart.push_back(draw_out(result, apart));
    writing.args.emplace_back(apart.back());
    outs.push_back(tensor(apart.back()));
  }
  const auto scattered = [](const at::Tensor& out) { return !out.is_contiguous(); };
  if (ignores_strides(made) && std::any_of(outs.begin(), outs.end(), scattered)) return;
  if (!bounded(outs, growth)) return;
  const auto first = apart.end() - std::ssize(outs);
  const auto was_empty = [&](Ref ref) { return shape(ref) == Shape{0}; };
  std::vector<Ref> resized;
  std::copy_if(first, apart.end(), std::back_inserter(resized), was_empty);
  const auto forget = [&](Ref ref, bool whole) {
    auto& value = values_[static_cast<size_t>(ref.id)];
    value.placement.reset();
    if (whole) value.trial = at::Tensor();
  };
  try {
    results = trial_call(
        writing, [this](Ref ref) -> const at::Tensor& { return tensor(ref); }, leaves_);
    made = std::move(writing);
    for (const auto ref : resized) forget(ref, false);
  } catch (const std::exception&) {  // libtorch refuses it: the call stays as it was
    for (const auto ref : resized) forget(ref, true);
  }
}

}  // namespace lockstep::generators
