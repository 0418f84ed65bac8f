// SPDX-License-Identifier: Apache-2.0
#include "engine/stream/random_checks.h"

#include <ATen/ATen.h>

#include <limits>

#include "engine/values/error.h"
#include "engine/values/spec.h"

namespace lockstep {
namespace {

// What is true of no values is true; a tensor on the meta device has none.
bool holds(const at::Tensor& condition) {
  return condition.is_meta() || condition.all().item<bool>();
}

}  // namespace

void check_probabilities(const at::Tensor& p) {
  LOCKSTEP_CHECK(p.is_floating_point(), "[aten::bernoulli_] probabilities of ", dtype_name(p.scalar_type()),
                 "; a floating dtype is needed");
  LOCKSTEP_CHECK(holds(p.ge(0).bitwise_and(p.le(1))), "[aten::bernoulli_] a probability is not in [0, 1]");
}

void check_std(const char* op, double std) {
  LOCKSTEP_CHECK(std >= 0, "[", op, "] standard deviation ", std, "; std >= 0 is needed");
}

void check_stds(const at::Tensor& std) {
  LOCKSTEP_CHECK(holds(std.ge(0)), "[aten::normal] a standard deviation is negative; std >= 0 is needed");
}

void check_slopes(double lower, double upper) {
  LOCKSTEP_CHECK(lower <= upper, "[aten::rrelu_with_noise] lower ", lower, " and upper ", upper,
                 "; lower <= upper is needed");
}

void check_multinomial(const at::Tensor& weights, int64_t samples, bool replacement) {
  const char* op = "[aten::multinomial] ";
  LOCKSTEP_CHECK(weights.is_floating_point() && (weights.dim() == 1 || weights.dim() == 2), op,
                 "weights are ", dtype_name(weights.scalar_type()), weights.sizes(),
                 "; one or two dimensions of a floating dtype are needed");
  LOCKSTEP_CHECK(samples > 0 && (replacement || samples <= weights.size(-1)), op, "cannot draw ", samples,
                 " samples of ", weights.size(-1), replacement ? "" : " without replacement");
  LOCKSTEP_CHECK(weights.size(-1) <= 1 << 24, op, weights.size(-1), " categories are more than 2^24");
  if (weights.numel() == 0) return;
  const auto largest = std::numeric_limits<double>::infinity();
  LOCKSTEP_CHECK(holds(weights.lt(largest).bitwise_and(weights.ge(0))), op,
                 "a weight is infinite, NaN or negative");
  LOCKSTEP_CHECK(holds(weights.sum(-1).ne(0)), op, "the weights of a distribution sum to 0");
}

void check_permutation(int64_t n) {
  LOCKSTEP_CHECK(n >= 0, "[aten::randperm] n must not be negative, but is ", n);
}

}  // namespace lockstep
