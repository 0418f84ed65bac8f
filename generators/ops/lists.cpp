// SPDX-License-Identifier: Apache-2.0
// Makers of _foreach_ ops: lists of tensors of different shapes and placements.
#include "generators/ops/makers.h"

namespace lockstep::generators {
namespace {

// `grad`: whether they may require grad.
std::vector<Ref> draw_list(Builder& b, const OpTemplate& op, bool grad = true) {
  if (op.traits & kNoHistory) grad = false;
  const int64_t least = std::string_view(op.op) == "aten::_foreach_max" ? 1 : 0;  // none is largest of none
  std::vector<Ref> list = {first_operand(
      b, op, {.dtypes = op.dtypes, .least = least, .plain_zeros = op.orders_zeros(), .grad = grad})};
  // Of one dtype, as parameters are, or of several.
  const auto dtypes = b.random().chance(70) ? bit_of(b.dtype(list[0])) : op.dtypes;
  for (int64_t more = b.random().between(0, 2); more > 0; --more) {
    // A tensor must not stand twice in a list that is written.
    Want want{.dtypes = dtypes,
              .least = least,
              .fresh = op.in_place(),
              .plain_zeros = op.orders_zeros(),
              .grad = grad};
    list.push_back(first_operand(b, op, want));
  }
  return list;
}

bool takes_one_dtype(const OpTemplate& op) {
  return std::string_view(op.op).find("lerp") != std::string_view::npos;
}

// One partner for each of the list, of its shape and dtype, or of another that is promoted or cast, or of
// fewer elements, which are broadcast.
std::vector<Ref> partners(Builder& b, const OpTemplate& op, const std::vector<Ref>& list) {
  std::vector<Ref> found;
  const bool alike = takes_one_dtype(op) || b.random().chance(65), broadcasts = b.random().chance(20);
  for (const auto ref : list)
    found.push_back(b.operand({.dtypes = alike ? bit_of(b.dtype(ref)) : op.dtypes | kI64,
                               .shape = b.shape(ref),
                               .broadcasts = broadcasts,
                               .plain_zeros = op.orders_zeros(),
                               .grad = !(op.traits & kNoHistory)}));
  return found;
}

Magnitude largest(const Builder& b, const std::vector<Ref>& list) {
  Magnitude m;
  for (const auto ref : list) m = larger(m, b.magnitude(ref));
  return m;
}

Growth list_growth(const Builder& b, const OpTemplate& op, const std::vector<std::vector<Ref>>& lists) {
  Growth growth;
  growth.signs_zero = (op.traits & kSignsZero) != 0;
  growth.result = largest(b, lists[0]);
  for (size_t i = 1; i < lists.size(); ++i) {
    const auto m = largest(b, lists[i]);
    growth.result = op.grow == Grow::kProduct ? growth.result * m
                    : op.grow == Grow::kSum   ? growth.result + m
                                              : larger(growth.result, m);
  }
  // Each operand's gradient meets at most the product of the others, once for each element that it reaches.
  for (const auto& list : lists)
    for (size_t i = 0; i < list.size(); ++i) {
      const auto own = std::max<int64_t>(b.tensor(list[i]).numel(), 1);
      const auto reached =
          std::max<int64_t>(b.tensor(lists[0][std::min(i, lists[0].size() - 1)]).numel() / own, 1);
      const auto factor = op.grow == Grow::kProduct ? growth.result : Magnitude{};
      growth.factors.push_back(factor * Magnitude{static_cast<double>(reached), 0});
    }
  return growth;
}

bool emit_lists(Builder& b, const OpTemplate& op, std::vector<Arg> args,
                const std::vector<std::vector<Ref>>& lists) {
  return b.call(op.op, std::move(args), list_growth(b, op, lists), !(op.traits & kLinear));
}

}  // namespace

bool list_unary(Builder& b, const OpTemplate& op) {
  const auto list = draw_list(b, op);
  return emit_lists(b, op, {list}, {list});
}

bool list_number(Builder& b, const OpTemplate& op) {
  const auto list = draw_list(b, op);
  auto growth = list_growth(b, op, {list});
  const auto number = std::string_view(op.op).find("div") != std::string_view::npos
                          ? Arg(2.0)
                          : draw_number(b, b.dtype(list[0]));
  growth.result =
      op.grow == Grow::kProduct ? growth.result * magnitude_of(number) : growth.result + magnitude_of(number);
  growth.factors.assign(list.size(), op.grow == Grow::kProduct ? magnitude_of(number) : Magnitude{});
  return b.call(op.op, {list, number}, growth, !(op.traits & kLinear));
}

bool list_numbers(Builder& b, const OpTemplate& op) {
  const auto list = draw_list(b, op);
  std::vector<double> numbers;
  for (size_t i = 0; i < list.size(); ++i) numbers.push_back(b.random().pick({2.0, -1.0, 3.0}));
  auto growth = list_growth(b, op, {list});
  growth.result =
      op.grow == Grow::kProduct ? growth.result * Magnitude{3, 0} : growth.result + Magnitude{3, 0};
  growth.factors.assign(list.size(), {3, 0});
  return b.call(op.op, {list, numbers}, growth, !(op.traits & kLinear));
}

bool list_binary(Builder& b, const OpTemplate& op) {
  const auto list = draw_list(b, op);
  const auto other = partners(b, op, list);
  return emit_lists(b, op, {list, other}, {list, other});
}

bool list_tensor(Builder& b, const OpTemplate& op) {
  // libtorch's derivative of _foreach_mul.Tensor takes lists of one only.
  const auto list = draw_list(b, op, false);
  const std::vector<Ref> other = {
      b.operand({.dtypes = bit_of(b.dtype(list[0])), .shape = Shape{}, .grad = false})};
  return emit_lists(b, op, {list, other[0]}, {list, other});
}

bool list_ternary(Builder& b, const OpTemplate& op) {
  const auto list = draw_list(b, op);
  const auto first = partners(b, op, list);
  const std::string_view name(op.op);
  if (name.find("lerp") != name.npos && name.ends_with("Scalar"))
    return emit_lists(b, op, {list, first, 0.25}, {list, first});
  if (name.find("lerp") != name.npos && name.ends_with("ScalarList"))
    return emit_lists(b, op, {list, first, std::vector<double>(list.size(), 0.75)}, {list, first});
  const auto second = partners(b, op, list);
  if (name.ends_with("List") && !name.ends_with("ScalarList"))
    return emit_lists(b, op, {list, first, second}, {list, first, second});
  if (name.ends_with("ScalarList"))
    return emit_lists(b, op, {list, first, second, std::vector<double>(list.size(), 0.5)},
                      {list, first, second});
  return emit_lists(b, op, {list, first, second, b.random().pick({1.0, 0.5, -2.0})}, {list, first, second});
}

bool list_power_of(Builder& b, const OpTemplate& op) {
  const auto list = draw_list(b, op, false);
  return b.call(op.op, {b.random().pick({2.0, 0.5, 3.0}), list}, {}, true);
}

bool list_norm(Builder& b, const OpTemplate& op) {
  const auto list = draw_list(b, op);
  return emit_lists(b, op, {list, b.random().pick({2.0, 1.0})}, {list});
}

}  // namespace lockstep::generators
