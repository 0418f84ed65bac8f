// SPDX-License-Identifier: Apache-2.0
// A vector norm of what ranks share: their sums of powers are added, or the greatest or least of their
// magnitudes taken, and the root comes once, so that no tensor is gathered for a number.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/tensor/run.h"
#include "engine/tensor/shared.h"
#include "engine/values/as_size.h"

namespace lockstep {
namespace {

double order_of(const Arguments& args) {
  const auto* order = args.find("ord");
  if (order == nullptr) order = args.find("p");
  return order->isNone() ? 2 : order->toScalar().toDouble();
}

// at::pow divides by the square, which is infinite where the power is a subnormal number; the norm's own
// kernel gives that.
at::Tensor to_power(const at::Tensor& x, double exponent) {
  return exponent == -2 ? at::pow(at::reciprocal(x), 2.0) : at::pow(x, exponent);
}

// What ranks add, or compare, for the norm of this order.
at::Tensor reduced(const at::Tensor& x, double order, at::IntArrayRef dims, bool keepdim) {
  if (order == 0) return at::sum(at::ne(x, 0), dims, keepdim, x.scalar_type());
  if (order == std::numeric_limits<double>::infinity()) return at::amax(at::abs(x), dims, keepdim);
  if (order == -std::numeric_limits<double>::infinity()) return at::amin(at::abs(x), dims, keepdim);
  if (order == 1) return at::sum(at::abs(x), dims, keepdim, x.scalar_type());
  const auto base = order == 2 ? x : at::abs(x);
  return at::sum(to_power(base, order), dims, keepdim, x.scalar_type());
}

// Without a root what ranks have pends.
at::Tensor rooted(const at::Tensor& sum, double order) {
  if (order == 0 || order == 1 || std::isinf(order)) return sum;
  return order == 2 ? at::sqrt(without_terms(sum)) : to_power(without_terms(sum), 1 / order);
}

// Where ranks share what is reduced, unless they are more than it has elements: then these are fewer bytes
// than the ranks' sums.
bool adds_up(const Reduction& norm) {
  const auto& self = norm.self;
  if (self.numel() == 0 || !at::isFloatingType(self.scalar_type())) return false;
  if (!at::isFloatingType(norm.dtype) || at::promoteTypes(self.scalar_type(), norm.dtype) != norm.dtype)
    return false;
  const auto shared = shared_of(norm);
  return shared.ranks > 1 && norm.count >= shared.ranks;
}

Reduction of_all(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  Reduction norm{.self = self, .dtype = dtype.value_or(self.scalar_type())};
  norm.reduced.assign(as_size(self.dim()), true);
  norm.count = self.numel();
  return norm;
}

}  // namespace

bool run_norm(const Arguments& args, torch::jit::Stack& stack) {
  const auto norm = reduction_of(args);
  if (!adds_up(norm)) return false;
  const double order = order_of(args);
  // As the stock kernel does: short dtypes in float, and rounded once.
  const auto x = without_terms(norm.self).to(at::toOpMathType(norm.dtype));
  const auto sum = reduced(x, order, norm.dims.value_or(std::vector<int64_t>{}), norm.keepdim);
  stack.emplace_back(rooted(sum, order).to(norm.dtype));
  return true;
}

bool run_norms(const Arguments& args, torch::jit::Stack& stack) {
  const auto tensors = args["self"].toTensorVector();
  const auto dtype = args["dtype"].toOptional<at::ScalarType>();
  const auto shared = [&](const at::Tensor& t) { return adds_up(of_all(t, dtype)); };
  // What the list op refuses it is to refuse; its out variant runs as it is.
  if (args.find("out") != nullptr || args["ord"].isBool()) return false;
  if (!std::all_of(tensors.begin(), tensors.end(), is_dtensor)) return false;
  if (std::none_of(tensors.begin(), tensors.end(), shared)) return false;
  std::vector<at::Tensor> norms;
  for (const auto& t : tensors)
    norms.push_back(at::linalg_vector_norm(t, args["ord"].toScalar(), std::nullopt, false, dtype));
  stack.emplace_back(std::move(norms));
  return true;
}

}  // namespace lockstep
