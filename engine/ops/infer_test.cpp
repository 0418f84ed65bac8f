// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/infer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/ops/resolve.h"

namespace lockstep {
namespace {

struct Inferred {
  const char *name, *overload;
  size_t tensors;
  std::vector<c10::IValue> after = {};  // the tensors
};

// Whole, and smaller in each of two ways and in both, in four orders of memory; and a number.
std::vector<at::Tensor> operands(c10::ScalarType dtype) {
  std::vector<at::Tensor> all;
  const std::vector<int64_t> shapes[] = {{2, 3, 4}, {2, 3, 1}, {1, 1, 4}, {1, 3, 4}};
  const std::vector<int64_t> orders[] = {{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {0, 2, 1}};
  for (const auto& shape : shapes)
    for (const auto& order : orders) {
      std::vector<int64_t> back(3);
      for (size_t d = 0; d < 3; ++d) back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
      const auto whole = at::ones(shape, at::TensorOptions(dtype));
      all.push_back(whole.permute(order).contiguous().permute(back));
    }
  all.push_back(at::ones({}, at::TensorOptions(dtype)));
  return all;
}

struct Silence : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

class InferTest : public testing::TestWithParam<Inferred> {};

// Law: where the table says how a result lies in memory, it lies so on one device, dimensions of one element
// aside. Catches: an operand that is forgotten, or asked before another.
TEST_P(InferTest, AResultLiesAsOnOneDevice) {
  const auto& [name, overload, tensors, after] = GetParam();
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const auto* entry = resolve(op).entry;
  ASSERT_TRUE(entry != nullptr && entry->infer != nullptr);
  const bool conditional = op.schema().arguments()[0].name() == "condition";
  const auto first = operands(conditional ? at::kBool : at::kFloat), others = operands(at::kFloat);
  Silence silence;  // of results that are resized
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  for (size_t k = 0; k < first.size() * others.size() * (tensors > 2 ? others.size() : 1); ++k) {
    torch::jit::Stack real, meta;
    size_t rest = k;
    for (size_t i = 0; i < tensors; ++i, rest /= others.size()) {
      const auto& t = (i == 0 ? first : others)[rest % others.size()];
      real.emplace_back(t);
      const bool is_number = t.dim() == 0;  // which dispatch leaves on the host
      meta.emplace_back(is_number ? t
                                  : at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kMeta)));
    }
    real.insert(real.end(), after.begin(), after.end());
    meta.insert(meta.end(), after.begin(), after.end());
    op.callBoxed(real);
    const at::Tensor result = real.at(0).toTensor();
    const auto inferred = infer_outputs(op, at::kCPU, entry->infer, std::move(meta));
    ASSERT_EQ(inferred.size(), 1U);
    ASSERT_EQ(at::IntArrayRef(inferred[0].shape), result.sizes());
    for (size_t d = 0; d < inferred[0].shape.size(); ++d) {
      if (inferred[0].shape[d] == 1) continue;
      ASSERT_EQ(inferred[0].stride[d], result.stride(static_cast<int64_t>(d))) << "of operands " << k;
    }
    ASSERT_EQ(inferred[0].dtype, result.scalar_type());
  }
}

INSTANTIATE_TEST_SUITE_P(OfTheTable, InferTest,
                         testing::Values(Inferred{"aten::log_sigmoid_backward", "", 3},
                                         Inferred{"aten::mse_loss_backward", "", 3, {0}},
                                         Inferred{"aten::hardswish_backward", "", 2},
                                         Inferred{"aten::floor_divide", "", 2},
                                         Inferred{"aten::where", "self", 3}),
                         [](const auto& of) { return std::string(of.param.name).substr(6); });

}  // namespace
}  // namespace lockstep
