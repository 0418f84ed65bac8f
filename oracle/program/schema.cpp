// SPDX-License-Identifier: Apache-2.0
#include "oracle/program/schema.h"

#include <torch/csrc/autograd/variable.h>

#include <unordered_map>

#include "engine/values/error.h"
#include "kernels/operators/operators.h"

namespace lockstep::oracle {
namespace {

struct Kinds {
  c10::TypeKind type;
  ArgKind one, list;
};
constexpr Kinds kKinds[] = {{c10::TypeKind::TensorType, ArgKind::kTensor, ArgKind::kTensorList},
                            {c10::TypeKind::IntType, ArgKind::kInt, ArgKind::kIntList},
                            {c10::TypeKind::SymIntType, ArgKind::kInt, ArgKind::kIntList},
                            {c10::TypeKind::FloatType, ArgKind::kFloat, ArgKind::kFloatList},
                            {c10::TypeKind::BoolType, ArgKind::kBool, ArgKind::kBoolList},
                            {c10::TypeKind::NumberType, ArgKind::kScalar, ArgKind::kScalarList},
                            {c10::TypeKind::StringType, ArgKind::kString, ArgKind::kOther}};

ArgKind kind_of(const c10::TypePtr& type, bool in_list) {
  for (const auto& kinds : kKinds)
    if (kinds.type == type->kind()) return in_list ? kinds.list : kinds.one;
  return ArgKind::kOther;
}

c10::TypePtr without_optional(c10::TypePtr type, bool* optional) {
  if (const auto* inner = type->castRaw<c10::OptionalType>()) {
    *optional = true;
    return inner->getElementType();
  }
  return type;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

ArgInfo arg_info(const c10::FunctionSchema& schema, const c10::Argument& argument) {
  ArgInfo info;
  info.name = argument.name();
  // The running statistics of a batch norm are, though its schema does not say so; no other op writes them.
  info.written =
      is_written(argument) || (info.name.starts_with("running_") && schema.name().ends_with("batch_norm"));
  // real_type keeps ScalarType apart from int, which type() merges.
  const auto real = without_optional(argument.real_type(), &info.optional);
  const auto type = without_optional(argument.type(), &info.optional);
  if (real->kind() == c10::TypeKind::ScalarTypeType) {
    info.kind = ArgKind::kDtype;
  } else if (const auto* list = type->castRaw<c10::ListType>()) {
    info.kind = kind_of(without_optional(list->getElementType(), &info.optional_elements), true);
  } else {
    info.kind = kind_of(type, false);
  }
  return info;
}

Operator make_operator(const c10::OperatorHandle& handle) {
  const c10::FunctionSchema& schema = handle.schema();
  const std::string name = c10::toString(schema.operator_name());
  Operator op{.handle = handle, .name = name, .args = {}};
  for (const auto& argument : schema.arguments()) op.args.push_back(arg_info(schema, argument));
  // Some have a decomposition and a kernel; on a CPU the kernel runs.
  op.composite = handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
                 !handle.hasKernelForDispatchKey(c10::DispatchKey::CPU);
  op.on_cuda = handle.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
  op.on_cuda_alone =
      op.on_cuda && !op.composite && !handle.hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
      !handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) &&
      !handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
  for (const auto& argument : schema.arguments()) op.writes |= is_written(argument);
  for (const auto tag : handle.getTags()) op.random |= tag == at::Tag::nondeterministic_seeded;
  op.returns = static_cast<int64_t>(schema.returns().size());
  for (const auto& r : schema.returns()) {
    const bool list = r.type()->kind() == c10::TypeKind::ListType;
    op.returns_list |= list;
    op.returns_tensors |= list || r.type()->kind() == c10::TypeKind::TensorType;
  }
  return op;
}

template <class... Types>
bool is(const Arg& arg) {
  return (std::holds_alternative<Types>(arg) || ...);
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

std::ptrdiff_t count_written(const Operator& op) {
  return std::count_if(op.args.begin(), op.args.end(), [](const ArgInfo& a) { return a.written; });
}

// Whether `functional` takes the arguments of `op` but for those that it writes, which stand last.
bool is_functional_of(const Operator& functional, const Operator& op) {
  const auto same = [](const ArgInfo& a, const ArgInfo& b) { return a.name == b.name && a.kind == b.kind; };
  return !functional.writes && std::equal(functional.args.begin(), functional.args.end(), op.args.begin(),
                                          op.args.end() - count_written(op), same);
}

// Looked up among the overloads of one name, and kept: there are some thousand names.
using Kept = std::unordered_map<const Operator*, const Operator*>;
template <class F>
const Operator* overload(Kept& known, const Operator& op, const F& is_wanted) {
  const auto found = known.find(&op);
  if (found != known.end()) return found->second;
  const Operator* result = nullptr;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name != stem(op.name)) continue;
    const Operator& other = find_operator(c10::toString(name));
    if (is_wanted(other)) result = &other;
  }
  return known[&op] = result;
}

}  // namespace

const Operator* functional_of(const Operator& out_variant) {
  thread_local Kept known;
  return overload(known, out_variant,
                  [&](const Operator& other) { return is_functional_of(other, out_variant); });
}

const Operator* out_variant_of(const Operator& functional) {
  thread_local Kept known;
  return overload(known, functional, [&](const Operator& other) {
    return other.writes && !other.composite && !functional.composite && !other.returns_list &&
           count_written(other) == functional.returns && is_functional_of(functional, other);
  });
}

const Operator& find_operator(const std::string& name) {
  thread_local std::unordered_map<std::string, const Operator*> known;
  const auto found = known.find(name);
  if (found != known.end()) return *found->second;
  define_operators();
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

c10::IValue tensor_list(const std::vector<at::Tensor>& tensors, const ArgInfo& info) {
  if (!info.optional_elements) return tensors;
  c10::List<std::optional<at::Tensor>> list;
  for (const at::Tensor& t : tensors) list.push_back(t.defined() ? std::optional(t) : std::nullopt);
  return list;
}

torch::jit::Stack stack_of(const Operator& op, const std::vector<c10::IValue>& args,
                           const std::vector<int64_t>& tensors_per_arg, std::span<const at::Tensor> tensors) {
  torch::jit::Stack stack;
  stack.reserve(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    const bool list = op.args[i].kind == ArgKind::kTensorList;
    const auto count = static_cast<size_t>(std::max<int64_t>(tensors_per_arg[i], 0));
    const auto mine = tensors.first(count);
    tensors = tensors.subspan(count);
    if (tensors_per_arg[i] < 0 || (count == 0 && !list))
      stack.push_back(args[i]);
    else if (list)
      stack.push_back(tensor_list({mine.begin(), mine.end()}, op.args[i]));
    else
      stack.push_back(mine[0].defined() || !op.args[i].optional ? c10::IValue(mine[0]) : c10::IValue());
  }
  return stack;
}

void append_tensors(std::vector<at::Tensor>& all, const c10::IValue& value) {
  if (value.isTensor()) all.push_back(value.toTensor());
  if (value.isTensorList())
    for (at::Tensor& t : value.toTensorVector()) all.push_back(std::move(t));
}

std::vector<at::Tensor> call_boxed(const Operator& op, torch::jit::Stack& stack) {
  op.handle.callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue& value : stack) append_tensors(results, value);
  stack.clear();
  return results;
}

std::vector<at::Tensor> call_plain(const Operator& op, torch::jit::Stack& stack) {
  std::vector<at::Tensor> written;
  if (op.writes && op.name.starts_with("aten::_fused_"))
    for (size_t i = 0; i < op.args.size(); ++i)
      if (op.args[i].written) append_tensors(written, stack[i]);
  std::vector<at::Tensor> results = call_boxed(op, stack);
  for (const at::Tensor& t : written) torch::autograd::impl::bump_version(t);
  return results;
}

bool accepts(const ArgInfo& info, const Arg& arg) {
  using Ints = std::vector<int64_t>;
  using Floats = std::vector<double>;
  static constexpr bool (*kAccepts[])(const Arg&) = {
      // in the order of ArgKind
      is<Ref>,          is<std::vector<Ref>>,  is<int64_t>,
      is<Ints>,         is<int64_t, double>,   is<Floats>,
      is<bool>,         is<std::vector<bool>>, is<int64_t, double, bool>,
      is<Ints, Floats>, is<std::string>,       is<c10::ScalarType>,
      is<int64_t, bool>};
  if (is<None>(arg)) return info.optional || info.kind == ArgKind::kTensor;
  if (is<Target>(arg)) return info.name == "device";  // a factory's result, placed
  return kAccepts[static_cast<size_t>(info.kind)](arg);
}

}  // namespace lockstep::oracle
