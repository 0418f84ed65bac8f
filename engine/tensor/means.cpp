// SPDX-License-Identifier: Apache-2.0
// A mean of what ranks share: their sums are added and divided once, so that it is exact wherever the sum is.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>

#include "engine/tensor/redistribute.h"
#include "engine/tensor/run.h"
#include "engine/values/as_size.h"
#include "engine/values/ragged.h"

namespace lockstep {
namespace {

struct Mean {
  at::Tensor self;
  std::optional<std::vector<int64_t>> dims;  // none: all
  bool keepdim;
  at::ScalarType dtype;
  std::vector<bool> reduced;  // of each dimension
  int64_t count;              // how many elements each result is of

  bool all() const { return std::find(reduced.begin(), reduced.end(), false) == reduced.end(); }
};

Mean mean_of(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> values) {
  const Arguments args(op.schema(), {values.data(), values.size()});
  const auto self = args.tensor("self");
  const bool named = args.find("dim") != nullptr;
  Mean m{self,
         std::nullopt,
         named && args["keepdim"].toBool(),
         args["dtype"].toOptional<at::ScalarType>().value_or(self.scalar_type()),
         {},
         1};
  if (named) m.dims = args.integers("dim");
  const bool all = !named || m.dims->empty();
  m.reduced.assign(as_size(self.dim()), all);
  for (const int64_t d : all || self.dim() == 0 ? std::vector<int64_t>{} : *m.dims)
    m.reduced[as_size(at::maybe_wrap_dim(d, self.dim()))] = true;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (m.reduced[as_size(d)]) m.count *= self.size(d);
  return m;
}

// What of a mean ranks share: each has a part of what one result is of, or a term of it.
struct Shared {
  bool any = false;
  int64_t ranks = 1;    // that have parts
  Placements gathered;  // with no parts left, only terms
};

Shared shared_of(const Mean& m, const Spec& spec) {
  Shared result{.gathered = spec.placements()};
  for (size_t d = 0; d < result.gathered.size(); ++d) {
    auto& p = result.gathered[d];
    const int64_t dim = shard_dim(p);
    const bool part = (dim >= 0 && m.reduced[as_size(dim)]) || (is_ragged(p) && m.all());
    result.any |= part || is_partial(p);
    if (!part) continue;
    result.ranks *= spec.mesh().size(static_cast<int64_t>(d));
    p = Replicate{};
  }
  // Units that follow what others cut fit nowhere where that is whole.
  if (!blocks_fit(result.gathered, spec.order(), spec.mesh(), spec.shape()))
    result.gathered[as_size(ragged_dim(result.gathered))] = Replicate{};
  return result;
}

at::Tensor without_terms(const at::Tensor& sum) {
  const auto& spec = *dtensor_impl(sum)->spec();
  auto placements = spec.placements();
  for (auto& p : placements)
    if (is_partial(p)) p = Replicate{};
  return move_to(sum, placements, spec.order(), true);
}

}  // namespace

bool run_mean(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> args, torch::jit::Stack& stack) {
  auto& context = *current_context();
  const auto m = mean_of(op, args);
  const auto& spec = *dtensor_impl(m.self)->spec();
  const auto shared = shared_of(m, spec);
  if (context.explicit_redistribution || !shared.any || !at::isFloatingType(m.dtype)) return false;
  ++context.counters.redistributions;
  // Fewer elements for each result than ranks that share them are fewer bytes than the sums of these ranks.
  const bool gather = m.count < shared.ranks;
  const auto self = gather ? move_to(m.self, shared.gathered, spec.order(), true) : m.self;
  // As the stock kernel does: short dtypes in float, and rounded once.
  const auto wide = at::toOpMathType(m.dtype);
  const auto sum = m.dims ? at::sum(self, *m.dims, m.keepdim, wide) : at::sum(self, wide);
  const auto mean = at::div(without_terms(sum), m.count);
  stack.emplace_back(wide == m.dtype ? mean : mean.to(m.dtype));
  return true;
}

}  // namespace lockstep
