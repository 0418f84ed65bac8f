// SPDX-License-Identifier: Apache-2.0
#include "engine/world/fold.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "engine/world/rows.h"
#include "kernels/add_terms.h"

namespace lockstep {
namespace {

// A NaN passes with its own bits, and the first of two: what arithmetic makes of two NaNs, and of a half's
// payload, depends on where in the tensor an element stands. So does the NaN that is made of numbers of
// bfloat16: it is 0x7fc0.
at::Tensor with_nans_of(const at::Tensor& a, const at::Tensor& b, at::Tensor value) {
  if (!value.is_floating_point()) return value;
  // In the host's memory one read tells whether there is any; a device is not waited for.
  if (value.is_cpu() && !std::isnan(value.sum().item<double>())) return value;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (value.scalar_type() == at::kBFloat16)
    value = at::where(value.ne(value), kNan, value);
  else if (!value.is_cpu())  // as x86 makes it
    value = at::where(value.ne(value), -kNan, value);
  return at::where(a.ne(a), a, at::where(b.ne(b), b, value));
}

at::Tensor node(ReduceOp op, const at::Tensor& value, const at::Tensor& term) {
  if (value.is_meta()) return value;  // no values, and no kernel of libtorch's for some of these
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return with_nans_of(value, term, value.add(term));
    case ReduceOp::kProduct:
      return with_nans_of(value, term, value.mul(term));
    // at::maximum's NaN payload and sign of zero depend on where in the tensor an element stands; these do
    // not.
    case ReduceOp::kMax:
      return at::where(value.gt(term).bitwise_or_(value.ne(value)), value, term);
    case ReduceOp::kMin:
      return at::where(value.lt(term).bitwise_or_(value.ne(value)), value, term);
  }
  return value;
}

template <class T>
bool added(const at::Tensor& value, const at::Tensor& term) {
  return value.numel() == 0 || each_row(value, term, [](char* to, const char* from, int64_t bytes) {
           add_terms(reinterpret_cast<T*>(to), reinterpret_cast<const T*>(from),
                     bytes / static_cast<int64_t>(sizeof(T)));
         });
}

// The same node in one pass over the value, which nobody else holds; false: not of these.
bool summed_in_place(ReduceOp op, const at::Tensor& value, const at::Tensor& term) {
  if (op != ReduceOp::kSum && op != ReduceOp::kAvg) return false;
  switch (value.scalar_type()) {
    case at::kFloat:
      return added<float>(value, term);
    case at::kDouble:
      return added<double>(value, term);
    case at::kBFloat16:
      return added<BFloat16Bits>(value, term);
    case at::kHalf:
      return added<HalfBits>(value, term);
    default:
      return false;
  }
}

}  // namespace

void Fold::add(const at::Tensor& term) {
  if (terms_++ == 0)
    put(is_placed_ ? term : term.clone());
  else if (!summed_in_place(op_, value_, term))
    put(node(op_, value_, term));
}

void Fold::put(at::Tensor value) {
  if (is_placed_)
    value_.copy_(value);
  else
    value_ = std::move(value);
}

at::Tensor Fold::result() const {
  if (op_ != ReduceOp::kAvg) return value_;
  return with_nans_of(value_, value_, divided(value_, terms_));
}

at::Tensor divided(const at::Tensor& value, int64_t n) {
  if (!value.is_cuda()) return value.div(static_cast<double>(n));
  const bool is_short = at::isReducedFloatingType(value.scalar_type());
  const at::Tensor wide = is_short ? value.to(at::kFloat) : value;
  return wide.div(at::full({}, n, wide.options())).to(value.scalar_type());
}

}  // namespace lockstep
