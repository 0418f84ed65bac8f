// SPDX-License-Identifier: Apache-2.0
// What the makers share: growth of magnitudes, numbers, dimensions.
#include <algorithm>
#include <limits>

#include "engine/values/error.h"
#include "generators/ops/makers.h"
#include "oracle/program/values_elements.h"

namespace lockstep::generators {
namespace {

// How many elements of the result one element of the operand reaches by broadcasting.
Magnitude fan(const Builder& b, Ref operand, int64_t elements) {
  const auto own = std::max<int64_t>(b.tensor(operand).numel(), 1);
  return {static_cast<double>(std::max<int64_t>((elements + own - 1) / own, 1)), 0};
}

Magnitude result_of(const Builder& b, Grow grow, const std::vector<Ref>& operands, int64_t count) {
  Magnitude total{grow == Grow::kProduct ? 1.0 : 0.0, 0};
  for (const auto ref : operands) {
    const auto m = b.magnitude(ref);
    total = grow == Grow::kSum ? total + m : grow == Grow::kProduct ? total * m : larger(total, m);
  }
  const Magnitude n{static_cast<double>(std::max<int64_t>(count, 1)), 0};
  switch (grow) {
    case Grow::kOne:
      return {};
    case Grow::kCount:
      return total * n;
    case Grow::kMean:
      return over_power_of_two(total * n, count);
    case Grow::kPower:
      return {std::pow(total.bound, n.bound), total.fraction * count};
    default:
      return total;
  }
}

}  // namespace

const OpTemplate& template_of(std::string_view op) {
  const auto table = op_templates();
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const OpTemplate& t) { return op == t.op; });
  LOCKSTEP_CHECK(found != table.end(), "[generators] no line of the tables is of ", op);
  return *found;
}

Growth grown(const Builder& b, const OpTemplate& op, const std::vector<Ref>& operands, int64_t count) {
  if (op.grow == Grow::kInexact || !b.settings().integer_lane) return {};
  Growth growth{result_of(b, op.grow, operands, count), {}, (op.traits & kSignsZero) != 0};
  Shape elements;
  if (count == 1)
    for (const auto ref : operands) elements = broadcast(elements, b.shape(ref));
  for (size_t i = 0; i < operands.size(); ++i) {
    Magnitude factor = count == 1 ? fan(b, operands[i], numel(elements)) : Magnitude{};
    if (op.grow == Grow::kProduct)
      for (size_t j = 0; j < operands.size(); ++j)
        if (j != i) factor = factor * b.magnitude(operands[j]);
    if (op.grow == Grow::kMean) factor = over_power_of_two(factor, count);
    growth.factors.push_back(factor);
  }
  return growth;
}

bool emit(Builder& b, const OpTemplate& op, std::vector<Arg> args, const std::vector<Ref>& operands,
          int64_t count) {
  return b.call(op.op, std::move(args), grown(b, op, operands, count), !(op.traits & kLinear));
}

Ref first_operand(Builder& b, const OpTemplate& op, Want want) {
  return op.in_place() ? b.target(std::move(want)) : b.operand(want);
}

Arg draw_number(Builder& b, c10::ScalarType dtype) {
  const bool any = !b.settings().integer_lane && c10::isIntegralType(dtype, false);
  if (any && b.random().chance(25)) {
    const auto least = oracle::lowest_integer(dtype), most = oracle::highest_integer(dtype);
    return b.random().pick<int64_t>({least, most, least / 2, most / 3});
  }
  if (b.settings().integer_lane || !c10::isFloatingType(dtype))
    return b.random().pick<int64_t>({2, -1, 3, 1, -2, 0});
  return b.random().weighted<double>({{3, 0.5},
                                      {3, 2.0},
                                      {3, -1.5},
                                      {3, 0.1},
                                      {3, 3.0},
                                      {3, 1.0},
                                      {3, -1.0},
                                      {3, 0.0},
                                      {3, 0.25},
                                      {1, std::numeric_limits<double>::infinity()},
                                      {1, b.random().pick({1e39, 1e-50, 1e6})}});  // no number of some dtypes
}

Magnitude magnitude_of(const Arg& number) {
  if (const auto* integer = std::get_if<int64_t>(&number)) return magnitude_of(static_cast<double>(*integer));
  return magnitude_of(std::get<double>(number));
}

Shape broadcast(const Shape& a, const Shape& b) {
  Shape result = a.size() < b.size() ? b : a;
  const Shape& other = a.size() < b.size() ? a : b;
  for (size_t i = 1; i <= other.size(); ++i) {
    auto& n = result[result.size() - i];
    if (n == 1) n = other[other.size() - i];
  }
  return result;
}

int64_t draw_dim(Builder& b, int64_t ndim) {
  const auto dim = b.random().below(ndim);
  return b.random().chance(25) ? dim - ndim : dim;
}

oracle::Values indices_below(int64_t n) {
  return {.kind = oracle::ValueKind::kIndex, .low = 0, .high = n - 1};
}

}  // namespace lockstep::generators
