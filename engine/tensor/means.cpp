// SPDX-License-Identifier: Apache-2.0
// A mean of what ranks share: their sums are added and divided once, so that it is exact wherever the sum is.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "engine/tensor/redistribute.h"
#include "engine/tensor/run.h"
#include "engine/tensor/shared.h"

namespace lockstep {

bool run_mean(const Arguments& args, torch::jit::Stack& stack) {
  const auto m = reduction_of(args);
  const auto shared = shared_of(m);
  if (!(shared.parts || shared.terms) || !at::isFloatingType(m.dtype)) return false;
  // Fewer elements for each result than ranks that share them are fewer bytes than the sums of these ranks.
  const bool gather = m.count < shared.ranks;
  if (gather) ++current_context()->counters.redistributions;
  auto self = gather ? move_to(m.self, shared.gathered, dtensor_impl(m.self)->spec()->order(), true) : m.self;
  // As the stock kernel does: short dtypes in float, and rounded once; a CUDA kernel rounds what it reads,
  // too.
  const auto wide = at::toOpMathType(m.dtype);
  if (wide != m.dtype && self.is_cuda()) self = self.to(m.dtype);
  const bool named = args.find("dim") != nullptr;
  const auto sum =
      named ? at::sum(self, m.dims.value_or(std::vector<int64_t>{}), m.keepdim, wide) : at::sum(self, wide);
  const auto mean = at::div(without_terms(sum), m.count);
  stack.emplace_back(wide == m.dtype ? mean : mean.to(m.dtype));
  return true;
}

}  // namespace lockstep
