// SPDX-License-Identifier: Apache-2.0
// What a stock kernel gives an element alone is what it gives it among others, or families.cpp says
// otherwise: asked of every pointwise operator of libtorch whose arguments can be made up.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <set>

#include "oracle/judge/families.h"
#include "oracle/program/schema.h"

namespace lockstep::oracle {
namespace {

constexpr int64_t kMany = 67;  // vectors, and a tail

// Numbers of several sizes, among them what is no number.
at::Tensor operand(int which, int kind, c10::ScalarType dtype) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(which * 16 + kind));
  if (!at::isFloatingType(dtype)) {
    const int64_t least =
        dtype == at::kByte || dtype == at::kBool || kind == 2 ? (dtype == at::kBool ? 0 : 1) : -9;
    return at::randint(least, dtype == at::kBool ? 2 : 10, {kMany}, generator, at::kLong).to(dtype);
  }
  constexpr double kScales[] = {1, 40, 0.01};
  auto numbers = at::randn({kMany}, generator, at::kDouble) * kScales[(which + kind) % 3];
  if (kind == 3) {
    const double inf = std::numeric_limits<double>::infinity();
    const double specials[] = {0.0, -0.0, inf, -inf, std::numeric_limits<double>::quiet_NaN(),
                               6e4, 1e-7, 1.0, -1.0};
    for (int64_t i = 0; i < kMany; ++i)
      numbers[i] = specials[static_cast<size_t>((which == 0 ? i : i / 9 + which) % 9)];
  }
  return numbers.to(dtype);
}

// Null: an argument that cannot be made up.
std::optional<torch::jit::Stack> arguments(const c10::FunctionSchema& schema, int kind,
                                           c10::ScalarType dtype) {
  torch::jit::Stack stack;
  int tensors = 0;
  for (const auto& a : schema.arguments()) {
    const auto& type = *a.type();
    if (a.alias_info() != nullptr && a.alias_info()->isWrite()) return std::nullopt;
    if (type.kind() == c10::TypeKind::TensorType)
      stack.emplace_back(
          operand(tensors++, kind, a.name() == "condition" || a.name() == "mask" ? at::kBool : dtype));
    else if (a.default_value() && type.kind() != c10::TypeKind::IntType)
      stack.push_back(*a.default_value());
    else if (type.kind() == c10::TypeKind::OptionalType)
      stack.emplace_back(a.name() == "rounding_mode" ? c10::IValue(kind % 2 == 0 ? "floor" : "trunc")
                                                     : c10::IValue());
    else if (type.kind() == c10::TypeKind::NumberType || type.kind() == c10::TypeKind::FloatType)
      stack.emplace_back(at::isFloatingType(dtype) ? c10::IValue(0.5) : c10::IValue(2));
    else if (type.kind() == c10::TypeKind::IntType)
      stack.emplace_back(int64_t{0});  // of losses no mean
    else if (type.kind() == c10::TypeKind::BoolType)
      stack.emplace_back(false);
    else
      return std::nullopt;
  }
  return tensors > 0 ? std::optional(std::move(stack)) : std::nullopt;
}

std::optional<at::Tensor> result(const c10::OperatorHandle& op, torch::jit::Stack stack) {
  try {
    op.callBoxed(stack);
  } catch (const std::exception&) {
    return std::nullopt;  // it has no kernel for the dtype
  }
  if (stack.size() != 1 || !stack[0].isTensor()) return std::nullopt;
  return stack[0].toTensor();
}

// As the judge compares what a kernel gives: zeros whatever their sign, NaNs whatever their payload.
bool are_same(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         at::logical_or(a.eq(b), at::logical_and(a.ne(a), b.ne(b))).all().item<bool>();
}

torch::jit::Stack part(const torch::jit::Stack& all, int64_t from, int64_t n) {
  auto some = all;
  for (auto& value : some)
    if (value.isTensor()) value = value.toTensor().narrow(0, from, n).clone();
  return some;
}

// Where an element among others is another: a dtype, how many are asked at once; empty: nowhere.
std::string differs(const c10::OperatorHandle& op, int64_t& asked) {
  for (const auto dtype :
       {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kLong, at::kInt, at::kByte, at::kBool})
    for (int kind = 0; kind < 4; ++kind) {
      const auto all = arguments(op.schema(), kind, dtype);
      const auto together = all ? result(op, *all) : std::nullopt;
      if (!together || together->sizes() != at::IntArrayRef{kMany}) continue;
      ++asked;
      for (const int64_t n : {1, 2, 5, 19})
        for (int64_t i = 0; i + n <= kMany; i += n) {
          const auto alone = result(op, part(*all, i, n));
          if (!alone || !are_same(*alone, together->narrow(0, i, n)))
            return std::string(c10::toString(dtype)) + ", " + std::to_string(n) + " at " + std::to_string(i);
        }
    }
  return "";
}

// Would catch: a kernel that goes another way for few elements than for many, which an engine's slices would
// be called wrong for when a search comes across it.
TEST(OneOfMany, IsWhatItIsAmongOthers) {
  int64_t asked = 0;
  std::set<std::string> found;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findOp(name);
    const bool is_asked = name.name.starts_with("aten::") && op && op->hasSchema() &&
                          is_pointwise(find_operator(*op)) && !op->hasTag(at::Tag::nondeterministic_seeded) &&
                          name.name.find("_polynomial_") == std::string::npos;  // which no engine cuts
    if (!is_asked) continue;
    const auto where = differs(*op, asked);
    if (!where.empty()) found.insert(name.name);
    EXPECT_TRUE(where.empty() || find_family(toString(name)) != nullptr) << toString(name) << ", " << where;
  }
  EXPECT_GT(asked, 5000);
  EXPECT_TRUE(found.contains("aten::floor_divide"));
}

}  // namespace
}  // namespace lockstep::oracle
