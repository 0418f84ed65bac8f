// SPDX-License-Identifier: Apache-2.0
// A call by copies of its operands against the call itself; the copies go to the CPU, which every machine
// has.
#include "oracle/plain/device_call.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>

namespace lockstep::oracle {
namespace {

using torch::jit::Stack;

struct Called {
  std::vector<at::Tensor> operands, results;
};

// The op on the operands that `make` gives, by one way or the other.
Called called(const char* name, const std::function<Stack()>& make, bool there) {
  const Operator& op = find_operator(name);
  Stack stack = make();
  Called result;
  for (const auto& value : stack) append_tensors(result.operands, value);
  result.results = there ? call_there(at::kCPU, op, stack) : call_boxed(op, stack);
  return result;
}

void expect_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b, const char* op) {
  ASSERT_EQ(a.size(), b.size()) << op;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(a[i].equal(b[i])) << op << ' ' << i;
    EXPECT_EQ(a[i].strides(), b[i].strides()) << op << ' ' << i;
  }
}

at::Tensor x() {
  return at::arange(12, at::kFloat).view({3, 4}).t();
}

c10::IValue with_hole() {
  c10::List<std::optional<at::Tensor>> indices;
  indices.push_back(std::nullopt);
  indices.push_back(at::tensor({2, 0}));
  return indices;
}

const std::pair<const char*, std::function<Stack()>> kCalls[] = {
    {"aten::add.Tensor",
     [] {
       return Stack{x(), x(), 1};
     }},
    {"aten::mul.Tensor",
     [] {
       return Stack{
           x(),
           at::scalar_tensor(2.5),
       };
     }},
    {"aten::sum",
     [] {
       return Stack{at::arange(9, at::kFloat).narrow(0, 1, 8), {}};
     }},
    {"aten::add_.Tensor",
     [] {
       return Stack{at::arange(9, at::kFloat).narrow(0, 3, 4), at::ones({4}), 1};
     }},
    {"aten::add_.Tensor",
     [] {
       return Stack{x(), at::ones({3}), 2};
     }},
    {"aten::add.out",
     [] {
       return Stack{x(), x(), 1, at::empty({0})};
     }},
    {"aten::sort",
     [] {
       return Stack{x(), 1, true};
     }},
    {"aten::index.Tensor",
     [] {
       return Stack{x(), with_hole()};
     }},
    {"aten::index_put_",
     [] {
       return Stack{x(), with_hole(), at::ones({2}), false};
     }},
    {"aten::_foreach_mul_.Scalar",
     [] {
       return Stack{std::vector<at::Tensor>{x(), at::ones({2})}, 3};
     }},
    {"aten::_foreach_add.List",
     [] {
       return Stack{std::vector<at::Tensor>{x()}, std::vector<at::Tensor>{x()}, 1};
     }},
    {"aten::new_zeros",
     [] {
       return Stack{x(), std::vector<int64_t>{2, 2}, {}, {}, {}, {}};
     }},
    {"aten::_to_copy", [] { return Stack{x(), at::kDouble, {}, c10::Device(at::kCPU), {}, false, {}}; }},
};

// Catches: a write that is not brought back, or to the wrong operand; a size that out takes; an index that is
// none; a list given as one tensor; strides that a kernel reads otherwise.
TEST(DeviceCallTest, IsTheCallItself) {
  for (const auto& [op, make] : kCalls) {
    const auto here = called(op, make, false), there = called(op, make, true);
    expect_same(here.results, there.results, op);
    expect_same(here.operands, there.operands, op);
  }
}

// Catches: two copies of an operand that stands twice, of which one is written.
TEST(DeviceCallTest, AnOperandThatStandsTwiceIsOneTensor) {
  const auto twice = [] {
    const auto one = x();
    return Stack{one, one, 1};
  };
  expect_same(called("aten::add_.Tensor", twice, false).results,
              called("aten::add_.Tensor", twice, true).results, "aten::add_.Tensor");
}

// Catches: a result of an op in place that is another tensor than the operand which it wrote to.
TEST(DeviceCallTest, WhatIsWrittenIsReturned) {
  const auto one = x();
  Stack stack{one, 2};
  EXPECT_TRUE(call_there(at::kCPU, find_operator("aten::mul_.Scalar"), stack).at(0).is_same(one));
}

// Catches: a replay on the CPU that makes its result on the device which the plain run was asked for.
TEST(DeviceCallTest, ADeviceAmongTheArgumentsIsTheCalls) {
  Stack stack{x(), at::kDouble, {}, c10::Device(at::kMeta), {}, false, {}};
  EXPECT_TRUE(call_on(at::kCPU, find_operator("aten::_to_copy"), stack).at(0).is_cpu());
}

}  // namespace
}  // namespace lockstep::oracle
