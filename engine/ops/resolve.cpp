// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/resolve.h"

#include <unordered_map>

namespace lockstep {
namespace {

bool is_list_op(const std::string& name) {
  return name.starts_with("aten::_foreach_") || name.starts_with("aten::_fused_");
}

bool is_out(const c10::FunctionSchema& schema) {
  const auto& overload = schema.overload_name();
  return overload == "out" || overload.ends_with("_out");
}

// The functional op's name: without "_foreach_", without the "_" of in-place ops.
const OpEntry* base_entry(std::string name, Variant variant) {
  if (const auto* entry = find_op(name)) return entry;
  if (name.ends_with('_')) name.pop_back();
  if (const auto* entry = find_op(name)) return entry;
  constexpr std::string_view kForeach = "aten::_foreach_";
  if (variant == Variant::kList && name.starts_with(kForeach))
    return find_op("aten::" + name.substr(kForeach.size()));
  return nullptr;
}

ArgKind kind_of(const c10::Argument& arg) {
  const auto text = arg.type()->str();
  if (text == "Tensor" || text == "Tensor?") return ArgKind::kTensor;
  const bool list = text == "Tensor[]" || text == "Tensor?[]" || text == "Tensor[]?";
  return list ? ArgKind::kTensorList : ArgKind::kConstant;
}

Resolved compute(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  Resolved result;
  for (const auto& arg : schema.arguments()) result.kinds.push_back(kind_of(arg));
  for (const auto& arg : schema.arguments())
    result.mutated.push_back(arg.alias_info() != nullptr && arg.alias_info()->isWrite());
  // view(dtype) is no view(size): it takes the same bytes for other numbers.
  const bool of_dtype = schema.name() == "aten::view" && schema.overload_name() == "dtype";
  const std::string name = of_dtype ? "aten::view.dtype" : schema.name();
  if (is_list_op(name))
    result.variant = Variant::kList;
  else if (is_out(schema))
    result.variant = Variant::kOut;
  else if (name.ends_with('_') && !result.mutated.empty() && result.mutated[0])
    result.variant = Variant::kInPlace;
  result.entry = base_entry(name, result.variant);
  const bool implicit = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  result.composite = implicit && find_op(name) == nullptr;
  return result;
}

std::unordered_map<const c10::FunctionSchema*, Resolved>& cache() {
  thread_local std::unordered_map<const c10::FunctionSchema*, Resolved> map;
  thread_local uint64_t version = 0;
  if (rules_changed(version)) map.clear();
  return map;
}

}  // namespace

const Resolved& resolve(const c10::OperatorHandle& op) {
  auto& map = cache();
  const auto* key = &op.schema();
  const auto it = map.find(key);
  return it != map.end() ? it->second : map.emplace(key, compute(op)).first->second;
}

}  // namespace lockstep
