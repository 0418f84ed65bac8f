// SPDX-License-Identifier: Apache-2.0
#include "oracle/program/values.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/ownership/ownership.h"
#include "oracle/ownership/reduce.h"
#include "oracle/ownership/slicing.h"
#include "oracle/program/values_terms.h"

namespace lockstep::oracle {
namespace {

const Input& input_of(const Case& c, int64_t input) {
  const auto& inputs = c.program.inputs;
  LOCKSTEP_CHECK(input >= 0 && as_size(input) < inputs.size() && as_size(input) < c.placements.size(),
                 "[values] no input x", input, " with placements: the case has ", inputs.size(),
                 " inputs and ", c.placements.size(), " placements");
  return inputs[as_size(input)];
}

at::Tensor in_memory_order(const at::Tensor& contiguous, const Spec& spec) {
  if (contiguous.strides().vec() == spec.stride()) return contiguous;
  return at::empty_strided(spec.shape(), spec.stride(), contiguous.options()).copy_(contiguous);
}

// The position's coordinate along the Partial mesh dimensions, as a row-major number.
int64_t term_of(const Spec& spec, int64_t position) {
  const auto at = spec.mesh().coordinate(position);
  int64_t term = 0;
  for (int64_t d = 0; d < spec.mesh().ndim(); ++d)
    if (is_partial(spec.placements()[as_size(d)])) term = term * spec.mesh().size(d) + at[as_size(d)];
  return term;
}

at::Tensor fold_all(std::vector<at::Tensor> terms, const Spec& spec) {
  const auto plan = slicing_of(spec);
  return fold_terms(std::move(terms), plan->ops, plan->sizes);
}

}  // namespace

std::vector<int64_t> stride_of(const Input& input) {
  const auto ndim = input.shape.size();
  if (input.memory_order.empty()) return contiguous_strides(input.shape);
  std::vector<int64_t> stride(ndim, 0);
  int64_t step = 1;
  LOCKSTEP_CHECK(input.memory_order.size() == ndim, "[values] a memory order of ", input.memory_order.size(),
                 " dimensions for shape ", shape_text(input.shape));
  for (auto it = input.memory_order.rbegin(); it != input.memory_order.rend(); ++it) {
    LOCKSTEP_CHECK(*it >= 0 && as_size(*it) < ndim && stride[as_size(*it)] == 0,
                   "[values] the memory order of shape ", shape_text(input.shape), " is not a permutation");
    stride[as_size(*it)] = step;
    step *= std::max<int64_t>(input.shape[as_size(*it)], 1);
  }
  return stride;
}

Spec spec_of(const Case& c, int64_t input) {
  const auto& in = input_of(c, input);
  const auto& target = c.placements[as_size(input)];
  const auto everywhere = Placements(as_size(c.mesh.ndim()), Replicate{});
  return Spec(c.mesh, is_plain(target) ? everywhere : target.placements, in.shape, stride_of(in), in.dtype,
              target.order);
}

InputTensors make_input(const Case& c, int64_t input) {
  const auto spec = spec_of(c, input);
  auto terms = make_terms(input_of(c, input), spec);
  for (auto& term : terms) term = in_memory_order(term, spec);
  InputTensors result;
  for (int64_t p = 0; p < spec.mesh().size(); ++p)
    result.locals.push_back(slice(terms[as_size(term_of(spec, p))], spec, p));
  result.global = in_memory_order(fold_all(std::move(terms), spec), spec);
  return result;
}

std::vector<InputTensors> make_inputs(const Case& c) {
  std::vector<InputTensors> inputs;
  for (size_t i = 0; i < c.program.inputs.size(); ++i)
    inputs.push_back(make_input(c, static_cast<int64_t>(i)));
  return inputs;
}

at::Tensor make_global(const Case& c, int64_t input) {
  const auto spec = spec_of(c, input);
  auto terms = make_terms(input_of(c, input), spec);
  return in_memory_order(fold_all(std::move(terms), spec), spec);
}

std::vector<at::Tensor> make_locals(const Case& c, int64_t input) {
  return make_input(c, input).locals;
}

}  // namespace lockstep::oracle
