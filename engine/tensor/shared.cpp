// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/shared.h"

#include <algorithm>

#include "engine/tensor/redistribute.h"
#include "engine/values/as_size.h"
#include "engine/values/ragged.h"

namespace lockstep {

bool Reduction::all() const {
  return std::find(reduced.begin(), reduced.end(), false) == reduced.end();
}

Reduction reduction_of(const Arguments& args) {
  Reduction r{.self = args.tensor("self"), .dtype = args.tensor("self").scalar_type()};
  if (const auto* dtype = args.find("dtype")) r.dtype = dtype->toOptional<at::ScalarType>().value_or(r.dtype);
  if (const auto* dim = args.find("dim")) {
    if (!dim->isNone()) r.dims = args.integers("dim");
    r.keepdim = args["keepdim"].toBool();
  }
  const bool all = !r.dims || r.dims->empty();
  r.reduced.assign(as_size(r.self.dim()), all);
  for (const int64_t d : all || r.self.dim() == 0 ? std::vector<int64_t>{} : *r.dims)
    r.reduced[as_size(at::maybe_wrap_dim(d, r.self.dim()))] = true;
  for (int64_t d = 0; d < r.self.dim(); ++d)
    if (r.reduced[as_size(d)]) r.count *= r.self.size(d);
  return r;
}

Shared shared_of(const Reduction& reduction) {
  const auto& spec = *dtensor_impl(reduction.self)->spec();
  Shared result{.gathered = spec.placements()};
  for (size_t d = 0; d < result.gathered.size(); ++d) {
    auto& p = result.gathered[d];
    const int64_t dim = shard_dim(p);
    const bool part = (dim >= 0 && reduction.reduced[as_size(dim)]) || (is_ragged(p) && reduction.all());
    result.parts |= part;
    result.terms |= is_partial(p);
    if (!part) continue;
    result.ranks *= spec.mesh().size(static_cast<int64_t>(d));
    p = Replicate{};
  }
  // Units that follow what others cut fit nowhere where that is whole.
  if (!blocks_fit(result.gathered, spec.order(), spec.mesh(), spec.shape()))
    result.gathered[as_size(ragged_dim(result.gathered))] = Replicate{};
  return result;
}

at::Tensor without_terms(const at::Tensor& t) {
  const auto& spec = *dtensor_impl(t)->spec();
  if (!spec.has_partial()) return t;
  ++current_context()->counters.redistributions;
  auto placements = spec.placements();
  for (auto& p : placements)
    if (is_partial(p)) p = Replicate{};
  return move_to(t, placements, spec.order(), true);
}

}  // namespace lockstep
