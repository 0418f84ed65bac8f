// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/ops/resolve.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/error.h"
#include "engine/values/refused.h"

namespace lockstep {
namespace {

std::string functional_of(const char* name, const char* overload) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const auto& functional = resolve(op).functional;
  return functional.has_value() ? c10::toString(functional->operator_name()) : "none";
}

// Catches: an out variant that runs another overload than its own; add.Scalar takes as many arguments as
// add.Tensor, and the names of overloads with and without out need not agree. One that is taken for an op in
// place, because its overload has another name than "out".
TEST(OutVariantsTest, KnowTheirFunctionalOverloads) {
  EXPECT_EQ(functional_of("aten::add", "out"), "aten::add.Tensor");
  EXPECT_EQ(functional_of("aten::add", "Scalar_out"), "aten::add.Scalar");
  EXPECT_EQ(functional_of("aten::sum", "IntList_out"), "aten::sum.dim_IntList");
  EXPECT_EQ(functional_of("aten::mm", "out"), "aten::mm");
  EXPECT_EQ(functional_of("aten::max", "dim_max"), "aten::max.dim");
  EXPECT_EQ(functional_of("aten::sort", "values_stable"), "aten::sort.stable");
  EXPECT_EQ(functional_of("aten::add", "Tensor"), "none");
}

// Catches: an out whose memory is replaced instead of written, so that its views keep the old values; a copy
// into other placements, or into another dtype, that takes the result's memory as it lies.
TEST(OutVariantsTest, WriteTheMemoryOfOut) {
  const auto mesh = init_device_mesh({2});
  const auto value = at::arange(12, at::kFloat).view({3, 4});
  const auto x = distribute_tensor(value, mesh, {Shard{0}});
  for (const Placement& p : {Placement(Shard{0}), Placement(Shard{1}), Placement(Replicate{})})
    for (const auto dtype : {at::kFloat, at::kDouble}) {
      auto out = distribute_tensor(at::zeros({3, 4}, dtype), mesh, {p});
      const auto view = out.t();
      EXPECT_TRUE(at::add_out(out, x, x).is_same(out));
      EXPECT_TRUE(full_tensor(view).equal((value + value).t().to(dtype))) << to_string(p) << dtype;
    }
}

// Catches: a second result that goes to the first out; a sum in the dtype of what is summed, where stock adds
// in that of out; an op that is composed of others, refused for want of a rule of its own.
TEST(OutVariantsTest, WriteEachResultAsStockDoes) {
  const auto mesh = init_device_mesh({2});
  const auto value = at::arange(12, at::kFloat).view({3, 4}) / 7;
  const auto x = distribute_tensor(value, mesh, {Shard{1}});
  auto most = distribute_tensor(at::zeros({4}), mesh, {Replicate{}});
  auto at_row = distribute_tensor(at::zeros({4}, at::kLong), mesh, {Shard{0}});
  at::max_out(most, at_row, x, 0);
  EXPECT_TRUE(full_tensor(most).equal(std::get<0>(value.max(0))));
  EXPECT_TRUE(full_tensor(at_row).equal(std::get<1>(value.max(0))));
  auto soft = distribute_tensor(at::zeros({3, 4}), mesh, {Shard{0}});
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::softmax", "int_out");
  torch::jit::Stack stack = {x, int64_t{0}, c10::IValue(), soft};
  op.callBoxed(stack);
  EXPECT_TRUE(full_tensor(soft).equal(value.softmax(0)));
  for (const auto& shape : {std::vector<int64_t>{4}, std::vector<int64_t>{0}}) {
    auto plain = at::zeros(shape, at::kDouble);
    auto out = distribute_tensor(plain, mesh, {Replicate{}});
    at::sum_out(plain, value, {0});
    at::sum_out(out, x, {0});
    EXPECT_TRUE(full_tensor(out).equal(plain)) << shape;
    EXPECT_THROW(at::logsumexp_out(out, x, {0}), NotBuilt) << "and was summed in another dtype";
    EXPECT_THROW(at::std_out(out, x, {0}), NotBuilt) << "and was summed in another dtype";
    EXPECT_THROW(at::var_out(out, x, {0}), NotBuilt) << "and was summed in another dtype";
  }
}

// Catches: a mean that is taken in another dtype than stock's; one refused though nothing is summed, or
// though the result is of the dtype of out.
TEST(OutVariantsTest, SumALossInTheDtypeOfOutOrRefuse) {
  const auto mesh = init_device_mesh({2});
  const auto value = at::arange(12, at::kFloat).view({3, 4}) / 7, target = value.flip(0);
  const auto x = distribute_tensor(value, mesh, {Shard{1}}), y = distribute_tensor(target, mesh, {Shard{1}});
  auto wide = distribute_tensor(at::zeros({}, at::kDouble), mesh, {Replicate{}});
  EXPECT_THROW(at::mse_loss_out(wide, x, y, at::Reduction::Mean), NotBuilt);
  at::mse_loss_out(wide, x.to(at::kDouble), y, at::Reduction::Mean);
  auto plain = at::zeros({3, 4}, at::kDouble);
  auto out = distribute_tensor(plain, mesh, {Shard{1}});
  at::mse_loss_out(plain, value, target, at::Reduction::None);
  at::mse_loss_out(out, x, y, at::Reduction::None);
  EXPECT_TRUE(full_tensor(out).equal(plain));
}

// Catches: an empty out that becomes contiguous where stock keeps the result's strides, and the other way
// round.
TEST(OutVariantsTest, GiveAnEmptyOutTheStridesOfStock) {
  const auto mesh = init_device_mesh({2});
  const auto value = at::arange(12, at::kFloat).view({3, 4}).t();
  const auto x = distribute_tensor(value, mesh, {Shard{1}});
  auto plain = at::empty({0}), out = distribute_tensor(plain, mesh, {Replicate{}});
  auto plain_at = at::empty({0}, at::kLong), at_row = distribute_tensor(plain_at, mesh, {Replicate{}});
  at::sort_out(plain, plain_at, value, 0);
  at::sort_out(out, at_row, x, 0);
  EXPECT_EQ(out.strides(), plain.strides());
  EXPECT_EQ(at_row.strides(), plain_at.strides());
  EXPECT_TRUE(full_tensor(out).equal(plain) && full_tensor(at_row).equal(plain_at));
  auto sized = at::empty({0}), sized_out = distribute_tensor(sized, mesh, {Replicate{}});
  at::mul_out(sized, value, 2);
  at::mul_out(sized_out, x, 2);
  EXPECT_EQ(sized_out.strides(), sized.strides());
}

// The arguments before the outs, of which tensor `k` is `x`, or each if it is -1, and the others lie
// contiguous; nullopt: some argument is of another kind.
std::optional<torch::jit::Stack> arguments(const c10::FunctionSchema& schema, const at::Tensor& x,
                                           int64_t k) {
  torch::jit::Stack stack;
  int64_t tensors = 0;
  for (const auto& arg : schema.arguments()) {
    if (arg.is_out()) return stack;
    const auto kind = arg.type()->kind();
    if (kind == c10::TypeKind::TensorType) {
      stack.emplace_back(k < 0 || k == tensors ? x : x.contiguous());
      ++tensors;
    } else if (kind == c10::TypeKind::NumberType) {
      stack.push_back(x.is_floating_point() ? c10::IValue(1.5) : c10::IValue(2));
    } else if (arg.default_value()) {
      stack.push_back(*arg.default_value());
    } else if (kind == c10::TypeKind::IntType) {
      stack.emplace_back(0);
    } else if (kind == c10::TypeKind::FloatType) {
      stack.emplace_back(0.5);
    } else if (kind == c10::TypeKind::BoolType) {
      stack.emplace_back(false);
    } else {
      return std::nullopt;
    }
  }
  return stack;
}

// What an empty out of this dtype lies like after the call; empty: it is refused, or the result is of another
// dtype.
std::vector<int64_t> strides_after(const c10::OperatorHandle& op, torch::jit::Stack stack,
                                   const at::Tensor& out) {
  stack.emplace_back(out);
  try {
    op.callBoxed(stack);
  } catch (const std::exception&) {
    return {};
  }
  return out.strides().vec();
}

// Catches: an out variant that libtorch's authors wrote by hand and the engine takes for a generated one,
// whose out is contiguous; or the other way round; operands in another order than the kernel looks at them.
// Of all that libtorch has with one result.
TEST(OutVariantsTest, GiveEveryEmptyOutTheStridesOfStock) {
  const auto mesh = init_device_mesh({1});
  const FallbackReplicate whole;
  const auto sixteenths = at::arange(1, 13, at::kFloat).view({3, 4}).t().div(16);
  int64_t compared = 0, not_contiguous = 0;
  for (const auto of : {at::kFloat, at::kLong, at::kBool})
    for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
      const auto op = c10::Dispatcher::singleton().findSchema(name);
      if (!op || !name.name.starts_with("aten::") || op->schema().returns().size() != 1) continue;
      if (op->schema().arguments().empty() || !op->schema().arguments().back().is_out()) continue;
      if (op->schema().arguments().size() > 1 && op->schema().arguments().end()[-2].is_out()) continue;
      const auto tensors = std::count_if(
          op->schema().arguments().begin(), op->schema().arguments().end() - 1,
          [](const c10::Argument& arg) { return arg.type()->kind() == c10::TypeKind::TensorType; });
      const auto value = of == at::kFloat ? sixteenths : sixteenths.mul(16).to(of);
      const auto x = distribute_tensor(value, mesh, {Replicate{}});
      for (int64_t k = -1; k < tensors; ++k) {
        const auto plain_args = arguments(op->schema(), value, k), args = arguments(op->schema(), x, k);
        if (!plain_args || !args) break;
        for (const auto dtype : {at::kFloat, at::kBool, at::kLong}) {
          const auto plain = at::empty({0}, dtype);
          const auto expected = strides_after(*op, *plain_args, plain);
          const auto out = distribute_tensor(at::empty({0}, dtype), mesh, {Replicate{}});
          const auto got = strides_after(*op, *args, out);
          if (expected.size() != 2 || got.empty()) continue;
          EXPECT_EQ(got, expected) << name << " of " << of << ", operand " << k << " transposed";
          ++compared;
          not_contiguous += !plain.is_contiguous();
          break;
        }
      }
    }
  EXPECT_GT(compared, 400);
  EXPECT_GT(not_contiguous, 200);
}

// Catches: an out that libtorch's kernel takes for contiguous, and fills elsewhere than its strides say: no
// answer is the single device's and right. Where it is contiguous, or to be made, nothing is refused.
TEST(OutVariantsTest, RefuseMemoryThatStockFillsWrongly) {
  const auto mesh = init_device_mesh({2});
  const auto value = at::arange(6, at::kFloat).view({2, 3});
  const auto x = distribute_tensor(value, mesh, {Shard{0}});
  for (const bool log : {false, true}) {
    const auto run = [log](at::Tensor out, const at::Tensor& of) {
      return log ? at::_log_softmax_out(out, of, 1, false) : at::_softmax_out(out, of, 1, false);
    };
    const auto turned = at::empty({3, 2}).t();
    EXPECT_FALSE(run(turned, value).equal(run(at::empty({2, 3}), value)));
    try {
      run(distribute_tensor(turned, mesh, {Replicate{}}), x);
      ADD_FAILURE() << "not refused";
    } catch (const Refused& e) {
      EXPECT_EQ(e.why, Refusal::kOut);
      EXPECT_NE(std::string(e.what()).find("pass an empty out"), std::string::npos) << e.what();
    }
    for (const auto& out : {at::empty({2, 3}), at::empty({0})})
      EXPECT_TRUE(full_tensor(run(distribute_tensor(out, mesh, {Replicate{}}), x))
                      .equal(run(at::empty({2, 3}), value)));
  }
}

// Catches: an empty out that lies in its operand's memory, so that what is written to one shows in the other.
TEST(OutVariantsTest, GiveAnEmptyOutMemoryOfItsOwn) {
  const auto mesh = init_device_mesh({2});
  const auto value = at::arange(6, at::kFloat).view({2, 3});
  const auto x = distribute_tensor(value, mesh, {Replicate{}});
  auto out = distribute_tensor(at::empty({0}), mesh, {Replicate{}});
  at::_unsafe_view_out(out, x, {2, 3, 1});
  EXPECT_TRUE(full_tensor(out).equal(value.unsqueeze(2)));
  out.zero_();
  EXPECT_TRUE(full_tensor(x).equal(value));
}

}  // namespace
}  // namespace lockstep
