// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/operands.h"

#include <ATen/ATen.h>

#include "engine/ops/infer.h"
#include "engine/ops/rules/families.h"
#include "engine/tensor/gradients.h"
#include "engine/tensor/plain_guard.h"
#include "engine/values/error.h"
#include "engine/values/refused.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse_two_meshes(const c10::OperatorHandle& op, const std::string& specs, const Comm& one,
                                    const Comm& other) {
  const bool same = one.mesh == other.mesh;
  throw Refused(
      Refusal::kMeshes, concat(op.operator_name()), specs,
      concat("DTensors of two meshes meet: ", to_string(one.mesh), " and ", to_string(other.mesh),
             same ? " in two Worlds; init_device_mesh makes a World at each call unless it is given one: "
                  : "; "),
      same ? "call it once and use its result for both, or pass the first one's world to the second"
           : "bring them to one mesh with full_tensor and distribute_tensor");
}

void add_tensor(const c10::OperatorHandle& op, ParsedCall& call, const at::Tensor& tensor, bool mutated,
                size_t arg) {
  auto& o = call.operands;
  const auto* impl = dtensor_impl(tensor);
  auto& meta = o.metas.emplace_back();
  meta.defined = tensor.defined();
  meta.plain = meta.defined && impl == nullptr;
  if (meta.defined) meta.dtype = tensor.scalar_type();
  o.specs.push_back(impl != nullptr ? impl->spec() : nullptr);
  o.mutated.push_back(mutated);
  o.arg.push_back(arg);
  call.tensors.push_back(tensor);
  call.zeros.emplace_back();
  if (impl == nullptr) return;
  impl->check_memory(op.schema().name());
  if (call.comm == nullptr) call.comm = impl->comm();
  const Comm &one = *call.comm, &other = *impl->comm();
  if (&one != &other && (one.mesh != other.mesh || one.world != other.world))
    refuse_two_meshes(op, specs_of(call), one, other);
}

at::Tensor tensor_of(const c10::IValue& value) {
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

// Calls visit(tensor) for each tensor of a list argument, undefined ones included.
template <class Visit>
void each(const c10::IValue& list, Visit visit) {
  if (list.isNone()) return;
  if (list.isTensorList()) {
    for (const at::Tensor& t : list.toTensorList()) visit(t);
  } else {
    for (const auto& v : list.toListRef()) visit(tensor_of(v));
  }
}

// In a list an element of autograd's own may be a scalar; it is one of the tensors that are joined, not a
// constant.
bool is_constant(const Resolved& resolved, const ParsedCall& call, size_t i) {
  const auto& tensor = call.tensors[i];
  if (tensor.layout() != at::kStrided || tensor.numel() != 1 || call.operands.mutated[i]) return false;
  const bool in_list = resolved.kinds[call.operands.arg[i]] == ArgKind::kTensorList;
  return !(in_list && made_by_autograd(tensor));
}

void check_mixing(const c10::OperatorHandle& op, const Resolved& resolved, ParsedCall& call) {
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    auto& meta = call.operands.metas[i];
    if (!meta.plain || is_constant(resolved, call, i)) continue;
    // The zeros of the base of a view without elements, to which autograd adds the other gradients; those of
    // a second derivative.
    if (call.operands.mutated[i] && made_by_autograd(call.tensors[i]))
      throw NotBuilt(concat("[", op.operator_name(),
                            "] autograd writes a DTensor to zeros of its own, which are plain: the gradient ",
                            "of a view without elements, or a second derivative of prod beside a zero; take ",
                            "those of full_tensor()"));
    if (call.operands.mutated[i] || !made_by_autograd(call.tensors[i]))
      throw Refused(Refusal::kPlain, concat(op.operator_name()), specs_of(call),
                    concat("a plain tensor of shape ", call.tensors[i].sizes(), " beside a DTensor on mesh ",
                           to_string(call.comm->mesh), "; "),
                    "distribute_tensor it, or take full_tensor() of the other");
    call.zeros[i] = call.tensors[i];
    call.tensors[i] = replicated(call.tensors[i], call.comm);
    call.operands.specs[i] = dtensor_impl(call.tensors[i])->spec();
    meta.plain = false;
    meta.constant = true;
  }
}

c10::IValue list_like(const c10::IValue& original, std::vector<at::Tensor> tensors) {
  if (original.isTensorList()) return tensors;
  c10::List<std::optional<at::Tensor>> list;
  for (auto& t : tensors) list.push_back(t.defined() ? std::optional(std::move(t)) : std::nullopt);
  return list;
}

// Each value begins with its kind and, where it has one, its length: two lists of values never have the words
// of each other.
void add_words(c10::SmallVectorImpl<int64_t>& words, const c10::IValue& value) {
  if (value.isNone()) {
    words.push_back(-1);
  } else if (value.isInt()) {
    words.append({1, value.toInt()});
  } else if (value.isBool()) {
    words.append({2, value.toBool()});
  } else if (value.isIntList()) {
    const auto list = value.toIntList();
    words.append({3, static_cast<int64_t>(list.size())});
    for (const int64_t n : list) words.push_back(n);
  } else if (value.isString()) {
    const auto& text = value.toStringRef();
    words.append({4, static_cast<int64_t>(text.size())});
    for (const char letter : text) words.push_back(letter);
  } else if (value.isList()) {
    words.append({5, static_cast<int64_t>(value.toListRef().size())});
    for (const auto& element : value.toListRef()) add_words(words, element);
  } else if (value.isDouble()) {
    // The kind of a scalar decides dtypes, whether it is positive which Partials pass; its value nothing.
    int64_t word = 1;
    for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble})
      word = 2 * word + (rules::positive(value, dtype) ? 1 : 0);
    words.push_back(word);
  } else {
    words.push_back(9);
  }
}

}  // namespace

std::string specs_of(const ParsedCall& call) {
  std::string text;
  for (const auto& spec : call.operands.specs)
    if (spec != nullptr) text += concat(text.empty() ? "" : ", ", to_string(*spec));
  return text;
}

ParsedCall parse(const c10::OperatorHandle& op, const Resolved& resolved, at::ArrayRef<c10::IValue> args) {
  ParsedCall call;
  for (size_t i = 0; i < args.size(); ++i) {
    if (resolved.kinds[i] == ArgKind::kTensor)
      add_tensor(op, call, tensor_of(args[i]), resolved.mutated[i], i);
    else if (resolved.kinds[i] == ArgKind::kTensorList)
      each(args[i], [&](const at::Tensor& t) { add_tensor(op, call, t, resolved.mutated[i], i); });
  }
  if (call.comm != nullptr) check_mixing(op, resolved, call);
  return call;
}

void describe(ParsedCall& call) {
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    auto& meta = call.operands.metas[i];
    if (!meta.defined) continue;
    const auto& spec = call.operands.specs[i];
    meta.shape = spec != nullptr ? spec->shape() : call.tensors[i].sizes().vec();
    meta.stride = spec != nullptr ? spec->stride() : call.tensors[i].strides().vec();
    meta.offset = call.tensors[i].storage_offset();
  }
}

void push_with_tensors(torch::jit::Stack& stack, const Resolved& resolved, at::ArrayRef<c10::IValue> args,
                       c10::function_ref<at::Tensor(size_t)> replace) {
  size_t next = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    if (resolved.kinds[i] == ArgKind::kTensor) {
      const size_t at = next++;
      if (args[i].isTensor() && args[i].toTensor().defined())
        stack.emplace_back(replace(at));
      else
        stack.push_back(args[i]);
    } else if (resolved.kinds[i] == ArgKind::kTensorList && !args[i].isNone()) {
      std::vector<at::Tensor> list;
      each(args[i], [&](const at::Tensor& t) {
        const size_t at = next++;
        list.push_back(t.defined() ? replace(at) : t);
      });
      stack.push_back(list_like(args[i], std::move(list)));
    } else {
      stack.push_back(args[i]);
    }
  }
}

torch::jit::Stack with_tensors(const Resolved& resolved, at::ArrayRef<c10::IValue> args,
                               c10::function_ref<at::Tensor(size_t)> replace) {
  torch::jit::Stack stack;
  stack.reserve(args.size());
  push_with_tensors(stack, resolved, args, replace);
  return stack;
}

static bool stays(const ParsedCall& call, size_t i) {
  return call.operands.metas[i].plain || call.zeros[i].defined();
}

std::vector<c10::IValue> constants(const Resolved& resolved, at::ArrayRef<c10::IValue> args,
                                   const ParsedCall& call) {
  std::vector<c10::IValue> result;
  size_t next = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    if (resolved.kinds[i] == ArgKind::kTensor) {
      result.push_back(stays(call, next) ? args[i] : c10::IValue());
      ++next;
    } else if (resolved.kinds[i] == ArgKind::kTensorList && !args[i].isNone()) {
      c10::impl::GenericList nones(c10::AnyType::get());
      each(args[i], [&](const at::Tensor& t) {
        nones.push_back(stays(call, next) ? c10::IValue(t) : c10::IValue());
        ++next;
      });
      result.emplace_back(std::move(nones));
    } else {
      result.push_back(args[i]);
    }
  }
  return result;
}

torch::jit::Stack on_meta(const Resolved& resolved, at::ArrayRef<c10::IValue> args, const ParsedCall& call) {
  auto stack = with_tensors(resolved, args, [&](size_t i) {
    const auto& meta = call.operands.metas[i];
    // A number stays where it counts as one beside a tensor of another device.
    if (meta.plain && meta.ndim() == 0 && !call.tensors[i].is_cuda()) return call.tensors[i];
    return at::empty_strided(meta.shape, meta.stride,
                             at::TensorOptions().dtype(meta.dtype).device(at::kMeta));
  });
  for (auto& value : stack)
    if (value.isDevice()) value = c10::Device(at::kMeta);
  return stack;
}

bool equal_and_named_alike(const Spec& a, const Spec& b) {
  return a == b && a.mesh().names() == b.mesh().names();
}

bool CacheKey::operator==(const CacheKey& other) const {
  if (words != other.words || specs.size() != other.specs.size()) return false;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i] == other.specs[i]) continue;
    if (specs[i] == nullptr || other.specs[i] == nullptr) return false;
    if (!equal_and_named_alike(*specs[i], *other.specs[i])) return false;
  }
  return true;
}

CacheKey cache_key(const c10::OperatorHandle& op, const Resolved& resolved, at::ArrayRef<c10::IValue> args,
                   const ParsedCall& call, MayMove may_move) {
  CacheKey key;
  key.words.append({reinterpret_cast<int64_t>(&op.schema()), may_move.viewed, may_move.written});
  for (size_t i = 0; i < args.size(); ++i)
    if (resolved.kinds[i] == ArgKind::kConstant) add_words(key.words, args[i]);
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    const auto& meta = call.operands.metas[i];
    key.words.push_back(static_cast<int64_t>(call.operands.arg[i] * 4) + 2 * meta.constant + meta.plain);
    if (!meta.plain) continue;
    key.words.append({static_cast<int64_t>(meta.dtype), call.tensors[i].dim(),
                      call.tensors[i].unsafeGetTensorImpl()->is_wrapped_number()});
  }
  if (resolved.entry->absolute_offset) key.words.push_back(call.tensors[0].storage_offset());
  key.specs = call.operands.specs;
  for (const int64_t word : key.words)
    key.hash = key.hash * 0x9E3779B97F4A7C15ull + static_cast<size_t>(word);
  for (const auto& spec : key.specs) key.hash = key.hash * 31 + (spec == nullptr ? 7 : spec->hash());
  return key;
}

}  // namespace lockstep
