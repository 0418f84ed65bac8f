// SPDX-License-Identifier: Apache-2.0
#include "engine/lane/numerics.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <cstdlib>
#include <functional>

#include "engine/values/error.h"

namespace lockstep {
namespace {

// Whether the kernel gives these operands other bits in its last element.
struct Planted {
  std::string op;
  std::function<bool(const at::Tensor& self, const at::Tensor& other)> changes;
};
const Planted* planted = nullptr;
int64_t asked = 0;  // how often the planted op has been

void call(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::TESTING_ONLY_GenericMode);
  const bool is_planted = planted != nullptr && op.schema().name() == planted->op;
  const auto arguments = op.schema().arguments().size();
  at::Tensor self, other;
  if (is_planted) {
    const auto operands = torch::jit::last(*stack, arguments);
    self = operands[0].toTensor();
    if (arguments > 1 && operands[1].isTensor()) other = operands[1].toTensor();
  }
  op.callBoxed(stack);
  if (!is_planted) return;
  ++asked;
  if (planted->changes(self, other)) stack->back().toTensor().view({-1})[-1].add_(1);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&call>());
}

std::string probe_with(const Planted& fault) {
  const c10::impl::IncludeDispatchKeyGuard above(c10::DispatchKey::TESTING_ONLY_GenericMode);
  planted = &fault, asked = 0;
  auto said = slice_probe();
  planted = nullptr;
  EXPECT_GT(asked, 0) << fault.op;
  return said;
}

const at::ScalarType kDtypes[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};

// Catches: a probe that refuses a library that holds what it asks for.
TEST(SliceProbe, FindsNothingInThePinnedLibrary) {
  EXPECT_EQ(slice_probe(), "");
  EXPECT_EQ(probe_with({"aten::mm", [](const at::Tensor&, const at::Tensor&) { return false; }}), "");
}

// A product whose rows, or columns, depend on how many are computed together. Catches: one of the two not
// asked, a shape or a dtype left out, another named.
TEST(SliceProbe, FindsProductsThatDependOnTheirFellows) {
  constexpr int64_t kShapes[][3] = {{5, 7, 9}, {33, 65, 17}, {64, 128, 48}, {2, 96, 200}, {40, 3, 31}};
  for (const auto& [m, k, n] : kShapes)
    for (const auto dtype : kDtypes)
      for (const bool rows : {true, false}) {
        const Planted fault{"aten::mm", [&, m = m, k = k, n = n](const at::Tensor& a, const at::Tensor& b) {
                              const bool whole = a.size(0) == m && b.size(1) == n;
                              return a.scalar_type() == dtype && a.size(1) == k && !whole &&
                                     (rows ? b.size(1) == n : a.size(0) == m);
                            }};
        EXPECT_EQ(probe_with(fault), concat("mm ", dtype, " ", m, "x", k, "x", n)) << rows;
      }
}

// Catches: a function or a dtype left out, the last piece left out, a comparison of the first elements.
TEST(SliceProbe, FindsFunctionsThatDependOnTheirFellows) {
  for (const auto* name : {"silu", "sigmoid", "gelu", "exp", "tanh", "rsqrt"})
    for (const auto dtype : kDtypes)
      for (const int64_t piece : {17, 16}) {  // all but the last, and the last of 101
        const Planted fault{concat("aten::", name), [&](const at::Tensor& x, const at::Tensor&) {
                              return x.scalar_type() == dtype && x.numel() == piece;
                            }};
        const auto said = probe_with(fault);
        EXPECT_TRUE(said.starts_with(name) && said.ends_with(concat(" ", dtype))) << name << ": " << said;
      }
}

TEST(SliceProbe, FindsConvolutionsThatDependOnTheirFellows) {
  const Planted fault{"aten::conv2d", [](const at::Tensor& x, const at::Tensor&) { return x.size(0) == 2; }};
  EXPECT_EQ(probe_with(fault), "conv2d Float 4x3x9x9");
}

// Catches: an exact lane that libtorch's settings leave: kernels of several threads, oneDNN's, fused
// attention.
TEST(ExactLane, SetsAllThatItNeeds) {
  auto& context = at::globalContext();
  at::set_num_threads(2);
  context.setUserEnabledMkldnn(true);
  context.setSDPUseFlash(true);
  context.setSDPUseMemEfficient(true);
  require_exact_lane();
  EXPECT_EQ(at::get_num_threads(), 1);
  EXPECT_FALSE(context.userEnabledMkldnn());
  EXPECT_FALSE(context.userEnabledFlashSDP());
  EXPECT_FALSE(context.userEnabledMemEfficientSDP());
  EXPECT_EQ(entered_lane(), Lane::kExact);
}

// Catches: an environment that is not looked at, or in part.
TEST(ExactLane, IsRefusedInAnotherEnvironment) {
  for (const auto* name : {"MKL_CBWR", "ATEN_CPU_CAPABILITY", "OMP_NUM_THREADS"})
    for (const auto* other : {"", static_cast<const char*>(nullptr)}) {
      const std::string before = std::getenv(name);
      other == nullptr ? unsetenv(name) : setenv(name, other, 1);
      EXPECT_THROW(require_exact_lane(), Error) << name;
      setenv(name, before.c_str(), 1);
    }
  require_exact_lane();
}

}  // namespace
}  // namespace lockstep
