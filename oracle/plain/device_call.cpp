// SPDX-License-Identifier: Apache-2.0
#include "oracle/plain/device_call.h"

#include <ATen/ATen.h>

#include "oracle/ownership/in_host.h"

namespace lockstep::oracle {
namespace {

// The operands of one call there: of an operand that stands in several places one copy.
class There {
 public:
  explicit There(c10::Device device) : device_(device) {}

  at::Tensor operator()(const at::Tensor& here) {
    if (!here.defined() || here.unsafeGetTensorImpl()->is_wrapped_number()) return here;
    for (const auto& [one, copy] : copies_)
      if (one.is_same(here)) return copy;
    return copies_.emplace_back(here, moved(here, device_)).second;
  }

  c10::IValue operator()(const c10::IValue& value, const ArgInfo& info) {
    if (value.isTensor()) return (*this)(value.toTensor());
    if (value.isDevice() || (info.name == "device" && value.isNone())) return device_;
    if (info.kind != ArgKind::kTensorList || !value.isList()) return value;
    std::vector<at::Tensor> list;
    for (const c10::IValue& v : value.toListRef())
      list.push_back(v.isTensor() ? (*this)(v.toTensor()) : at::Tensor());
    return tensor_list(list, info);
  }

  // The operand that the copy was made of, with what was written to the copy; a result of its own here.
  at::Tensor back(const at::Tensor& there) const {
    for (const auto& [here, copy] : copies_)
      if (copy.is_same(there)) return here;
    return in_host(there);
  }

  // What the kernel wrote, also where it gave an operand another size.
  void bring_back(const at::Tensor& here) const {
    for (const auto& [one, copy] : copies_) {
      if (!one.is_same(here)) continue;
      if (here.sizes() != copy.sizes())
        one.set_(moved(copy, one.device()));
      else
        one.copy_(copy);
    }
  }

 private:
  c10::Device device_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;
};

}  // namespace

std::vector<at::Tensor> call_there(c10::Device device, const Operator& op, torch::jit::Stack& stack) {
  There there(device);
  torch::jit::Stack operands;
  std::vector<at::Tensor> written;
  for (size_t i = 0; i < stack.size(); ++i) {
    operands.push_back(there(stack[i], op.args[i]));
    if (op.args[i].written) append_tensors(written, stack[i]);
  }
  stack.clear();
  std::vector<at::Tensor> results = call_boxed(op, operands);
  for (const at::Tensor& t : written)
    if (t.defined()) there.bring_back(t);
  for (at::Tensor& t : results) t = there.back(t);
  return results;
}

// The CUDA kernel accesses memory that is not its own.
static bool is_of_no_columns(const Operator& op, const torch::jit::Stack& stack) {
  return op.name == "aten::embedding_dense_backward" && stack.at(0).toTensor().size(-1) == 0;
}

std::vector<at::Tensor> call_on(c10::Device device, const Operator& op, torch::jit::Stack& stack) {
  const auto& returns = op.handle.schema().returns();
  const bool is_view = !op.writes && !returns.empty() && returns[0].alias_info() != nullptr;
  if (!device.is_cpu() && !is_view && !is_of_no_columns(op, stack)) return call_there(device, op, stack);
  for (c10::IValue& value : stack)
    if (value.isDevice()) value = c10::Device(at::kCPU);
  return call_boxed(op, stack);
}

}  // namespace lockstep::oracle
