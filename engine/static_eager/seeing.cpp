// SPDX-License-Identifier: Apache-2.0
// What passes the ends of calls, and of forward() alone, while a step runs eagerly.
#include <c10/util/ScopeExit.h>

#include <algorithm>

#include "engine/nn/boundary.h"
#include "engine/static_eager/instead.h"
#include "engine/static_eager/sites.h"
#include "engine/tensor/operands.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

std::vector<End> ends_of(const nn::Tensors& tensors) {
  std::vector<End> ends;
  for (const auto& tensor : tensors) ends.push_back(end_of(tensor));
  return ends;
}

bool any_plain(const nn::Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](auto& t) { return t.defined() && !is_dtensor(t); });
}

void note(const at::Tensor& gradient, End& end) {
  if (gradient.defined() && is_dtensor(gradient)) end.gradient = dtensor_impl(gradient)->spec();
}

at::Tensor with_gradient_seen(const at::Tensor& result, const std::shared_ptr<SeenCall>& seen,
                              End SeenCall::*end) {
  return nn::at_boundary({result}, [seen, end](nn::Tensors& gradients) { note(gradients[0], (*seen).*end); },
                         /*held=*/false)[0];
}

// Those of a parameter lie alike in all calls, or they could not be added up on plain tensors.
void note_own(const at::Tensor& gradient, Site& site, size_t i) {
  End now = site.own[i];
  note(gradient, now);
  const auto& before = site.own[i].gradient;
  if (before != nullptr && now.gradient != nullptr && !equal_and_named_alike(*before, *now.gradient))
    site.demote("has gradients that lie elsewhere in another call");
  site.own[i].gradient = now.gradient;
}

}  // namespace

at::Tensor Sites::see_call(Site& site, nn::Tensors inputs, const Forward& forward) {
  const auto seen = site.calls.emplace_back(std::make_shared<SeenCall>());
  seen->given = ends_of(inputs);
  if (any_plain(inputs)) site.demote("is given plain tensors");
  inputs = nn::at_boundary(
      std::move(inputs),
      [seen](nn::Tensors& gradients) {
        for (size_t i = 0; i < gradients.size(); ++i) note(gradients[i], seen->given[i]);
      },
      /*held=*/false);
  const auto result = forward(std::move(inputs));
  seen->result = end_of(result);
  return with_gradient_seen(result, seen, &SeenCall::result);
}

at::Tensor Sites::see_forward(Site& site, nn::Tensors inputs, const Forward& forward) {
  const auto seen = site.calls.back();
  const auto given = inputs.size();
  Instead instead(site.module->own_tensors());
  seen->is_training = site.module->is_training();
  seen->grad_mode = at::GradMode::is_enabled();
  seen->given_inside = ends_of(inputs);
  if (site.calls.size() == 1) site.own = ends_of(instead.were());
  inputs.insert(inputs.end(), instead.were().begin(), instead.were().end());
  if (any_plain(inputs)) site.demote("has plain tensors");
  inputs = nn::at_boundary(
      std::move(inputs),
      [seen, given, &site](nn::Tensors& gradients) {
        for (size_t i = 0; i < given; ++i) note(gradients[i], seen->given_inside[i]);
        for (size_t i = given; i < gradients.size(); ++i) note_own(gradients[i], site, i - given);
      },
      /*held=*/false);
  for (size_t i = given; i < inputs.size(); ++i) instead.set(i - given, inputs[i]);
  inputs.resize(given);
  const auto turn = std::exchange(*turn_, ViewSizes::Turn{&seen->sizes});
  const auto back = c10::make_scope_exit([&] { *turn_ = turn; });
  const auto result = forward(std::move(inputs));
  seen->result_inside = end_of(result);
  if (!is_dtensor(result)) site.demote("gives a plain tensor");
  return with_gradient_seen(result, seen, &SeenCall::result_inside);
}

}  // namespace lockstep
