// SPDX-License-Identifier: Apache-2.0
// Operators by name: libtorch's schemas, looked up once and kept with the facts that the oracle asks for.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <span>
#include <string>
#include <vector>

#include "oracle/program/program.h"

namespace lockstep::oracle {

// What one argument of a schema takes.
enum class ArgKind {
  kTensor,
  kTensorList,
  kInt,
  kIntList,
  kFloat,
  kFloatList,
  kBool,
  kBoolList,
  kScalar,
  kScalarList,
  kString,
  kDtype,
  kOther
};

struct ArgInfo {
  std::string name;
  ArgKind kind = ArgKind::kOther;
  bool optional = false;           // None may stand for it
  bool optional_elements = false;  // of a tensor list: undefined tensors may stand in it
  bool written = false;            // an in-place or out argument
};

struct Operator {
  c10::OperatorHandle handle;
  std::string name;  // "aten::sum.dim_IntList"
  std::vector<ArgInfo> args;
  bool composite = false;      // CompositeImplicitAutograd: decomposes above the kernels, on the CPU
  bool on_cuda = false;        // but there has a kernel
  bool on_cuda_alone = false;  // and has none on the CPU, nor is it composed of others
  bool writes = false;         // some argument is written
  bool random = false;         // tagged nondeterministic_seeded
  int64_t returns = 0;         // as the schema declares them
  bool returns_list = false;   // Tensor[]: as many values as elements

  bool returns_tensors = false;

  bool decomposes(c10::Device device) const { return composite && !(device.is_cuda() && on_cuda); }
};

// Throws Error if libtorch has no such operator; the message lists the overloads if only the overload is
// wrong.
const Operator& find_operator(const std::string& name);
const Operator& find_operator(const c10::OperatorHandle& handle);

// The overload of the same name with the same arguments but for those that it writes; null if there is none.
const Operator* functional_of(const Operator& out_variant);
// The overload that takes, behind the same arguments, a tensor for each result to write it to; null if there
// is none, or it is composed of others.
const Operator* out_variant_of(const Operator& functional);

// "lockstep::…": the statements of the Program itself (statements.h).
inline bool is_own(const std::string& op) {
  return op.starts_with("lockstep::");
}

// Undefined tensors are None where the schema lets elements be that.
c10::IValue tensor_list(const std::vector<at::Tensor>& tensors, const ArgInfo& info);

// The arguments with these tensors in the places that take so many; -1: no tensor argument.
torch::jit::Stack stack_of(const Operator& op, const std::vector<c10::IValue>& args,
                           const std::vector<int64_t>& tensors_per_arg, std::span<const at::Tensor> tensors);

// A tensor, or those of a list; nothing of any other value.
void append_tensors(std::vector<at::Tensor>& all, const c10::IValue& value);

// Runs the op on its stack, which is empty afterwards. Returns its tensors, those of lists one by one.
std::vector<at::Tensor> call_boxed(const Operator& op, torch::jit::Stack& stack);

// The same on one device. libtorch's fused optimizers raise no version of what they write: a backward through
// it would read the new values unasked. Here it is an error, as behind any other op in place.
std::vector<at::Tensor> call_plain(const Operator& op, torch::jit::Stack& stack);

// True if the text form `arg` may stand for an argument of this kind.
bool accepts(const ArgInfo& info, const Arg& arg);

}  // namespace lockstep::oracle
