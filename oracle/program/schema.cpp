// SPDX-License-Identifier: Apache-2.0
#include "oracle/program/schema.h"

#include <mutex>

#include "engine/values/error.h"

namespace lockstep::oracle {
namespace {

ArgKind list_kind(const c10::TypePtr& element) {
  switch (element->kind()) {
    case c10::TypeKind::TensorType:
      return ArgKind::kTensorList;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return ArgKind::kIntList;
    case c10::TypeKind::FloatType:
      return ArgKind::kFloatList;
    case c10::TypeKind::BoolType:
      return ArgKind::kBoolList;
    case c10::TypeKind::NumberType:
      return ArgKind::kScalarList;
    default:
      return ArgKind::kOther;
  }
}

ArgKind scalar_kind(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return ArgKind::kTensor;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return ArgKind::kInt;
    case c10::TypeKind::FloatType:
      return ArgKind::kFloat;
    case c10::TypeKind::BoolType:
      return ArgKind::kBool;
    case c10::TypeKind::NumberType:
      return ArgKind::kScalar;
    case c10::TypeKind::StringType:
      return ArgKind::kString;
    default:
      return ArgKind::kOther;
  }
}

c10::TypePtr without_optional(c10::TypePtr type, bool* optional) {
  if (const auto* inner = type->castRaw<c10::OptionalType>()) {
    *optional = true;
    return inner->getElementType();
  }
  return type;
}

ArgInfo arg_info(const c10::Argument& argument) {
  ArgInfo info;
  info.name = argument.name();
  info.written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  // real_type keeps ScalarType apart from int, which type() merges.
  const auto real = without_optional(argument.real_type(), &info.optional);
  const auto type = without_optional(argument.type(), &info.optional);
  if (real->kind() == c10::TypeKind::ScalarTypeType) {
    info.kind = ArgKind::kDtype;
  } else if (const auto* list = type->castRaw<c10::ListType>()) {
    info.kind = list_kind(without_optional(list->getElementType(), &info.optional_elements));
  } else {
    info.kind = scalar_kind(type);
  }
  return info;
}

Operator make_operator(const c10::OperatorHandle& handle) {
  const c10::FunctionSchema& schema = handle.schema();
  const std::string name = c10::toString(schema.operator_name());
  Operator op{.handle = handle, .name = name, .args = {}};
  for (const auto& argument : schema.arguments()) op.args.push_back(arg_info(argument));
  // Some have a decomposition and a kernel; on a CPU the kernel runs.
  op.composite = handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
                 !handle.hasKernelForDispatchKey(c10::DispatchKey::CPU);
  for (const auto& a : op.args) op.writes |= a.written;
  for (const auto tag : handle.getTags()) op.random |= tag == at::Tag::nondeterministic_seeded;
  op.returns = static_cast<int64_t>(schema.returns().size());
  for (const auto& r : schema.returns()) {
    const bool list = r.type()->kind() == c10::TypeKind::ListType;
    op.returns_list |= list;
    op.returns_tensors |= list || r.type()->kind() == c10::TypeKind::TensorType;
  }
  return op;
}

c10::OperatorName split(const std::string& name) {
  const auto dot = name.find('.');
  if (dot == std::string::npos) return {name, ""};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string unknown(const c10::OperatorName& wanted) {
  std::string overloads;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name == wanted.name) overloads += " " + c10::toString(name);
  }
  const std::string remedy = overloads.empty()
                                 ? "Check its name against native_functions.yaml of libtorch 2.11."
                                 : "It has the overloads" + overloads + ".";
  return concat("[", c10::toString(wanted), "] libtorch has no such operator. ", remedy);
}

}  // namespace

const Operator& find_operator(const std::string& name) {
  thread_local std::unordered_map<std::string, const Operator*> known;
  const auto found = known.find(name);
  if (found != known.end()) return *found->second;
  const c10::OperatorName wanted = split(name);
  const auto handle = c10::Dispatcher::singleton().findSchema(wanted);
  LOCKSTEP_CHECK(handle, unknown(wanted));
  const Operator& op = find_operator(*handle);
  known.emplace(name, &op);
  return op;
}

const Operator& find_operator(const c10::OperatorHandle& handle) {
  // Schemas live as long as the process; their addresses name the operators.
  thread_local std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<Operator>> known;
  auto& slot = known[&handle.schema()];
  if (!slot) slot = std::make_unique<Operator>(make_operator(handle));
  return *slot;
}

bool accepts(const ArgInfo& info, const Arg& arg) {
  if (std::holds_alternative<None>(arg)) return info.optional || info.kind == ArgKind::kTensor;
  if (std::holds_alternative<Target>(arg)) return info.name == "device";  // a factory's result, placed
  const bool number = std::holds_alternative<int64_t>(arg) || std::holds_alternative<double>(arg);
  const bool ints = std::holds_alternative<std::vector<int64_t>>(arg);
  const bool boolean = std::holds_alternative<bool>(arg);
  switch (info.kind) {
    case ArgKind::kTensor:
      return std::holds_alternative<Ref>(arg);
    case ArgKind::kTensorList:
      return std::holds_alternative<std::vector<Ref>>(arg);
    case ArgKind::kInt:
      return std::holds_alternative<int64_t>(arg);
    case ArgKind::kIntList:
      return ints;
    case ArgKind::kFloat:
      return number;
    case ArgKind::kFloatList:
      return std::holds_alternative<std::vector<double>>(arg);
    case ArgKind::kBool:
      return boolean;
    case ArgKind::kBoolList:
      return std::holds_alternative<std::vector<bool>>(arg);
    case ArgKind::kScalar:
      return number || boolean;
    case ArgKind::kScalarList:
      return ints || std::holds_alternative<std::vector<double>>(arg);
    case ArgKind::kString:
      return std::holds_alternative<std::string>(arg);
    case ArgKind::kDtype:
      return std::holds_alternative<c10::ScalarType>(arg);
    case ArgKind::kOther:
      return std::holds_alternative<int64_t>(arg) || boolean;
  }
  return false;
}

}  // namespace lockstep::oracle
